//! Rejects and lost conflicts that a person has settled.
//!
//! A server may tell of them again: a deployment that changes tables makes it forget what had
//! arrived. They stay settled, for what was decided is not asked twice. What became of a reject is
//! told to the center with the next Hello; nothing waits for that. The table is created with the
//! first of them.

use crate::connection::explain;
use model::{Counter, Failure};
use protocol::{SETTLED_REJECTS_MAX, SettledReject, Settlement};
use rusqlite::Connection;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS syncline_settled (
  id         INTEGER PRIMARY KEY,
  table_name TEXT NOT NULL,
  key        TEXT NOT NULL,
  counter    INTEGER NOT NULL,
  retried    INTEGER NOT NULL,
  told       INTEGER NOT NULL,
  UNIQUE (table_name, key, counter)
)";

/// Most that a file remembers; the newest stay (S9).
const KEPT_MAX: usize = 10_000;

/// Remembers what becomes of a reject, which is still in the file, until the center knows it.
pub(crate) fn reject(connection: &Connection, id: i64, as_what: Settlement) -> Result<(), Failure> {
    remember(connection, "syncline_reject", (id, as_what == Settlement::Retried, false))
}

/// Remembers that a lost conflict is settled, which is still in the file.
pub(super) fn conflict(connection: &Connection, id: i64) -> Result<(), Failure> {
    remember(connection, "syncline_conflict", (id, false, true))
}

fn remember(
    connection: &Connection,
    of: &str,
    (id, retried, told): (i64, bool, bool),
) -> Result<(), Failure> {
    connection.execute_batch(TABLE).map_err(explain)?;
    let remember = format!(
        "INSERT OR IGNORE INTO syncline_settled (table_name, key, counter, retried, told)
         SELECT table_name, key, counter, ?2, ?3 FROM {of} WHERE id = ?1 AND counter >= 0"
    );
    connection.execute(&remember, (id, retried, told)).map_err(explain)?;
    let forget = "DELETE FROM syncline_settled
                  WHERE id <= (SELECT max(id) FROM syncline_settled) - ?1";
    connection.execute(forget, [KEPT_MAX as i64]).map(drop).map_err(explain)
}

/// Whether a person has settled what is told of this row.
pub(super) fn is_settled(
    connection: &Connection,
    table: &str,
    key: &str,
    counter: Counter,
) -> rusqlite::Result<bool> {
    if !connection.table_exists(Some("main"), "syncline_settled")? {
        return Ok(false);
    }
    let sql = "SELECT 1 FROM syncline_settled WHERE table_name = ?1 AND key = ?2 AND counter = ?3";
    connection.prepare_cached(sql)?.exists((table, key, counter.0))
}

/// The oldest rejects of which the center has not been told, as many as one Hello tells.
pub(crate) fn untold(connection: &Connection) -> Result<Vec<SettledReject>, Failure> {
    if !connection.table_exists(Some("main"), "syncline_settled").map_err(explain)? {
        return Ok(Vec::new());
    }
    let sql = "SELECT table_name, key, counter, retried FROM syncline_settled
               WHERE told = 0 ORDER BY id LIMIT ?1";
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

/// A server knows as many of the oldest.
pub(crate) fn note_told(connection: &Connection, told: usize) -> Result<(), Failure> {
    if told == 0 {
        return Ok(());
    }
    let note = "UPDATE syncline_settled SET told = 1 WHERE id IN (
                    SELECT id FROM syncline_settled WHERE told = 0 ORDER BY id LIMIT ?1)";
    connection.execute(note, [told as i64]).map(drop).map_err(explain)
}

/// Forgets all.
pub(crate) fn clear(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("DROP TABLE IF EXISTS syncline_settled")
}
