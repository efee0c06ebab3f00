//! Lost conflicts: the row that this remote wrote, and the one that stayed, for people (S5).
//!
//! Their table is created with the first of them. Unlike a reject, a lost conflict leaves nothing
//! to be done: the rule of the table has decided.

use super::settled;
use crate::apply::circumstances::Circumstances;
use crate::apply::readable::{key_json, row_json, row_text};
use crate::apply::values::{bind_key, next_key};
use crate::connection::{explain, value};
use crate::progress::facts;
use crate::schema::{Image, RemoteTable};
use model::{Counter, Failure, RowReader, Value, ValueRef};
use protocol::LostConflict;
use rusqlite::Connection;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS syncline_conflict (
  id         INTEGER PRIMARY KEY,
  at         TEXT NOT NULL,
  table_name TEXT NOT NULL,
  key        TEXT NOT NULL,
  counter    INTEGER NOT NULL,
  rule       TEXT NOT NULL,
  lost_row   TEXT,
  base_row   TEXT,
  stayed_row TEXT,
  UNIQUE (table_name, key, counter)
)";

/// The number of the last conflict, in `syncline_state`.
const LAST_ID: &str = "conflict_last_id";

/// Most conflicts that a file keeps; the newest stay (S9).
const KEPT_MAX: usize = 10_000;

/// A change of this remote that lost a conflict.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredConflict {
    /// Its number in this file.
    pub id: i64,
    /// When the remote heard of it, in UTC.
    pub at: String,
    /// The table.
    pub table: String,
    /// The key, as a JSON object by column name.
    pub key: String,
    /// What decided: the rule of the table, or `scripts`.
    pub rule: String,
    /// The row as this remote wanted it, as a JSON object; none if it wanted it deleted.
    pub lost: Option<String>,
    /// The row to which the change was made, as JSON, and `null` where there was none; none where
    /// that is not known.
    pub base: Option<String>,
    /// The row that stayed, as JSON, and `null` where the row is gone; none where that is not
    /// known, because the table is only uploaded.
    pub stayed: Option<String>,
}

/// Makes room for lost conflicts.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(TABLE)
}

/// Every lost conflict, the oldest first.
pub(crate) fn all(connection: &Connection) -> Result<Vec<StoredConflict>, Failure> {
    if !has_table(connection)? {
        return Ok(Vec::new());
    }
    let sql = "SELECT id, at, table_name, key, rule, lost_row, base_row, stayed_row
               FROM syncline_conflict ORDER BY id";
    let mut statement = connection.prepare(sql).map_err(explain)?;
    let rows = statement.query_map([], |row| {
        Ok(StoredConflict {
            id: row.get(0)?,
            at: row.get(1)?,
            table: row.get(2)?,
            key: row.get(3)?,
            rule: row.get(4)?,
            lost: row.get(5)?,
            base: row.get(6)?,
            stayed: row.get(7)?,
        })
    });
    rows.map_err(explain)?.collect::<rusqlite::Result<_>>().map_err(explain)
}

/// How many there are.
pub(crate) fn count(connection: &Connection) -> Result<u64, Failure> {
    if !has_table(connection)? {
        return Ok(0);
    }
    let count = "SELECT count(*) FROM syncline_conflict";
    let count = connection.query_row(count, [], |row| row.get::<_, i64>(0));
    count.map(i64::unsigned_abs).map_err(explain)
}

/// Forgets one. False if there is none with this number.
pub(crate) fn forget(connection: &Connection, id: i64) -> Result<bool, Failure> {
    if !has_table(connection)? {
        return Ok(false);
    }
    settled::conflict(connection, id)?;
    let forget = "DELETE FROM syncline_conflict WHERE id = ?1";
    connection.execute(forget, [id]).map(|rows| rows > 0).map_err(explain)
}

/// Forgets all.
pub(crate) fn clear(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("DROP TABLE IF EXISTS syncline_conflict")
}

fn has_table(connection: &Connection) -> Result<bool, Failure> {
    connection.table_exists(Some("main"), "syncline_conflict").map_err(explain)
}

/// A conflict that was recorded, and of which the row that stayed is not known yet.
#[derive(Debug)]
pub(in crate::apply) struct Unsettled {
    id: i64,
    /// Position of the table.
    table: usize,
    key: Vec<Value>,
}

/// Records a lost conflict with the row as it lies here, before the download overwrites it. None if
/// it is recorded already.
pub(super) fn record(
    connection: &Connection,
    (table, position): (&RemoteTable, usize),
    conflict: &LostConflict,
    at: &str,
    base: impl FnOnce(&[Value]) -> rusqlite::Result<Option<String>>,
) -> Result<Option<Unsettled>, Failure> {
    let key = next_key(table, &mut RowReader::new(&conflict.key))?;
    let Counter(counter) = conflict.counter;
    let insert = || -> rusqlite::Result<Option<i64>> {
        let of = (table.name(), key_json(table, &key));
        if settled::is_settled(connection, of.0, &of.1, conflict.counter)? {
            return Ok(None);
        }
        let id = facts::get::<i64>(connection, LAST_ID)?.unwrap_or(0) + 1;
        let lost = row_json(connection, table, &key, 0, &[])?;
        let sql = "INSERT OR IGNORE INTO syncline_conflict
                       (id, at, table_name, key, counter, rule, lost_row, base_row)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let base = base(&key)?;
        let values = rusqlite::params![id, at, of.0, of.1, counter, conflict.rule, lost, base];
        if connection.prepare_cached(sql)?.execute(values)? == 0 {
            return Ok(None);
        }
        facts::set(connection, LAST_ID, id)?;
        Ok(Some(id))
    };
    let id = insert().map_err(explain)?;
    Ok(id.map(|id| Unsettled { id, table: position, key }))
}

/// Records the rows that stayed, now that the download is applied, and forgets the oldest conflicts
/// where there are too many.
pub(in crate::apply) fn settle(
    connection: &Connection,
    circumstances: &Circumstances<'_>,
    unsettled: &[Unsettled],
) -> Result<(), Failure> {
    let Some(last) = unsettled.last() else { return Ok(()) };
    let settle = |it: &Unsettled| -> rusqlite::Result<()> {
        let table = &circumstances.tables[it.table];
        if !table.downloads() {
            // The row of the center never comes.
            return Ok(());
        }
        let stayed = stayed(connection, table, &it.key)?;
        let sql = "UPDATE syncline_conflict SET stayed_row = ?2 WHERE id = ?1";
        let stayed = stayed.unwrap_or_else(|| "null".to_owned());
        connection.prepare_cached(sql)?.execute((it.id, stayed)).map(drop)
    };
    let forgotten = last.id - KEPT_MAX as i64;
    let mut kept = unsettled.iter().filter(|it| it.id > forgotten);
    kept.try_for_each(settle).map_err(explain)?;
    let forget = "DELETE FROM syncline_conflict WHERE id <= ?1";
    connection.execute(forget, [forgotten]).map(drop).map_err(explain)
}

/// The row of the center: beside a pending change if there is one, else in its place.
fn stayed(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
) -> rusqlite::Result<Option<String>> {
    if table.uploads() {
        let sql = format!(
            "SELECT \"present\", {} FROM {} WHERE {}",
            table.images_sql("", Image::Incoming),
            table.incoming_sql(),
            table.our_key_is_parameter(1)
        );
        let mut statement = connection.prepare_cached(&sql)?;
        bind_key(&mut statement, key)?;
        let mut rows = statement.raw_query();
        if let Some(row) = rows.next()? {
            if !row.get::<_, bool>(0)? {
                return Ok(None);
            }
            let values = (0..table.width()).map(|column| value(row, column + 1));
            let values: Vec<ValueRef<'_>> = values.collect::<rusqlite::Result<_>>()?;
            return Ok(Some(row_text(table, &[], &values)));
        }
    }
    row_json(connection, table, key, 0, &[])
}
