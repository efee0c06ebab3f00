//! The triggers that a file has.

use crate::schema::RemoteTable;
use rusqlite::Connection;

/// A trigger of the file.
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) table: String,
    /// Position of the table, where it is published.
    pub(super) at: Option<u16>,
    pub(super) sql: String,
    pub(super) is_ours: bool,
}

/// Whether the application has triggers on the table, and the model lets them fire.
pub(in crate::apply) fn has_triggers(
    connection: &Connection,
    table: &RemoteTable,
) -> rusqlite::Result<bool> {
    if !table.published.fires {
        return Ok(false);
    }
    let sql = "SELECT 1 FROM main.sqlite_schema WHERE type = 'trigger'
               AND name NOT LIKE 'syncline\\_%' ESCAPE '\\' AND tbl_name = ?1 COLLATE NOCASE";
    connection.prepare_cached(sql)?.exists([table.name()])
}

/// All of them, the oldest first.
pub(super) fn stored(
    connection: &Connection,
    tables: &[RemoteTable],
) -> rusqlite::Result<Vec<Stored>> {
    let position = |name: &str| {
        let found = tables.iter().find(|table| table.name().eq_ignore_ascii_case(name));
        found.map(|table| table.position)
    };
    let sql = "SELECT name, tbl_name, sql, name LIKE 'syncline\\_%' ESCAPE '\\'
               FROM main.sqlite_schema WHERE type = 'trigger' ORDER BY rowid";
    let mut statement = connection.prepare(sql)?;
    let stored = |row: &rusqlite::Row<'_>| {
        let table: String = row.get(1)?;
        let (name, sql, is_ours) = (row.get(0)?, row.get(2)?, row.get(3)?);
        Ok(Stored { at: position(&table), name, table, sql, is_ours })
    };
    statement.query_map([], stored)?.collect()
}
