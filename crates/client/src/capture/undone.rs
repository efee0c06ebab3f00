//! Entries without effect: their rows are as they were before.

use super::change_log::{self, Change, Reading};
use crate::connection::{bind, explain};
use crate::schema::RemoteTable;
use model::{Failure, Value};
use rusqlite::Connection;

/// Deletes entries of rows that are as they were before `generation`, the only one, so that they
/// block no row. Entries with a downloaded row are settled elsewhere.
pub(crate) fn forget(
    connection: &Connection,
    table: &RemoteTable,
    generation: i64,
) -> Result<(), Failure> {
    if !change_log::has_entries(connection, table, generation).map_err(explain)? {
        return Ok(());
    }
    let mut undone = Vec::new();
    let reading = Reading { generation, newer: None };
    change_log::for_each(connection, table, reading, &mut |entry| {
        if entry.change().map_err(explain)? == Change::None {
            undone.push(entry.key_values().map_err(explain)?);
        }
        Ok(())
    })?;
    let sql = format!(
        "{} AND NOT EXISTS (SELECT 1 FROM {} WHERE {})",
        forget_sql(table),
        table.incoming_sql(),
        table.our_key_is_parameter(1),
    );
    undone.iter().try_for_each(|key| run(connection, &sql, key, generation))
}

/// Forgets one such entry although something was downloaded for its row, which stays.
pub(crate) fn forget_entry(
    connection: &Connection,
    table: &RemoteTable,
    generation: i64,
    key: &[Value],
) -> Result<(), Failure> {
    run(connection, &forget_sql(table), key, generation)
}

fn forget_sql(table: &RemoteTable) -> String {
    format!(
        "DELETE FROM {} WHERE {} AND \"generation\" = ?{}",
        table.change_sql(),
        table.our_key_is_parameter(1),
        table.key.len() + 1,
    )
}

fn run(connection: &Connection, sql: &str, key: &[Value], generation: i64) -> Result<(), Failure> {
    let run = || {
        let mut statement = connection.prepare_cached(sql)?;
        for (n, value) in key.iter().enumerate() {
            bind(&mut statement, n + 1, value.as_ref())?;
        }
        statement.raw_bind_parameter(key.len() + 1, generation)?;
        statement.raw_execute()
    };
    run().map(drop).map_err(explain)
}
