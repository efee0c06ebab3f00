//! Rejects that a person has settled, until a server knows what became of them.
//!
//! The center only shows it, so nothing waits for it: the oldest go with each Hello, and are
//! forgotten when that synchronization has succeeded. The table is created with the first of them.

use crate::connection::explain;
use model::Failure;
use protocol::{SETTLED_REJECTS_MAX, SettledReject, Settlement};
use rusqlite::Connection;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS syncline_settled (
  id         INTEGER PRIMARY KEY,
  table_name TEXT NOT NULL,
  key        TEXT NOT NULL,
  counter    INTEGER NOT NULL,
  retried    INTEGER NOT NULL
)";

/// Notes what becomes of a reject, which is still in the file.
pub(crate) fn note(connection: &Connection, id: i64, as_what: Settlement) -> Result<(), Failure> {
    connection.execute_batch(TABLE).map_err(explain)?;
    let note = "INSERT INTO syncline_settled (table_name, key, counter, retried)
                SELECT table_name, key, counter, ?2 FROM syncline_reject
                WHERE id = ?1 AND counter >= 0";
    let retried = as_what == Settlement::Retried;
    connection.execute(note, (id, retried)).map(drop).map_err(explain)
}

/// The oldest of them, as many as one Hello tells.
pub(crate) fn oldest(connection: &Connection) -> Result<Vec<SettledReject>, Failure> {
    if !has_table(connection)? {
        return Ok(Vec::new());
    }
    let sql = "SELECT table_name, key, counter, retried FROM syncline_settled ORDER BY id LIMIT ?1";
    let mut statement = connection.prepare(sql).map_err(explain)?;
    let rows = statement.query_map([SETTLED_REJECTS_MAX as i64], |row| {
        Ok(SettledReject {
            table: row.get(0)?,
            key: row.get(1)?,
            counter: row.get(2)?,
            outcome: match row.get(3)? {
                true => Settlement::Retried,
                false => Settlement::Dismissed,
            },
        })
    });
    rows.map_err(explain)?.collect::<rusqlite::Result<_>>().map_err(explain)
}

/// Forgets as many of the oldest: a server knows them.
pub(crate) fn forget(connection: &Connection, told: usize) -> Result<(), Failure> {
    if told == 0 {
        return Ok(());
    }
    let forget = "DELETE FROM syncline_settled
                  WHERE id IN (SELECT id FROM syncline_settled ORDER BY id LIMIT ?1)";
    connection.execute(forget, [told as i64]).map(drop).map_err(explain)
}

/// Forgets all.
pub(crate) fn clear(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("DROP TABLE IF EXISTS syncline_settled")
}

fn has_table(connection: &Connection) -> Result<bool, Failure> {
    connection.table_exists(Some("main"), "syncline_settled").map_err(explain)
}
