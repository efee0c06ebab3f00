//! The part of a log that an upload itself wrote, so that its own download need not read it.
//!
//! SQLite has one writer. So the entries between two points of the upload's savepoint belong to its
//! own statements and to their effects. Each row that a statement changes adds at least one entry.
//! Suppose that there are exactly as many entries as changed rows. Then no trigger, no action of a
//! foreign key and no REPLACE has changed another row, and no row was changed twice, left its place
//! or got another key. Suppose further that every value was stored exactly as it was sent
//! ([`Affinity::keeps`]). Then the remote has all these rows already (trap 8). In every other case
//! the entries are read, and rows are compared.
//!
//! [`Affinity::keeps`]: crate::sqlite::upload::affinity::Affinity::keeps

use crate::quote::ident;
use crate::sqlite::details::CatalogTable;
use crate::sqlite::query;
use crate::sqlite::tracking::log_table::{SEQUENCE, log_name};
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::UploadedRow;
use model::Failure;
use rusqlite::Connection;
use std::sync::Arc;

/// The entries that one attempt at an upload makes for one table.
pub(super) struct OwnEntries {
    /// The last entry before.
    before: i64,
    /// Rows changed by statements.
    changes: i64,
    /// Every value is what was sent.
    as_sent: bool,
}

impl OwnEntries {
    /// Begins one; none for a table whose rows must be looked at in any case. Such is one whose
    /// rows come for what other tables' logs say too: a new parent brings the children that were
    /// uploaded with it, whatever becomes of their own entries.
    pub(super) fn begin(
        connection: &Connection,
        table: &CatalogTable,
    ) -> Result<Option<OwnEntries>, Failure> {
        let details = &table.details;
        let alone = details.logs.iter().all(|log| *log == table.published.name);
        if !table.published.direction.downloads() || details.affinities.is_empty() || !alone {
            return Ok(None);
        }
        let before = end_of_log(connection, &table.published.name)?;
        Ok(Some(OwnEntries { before, changes: 0, as_sent: true }))
    }

    /// A statement of the upload has changed so many rows.
    pub(super) fn add(&mut self, changes: usize) {
        self.changes += changes as i64;
    }

    /// A statement has stored the new row.
    pub(super) fn stored(&mut self, table: &CatalogTable, row: &UploadedRow<'_>) {
        if row.change != Change::Delete && self.as_sent {
            let mut columns = table.details.affinities.iter().zip(&row.new);
            self.as_sent = columns.all(|(affinity, value)| affinity.keeps(*value));
        }
    }

    /// A statement has stored another row than the remote has.
    pub(super) fn differs(&mut self) {
        self.as_sent = false;
    }

    /// The first and last entry, if the remote has all their rows already.
    pub(super) fn end(
        &self,
        connection: &Connection,
        table: &CatalogTable,
    ) -> Result<Option<(i64, i64)>, Failure> {
        let last = end_of_log(connection, &table.published.name)?;
        let nothing_else = self.as_sent && last - self.before == self.changes;
        Ok(nothing_else.then_some((self.before + 1, last)))
    }
}

/// The last entry of the log of `table`; 0 where there is none.
pub(in crate::sqlite) fn end_of_log(connection: &Connection, table: &str) -> Result<i64, Failure> {
    let sql = format!("SELECT coalesce(max({SEQUENCE}), 0) FROM {}", ident(&log_name(table)));
    query::value(connection, "read the end of a log", &sql, [])
}

/// SQLite's count of changes at a moment, with what is not the rows' own taken out. It includes the
/// rows that foreign keys and triggers have changed. Where it grows by no more than statements
/// themselves have changed, no other row has changed.
pub(super) struct Tally {
    changes: i64,
    direct: u64,
}

impl Tally {
    /// Of this moment, when statements of the upload have changed so many rows.
    pub(super) fn now(
        connection: &Connection,
        tables: &[Arc<CatalogTable>],
        direct: u64,
    ) -> Result<Tally, Failure> {
        // A connection that is new has changed less than the logs are long.
        let changes = connection.total_changes() as i64 - our_entries(connection, tables)?;
        Ok(Tally { changes, direct })
    }

    /// Whether rows may have changed since that no statement of the upload named, by foreign keys
    /// or triggers.
    pub(super) fn differs(&self, now: &Tally) -> bool {
        now.changes - self.changes > (now.direct - self.direct) as i64
    }
}

/// What our triggers and statements have written: entries of logs, and notes about conflicts.
fn our_entries(connection: &Connection, tables: &[Arc<CatalogTable>]) -> Result<i64, Failure> {
    let sql = "SELECT coalesce(max(conflict_id), 0) FROM syncline_conflict";
    let mut entries: i64 = query::value(connection, "count what an upload changes", sql, [])?;
    for table in tables.iter().filter(|table| table.published.direction.downloads()) {
        entries += end_of_log(connection, &table.published.name)?;
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Location;
    use crate::sqlite::administer;
    use crate::sqlite::catalog::Catalog;
    use crate::sqlite::connect::connect;
    use crate::sync_model::SyncModel;
    use crate::synchronization::Session;
    use model::{RemoteId, UserName};

    /// Trap 8: a table's own log is all that decides about most tables, those with a partition in
    /// a column of their own among them; a parent or a mapping table brings rows as well.
    #[test]
    fn a_table_has_a_stretch_unless_other_tables_decide_about_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("consolidated.db");
        let schema = "
            CREATE TABLE whole (id INTEGER PRIMARY KEY);
            CREATE TABLE mine (id INTEGER PRIMARY KEY, owner TEXT);
            CREATE TABLE line (id INTEGER PRIMARY KEY, mine INTEGER REFERENCES mine);";
        Connection::open(&path).unwrap().execute_batch(schema).unwrap();
        let model = "script_version = \"v1\"
            [table.whole]
            [table.mine]
            partition = \"owner = {u.name}\"
            [table.line]
            parent = \"mine\"";
        let model = SyncModel::parse(model, "model.toml").unwrap();
        administer(Location::system(&path)).unwrap().deploy(&[model], false).unwrap();

        let connection = connect(&Location::system(&path), true).unwrap();
        let mut catalog = Catalog::load(&connection).unwrap();
        let (script_version, schema) = catalog.deployed.schema(None, &[]).unwrap();
        let session = Session {
            by_scripts: Default::default(),
            publications: std::sync::Arc::default(),
            ends: false,
            is_session: false,
            authenticates: Default::default(),
            database_id: catalog.deployed.database_id.clone(),
            deployment: catalog.deployed.deployment,
            remote_id: RemoteId::new("r").unwrap(),
            user: UserName::new("ann").unwrap(),
            owner: UserName::new("ann").unwrap(),
            claims: Default::default(),
            script_version,
            schema,
            held: crate::synchronization::Held::Untold,
            waiting: Default::default(),
            acknowledge: false,
            fetched_by_writer: false,
            asks_for_times: false,
            counted: None,
            passed: Default::default(),
        };
        let mut alone = Vec::new();
        let tables = catalog.deployed.tables(&session).unwrap();
        for table in &tables {
            if OwnEntries::begin(&connection, table).unwrap().is_some() {
                alone.push(table.published.name.as_str());
            }
        }
        alone.sort_unstable();
        assert_eq!(alone, ["mine", "whole"]);
    }
}
