//! Entries that say nothing: their rows are as they were before.

use super::change_log::{self, Change, Reading};
use crate::connection::{bind, explain};
use crate::schema::RemoteTable;
use model::Failure;
use rusqlite::Connection;

/// Forgets entries of rows that are as they were before `generation`, the only one, so that they
/// stand in nobody's way. Those for which something was downloaded are settled elsewhere, and
/// where keys were changed an entry says more than what became of its row.
pub(crate) fn forget(
    connection: &Connection,
    table: &RemoteTable,
    generation: i64,
) -> Result<(), Failure> {
    if !change_log::has_entries(connection, table, generation).map_err(explain)? {
        return Ok(());
    }
    let exists = |sql: String| {
        let exists: rusqlite::Result<bool> = connection.query_row(&sql, [], |row| row.get(0));
        exists.map_err(explain)
    };
    if exists(format!("SELECT EXISTS (SELECT 1 FROM {})", table.moved_sql()))? {
        return Ok(());
    }
    let mut undone = Vec::new();
    let reading = Reading { generation, newer: None, key_changes: false };
    change_log::for_each(connection, table, reading, &mut |entry| {
        if entry.change().map_err(explain)? == Change::None {
            undone.push(entry.key_values().map_err(explain)?);
        }
        Ok(())
    })?;
    let sql = format!(
        "DELETE FROM {} WHERE {} AND \"generation\" = ?{} \
         AND NOT EXISTS (SELECT 1 FROM {} WHERE {})",
        table.change_sql(),
        table.our_key_is_parameter(1),
        table.key.len() + 1,
        table.incoming_sql(),
        table.our_key_is_parameter(1),
    );
    for key in undone {
        let delete = || {
            let mut statement = connection.prepare_cached(&sql)?;
            for (n, value) in key.iter().enumerate() {
                bind(&mut statement, n + 1, value.as_ref())?;
            }
            statement.raw_bind_parameter(key.len() + 1, generation)?;
            statement.raw_execute()
        };
        delete().map_err(explain)?;
    }
    Ok(())
}
