//! The statements that write and delete downloaded rows.

use crate::schema::RemoteTable;
use crate::sql::{ident, list, parameters};

/// Rows that one statement writes while all of them are new. Beginning and ending a statement
/// costs as much as the row itself.
pub(in crate::apply) const BATCH_ROWS: u32 = 16;

/// What an upsert does where the key exists already.
pub(in crate::apply) fn on_conflict(table: &RemoteTable) -> String {
    // Keys that are equal may still differ, in case or in type, where the table says so; then the
    // key is written as well, so that both ends hold the same.
    let key: Vec<usize> =
        table.key.iter().filter(|key| key.is_exact()).map(|key| key.position).collect();
    let sets: Vec<String> = table
        .published
        .columns
        .iter()
        .enumerate()
        .filter(|(position, _)| !key.contains(position))
        .map(|(_, name)| format!("{0} = excluded.{0}", ident(name)))
        .collect();
    let target = table.keys_sql("");
    if sets.is_empty() {
        return format!("ON CONFLICT ({target}) DO NOTHING");
    }
    format!("ON CONFLICT ({target}) DO UPDATE SET {}", list(sets))
}

/// `OR ABORT`, because the table may have been declared to ignore or replace, which would lose a
/// row without a word.
fn upsert_sql(table: &RemoteTable) -> String {
    format!(
        "INSERT OR ABORT INTO {}({}) VALUES ({}) {}",
        table.table_sql(),
        table.columns_sql(""),
        parameters(1, table.width()),
        on_conflict(table),
    )
}

/// The statement that inserts so many rows into the table with this name in SQL.
///
/// `OR FAIL` leaves what was written before the row that is not new. A statement that took that
/// back would have to keep a copy of every page it changes, which costs more than is gained.
pub(in crate::apply) fn insert_sql(into: &str, table: &RemoteTable, rows: usize) -> String {
    let width = table.width();
    let values = (0..rows).map(|row| format!("({})", parameters(1 + row * width, width)));
    format!("INSERT OR FAIL INTO {into}({}) VALUES {}", table.columns_sql(""), list(values))
}

fn delete_sql(table: &RemoteTable) -> String {
    format!("DELETE FROM {} WHERE {}", table.table_sql(), table.key_is_parameter("", 1))
}

/// The statement that writes a row, whether it is new or not.
pub(in crate::apply) fn upsert(table: &RemoteTable) -> &str {
    table.writing.upsert.get_or_init(|| upsert_sql(table))
}

/// The one that writes [`BATCH_ROWS`] rows up to the first that is not new.
pub(in crate::apply) fn insert_batch(table: &RemoteTable) -> &str {
    let spell = || insert_sql(&table.table_sql(), table, BATCH_ROWS as usize);
    table.writing.insert_batch.get_or_init(spell)
}

/// The one that deletes the row with a key.
pub(in crate::apply) fn delete(table: &RemoteTable) -> &str {
    table.writing.delete.get_or_init(|| delete_sql(table))
}
