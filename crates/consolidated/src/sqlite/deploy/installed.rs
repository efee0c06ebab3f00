//! What of Syncline a database has.

use crate::deploy::format;
use crate::sqlite::query;
use model::{Code, Failure};
use rusqlite::Connection;
use std::collections::BTreeMap;

/// Refuses a remote, and system tables of another layout (trap 18).
pub(in crate::sqlite) fn require_known_format(connection: &Connection) -> Result<(), Failure> {
    if table_exists(connection, "syncline_state")? {
        return Err(Failure::new(Code::RemoteFile, "the file is a remote database"));
    }
    format::is_known(&mut &*connection).map(drop)
}

pub(in crate::sqlite) fn table_exists(
    connection: &Connection,
    name: &str,
) -> Result<bool, Failure> {
    let sql = "SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    query::value(connection, "look for the system tables", sql, [name])
}

/// Our logs and triggers as they are in the database: name and text.
pub(in crate::sqlite) fn actual_objects(
    connection: &Connection,
) -> Result<BTreeMap<String, String>, Failure> {
    let sql = "SELECT name, sql FROM sqlite_schema
        WHERE type IN ('table', 'trigger') AND name LIKE 'syncline\\_%' ESCAPE '\\'";
    query::all(connection, "list the objects", sql, |row| Ok((row.get(0)?, row.get(1)?)))
}

/// What was deployed: name, kind, table and text.
pub(in crate::sqlite) fn recorded_objects(
    connection: &Connection,
) -> Result<BTreeMap<String, (String, String, String)>, Failure> {
    let sql = "SELECT name, kind, table_name, sql FROM syncline_object";
    query::all(connection, "list the deployed objects", sql, |row| {
        Ok((row.get(0)?, (row.get(1)?, row.get(2)?, row.get(3)?)))
    })
}
