//! The rows or deleted keys of a cursor in the order of their keys, or a part of them.
//!
//! Only types have an order here whose values compare in the same way for ever: text byte by byte
//! (`COLLATE "C"`), since collations change with the libraries of the system.

use crate::download::resume::Window;
use crate::postgres::catalog::table::Table;
use crate::postgres::download::snapshot::Snapshot;
use crate::postgres::errors::failed;
use crate::postgres::link::Link;
use crate::postgres::statement::{Slot, Statement};
use crate::postgres::values::{ColumnType, Kind};
use crate::quote::ident;
use crate::script::Event;
use crate::synchronization::FetchRequest;
use model::{Failure, RowReader, ValueRef};
use std::borrow::Cow;
use std::sync::Arc;

/// Batches of a table from which on it is large.
const BATCHES_MIN: usize = 4;

/// Whether rows of the table can be sent in the order of their keys.
pub(super) fn exists(table: &Table) -> bool {
    let mut kinds = key(table).map(|(_, kind)| kind.map(|kind| kind.kind));
    kinds.all(|kind| {
        matches!(
            kind,
            Some(
                Kind::Bool
                    | Kind::Int2
                    | Kind::Int4
                    | Kind::Int8
                    | Kind::Text
                    | Kind::Bytea
                    | Kind::Uuid
                    | Kind::Date
                    | Kind::Time
                    | Kind::Timestamp
                    | Kind::Timestamptz
            )
        )
    })
}

/// The sizes of tables, by their names in SQL; none of what has no size of its own, such as a table
/// in partitions.
const SIZES: &str = "SELECT CASE WHEN relkind = 'r' THEN pg_table_size(oid) END
FROM unnest($1::text[]) WITH ORDINALITY AS wanted (name, at)
LEFT JOIN pg_class ON oid = to_regclass(name)
ORDER BY at";

/// Those among the tables at these positions that fill many batches, as far as that is known.
pub(super) fn large(
    link: &mut Link,
    tables: &[Arc<Table>],
    mut positions: Vec<usize>,
    request: &FetchRequest<'_>,
) -> Result<Vec<usize>, Failure> {
    if positions.is_empty() {
        return Ok(positions);
    }
    let names = positions.iter().map(|at| tables[*at].deployed.details.sql_name());
    let names: Vec<String> = names.collect();
    let sizes = link.query(SIZES, &[&names]).map_err(failed("find out how large tables are"))?;
    let mut sizes = sizes.iter().map(|row| row.try_get::<Option<i64>>(0).ok().flatten());
    let bytes_min = request.batch_bytes.saturating_mul(BATCHES_MIN) as u64;
    positions
        .retain(|_| sizes.next().flatten().is_none_or(|size| size.unsigned_abs() >= bytes_min));
    Ok(positions)
}

/// Whether rows of the table can be compared with this key.
pub(super) fn takes(bytes: &[u8], table: &Table) -> bool {
    let mut reader = RowReader::new(bytes);
    let mut element = Vec::new();
    let mut fits = |(_, kind): (usize, Option<&ColumnType>)| {
        let (Some(kind), Ok(value)) = (kind, reader.value()) else { return false };
        element.clear();
        let is_null = matches!(value, ValueRef::Null | ValueRef::Absent);
        !is_null && kind.write_element(value, &mut element).is_ok()
    };
    key(table).all(&mut fits) && reader.rest().is_empty()
}

/// The statement for a window of what the statement of a cursor returns.
pub(super) fn statement<'s>(
    (event, cursor): (Event, &'s Statement),
    table: &Table,
    window: &Window<Snapshot>,
) -> Cow<'s, Statement> {
    if !window.ordered {
        return Cow::Borrowed(cursor);
    }
    let width = table.deployed.published.width();
    let columns: Vec<String> = (0..width).map(|at| ident(&format!("c{at}"))).collect();
    let mut slots = cursor.slots.clone();
    let each = key(table).filter_map(|(at, kind)| Some((at, kind?)));
    let order: Vec<String> = each.clone().map(|(at, kind)| compared(&columns[at], kind)).collect();
    let order = order.join(", ");
    let mut behind = |which: usize| {
        let values = each.clone().map(|(at, kind)| {
            slots.push(Slot::Bound(which, at));
            let array = format!("(${}::{}[])[1]", slots.len(), kind.wire().name());
            compared(&array, kind)
        });
        let values = values.collect::<Vec<_>>().join(", ");
        format!("(ROW({order}) > ROW({values}))")
    };
    let low = window.low.as_ref().map(|_| behind(0));
    let high = window.high.as_ref().map(|_| format!("{} IS NOT TRUE", behind(1)));
    let bounds: Vec<String> = low.into_iter().chain(high).collect();
    let bounds = match bounds.is_empty() {
        true => String::new(),
        false => format!("WHERE {}\n", bounds.join(" AND ")),
    };
    let returned: Vec<&str> = match event {
        Event::DownloadDeleteCursor => key(table).map(|(at, _)| columns[at].as_str()).collect(),
        _ => columns.iter().map(String::as_str).collect(),
    };
    // What has an offset is planned by itself: changes are found as they are without an order.
    let apart = if window.since.is_some() { " OFFSET 0" } else { "" };
    let sql = format!(
        "SELECT * FROM (\nSELECT * FROM (\n{}\n) AS syncline_all{apart}\n) AS syncline_rows ({})\n\
         {bounds}ORDER BY {order}",
        cursor.sql,
        returned.join(", "),
    );
    let set_based = cursor.set_based;
    Cow::Owned(Statement { sql, slots, set_based, keeps_plan: false, own: None })
}

/// A column or value of a key as it is compared.
fn compared(sql: &str, kind: &ColumnType) -> String {
    match kind.kind {
        Kind::Text => format!("{sql} COLLATE \"C\""),
        _ => sql.to_owned(),
    }
}

/// The columns of the key, with their types.
fn key(table: &Table) -> impl Iterator<Item = (usize, Option<&ColumnType>)> + Clone {
    let (published, columns) = (&table.deployed.published, &table.deployed.details.columns);
    published.key.iter().map(|at| (usize::from(*at), columns.get(usize::from(*at))))
}
