//! One statement: what it changes, or what it returns.
//!
//! `doing` completes "cannot" in the failure.

use super::errors::failed;
use model::Failure;
use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension, Params, Row};

/// Runs a statement, and returns how many rows it has changed.
pub(super) fn run(
    connection: &Connection,
    doing: &str,
    sql: &str,
    values: impl Params,
) -> Result<usize, Failure> {
    let prepared = connection.prepare_cached(sql);
    prepared.and_then(|mut statement| statement.execute(values)).map_err(failed(doing))
}

/// The only value that a statement returns.
pub(super) fn value<T: FromSql>(
    connection: &Connection,
    doing: &str,
    sql: &str,
    values: impl Params,
) -> Result<T, Failure> {
    let prepared = connection.prepare_cached(sql);
    let read = |row: &Row<'_>| row.get(0);
    prepared.and_then(|mut statement| statement.query_row(values, read)).map_err(failed(doing))
}

/// The value of a row that may be missing.
pub(super) fn maybe<T: FromSql>(
    connection: &Connection,
    doing: &str,
    sql: &str,
    values: impl Params,
) -> Result<Option<T>, Failure> {
    let prepared = connection.prepare_cached(sql);
    let read = |row: &Row<'_>| row.get(0);
    let found = prepared.and_then(|mut statement| statement.query_row(values, read).optional());
    found.map_err(failed(doing))
}

/// All rows that a statement without parameters returns.
pub(super) fn all<T, C: FromIterator<T>>(
    connection: &Connection,
    doing: &str,
    sql: &str,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<C, Failure> {
    let prepared = connection.prepare_cached(sql);
    let rows = prepared.and_then(|mut statement| statement.query_map([], read)?.collect());
    rows.map_err(failed(doing))
}
