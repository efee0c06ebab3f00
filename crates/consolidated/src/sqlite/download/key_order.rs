//! The rows or deleted keys of a cursor in the order of their keys, or a part of them.
//!
//! The order is that of SQLite's storage classes, with text byte by byte, whatever the collation
//! and the type of a column: it is the same in every version, and a key is compared as it is
//! stored.

use crate::download::resume::Window;
use crate::quote::ident;
use crate::script::{Event, Script};
use crate::sqlite::errors::failed;
use crate::sqlite::values::Bind;
use crate::synchronization::FetchRequest;
use model::{Failure, PublishedTable, RowReader, ValueRef};
use rusqlite::{Connection, Statement};
use std::borrow::Cow;

/// Whether the table has more rows than go into one batch.
pub(super) fn is_large(
    connection: &Connection,
    table: &PublishedTable,
    request: &FetchRequest<'_>,
) -> Result<bool, Failure> {
    let sql = format!("SELECT 1 FROM {} LIMIT 1 OFFSET ?1", ident(&table.name));
    let found = connection.prepare_cached(&sql);
    let found = found.and_then(|mut found| found.exists([request.batch_rows]));
    found.map_err(failed("find out how large a table is"))
}

/// The statement for a window of what the script of a cursor returns.
pub(super) fn sql<'s>(
    (event, script): (Event, &'s Script),
    table: &PublishedTable,
    window: &Window<Vec<i64>>,
) -> Cow<'s, str> {
    if !window.ordered {
        return Cow::Borrowed(&script.sql);
    }
    let all = columns(table);
    let key: Vec<String> = table.key.iter().map(|at| all[usize::from(*at)].clone()).collect();
    let columns = if event == Event::DownloadDeleteCursor { &key } else { &all };
    // A sign takes the type of its column from an operand.
    let key = |form: &dyn Fn(&str) -> String| {
        key.iter().map(|column| form(column)).collect::<Vec<_>>().join(", ")
    };
    let plain = key(&|column| format!("+{column} COLLATE BINARY"));
    let mut number = script.parameters.len();
    let mut behind = || {
        let values = table.key.iter().map(|_| {
            number += 1;
            format!("?{number}")
        });
        let values = values.collect::<Vec<_>>().join(", ");
        format!("(({plain}) > ({values}))")
    };
    let low = window.low.as_ref().map(|_| behind());
    let high = window.high.as_ref().map(|_| format!("{} IS NOT TRUE", behind()));
    let bounds: Vec<String> = low.into_iter().chain(high).collect();
    let bounds = match bounds.is_empty() {
        true => String::new(),
        false => format!("WHERE {}\n", bounds.join(" AND ")),
    };
    let order = key(&|column| format!("{column} COLLATE BINARY"));
    Cow::Owned(format!("{}\n{bounds}ORDER BY {order}", rows(script, columns)))
}

/// What [`rows`] calls the columns of a table.
pub(super) fn columns(table: &PublishedTable) -> Vec<String> {
    (0..table.width()).map(|at| ident(&format!("c{at}"))).collect()
}

/// A statement that selects what a cursor returns, with these names for its columns. Conditions and
/// an order may follow.
pub(super) fn rows(cursor: &Script, columns: &[String]) -> String {
    let (columns, sql) = (columns.join(", "), &cursor.sql);
    format!("WITH syncline_rows ({columns}) AS (\n{sql}\n)\nSELECT * FROM syncline_rows")
}

/// Binds the keys between which the window lies.
pub(super) fn bind(
    statement: &mut Statement<'_>,
    script: &Script,
    table: &PublishedTable,
    window: &Window<Vec<i64>>,
) -> rusqlite::Result<()> {
    if !window.ordered {
        return Ok(());
    }
    let mut number = script.parameters.len();
    for key in [&window.low, &window.high].into_iter().flatten() {
        for value in values(key, table).unwrap_or_default() {
            number += 1;
            statement.raw_bind_parameter(number, Bind(value))?;
        }
    }
    Ok(())
}

/// The values of a key; none if it is not one, or lies nowhere in the order.
pub(super) fn values<'k>(key: &'k [u8], table: &PublishedTable) -> Option<Vec<ValueRef<'k>>> {
    let mut reader = RowReader::new(key);
    let values: Option<Vec<_>> = table.key.iter().map(|_| reader.value().ok()).collect();
    let values = values.filter(|_| reader.rest().is_empty())?;
    let orders = |value: &ValueRef<'_>| !matches!(value, ValueRef::Null | ValueRef::Absent);
    values.iter().all(orders).then_some(values)
}
