//! What is deployed, as one connection knows it: script versions, publications, tables, scripts.
//!
//! Backends read the rows of the system tables. Their meaning is the same for all backends. `D` is
//! what a backend stores about a table in addition.

mod comparison;
pub(crate) mod deciding;
mod held;
pub(crate) mod reference;
pub(crate) mod table;
mod version_scripts;
mod waiting;

pub(crate) use held::{HeldRow, ShapeRow};
pub(crate) use version_scripts::VersionScripts;
pub(crate) use waiting::{
    LostColumns, Unserved, require_any, require_columns, require_known, unserved, wait_too,
};

use crate::digest::digest;
use crate::script::{Event, Phase, Script, conflicts};
use crate::sql::json;
use crate::synchronization::{Held, Session};
use crate::upload::changed_columns::Variants;
use deciding::Decided;
use held::{HeldTable, Shapes};
use model::{
    Code, DatabaseId, Failure, PublicationName, PublishedTable, RemoteId, RemoteSchema,
    ScriptVersion, UserName,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use table::CatalogTable;

/// Most schemas that are remembered; remotes usually ask for the same few.
const SCHEMAS_MAX: usize = 64;

/// The option of a script version whose downloads are to be acknowledged at once.
pub(crate) const ACKNOWLEDGE: &str = "acknowledge";

/// The option that says what becomes of an upload with a row that the database refuses, and its
/// value where nothing of the upload is applied then.
pub(crate) const ON_ERROR: &str = "on_error";

/// The option that a synchronization has one connection.
pub(crate) const SESSION: &str = "session";
pub(crate) const CANCEL: &str = "cancel";

/// A deployment.
#[derive(Debug)]
pub(crate) struct Catalog<D> {
    /// Counts deployments that changed something.
    pub(crate) deployment: i64,
    pub(crate) database_id: DatabaseId,
    /// In their order; the first is the default.
    versions: Vec<Version<D>>,
    schemas: Vec<KnownSchema>,
    /// Every shape that a remote may hold, by fingerprint.
    shapes: Shapes,
    /// Some of them are not published any more.
    older_shapes: bool,
}

/// What was answered to a remote that asked for these publications.
#[derive(Debug)]
struct KnownSchema {
    wanted: Option<ScriptVersion>,
    publications: Vec<PublicationName>,
    version: ScriptVersion,
    schema: Arc<RemoteSchema>,
}

#[derive(Debug)]
struct Version<D> {
    name: ScriptVersion,
    acknowledge: bool,
    scripts: Arc<VersionScripts>,
    publications: Vec<(PublicationName, BTreeSet<String>)>,
    /// Parents first.
    tables: Vec<Arc<CatalogTable<D>>>,
    /// What uploads under other shapes are applied to, by fingerprint.
    held: HashMap<String, HeldTable<D>>,
}

/// The rows of the system tables that describe a deployment, each in its order.
#[derive(Debug, Default)]
pub(crate) struct DeployedRows {
    pub(crate) versions: Vec<String>,
    /// Script version, name, value.
    pub(crate) options: Vec<(String, String, String)>,
    /// Script version, publication, table.
    pub(crate) publications: Vec<(String, String, String)>,
    /// Script version, table as JSON, conflict rule, details as JSON; parents first.
    pub(crate) tables: Vec<(String, String, String, String)>,
    /// Script version, table, event, text.
    pub(crate) scripts: Vec<(String, String, String, String)>,
    pub(crate) shapes: Vec<ShapeRow>,
    pub(crate) held: Vec<HeldRow>,
}

impl<D: DeserializeOwned> Catalog<D> {
    /// Makes sense of what a backend has read.
    pub(crate) fn new(
        deployment: i64,
        database_id: DatabaseId,
        rows: DeployedRows,
    ) -> Result<Catalog<D>, Failure> {
        if rows.versions.is_empty() {
            return Err(Failure::new(Code::NotDeployed, "no script version is deployed"));
        }
        let mut versions = Vec::new();
        for name in &rows.versions {
            let mut publications: Vec<(PublicationName, BTreeSet<String>)> = Vec::new();
            for (_, publication, table) in rows.publications.iter().filter(|row| row.0 == *name) {
                match publications.last_mut() {
                    Some((last, tables)) if last.as_str() == publication => {
                        tables.insert(table.clone());
                    }
                    _ => publications.push((
                        PublicationName::new(publication.clone())?,
                        BTreeSet::from([table.clone()]),
                    )),
                }
            }
            let tables = tables(&rows, name)?;
            let held = held::tables(&rows.held, name, &tables)?;
            let has = |wanted: &str, expected: &str| {
                rows.options.iter().any(|(version, option, value)| {
                    version == name && option == wanted && value == expected
                })
            };
            let acknowledge = has(ACKNOWLEDGE, "true");
            let options = (has(ON_ERROR, CANCEL), has(SESSION, "true"));
            let scripts = VersionScripts::read(&rows.scripts, name, options)?;
            let (name, scripts) = (ScriptVersion::new(name.clone())?, Arc::new(scripts));
            versions.push(Version { name, acknowledge, scripts, publications, tables, held });
        }
        let (shapes, older_shapes) = held::shapes(rows.shapes)?;
        let schemas = Vec::new();
        Ok(Catalog { deployment, database_id, versions, schemas, shapes, older_shapes })
    }
}

impl<D> Catalog<D> {
    /// The wanted script version, or the default, with the schema of the wanted publications, or
    /// of all.
    pub(crate) fn schema(
        &mut self,
        wanted: Option<&ScriptVersion>,
        publications: &[PublicationName],
    ) -> Result<(ScriptVersion, Arc<RemoteSchema>), Failure> {
        let known = self
            .schemas
            .iter()
            .find(|known| known.wanted.as_ref() == wanted && known.publications == publications);
        if let Some(known) = known {
            return Ok((known.version.clone(), known.schema.clone()));
        }
        let (version, schema) = self.put_together(wanted, publications)?;
        let schema = Arc::new(schema);
        if self.schemas.len() == SCHEMAS_MAX {
            self.schemas.clear();
        }
        self.schemas.push(KnownSchema {
            wanted: wanted.cloned(),
            publications: publications.to_vec(),
            version: version.clone(),
            schema: schema.clone(),
        });
        Ok((version, schema))
    }

    /// The session of a remote, as far as the deployment says: tables may wait.
    pub(crate) fn session(
        &mut self,
        (user, claims): (&UserName, BTreeMap<String, String>),
        remote_id: &RemoteId,
        script_version: Option<&ScriptVersion>,
        publications: &[PublicationName],
    ) -> Result<Session, Failure> {
        let (script_version, schema) = self.schema(script_version, publications)?;
        let version = self.versions.iter().find(|version| version.name == script_version);
        let acknowledge = version.is_some_and(|version| version.acknowledge);
        let publications = match (publications, version) {
            ([], Some(version)) => version.publications.iter().map(|it| it.0.clone()).collect(),
            (wanted, _) => wanted.to_vec(),
        };
        let runs = |phase| version.is_some_and(|version| version.scripts.runs(phase));
        let ends = runs(Phase::End);
        let is_session = version.is_some_and(|version| version.scripts.is_session());
        let authenticates = version.map(|version| version.scripts.authenticates());
        Ok(Session {
            acknowledge,
            fetched_by_writer: runs(Phase::Download),
            asks_for_times: version.is_some_and(|version| version.scripts.ask_for_times),
            counted: version.and_then(|version| version.scripts.counting()).map(Arc::new),
            passed: Default::default(),
            by_scripts: Default::default(),
            publications: publications.into(),
            ends,
            is_session,
            authenticates: authenticates.unwrap_or_default(),
            database_id: self.database_id.clone(),
            deployment: self.deployment,
            remote_id: remote_id.clone(),
            user: user.clone(),
            owner: user.clone(),
            claims,
            script_version,
            schema,
            held: Held::Untold,
            waiting: Arc::default(),
        })
    }

    /// The scripts of a version that belong to no table.
    pub(crate) fn version_scripts(&self, version: &ScriptVersion) -> Arc<VersionScripts> {
        let found = self.versions.iter().find(|known| known.name == *version);
        found.map(|found| found.scripts.clone()).unwrap_or_default()
    }

    /// The failure without what scripts were given in proof of the user.
    pub(crate) fn hide(&self, session: &Session, failure: Failure) -> Failure {
        self.version_scripts(&session.script_version).secrets(session).hide(failure)
    }

    /// The scripts that decide whether the user of a session may synchronize.
    pub(crate) fn authenticating(&self, session: &Session) -> Result<Arc<VersionScripts>, Failure> {
        Ok(self.version_of(session)?.scripts.clone())
    }

    fn put_together(
        &self,
        version: Option<&ScriptVersion>,
        publications: &[PublicationName],
    ) -> Result<(ScriptVersion, RemoteSchema), Failure> {
        let version = match version {
            None => &self.versions[0],
            Some(name) => self.versions.iter().find(|v| v.name == *name).ok_or_else(|| {
                Failure::new(
                    Code::UnknownScriptVersion,
                    format!("there is no script version {name}"),
                )
            })?,
        };
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for wanted in publications {
            let known = version.publications.iter().find(|(name, _)| name == wanted);
            let (_, tables) = known.ok_or_else(|| {
                Failure::new(
                    Code::UnknownPublication,
                    format!("script version {} has no publication {wanted}", version.name),
                )
            })?;
            names.extend(tables.iter().map(String::as_str));
        }
        if publications.is_empty() {
            let all = version.publications.iter().flat_map(|(_, tables)| tables);
            names.extend(all.map(String::as_str));
        }
        let tables: Vec<PublishedTable> = version
            .tables
            .iter()
            .filter(|table| names.contains(table.published.name.as_str()))
            .map(|table| table.outward.clone())
            .collect();
        let mut digests: Vec<&str> =
            tables.iter().map(|table| table.fingerprint.as_str()).collect();
        // Remotes learn it with a new schema of the same tables.
        let uncompressed = tables.iter().filter(|table| !table.compress);
        digests.extend(uncompressed.map(|table| table.name.as_str()));
        if tables.iter().any(|table| table.fires) {
            digests.push("fires");
            let firing = tables.iter().filter(|table| table.fires);
            digests.extend(firing.map(|table| table.name.as_str()));
        }
        let fingerprint = digest(&digests);
        Ok((version.name.clone(), RemoteSchema { tables, fingerprint }))
    }

    /// The columns that the tables of every script version cannot be served without: published
    /// table or not, name of the table and of the column.
    pub(crate) fn columns_of_all(&self) -> BTreeSet<(&str, &str)>
    where
        D: Decided,
    {
        let mut columns = BTreeSet::new();
        for table in self.tables_of_all() {
            let PublishedTable { name, columns: published, .. } = &table.published;
            columns.extend(published.iter().map(|column| (name.as_str(), column.as_str())));
            for deciding in table.details.deciding() {
                let name = deciding.table.as_str();
                columns.extend(deciding.columns.iter().map(|column| (name, column.as_str())));
            }
        }
        columns
    }

    /// The tables of every script version.
    pub(crate) fn tables_of_all(&self) -> impl Iterator<Item = &Arc<CatalogTable<D>>> {
        self.versions.iter().flat_map(|version| &version.tables)
    }

    /// The tables of a session, in the order of its schema.
    pub(crate) fn tables(&self, session: &Session) -> Result<Vec<Arc<CatalogTable<D>>>, Failure>
    where
        D: Default,
    {
        let tables = self.version_of(session)?.tables.iter();
        let by_name: HashMap<&str, &Arc<CatalogTable<D>>> =
            tables.map(|table| (table.published.name.as_str(), table)).collect();
        let find = |table: &PublishedTable| {
            by_name.get(table.name.as_str()).map(|table| (*table).clone()).ok_or_else(|| {
                Failure::new(Code::Bug, format!("table {} is not in the catalog", table.name))
            })
        };
        let tables = session.schema.tables.iter().enumerate();
        tables
            .map(|(position, table)| match session.waits(position) {
                true => Ok(table::at_rest(table)),
                false => find(table),
            })
            .collect()
    }
}

/// Of the details of a table: what the database calls its columns, where remotes call some
/// otherwise.
#[derive(Deserialize)]
struct Local {
    #[serde(default)]
    local: Vec<String>,
}

fn tables<D: DeserializeOwned>(
    rows: &DeployedRows,
    version: &str,
) -> Result<Vec<Arc<CatalogTable<D>>>, Failure> {
    let mut tables = Vec::new();
    let mut places = HashMap::new();
    for (_, published, rule, details) in rows.tables.iter().filter(|row| row.0 == version) {
        let outward: PublishedTable = json(published)?;
        let Local { local } = json(details)?;
        let mut published = outward.clone();
        if local.len() == published.width() {
            published.columns = local;
        }
        let details = json(details)?;
        places.insert(published.name.clone(), tables.len());
        let (conflict_rule, scripts) = (rule.clone(), BTreeMap::new());
        let whole = None;
        let updates = Variants::default();
        tables.push(CatalogTable {
            published,
            outward,
            conflict_rule,
            details,
            scripts,
            detection: None,
            resolving: Vec::new(),
            whole,
            updates,
        });
    }
    // Those around rows are not the table's (`version_scripts.rs`).
    let of_tables = |row: &&(String, String, String, String)| {
        row.0 == version
            && !row.1.is_empty()
            && !Event::from_name(&row.2).is_some_and(Event::is_around)
    };
    for (_, name, event, text) in rows.scripts.iter().filter(of_tables) {
        let event = Event::from_name(event).ok_or_else(|| {
            Failure::new(Code::ScriptFailed, format!("table {name} has an unknown event {event}"))
        })?;
        if let Some(table) = places.get(name).and_then(|place| tables.get_mut(*place)) {
            let script = Script::stored(text, event, &table.published)?;
            table.scripts.insert(event, script);
        }
    }
    let compose = |mut table: CatalogTable<D>| {
        table.resolving = conflicts::resolving(&table.scripts);
        table.detection = conflicts::compose(&mut table.scripts);
        Arc::new(table)
    };
    Ok(tables.into_iter().map(compose).collect())
}
