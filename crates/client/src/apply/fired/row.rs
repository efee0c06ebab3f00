//! Writes a row as the INSERT or UPDATE that it is, so that the triggers of just that fire.
//!
//! REPLACE fires no DELETE trigger, and an upsert fires those of an INSERT before it updates.

use super::attempt;
use crate::apply::values::run;
use crate::connection::{bind, value};
use crate::schema::RemoteTable;
use crate::sql::{ident, list, parameters, tokens::tokens};
use model::ValueRef;
use rusqlite::{Connection, OptionalExtension};

/// What has become of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::apply) enum Written {
    Inserted,
    Updated,
    /// It lay there as it came.
    Not,
}

/// Writes a row, of which only what differs is set.
pub(in crate::apply) fn write(
    connection: &Connection,
    table: &RemoteTable,
    row: &[ValueRef<'_>],
) -> rusqlite::Result<Written> {
    let key: Vec<ValueRef<'_>> = table.key.iter().map(|key| row[key.position]).collect();
    let or = or_abort(connection, table)?;
    let Some(differs) = differing(connection, table, &key, row)? else {
        let sql = format!(
            "INSERT{or} INTO {}({}) VALUES ({})",
            table.table_sql(),
            table.columns_sql(""),
            parameters(1, table.width())
        );
        attempt(connection, || run(&mut connection.prepare_cached(&sql)?, row))?;
        return Ok(Written::Inserted);
    };
    if differs.is_empty() {
        return Ok(Written::Not);
    }
    let sets = differs.iter().enumerate().map(|(n, &at)| {
        format!("{} = ?{}", ident(&table.published.columns[at]), key.len() + n + 1)
    });
    let sql = format!(
        "UPDATE{or} {} SET {} WHERE {}",
        table.table_sql(),
        list(sets),
        table.key_is_parameter("", 1)
    );
    let mut values = key;
    values.extend(differs.iter().map(|&at| row[at]));
    attempt(connection, || run(&mut connection.prepare_cached(&sql)?, &values))?;
    Ok(Written::Updated)
}

/// Positions of the columns in which the row differs from the one with its key; none if there is no
/// such row.
fn differing(
    connection: &Connection,
    table: &RemoteTable,
    key: &[ValueRef<'_>],
    row: &[ValueRef<'_>],
) -> rusqlite::Result<Option<Vec<usize>>> {
    let sql = format!(
        "SELECT {} FROM {} WHERE {}",
        table.columns_sql(""),
        table.table_sql(),
        table.key_is_parameter("", 1)
    );
    let mut select = connection.prepare_cached(&sql)?;
    for (n, value) in key.iter().enumerate() {
        bind(&mut select, n + 1, *value)?;
    }
    let mut rows = select.raw_query();
    let Some(stored) = rows.next()? else { return Ok(None) };
    let mut differs = Vec::new();
    for (at, wanted) in row.iter().enumerate() {
        if !value(stored, at)?.identical(*wanted) {
            differs.push(at);
        }
    }
    Ok(Some(differs))
}

/// ` OR ABORT` where a table may have been declared to ignore or replace, which would lose a row
/// without a word. Elsewhere nothing is said: it would count for the statements of triggers, too.
pub(in crate::apply) fn or_abort(
    connection: &Connection,
    table: &RemoteTable,
) -> rusqlite::Result<&'static str> {
    if let Some(known) = table.writing.or_abort.get() {
        return Ok(known);
    }
    let sql = "SELECT sql FROM main.sqlite_schema WHERE type = 'table' \
               AND name = ?1 COLLATE NOCASE";
    let mut statement = connection.prepare_cached(sql)?;
    let create: Option<String> =
        statement.query_row([table.name()], |row| row.get(0)).optional()?;
    let tokens = create.as_deref().map(tokens).unwrap_or_default();
    let or = match tokens.iter().any(|token| token.is("CONFLICT")) {
        true => " OR ABORT",
        false => "",
    };
    Ok(table.writing.or_abort.get_or_init(|| or))
}
