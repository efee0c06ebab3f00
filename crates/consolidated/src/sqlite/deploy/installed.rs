//! What of Syncline a database has.

use crate::deploy::format;
use crate::sqlite::errors::failed;
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
    connection
        .query_row(
            "SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name = ?1",
            [name],
            |row| row.get(0),
        )
        .map_err(failed("look for the system tables"))
}

/// Our logs and triggers as they are in the database: name and text.
pub(in crate::sqlite) fn actual_objects(
    connection: &Connection,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut statement = connection
        .prepare(
            "SELECT name, sql FROM sqlite_schema
             WHERE type IN ('table', 'trigger') AND name LIKE 'syncline\\_%' ESCAPE '\\'",
        )
        .map_err(failed("list the objects"))?;
    statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .and_then(Iterator::collect)
        .map_err(failed("list the objects"))
}

/// What was deployed: name, kind, table and text.
pub(in crate::sqlite) fn recorded_objects(
    connection: &Connection,
) -> Result<BTreeMap<String, (String, String, String)>, Failure> {
    let mut statement = connection
        .prepare("SELECT name, kind, table_name, sql FROM syncline_object")
        .map_err(failed("list the deployed objects"))?;
    statement
        .query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?, row.get(3)?))))
        .and_then(Iterator::collect)
        .map_err(failed("list the deployed objects"))
}
