//! Values that go into statements and come out of rows.

use crate::connection::{bind, value};
use crate::schema::RemoteTable;
use model::{Failure, RowReader, Value, ValueRef};
use rusqlite::CachedStatement;

pub(super) fn bind_key(
    statement: &mut rusqlite::CachedStatement<'_>,
    key: &[Value],
) -> rusqlite::Result<()> {
    for (n, value) in key.iter().enumerate() {
        bind(statement, n + 1, value.as_ref())?;
    }
    Ok(())
}

/// The values of the next key.
pub(super) fn next_key(
    table: &RemoteTable,
    reader: &mut RowReader<'_>,
) -> Result<Vec<Value>, Failure> {
    table.key.iter().map(|_| Ok(reader.value()?.to_owned())).collect()
}

pub(super) fn key_of(table: &RemoteTable, row: &rusqlite::Row<'_>) -> rusqlite::Result<Vec<Value>> {
    (0..table.key.len()).map(|n| value(row, n).map(|value| value.to_owned())).collect()
}

pub(super) fn run(
    statement: &mut CachedStatement<'_>,
    values: &[ValueRef<'_>],
) -> rusqlite::Result<usize> {
    for (n, value) in values.iter().enumerate() {
        bind(statement, n + 1, *value)?;
    }
    statement.raw_execute()
}

pub(super) fn found(
    statement: &mut CachedStatement<'_>,
    key: &[ValueRef<'_>],
) -> rusqlite::Result<bool> {
    for (n, value) in key.iter().enumerate() {
        bind(statement, n + 1, *value)?;
    }
    Ok(statement.raw_query().next()?.is_some())
}

pub(super) fn exists(
    statement: &mut CachedStatement<'_>,
    key: &[ValueRef<'_>],
    generation: i64,
) -> rusqlite::Result<bool> {
    for (n, value) in key.iter().enumerate() {
        bind(statement, n + 1, *value)?;
    }
    statement.raw_bind_parameter(key.len() + 1, generation)?;
    Ok(statement.raw_query().next()?.is_some())
}
