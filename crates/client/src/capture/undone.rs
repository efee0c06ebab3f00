//! Entries without effect: their rows are as they were before.

use super::change_log::{self, Change, Reading};
use crate::apply::incoming;
use crate::connection::{bind, explain};
use crate::schema::RemoteTable;
use model::{Failure, Value};
use rusqlite::Connection;

/// Deletes entries of rows that are as they were before `generation`, the only one, so that they
/// block no row.
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
        "DELETE FROM {} WHERE {} AND \"generation\" = ?{}",
        table.change_sql(),
        table.our_key_is_parameter(1),
        table.key.len() + 1,
    );
    let run = |key: &Vec<Value>| {
        let mut statement = connection.prepare_cached(&sql)?;
        for (n, value) in key.iter().enumerate() {
            bind(&mut statement, n + 1, value.as_ref())?;
        }
        statement.raw_bind_parameter(key.len() + 1, generation)?;
        statement.raw_execute().map(drop)
    };
    undone.iter().try_for_each(run).map_err(explain)
}

/// Does this before a generation is frozen, in tables with downloaded rows beside changes. An entry
/// would be uploaded as no change, and the downloaded row discarded with it.
pub(crate) fn forget_beside_incoming(
    connection: &Connection,
    tables: &[RemoteTable],
    generation: i64,
) -> Result<(), Failure> {
    for table in tables.iter().filter(|table| table.uploads()) {
        if incoming::has_any(connection, table).map_err(explain)? {
            forget(connection, table, generation)?;
        }
    }
    Ok(())
}
