//! Tables of before, and what was captured of them.

use crate::connection::explain;
use crate::schema::stored_table::StoredTable;
use crate::schema::{LocalTable, RemoteTable};
use model::Failure;
use rusqlite::Connection;

/// The table as it was published; none where the user has dropped it, or changed it beyond
/// recognition.
pub(super) fn readable(
    connection: &Connection,
    old: &StoredTable,
) -> Result<Option<RemoteTable>, Failure> {
    let local = LocalTable::read(connection, &old.published.name).map_err(explain)?;
    Ok(local.and_then(|local| RemoteTable::new(0, old.clone(), &local).ok()))
}

/// The table has a change table: it was published upwards, and was not dropped meanwhile.
pub(super) fn is_captured(connection: &Connection, stored: &StoredTable) -> bool {
    let change = format!("syncline_change_{}", stored.published.name);
    stored.published.direction.uploads()
        && connection.table_exists(Some("main"), change.as_str()).unwrap_or(false)
}
