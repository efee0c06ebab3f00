//! The incarnation of the database, from one restore or copy to the next.
//!
//! It has the keys of receipts.

use super::errors::failed;
use crate::identity::Incarnation;
use crate::serving::start_mark::LAST;
use model::Failure;
use rusqlite::{Connection, OptionalExtension};

/// Reads which one this is.
pub(super) fn read(connection: &Connection) -> Result<Incarnation, Failure> {
    let number = number(connection)?;
    let keys = connection
        .prepare(
            "SELECT CAST(value AS BLOB) FROM syncline_system WHERE name GLOB 'receipt_key*'
             ORDER BY name",
        )
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .map_err(failed("read the keys of receipts"))?;
    Ok(Incarnation { number, timeline: 0, keys })
}

/// The number alone, which every transaction looks at.
pub(super) fn number(connection: &Connection) -> Result<i64, Failure> {
    connection
        .prepare_cached("SELECT value FROM syncline_system WHERE name = 'incarnation'")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .map_err(failed("read the incarnation of the database"))
}

/// The mark of the last start of a server; none of servers that left none.
pub(super) fn last_start(connection: &Connection) -> Result<Option<String>, Failure> {
    connection
        .prepare_cached("SELECT value FROM syncline_system WHERE name = ?1")
        .and_then(|mut statement| statement.query_row([LAST], |row| row.get(0)).optional())
        .map_err(failed("read the mark of the last start"))
}

/// Whether a start of a server has left this mark here.
pub(super) fn has_mark(connection: &Connection, mark: &str) -> Result<bool, Failure> {
    connection
        .query_row(
            "SELECT count(*) > 0 FROM syncline_system WHERE name = 'start ' || ?1",
            [mark],
            |row| row.get(0),
        )
        .map_err(failed("look for the mark of the last start"))
}

/// Begins a new one, and with it a generation: what remotes hold is compared, never assumed.
pub(super) fn renew(connection: &Connection, reason: &str) -> Result<(), Failure> {
    connection
        .execute(
            "UPDATE syncline_system SET value = random()
             WHERE name IN ('generation', 'incarnation')",
            [],
        )
        .map_err(failed("begin a new generation"))?;
    tracing::warn!(reason, "the consolidated database was restored: every remote is compared");
    Ok(())
}

/// Has a table sent afresh: something may have gone unnoticed.
pub(super) fn renew_log(connection: &Connection, table: &str) -> Result<(), Failure> {
    connection
        .execute(
            "UPDATE syncline_log_state SET incarnation = random() WHERE table_name = ?1",
            [table],
        )
        .map(|_| ())
        .map_err(failed("note that a table went"))
}
