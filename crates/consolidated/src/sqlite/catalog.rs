//! What is deployed. It is read once per connection, and again when the deployment number changes.

use super::details::TableDetails;
use super::errors::failed;
use super::{incarnation, query};
use crate::catalog::{self, DeployedRows, LostColumns, Unserved, require_columns, require_known};
use crate::deploy::format;
use crate::sqlite::deploy::check;
use crate::sqlite::deploy::tables;
use crate::synchronization::{Session, WaitingTable};
use model::{Code, DatabaseId, Failure};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use std::collections::{BTreeMap, BTreeSet};

/// The deployment as one connection knows it.
#[derive(Debug)]
pub(super) struct Catalog {
    pub(super) deployed: catalog::Catalog<TableDetails>,
    /// SQLite's own count of schema changes when the objects were last compared.
    schema_version: i64,
    /// What they were compared to.
    standing: Standing,
}

/// Which tables are as they were deployed.
#[derive(Debug, Default)]
struct Standing {
    unserved: Unserved,
    lost: LostColumns,
    /// By child, the tables that foreign keys refer to; read where a table is not served.
    parents: BTreeMap<String, Vec<String>>,
}

impl Catalog {
    /// Reads the deployment, and finds out which of its tables are no longer what they were.
    pub(super) fn load(connection: &Connection) -> Result<Catalog, Failure> {
        in_one_snapshot(connection, || Catalog::read(connection))
    }

    fn read(connection: &Connection) -> Result<Catalog, Failure> {
        format::require(&mut &*connection)?;
        let database_id = incarnation::database_id(connection)?;
        let rows = DeployedRows {
            versions: read(
                connection,
                "SELECT script_version FROM syncline_script_version ORDER BY position",
                |row| row.get(0),
            )?,
            options: read(
                connection,
                "SELECT script_version, name, value FROM syncline_option",
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )?,
            publications: read(
                connection,
                "SELECT script_version, publication, table_name FROM syncline_publication
                 ORDER BY publication",
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )?,
            tables: read(
                connection,
                "SELECT script_version, published, conflict_rule, details FROM syncline_table
                 ORDER BY position",
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
            )?,
            scripts: read(
                connection,
                "SELECT script_version, table_name, event, script FROM syncline_script",
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
            )?,
            shapes: read(
                connection,
                "SELECT published, CAST(table_id AS text), columns, CAST(superseded AS text)
                 FROM syncline_shape",
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
            )?,
            held: read(
                connection,
                "SELECT script_version, fingerprint, published, conflict_rule, details,
                     projection, scripts FROM syncline_held",
                |row| {
                    let text = |at| row.get::<_, String>(at);
                    Ok((text(0)?, text(1)?, text(2)?, text(3)?, text(4)?, text(5)?, text(6)?))
                },
            )?,
        };
        let deployed =
            catalog::Catalog::new(deployment(connection)?, DatabaseId(database_id), rows)?;
        let standing = Standing::default();
        let mut catalog = Catalog { deployed, schema_version: 0, standing };
        catalog.verify(connection)?;
        Ok(catalog)
    }

    /// Compares the objects of Syncline again if the schema has changed since the last time.
    pub(super) fn verify(&mut self, connection: &Connection) -> Result<(), Failure> {
        let doing = "read the schema version";
        let now: i64 = query::value(connection, doing, "PRAGMA schema_version", [])?;
        if now == self.schema_version {
            return Ok(());
        }
        let deployed = &self.deployed;
        self.standing = in_one_snapshot(connection, || Standing::read(connection, deployed))?;
        self.schema_version = now;
        Ok(())
    }

    /// The tables of which changes may have been missed.
    pub(super) fn unserved(&self) -> impl Iterator<Item = &String> {
        self.standing.unserved.keys()
    }

    /// Refuses a session with a table that lacks a published column.
    pub(super) fn require_columns(&self, session: &Session) -> Result<(), Failure> {
        require_columns(&self.deployed, session, &self.standing.lost)
    }

    /// Refuses to go on with tables that are not what they were when the session began.
    pub(super) fn require_as_begun(&self, session: &Session) -> Result<(), Failure> {
        if self.standing.unserved.is_empty() && self.standing.lost.is_empty() {
            return Ok(());
        }
        self.require_columns(session)?;
        require_known(session, &self.waiting(session))
    }

    /// The tables of `session` that wait, as far as is known.
    pub(super) fn waiting(&self, session: &Session) -> Vec<WaitingTable> {
        let Standing { unserved, lost, parents } = &self.standing;
        self.deployed.waiting(session, (unserved, lost), &|table| {
            // As they were deployed, and as they are: a renamed parent has another name now.
            let now = parents.get(&table.published.name).into_iter().flatten();
            let TableDetails { logs, parents, .. } = &table.details;
            logs.iter().chain(parents).chain(now).cloned().collect()
        })
    }

    /// `session` with the tables that wait by now.
    pub(super) fn now(&self, session: &Session) -> Session {
        catalog::wait_too(session, self.waiting(session))
    }
}

impl Standing {
    /// Refuses what is wrong with no table in particular.
    fn read(
        connection: &Connection,
        deployed: &catalog::Catalog<TableDetails>,
    ) -> Result<Standing, Failure> {
        let lost = lost_columns(connection, deployed)?;
        let unserved = catalog::unserved(check::drift(connection)?)?;
        let mut standing = Standing { unserved, lost, ..Standing::default() };
        if standing.unserved.is_empty() && standing.lost.is_empty() {
            return Ok(standing);
        }
        let tables = tables::read(connection)?;
        for table in tables.values() {
            // One that is gone has its name from the foreign key, in whatever spelling.
            let parent = |name: &String| {
                let unserved = standing.unserved.keys();
                let known = unserved.chain(tables.keys()).find(|it| it.eq_ignore_ascii_case(name));
                known.unwrap_or(name).clone()
            };
            let parents = table.foreign_keys.iter().map(|key| parent(&key.parent)).collect();
            standing.parents.insert(table.name.clone(), parents);
        }
        Ok(standing)
    }
}

/// The columns of deployed tables that are not there. SQLite takes names for the same that differ
/// only in letter case.
fn lost_columns(
    connection: &Connection,
    deployed: &catalog::Catalog<TableDetails>,
) -> Result<LostColumns, Failure> {
    let sql = "SELECT lower(t.name), lower(c.name)
               FROM sqlite_schema AS t JOIN pragma_table_xinfo(t.name) AS c
               WHERE t.type = 'table'";
    let present: Vec<(String, String)> =
        read(connection, sql, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut columns: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (table, column) in present {
        columns.entry(table).or_default().insert(column);
    }
    let mut lost = LostColumns::new();
    for (table, column) in deployed.columns_of_all() {
        let Some(present) = columns.get(&table.to_ascii_lowercase()) else { continue };
        if !present.contains(&column.to_ascii_lowercase()) {
            lost.entry(table.to_owned()).or_default().insert(column.to_owned());
        }
    }
    Ok(lost)
}

/// Reads with several statements as if with one, also where no transaction is open. A deployment in
/// between would be seen in half: its scripts, its number, and the tables of the one before.
fn in_one_snapshot<T>(
    connection: &Connection,
    read: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    if !connection.is_autocommit() {
        return read();
    }
    let snapshot = Transaction::new_unchecked(connection, TransactionBehavior::Deferred)
        .map_err(failed("take a snapshot"))?;
    let result = read()?;
    snapshot.finish().map_err(failed("end the snapshot"))?;
    Ok(result)
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

fn read<T>(
    connection: &Connection,
    sql: &str,
    map: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Failure> {
    query::all(connection, "read what is deployed", sql, map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SyncModel;
    use crate::disk::Location;
    use crate::sqlite::administer;
    use crate::sqlite::connect::connect;
    use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
    use std::path::Path;

    fn deploy(path: &Path, line: &str) {
        let text = format!("script_version = \"v1\"\n[table.item]\n{line}");
        let model = SyncModel::parse(&text, "model.toml").unwrap();
        administer(Location::system(path)).unwrap().deploy(&[model], false).unwrap();
    }

    /// Trap 28: a server that started just then had the scripts of the new model for the tables of
    /// the old one, under the number of the new one, so that it never looked again.
    #[test]
    fn a_deployment_while_the_catalog_is_read_is_not_seen_in_half() {
        for table in ["syncline_publication", "syncline_script", "syncline_held"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("consolidated.db");
            let create = "CREATE TABLE item (id INTEGER PRIMARY KEY, qty INTEGER)";
            Connection::open(&path).unwrap().execute_batch(create).unwrap();
            deploy(&path, "");
            let mut connection = connect(&Location::system(&path), true).unwrap();
            let before = deployment(&connection).unwrap();
            let (at, mut deployed) = (path.clone(), false);
            // SQLite calls this before the statement that reads the table.
            let authorize = move |context: AuthContext<'_>| {
                let AuthAction::Read { table_name, .. } = context.action else {
                    return Authorization::Allow;
                };
                if !deployed && table_name == table {
                    deployed = true;
                    let rename = "ALTER TABLE item RENAME COLUMN qty TO quantity";
                    Connection::open(&at).unwrap().execute_batch(rename).unwrap();
                    deploy(&at, "renamed = { quantity = \"qty\" }");
                }
                Authorization::Allow
            };
            connection.authorizer(Some(authorize)).unwrap();
            let catalog = Catalog::load(&connection).unwrap();
            assert_eq!(catalog.deployed.deployment, before, "{table}");
            assert!(deployment(&connection).unwrap() > before, "{table}: it was deployed");
            let catalog = Catalog::load(&connection).unwrap();
            assert!(catalog.deployed.deployment > before, "{table}");
        }
    }
}
