//! What is deployed, read once per connection and again when the deployment number moves.

use super::check;
use super::deploy::{require_known_format, table_exists};
use super::errors::failed;
use super::plan::digest;
use crate::script::{Event, Script};
use crate::synchronization::Session;
use model::{
    Code, DatabaseId, Failure, PublicationName, PublishedTable, RemoteSchema, ScriptVersion,
};
use rusqlite::{Connection, OptionalExtension};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The deployment as one connection knows it.
#[derive(Debug)]
pub(super) struct Catalog {
    pub(super) deployment: i64,
    pub(super) database_id: DatabaseId,
    /// In their order; the first is the default.
    versions: Vec<Version>,
    /// SQLite's own count of schema changes when the objects were last compared.
    schema_version: i64,
}

#[derive(Debug)]
struct Version {
    name: ScriptVersion,
    publications: Vec<(PublicationName, BTreeSet<String>)>,
    /// Parents first.
    tables: Vec<Arc<CatalogTable>>,
}

/// One table of a script version, ready to run.
#[derive(Debug)]
pub(super) struct CatalogTable {
    pub(super) published: PublishedTable,
    pub(super) conflict_rule: String,
    scripts: HashMap<Event, Script>,
}

impl CatalogTable {
    pub(super) fn script(&self, event: Event) -> Option<&Script> {
        self.scripts.get(&event)
    }

    /// The script of an event that every table of this direction has.
    pub(super) fn required(&self, event: Event) -> Result<&Script, Failure> {
        self.script(event).ok_or_else(|| {
            let name = &self.published.name;
            Failure::new(Code::ScriptFailed, format!("table {name} has no script {event}"))
                .table(name.as_str())
        })
    }
}

impl Catalog {
    /// Reads the deployment, and refuses one whose objects are no longer what they were.
    pub(super) fn load(connection: &Connection) -> Result<Catalog, Failure> {
        if !table_exists(connection, "syncline_system")? {
            return Err(Failure::new(Code::NotDeployed, "nothing is deployed in this database"));
        }
        require_known_format(connection)?;
        let database_id = connection
            .query_row("SELECT value FROM syncline_system WHERE name = 'database_id'", [], |row| {
                row.get(0)
            })
            .map_err(failed("read the database's identity"))?;
        let mut catalog = Catalog {
            deployment: deployment(connection)?,
            database_id: DatabaseId(database_id),
            versions: read_versions(connection)?,
            schema_version: 0,
        };
        if catalog.versions.is_empty() {
            return Err(Failure::new(Code::NotDeployed, "no script version is deployed"));
        }
        catalog.verify(connection)?;
        Ok(catalog)
    }

    /// Compares our objects again if somebody changed the schema since the last time.
    pub(super) fn verify(&mut self, connection: &Connection) -> Result<(), Failure> {
        let now: i64 = connection
            .query_row("PRAGMA schema_version", [], |row| row.get(0))
            .map_err(failed("read the schema version"))?;
        if now == self.schema_version {
            return Ok(());
        }
        if let Some(drift) = check::drift(connection)?.into_iter().next() {
            return Err(Failure::new(Code::Drift, drift.message));
        }
        self.schema_version = now;
        Ok(())
    }

    /// The wanted script version, or the default, with the schema of the wanted publications, or
    /// of all.
    pub(super) fn schema(
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
            .map(|table| table.published.clone())
            .collect();
        let digests: Vec<&str> = tables.iter().map(|table| table.fingerprint.as_str()).collect();
        let fingerprint = digest(&digests);
        Ok((version.name.clone(), RemoteSchema { tables, fingerprint }))
    }

    /// The tables of a session, in the order of its schema.
    pub(super) fn tables(&self, session: &Session) -> Result<Vec<Arc<CatalogTable>>, Failure> {
        if session.deployment != self.deployment {
            return Err(Failure::new(Code::Superseded, "a new model was deployed meanwhile"));
        }
        let version = self.versions.iter().find(|v| v.name == session.script_version);
        let by_name: HashMap<&str, &Arc<CatalogTable>> = version
            .iter()
            .flat_map(|version| &version.tables)
            .map(|table| (table.published.name.as_str(), table))
            .collect();
        let find = |table: &PublishedTable| {
            by_name.get(table.name.as_str()).map(|table| (*table).clone()).ok_or_else(|| {
                Failure::new(Code::Bug, format!("table {} is not in the catalog", table.name))
            })
        };
        session.schema.tables.iter().map(find).collect()
    }
}

/// Counts deployments that changed something.
pub(super) fn deployment(connection: &Connection) -> Result<i64, Failure> {
    connection
        .prepare_cached("SELECT value FROM syncline_system WHERE name = 'deployment'")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)).optional())
        .map_err(|error| {
            Failure::new(Code::NotDeployed, "cannot read the deployment").source(error)
        })?
        .ok_or_else(|| Failure::new(Code::NotDeployed, "nothing is deployed in this database"))
}

fn read_versions(connection: &Connection) -> Result<Vec<Version>, Failure> {
    let names: Vec<String> = read(
        connection,
        "SELECT script_version FROM syncline_script_version ORDER BY position",
        "",
        |row| row.get(0),
    )?;
    let mut versions = Vec::new();
    for name in names {
        let mut publications: Vec<(PublicationName, BTreeSet<String>)> = Vec::new();
        let sql = "SELECT publication, table_name FROM syncline_publication
                   WHERE script_version = ?1 ORDER BY publication";
        let rows: Vec<(String, String)> =
            read(connection, sql, &name, |row| Ok((row.get(0)?, row.get(1)?)))?;
        for (publication, table) in rows {
            let publication = PublicationName::new(publication)?;
            match publications.last_mut() {
                Some((last, tables)) if *last == publication => {
                    tables.insert(table);
                }
                _ => publications.push((publication, BTreeSet::from([table]))),
            }
        }
        versions.push(Version {
            tables: read_tables(connection, &name)?,
            publications,
            name: ScriptVersion::new(name)?,
        });
    }
    Ok(versions)
}

fn read_tables(connection: &Connection, version: &str) -> Result<Vec<Arc<CatalogTable>>, Failure> {
    let sql = "SELECT published, conflict_rule FROM syncline_table
               WHERE script_version = ?1 ORDER BY position";
    let rows: Vec<(String, String)> =
        read(connection, sql, version, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut tables = Vec::new();
    for (published, conflict_rule) in rows {
        let published: PublishedTable = serde_json::from_str(&published).map_err(|error| {
            Failure::new(Code::Bug, "a deployed table does not parse").source(error)
        })?;
        tables.push(CatalogTable { published, conflict_rule, scripts: HashMap::new() });
    }
    let sql = "SELECT table_name, event, script FROM syncline_script WHERE script_version = ?1";
    let rows: Vec<(String, String, String)> =
        read(connection, sql, version, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    for (name, event, text) in rows {
        let event = Event::from_name(&event).ok_or_else(|| {
            Failure::new(Code::ScriptFailed, format!("table {name} has an unknown event {event}"))
        })?;
        if let Some(table) = tables.iter_mut().find(|table| table.published.name == name) {
            let script = Script::parse(&text, &table.published)?;
            table.scripts.insert(event, script);
        }
    }
    Ok(tables.into_iter().map(Arc::new).collect())
}

fn read<T>(
    connection: &Connection,
    sql: &str,
    version: &str,
    map: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Failure> {
    let parameters: &[&dyn rusqlite::ToSql] = if version.is_empty() { &[] } else { &[&version] };
    connection
        .prepare(sql)
        .and_then(|mut statement| {
            statement.query_map(parameters, map)?.collect::<rusqlite::Result<Vec<T>>>()
        })
        .map_err(failed("read what is deployed"))
}
