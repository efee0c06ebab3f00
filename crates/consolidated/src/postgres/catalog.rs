//! What is deployed. It is read once per connection, and again when the deployment number changes.

use super::check;
use super::details::TableDetails;
use super::errors::{Fault, failed};
use super::kept;
use super::link::{Call, Link, Row, Unreadable};
use super::present::require_present_format;
use super::reached::{self, Reach, TableReach};
use super::shortfall::Seeker;
use super::statement::Statement;
use super::verbatim::Verbatim;
use crate::catalog::{self, CatalogTable, DeployedRows, HeldRow, ShapeRow, Unserved};
use crate::quote::ident;
use crate::script::{Event, Parameter, Script};
use crate::synchronization::{Held, Session, WaitingTable};
use model::{Code, DatabaseId, Failure, PublishedTable};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Asks for the deployment number alone.
pub(super) const DEPLOYMENT: &str =
    "SELECT value::int8 FROM syncline.syncline_system WHERE name = 'deployment'";

const READ: [&str; 9] = [
    "SELECT name, value FROM syncline.syncline_system
     WHERE name IN ('deployment', 'database_id', 'format')",
    "SELECT script_version FROM syncline.syncline_script_version ORDER BY position",
    "SELECT script_version, publication, table_name FROM syncline.syncline_publication
     ORDER BY publication",
    "SELECT script_version, published, conflict_rule, details FROM syncline.syncline_table
     ORDER BY position",
    "SELECT script_version, table_name, event, script FROM syncline.syncline_script",
    "SELECT published, table_id::text, columns, superseded::text FROM syncline.syncline_shape",
    "SELECT script_version, fingerprint, published, conflict_rule, details, projection, scripts
     FROM syncline.syncline_held",
    reached::READ,
    // Once more: had it moved meanwhile, the parts would not belong together.
    DEPLOYMENT,
];

/// How often the deployment may change while it is read.
const READS_MAX: usize = 10;

/// The deployment as one connection knows it.
#[derive(Debug)]
pub(super) struct Catalog {
    pub(super) deployed: catalog::Catalog<TableDetails>,
    /// Ready to run, by script version and published name.
    tables: HashMap<(String, String), Arc<Table>>,
    /// What foreign keys do to rows.
    pub(super) reach: Arc<Reach>,
    standing: Standing,
}

/// Which tables are as they were deployed.
#[derive(Debug, Default)]
struct Standing {
    /// By published name, and by name in SQL.
    unserved: Unserved,
    named: Vec<String>,
    /// What the database told of them.
    looks: String,
}

/// One table of a script version, ready to run.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) deployed: Arc<CatalogTable<TableDetails>>,
    statements: HashMap<Event, Statement>,
    /// The parameters that decide which rows a remote has.
    pub(super) claims: Vec<Parameter>,
    is_verbatim: bool,
    /// Whether anything has departed since the last download; none where that is not known to
    /// say what the cursor over the departures would.
    pub(super) departed: Option<Statement>,
    /// Asks for the places of rows whose keys have changed.
    pub(super) places: Option<Statement>,
    /// What its rows reach by the actions of foreign keys.
    pub(super) reach: TableReach,
    /// Finds rows that were not applied; none where that is not sure.
    pub(super) seeker: Option<Seeker>,
}

impl Catalog {
    /// Reads the deployment, and finds out which of its tables are no longer what they were.
    pub(super) fn load(link: &mut Link) -> Result<Catalog, Failure> {
        link.forget_statements();
        for _ in 0..READS_MAX {
            let Some(mut catalog) = Catalog::read(link)? else { continue };
            let named = catalog.named();
            catalog.standing = Standing::read(link, &named)?;
            return Ok(catalog);
        }
        Err(Failure::new(Code::DatabaseBusy, "models were deployed repeatedly during this request"))
    }

    /// The deployment; none where another one came meanwhile, which may have been read in part.
    fn read(link: &mut Link) -> Result<Option<Catalog>, Failure> {
        let calls = READ.map(|sql| Call::new(sql, &[]));
        let mut answers = link.flight(&calls).map_err(not_deployed)?.into_iter();
        let mut rows = || answers.next().map(|answer| answer.rows).unwrap_or_default();
        let garbled = |error: Unreadable| {
            Failure::new(Code::Drift, "the system tables differ from those that deploy created")
                .source(error)
        };
        let system: HashMap<String, String> = two(rows()).map_err(garbled)?.into_iter().collect();
        let missing = || Failure::new(Code::NotDeployed, "nothing is deployed in this database");
        let format = system.get("format").and_then(|value| value.parse().ok());
        require_present_format(format.ok_or_else(missing)?)?;
        let deployment = system.get("deployment").and_then(|value| value.parse().ok());
        let deployment: i64 = deployment.ok_or_else(missing)?;
        let database_id = system.get("database_id").ok_or_else(missing)?.clone();
        let described = DeployedRows {
            versions: rows()
                .iter()
                .map(|row| row.try_get(0))
                .collect::<Result<_, _>>()
                .map_err(garbled)?,
            publications: three(rows()).map_err(garbled)?,
            tables: four(rows()).map_err(garbled)?,
            scripts: four(rows()).map_err(garbled)?,
            shapes: shapes(rows()).map_err(garbled)?,
            held: held(rows()).map_err(garbled)?,
        };
        let reach = Arc::new(Reach::of(&rows()).map_err(garbled)?);
        let last = answers.next().map(|answer| answer.rows).unwrap_or_default();
        if self::deployment(&last)? != deployment {
            return Ok(None);
        }
        let deployed = catalog::Catalog::new(deployment, DatabaseId(database_id), described)?;
        let standing = Standing::default();
        Ok(Some(Catalog { deployed, tables: HashMap::new(), reach, standing }))
    }

    /// Every deployed table: by published name its name in SQL.
    fn named(&self) -> BTreeMap<String, String> {
        let named = self.deployed.tables_of_all().map(|table| {
            let TableDetails { schema, name, .. } = &table.details;
            (table.published.name.clone(), format!("{}.{}", ident(schema), ident(name)))
        });
        named.collect()
    }

    /// Whether something has changed about the tables that are not served.
    pub(super) fn looks_otherwise(&self, link: &mut Link) -> Result<bool, Failure> {
        let Standing { named, looks, .. } = &self.standing;
        Ok(!named.is_empty() && check::looks(link, &named.iter().collect::<Vec<_>>())? != *looks)
    }

    /// Whether this table is as it was deployed.
    pub(super) fn serves(&self, published: &str) -> bool {
        !self.standing.unserved.contains_key(published)
    }

    /// The tables of `session` that wait, as far as is known.
    pub(super) fn waiting(&self, session: &Session) -> Vec<WaitingTable> {
        self.deployed.waiting(session, &self.standing.unserved, &|table| {
            let TableDetails { depends_on, heeds, .. } = &table.details;
            depends_on.iter().chain(heeds).cloned().collect()
        })
    }

    /// `session` with the tables that wait by now.
    pub(super) fn now(&self, session: &Session) -> Session {
        catalog::wait_too(session, self.waiting(session))
    }

    /// The same for a download of a session that was settled before the present deployment: where
    /// the tables of the remote are as they were, nothing is in its way.
    pub(super) fn tables_now(&mut self, session: &Session) -> Result<Vec<Arc<Table>>, Failure> {
        if session.deployment == self.deployed.deployment {
            return self.tables(session);
        }
        let now = Session { deployment: self.deployed.deployment, ..session.clone() };
        match self.tables(&now) {
            Ok(tables) if fits(session, &tables) => Ok(tables),
            _ => Err(Failure::new(Code::Superseded, "a new model was deployed in the meantime")),
        }
    }

    /// The tables of an upload, in the order of the schema that the remote holds.
    pub(super) fn upload_tables(&mut self, session: &Session) -> Result<Vec<Arc<Table>>, Failure> {
        let Held::Older(held) = &session.held else { return self.tables(session) };
        let deployed = self.deployed.upload_tables(session)?;
        let (version, reach) = (session.script_version.as_str(), &self.reach);
        let waits = |at: usize| held.waiting.iter().any(|it| usize::from(*it) == at);
        let all = deployed.into_iter().zip(&held.schema.tables).enumerate();
        let ready = all.map(|(position, (table, held))| {
            if waits(position) {
                return Arc::new(Table::new(table, reach));
            }
            // A name is one of today's tables, a digest one of any time.
            let key = (version.to_owned(), format!("{{{}}}", held.fingerprint));
            self.tables.entry(key).or_insert_with(|| Arc::new(Table::new(table, reach))).clone()
        });
        Ok(ready.collect())
    }

    /// The tables of a session, in the order of its schema.
    pub(super) fn tables(&mut self, session: &Session) -> Result<Vec<Arc<Table>>, Failure> {
        let deployed = self.deployed.tables(session)?;
        let (version, reach) = (session.script_version.as_str(), &self.reach);
        let ready = deployed.into_iter().enumerate().map(|(position, table)| {
            if session.waits(position) {
                return Arc::new(Table::new(table, reach));
            }
            let key = (version.to_owned(), table.published.name.clone());
            self.tables.entry(key).or_insert_with(|| Arc::new(Table::new(table, reach))).clone()
        });
        Ok(ready.collect())
    }
}

impl Standing {
    fn read(link: &mut Link, named: &BTreeMap<String, String>) -> Result<Standing, Failure> {
        let all: Vec<String> = named.values().cloned().collect();
        let by_sql_name = check::unserved(link, &all)?;
        if by_sql_name.is_empty() {
            return Ok(Standing::default());
        }
        let unserved = named.iter().filter_map(|(published, sql_name)| {
            Some((published.clone(), by_sql_name.get(sql_name)?.clone()))
        });
        let unserved = unserved.collect();
        let looks = check::looks(link, &by_sql_name.keys().collect::<Vec<_>>())?;
        Ok(Standing { unserved, named: by_sql_name.into_keys().collect(), looks })
    }
}

/// Whether a session of another deployment means the tables that are deployed now.
fn fits(session: &Session, tables: &[Arc<Table>]) -> bool {
    let same = |(position, (known, table)): (usize, (&PublishedTable, &Arc<Table>))| {
        let published = &table.deployed.published;
        published.name == known.name
            && published.fingerprint == known.fingerprint
            && (published.direction == known.direction || session.waits(position))
    };
    session.schema.tables.iter().zip(tables).enumerate().all(same)
}

impl Table {
    pub(super) fn new(deployed: Arc<CatalogTable<TableDetails>>, reach: &Arc<Reach>) -> Table {
        let (published, columns) = (&deployed.published, &deployed.details.columns);
        let mut statements = HashMap::new();
        let mut claims: Vec<Parameter> = Vec::new();
        for event in Event::ALL {
            let Some(script) = deployed.script(event) else { continue };
            let mut statement = Statement::of(script, published, columns);
            statement.keeps_plan = kept::is_kept(&deployed.details.kept, script);
            statements.insert(event, statement);
            if !matches!(event, Event::DownloadCursor | Event::DownloadDeleteCursor) {
                continue;
            }
            for parameter in &script.parameters {
                let claim = !matches!(
                    parameter,
                    Parameter::LastDownload | Parameter::LastDownloadOf(_) | Parameter::LastUpload
                );
                if claim && !claims.contains(parameter) {
                    claims.push(parameter.clone());
                }
            }
        }
        let verbatim = deployed.details.verbatim.as_ref();
        let is_verbatim = verbatim.is_some_and(|verbatim| verbatim.is_about(deployed.scripts()));
        let departed = departed(&deployed);
        let places = deployed.details.places.as_ref().and_then(|text| of_own(&deployed, text));
        let reach = TableReach::of(reach, &deployed);
        let seeker = Seeker::of(&deployed);
        Table { deployed, statements, claims, is_verbatim, departed, places, reach, seeker }
    }

    /// How it is proven that what was uploaded is what is stored; none where it is not.
    pub(super) fn verbatim(&self) -> Option<&Verbatim> {
        self.deployed.details.verbatim.as_ref().filter(|_| self.is_verbatim)
    }

    pub(super) fn statement(&self, event: Event) -> Option<&Statement> {
        self.statements.get(&event)
    }

    /// The statement of an event that every table of this direction has.
    pub(super) fn required(&self, event: Event) -> Result<&Statement, Failure> {
        self.deployed.required(event)?;
        self.statement(event).ok_or_else(|| Failure::new(Code::Bug, "a script was not rendered"))
    }
}

fn departed(deployed: &CatalogTable<TableDetails>) -> Option<Statement> {
    let probe = deployed.details.departed.as_ref()?;
    of_own(deployed, probe.about(deployed.script(Event::DownloadDeleteCursor)?)?)
}

/// A statement that `deploy` has stored beside the scripts.
fn of_own(deployed: &CatalogTable<TableDetails>, text: &str) -> Option<Statement> {
    let published = &deployed.published;
    let script = Script::parse(text, published).ok()?;
    Some(Statement::of(&script, published, &deployed.details.columns))
}

/// The number that [`DEPLOYMENT`] answered.
pub(super) fn deployment(rows: &[Row]) -> Result<i64, Failure> {
    rows.first()
        .and_then(|row| row.try_get(0).ok())
        .ok_or_else(|| Failure::new(Code::NotDeployed, "nothing is deployed in this database"))
}

/// The failure of a statement on the system tables: without them nothing is deployed.
pub(super) fn not_deployed(fault: Fault) -> Failure {
    match fault.sqlstate() {
        Some("42P01" | "3F000") => {
            Failure::new(Code::NotDeployed, "nothing is deployed in this database")
        }
        _ => failed("read what is deployed")(fault),
    }
}

fn two(rows: Vec<Row>) -> Result<Vec<(String, String)>, Unreadable> {
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

fn three(rows: Vec<Row>) -> Result<Vec<(String, String, String)>, Unreadable> {
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))).collect()
}

fn shapes(rows: Vec<Row>) -> Result<Vec<ShapeRow>, Unreadable> {
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?)))
        .collect()
}

fn held(rows: Vec<Row>) -> Result<Vec<HeldRow>, Unreadable> {
    let read = |row: &Row| {
        let text = |at| row.try_get::<String>(at);
        Ok((text(0)?, text(1)?, text(2)?, text(3)?, text(4)?, text(5)?, text(6)?))
    };
    rows.iter().map(read).collect()
}

fn four(rows: Vec<Row>) -> Result<Vec<(String, String, String, String)>, Unreadable> {
    let read = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?));
    rows.iter().map(read).collect()
}
