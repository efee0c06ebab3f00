//! What is deployed. It is read once per connection, and again when the deployment number changes.

pub(in crate::postgres) mod table;

use crate::catalog::{self, DeployedRows, LostColumns, ShapeRow, Unserved, require_columns};
use crate::postgres::catalog::table::Table;
use crate::postgres::deploy::check;
use crate::postgres::deploy::details::TableDetails;
use crate::postgres::deploy::system_tables::SYSTEM;
use crate::postgres::errors::{Fault, failed, unreadable};
use crate::postgres::link::{Call, Link, Row, Unreadable};
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
    "SELECT script_version, name, value FROM syncline.syncline_option",
    "SELECT script_version, publication, table_name FROM syncline.syncline_publication
     ORDER BY publication",
    "SELECT script_version, published, conflict_rule, details FROM syncline.syncline_table
     ORDER BY position",
    "SELECT script_version, table_name, event, script FROM syncline.syncline_script",
    "SELECT published, table_id::text, columns, superseded::text FROM syncline.syncline_shape",
    "SELECT script_version, fingerprint, published, conflict_rule, details, projection, scripts
     FROM syncline.syncline_held",
    // Once more: had it moved meanwhile, the parts would not belong together.
    DEPLOYMENT,
];

/// Which of the columns `$2` the tables `$1`, names in SQL, do not have: their positions.
const LOST_COLUMNS: &str = "SELECT position
    FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w (relation, name, position)
    WHERE to_regclass(relation) IS NOT NULL AND NOT EXISTS (
        SELECT FROM pg_attribute AS a WHERE a.attrelid = to_regclass(relation)::oid
          AND a.attname = w.name::name AND NOT a.attisdropped)";

/// How often the deployment may change while it is read.
const READS_MAX: usize = 10;

/// The deployment as one connection knows it.
#[derive(Debug)]
pub(super) struct Catalog {
    pub(super) deployed: catalog::Catalog<TableDetails>,
    /// Ready to run, by script version and published name.
    tables: HashMap<(String, String), Arc<Table>>,
    standing: Standing,
}

/// Which tables are as they were deployed.
#[derive(Debug, Default)]
struct Standing {
    /// By published name, and by name in SQL.
    unserved: Unserved,
    lost: LostColumns,
    named: Vec<String>,
    /// What the database told of them.
    looks: String,
}

impl Catalog {
    /// Reads the deployment, and finds out which of its tables are no longer what they were.
    pub(super) fn load(link: &mut Link) -> Result<Catalog, Failure> {
        link.forget_statements();
        for _ in 0..READS_MAX {
            let Some(mut catalog) = Catalog::read(link)? else { continue };
            catalog.standing = Standing::read(link, &catalog)?;
            return Ok(catalog);
        }
        Err(Failure::new(Code::DatabaseBusy, "models were deployed repeatedly during this request"))
    }

    /// The deployment; none where another one came meanwhile, which may have been read in part.
    fn read(link: &mut Link) -> Result<Option<Catalog>, Failure> {
        let calls = READ.map(|sql| Call::new(sql, &[]));
        let mut answers = link.flight(&calls).map_err(not_deployed)?.into_iter();
        let mut rows = || answers.next().map(|answer| answer.rows).unwrap_or_default();
        let system: HashMap<String, String> =
            texts::<2, (String, String)>(rows())?.into_iter().collect();
        let missing = || Failure::new(Code::NotDeployed, "nothing is deployed in this database");
        let format = system.get("format").and_then(|value| value.parse().ok());
        SYSTEM.require(format.ok_or_else(missing)?)?;
        let deployment = system.get("deployment").and_then(|value| value.parse().ok());
        let deployment: i64 = deployment.ok_or_else(missing)?;
        let database_id = system.get("database_id").ok_or_else(missing)?.clone();
        let described = DeployedRows {
            versions: texts::<1, (String,)>(rows())?.into_iter().map(|(name,)| name).collect(),
            options: texts::<3, _>(rows())?,
            publications: texts::<3, _>(rows())?,
            tables: texts::<4, _>(rows())?,
            scripts: texts::<4, _>(rows())?,
            shapes: shapes(&rows()).map_err(unreadable)?,
            held: texts::<7, _>(rows())?,
        };
        let last = answers.next().map(|answer| answer.rows).unwrap_or_default();
        if self::deployment(&last)? != deployment {
            return Ok(None);
        }
        let deployed = catalog::Catalog::new(deployment, DatabaseId(database_id), described)?;
        let standing = Standing::default();
        Ok(Some(Catalog { deployed, tables: HashMap::new(), standing }))
    }

    /// Every deployed table, and those that decide about its rows: by published name its name in
    /// SQL.
    fn named(&self) -> BTreeMap<String, String> {
        let mut named = BTreeMap::new();
        for table in self.deployed.tables_of_all() {
            named.insert(table.published.name.clone(), table.details.sql_name());
            let deciding = table.details.deciding.iter();
            named.extend(deciding.map(|it| (it.table.clone(), it.relation.clone())));
        }
        named
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

    /// Refuses a session with a table that lacks a published column.
    pub(super) fn require_columns(&self, session: &Session) -> Result<(), Failure> {
        require_columns(&self.deployed, session, &self.standing.lost)
    }

    /// The zone of the local times of a script version, if it has one.
    pub(super) fn zone_of(&self, session: &Session) -> Option<String> {
        let tables = self.deployed.tables(session).unwrap_or_default();
        tables.iter().find_map(|table| table.details.time_zone.clone())
    }

    /// The tables of `session` that wait, as far as is known.
    pub(super) fn waiting(&self, session: &Session) -> Vec<WaitingTable> {
        let Standing { unserved, lost, .. } = &self.standing;
        self.deployed.waiting(session, (unserved, lost), &|table| {
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
        let version = session.script_version.as_str();
        let waits = |at: usize| held.waiting.iter().any(|it| usize::from(*it) == at);
        let all = deployed.into_iter().zip(&held.schema.tables).enumerate();
        let ready = all.map(|(position, (table, held))| {
            if waits(position) {
                return Arc::new(Table::new(table));
            }
            // A name is one of today's tables, a digest one of any time.
            let key = (version.to_owned(), format!("{{{}}}", held.fingerprint));
            self.tables.entry(key).or_insert_with(|| Arc::new(Table::new(table))).clone()
        });
        Ok(ready.collect())
    }

    /// The tables of a session, in the order of its schema.
    pub(super) fn tables(&mut self, session: &Session) -> Result<Vec<Arc<Table>>, Failure> {
        let deployed = self.deployed.tables(session)?;
        let version = session.script_version.as_str();
        let ready = deployed.into_iter().enumerate().map(|(position, table)| {
            if session.waits(position) {
                return Arc::new(Table::new(table));
            }
            let key = (version.to_owned(), table.published.name.clone());
            self.tables.entry(key).or_insert_with(|| Arc::new(Table::new(table))).clone()
        });
        Ok(ready.collect())
    }
}

impl Standing {
    fn read(link: &mut Link, catalog: &Catalog) -> Result<Standing, Failure> {
        let named = catalog.named();
        let all: Vec<String> = named.values().cloned().collect();
        let mut by_sql_name = check::unserved(link, &all)?;
        let lost = lost_columns(link, catalog, &named)?;
        if by_sql_name.is_empty() && lost.is_empty() {
            return Ok(Standing::default());
        }
        let unserved = named.iter().filter_map(|(published, sql_name)| {
            Some((published.clone(), by_sql_name.get(sql_name)?.clone()))
        });
        let unserved = unserved.collect();
        by_sql_name.extend(lost.keys().map(|table| (named[table].clone(), String::new())));
        let looks = check::looks(link, &by_sql_name.keys().collect::<Vec<_>>())?;
        Ok(Standing { unserved, lost, named: by_sql_name.into_keys().collect(), looks })
    }
}

/// The columns of deployed tables that are not there.
fn lost_columns(
    link: &mut Link,
    catalog: &Catalog,
    named: &BTreeMap<String, String>,
) -> Result<LostColumns, Failure> {
    let deployed = catalog.deployed.columns_of_all();
    let relations: Vec<&str> = deployed.iter().map(|(table, _)| named[*table].as_str()).collect();
    let columns: Vec<&str> = deployed.iter().map(|(_, column)| *column).collect();
    let doing = "look for the columns of tables";
    let rows = link.query(LOST_COLUMNS, &[&relations, &columns]).map_err(failed(doing))?;
    let mut lost = LostColumns::new();
    for row in &rows {
        let garbled = || Failure::new(Code::Bug, "there is no column at this position");
        let at: Option<i64> = row.try_get(0).ok();
        let found = at.and_then(|at| deployed.iter().nth(usize::try_from(at - 1).ok()?));
        let (table, column) = found.ok_or_else(garbled)?;
        lost.entry((*table).to_owned()).or_default().insert((*column).to_owned());
    }
    Ok(lost)
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

/// The texts of each row.
fn texts<const N: usize, T: From<[String; N]>>(rows: Vec<Row>) -> Result<Vec<T>, Failure> {
    let read = |row: &Row| {
        let texts = (0..N).map(|at| row.try_get(at)).collect::<Result<Vec<String>, _>>();
        let texts: [String; N] = texts
            .map_err(unreadable)?
            .try_into()
            .map_err(|_| Failure::new(Code::Bug, "a row has another number of texts"))?;
        Ok(T::from(texts))
    };
    rows.iter().map(read).collect()
}

fn shapes(rows: &[Row]) -> Result<Vec<ShapeRow>, Unreadable> {
    let read = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?));
    rows.iter().map(read).collect()
}

/// Whether the failure may come from something that is not there any more.
pub(super) fn may_be_missing(failure: &Failure) -> bool {
    matches!(failure.code(), Code::ScriptFailed | Code::DatabaseRights | Code::DatabaseUnavailable)
}
