//! The rows that a remote has, and their sums.

use crate::Remote;
use crate::connection::{explain, value};
use crate::schema::RemoteTable;
use crate::sql::{all, ident};
use model::{Failure, ValueRef};
use protocol::{Digester, Ranges, Sums};
use rusqlite::Connection;

/// How many rows of a table are compared.
pub(super) fn count(connection: &Connection, table: &RemoteTable) -> rusqlite::Result<u64> {
    let sql = format!("SELECT count(*) FROM {} WHERE {}", table.table_sql(), has_key(table));
    connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
}

/// The sums of the rows of a table.
pub(super) fn sums(
    remote: &Remote,
    table: &RemoteTable,
    ranges: Ranges,
    split: u8,
) -> Result<Sums, Failure> {
    let (mut sums, mut digester) = (Sums::new(ranges, split), Digester::default());
    each(&remote.connection, table, &mut |key, row| {
        let key = digester.key(key.iter().copied());
        sums.add(key, digester.row(row.iter().copied()));
        Ok(())
    })?;
    Ok(sums)
}

/// Is shown the key and all values of a row.
type Visit<'a> = dyn FnMut(&[ValueRef<'_>], &[ValueRef<'_>]) -> Result<(), Failure> + 'a;

/// Shows `visit` each row of a table.
pub(super) fn each(
    connection: &Connection,
    table: &RemoteTable,
    visit: &mut Visit<'_>,
) -> Result<(), Failure> {
    let (columns, rows) = (table.columns_sql(""), table.table_sql());
    let sql = format!("SELECT {columns} FROM {rows} WHERE {}", has_key(table));
    let mut statement = connection.prepare(&sql).map_err(explain)?;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(explain)? {
        let values: Vec<ValueRef<'_>> = (0..table.width())
            .map(|column| value(row, column))
            .collect::<rusqlite::Result<_>>()
            .map_err(explain)?;
        let key: Vec<ValueRef<'_>> =
            table.key.iter().filter_map(|key| values.get(key.position).copied()).collect();
        visit(&key, &values)?;
    }
    Ok(())
}

/// A row with NULL in its key has no identity, and is nobody else's.
fn has_key(table: &RemoteTable) -> String {
    let nullable = table.key.iter().filter(|key| key.nullable);
    match table.key.iter().any(|key| key.nullable) {
        true => all(nullable.map(|key| format!("{} IS NOT NULL", ident(&key.name)))),
        false => "TRUE".to_owned(),
    }
}
