//! The incarnation of the database, from one restore or copy to the next.
//!
//! It has the keys of receipts.

use super::query;
use crate::identity::Incarnation;
use crate::serving::start_mark::LAST;
use model::Failure;
use rusqlite::Connection;

/// Reads which one this is.
pub(super) fn read(connection: &Connection) -> Result<Incarnation, Failure> {
    let number = number(connection)?;
    let sql = "SELECT CAST(value AS BLOB) FROM syncline_system
        WHERE name GLOB 'receipt_key*' ORDER BY name";
    let keys = query::all(connection, "read the keys of receipts", sql, |row| row.get(0))?;
    Ok(Incarnation { number, timeline: 0, keys })
}

/// What distinguishes the database from all others.
pub(super) fn database_id(connection: &Connection) -> Result<String, Failure> {
    let sql = "SELECT value FROM syncline_system WHERE name = 'database_id'";
    query::value(connection, "read the database's identity", sql, [])
}

/// The number alone, which every transaction looks at.
pub(super) fn number(connection: &Connection) -> Result<i64, Failure> {
    let sql = "SELECT value FROM syncline_system WHERE name = 'incarnation'";
    query::value(connection, "read the incarnation of the database", sql, [])
}

/// The mark of the last start of a server; none of servers that left none.
pub(super) fn last_start(connection: &Connection) -> Result<Option<String>, Failure> {
    let sql = "SELECT value FROM syncline_system WHERE name = ?1";
    query::maybe(connection, "read the mark of the last start", sql, [LAST])
}

/// Whether a start of a server has left this mark here.
pub(super) fn has_mark(connection: &Connection, mark: &str) -> Result<bool, Failure> {
    let sql = "SELECT count(*) > 0 FROM syncline_system WHERE name = 'start ' || ?1";
    query::value(connection, "look for the mark of the last start", sql, [mark])
}

/// Begins a new one, and with it a generation: what remotes hold is compared, never assumed.
pub(super) fn renew(connection: &Connection, reason: &str) -> Result<(), Failure> {
    let sql = "UPDATE syncline_system SET value = random()
        WHERE name IN ('generation', 'incarnation')";
    query::run(connection, "begin a new generation", sql, [])?;
    tracing::warn!(reason, "the consolidated database was restored: every remote is compared");
    Ok(())
}

/// Has a table sent afresh: something may have gone unnoticed.
pub(super) fn renew_log(connection: &Connection, table: &str) -> Result<(), Failure> {
    let sql = "UPDATE syncline_logs SET incarnation = random() WHERE table_name = ?1";
    query::run(connection, "note that a table went", sql, [table]).map(drop)
}
