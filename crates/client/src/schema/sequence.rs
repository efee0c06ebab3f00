//! The last key that a table with AUTOINCREMENT has given out.

use super::LocalTable;
use rusqlite::Connection;

/// It; none where keys may be given out twice.
pub(crate) fn read(connection: &Connection, table: &str) -> rusqlite::Result<Option<i64>> {
    if !connection.table_exists(Some("main"), "sqlite_sequence")? {
        return Ok(None);
    }
    let sql = "SELECT max(seq) FROM sqlite_sequence WHERE name = ?1 COLLATE NOCASE";
    connection.query_row(sql, [table], |row| row.get(0))
}

/// Gives out only keys beyond `last` from now on.
pub(crate) fn go_on_from(connection: &Connection, table: &str, last: i64) -> rusqlite::Result<()> {
    let Some(local) = LocalTable::read(connection, table)? else { return Ok(()) };
    if !local.autoincrement {
        return Ok(());
    }
    let updated = connection.execute(
        "UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1 COLLATE NOCASE",
        rusqlite::params![table, last],
    )?;
    if updated == 0 {
        let insert = "INSERT INTO sqlite_sequence(name, seq) VALUES (?1, ?2)";
        connection.execute(insert, rusqlite::params![table, last])?;
    }
    Ok(())
}
