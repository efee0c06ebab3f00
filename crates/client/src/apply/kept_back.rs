//! Rows that cannot be applied yet are kept back, so that everything else is applied.
//!
//! A table of this file may refuse a row that the center has: by a CHECK, a NOT NULL or a UNIQUE
//! index that only the file has, or by the type of a column. Such a row is reported as a reject.
//! And a row cannot be deleted while a row of a table of the user's own refers to it
//! (`apply/guarded.rs`).
//!
//! Both wait in `syncline_incoming_T`, under keys without a change. So does a row that came for a
//! changed row whose change was undone (`apply/incoming.rs`). They are tried again with every
//! download, as if they were part of it. They are discarded when a newer version of the row, or the
//! whole table, arrives.

use super::circumstances::Circumstances;
use super::download::Download;
use super::incoming::{create, has_table, without_change};
use super::{incoming, rejects};
use crate::connection::{bind, explain, value};
use crate::schema::{Image, RemoteTable};
use model::{Failure, Value, ValueRef, write_value};
use protocol::DownloadMode;
use rusqlite::Connection;

/// What is kept back, of all tables.
pub(crate) fn count(connection: &Connection, tables: &[RemoteTable]) -> Result<u64, Failure> {
    let mut kept = 0;
    for table in tables {
        if has_table(connection, table).map_err(explain)? {
            let sql = format!(
                "SELECT count(*) FROM {} AS i WHERE {}",
                table.incoming_sql(),
                without_change(table, "i.")
            );
            kept += connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).map_err(explain)?;
        }
    }
    Ok(kept.unsigned_abs())
}

/// Whether anything is kept back, of whichever table. Every download asks.
pub(super) fn any(connection: &Connection, tables: &[RemoteTable]) -> Result<bool, Failure> {
    for table in tables {
        if has_any(connection, table).map_err(explain)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether anything is kept back of the table.
pub(super) fn has_any(connection: &Connection, table: &RemoteTable) -> rusqlite::Result<bool> {
    if !has_table(connection, table)? {
        return Ok(false);
    }
    let sql = format!(
        "SELECT EXISTS (SELECT 1 FROM {} AS i WHERE {})",
        table.incoming_sql(),
        without_change(table, "i.")
    );
    connection.prepare_cached(&sql)?.query_row([], |row| row.get(0))
}

/// Discards the kept back rows of tables that are sent as a whole, and what was reported of them: a
/// row arrives again, or it was deleted.
pub(super) fn drop_refreshed(
    connection: &Connection,
    tables: &[RemoteTable],
    download: &Download,
) -> Result<(), Failure> {
    for table in tables.iter().filter(|table| download.mode(table) == DownloadMode::Refresh) {
        if has_any(connection, table).map_err(explain)? {
            let incoming = table.incoming_sql();
            let condition = without_change(table, &format!("{incoming}."));
            connection
                .execute(&format!("DELETE FROM {incoming} WHERE {condition}"), [])
                .map_err(explain)?;
        }
        rejects::forget_all_unfit(connection, table).map_err(explain)?;
    }
    Ok(())
}

/// Forgets what is kept back under a key without a change, because something newer came. What is
/// reported of it stays until that is known to fit.
pub(super) fn forget_row(
    connection: &Connection,
    table: &RemoteTable,
    key: &[ValueRef<'_>],
) -> Result<(), Failure> {
    let sql =
        format!("DELETE FROM {} WHERE {}", table.incoming_sql(), table.our_key_is_parameter(1));
    run(connection, &sql, key)
}

/// Forgets what is kept back under a key without a change, because its row is gone.
pub(super) fn forget(
    connection: &Connection,
    table: &RemoteTable,
    key: &[ValueRef<'_>],
) -> Result<(), Failure> {
    forget_row(connection, table, key)?;
    let key: Vec<Value> = key.iter().map(|value| (*value).to_owned()).collect();
    rejects::forget_unfit(connection, table, &key).map_err(explain)
}

/// Keeps a row back.
pub(super) fn keep_row(
    connection: &Connection,
    table: &RemoteTable,
    row: &[ValueRef<'_>],
) -> Result<(), Failure> {
    create(connection, table)?;
    let mut values: Vec<ValueRef<'_>> = table.key.iter().map(|key| row[key.position]).collect();
    values.extend_from_slice(row);
    run(connection, &incoming::keep_row_sql(table), &values)
}

/// Keeps back a row that its table refuses, and tells of it.
pub(super) fn refuse(
    connection: &Connection,
    circumstances: &Circumstances<'_>,
    table: &RemoteTable,
    row: &[ValueRef<'_>],
    reason: &str,
) -> Result<(), Failure> {
    keep_row(connection, table, row)?;
    rejects::record_unfit(connection, table, row, reason, circumstances.at).map_err(explain)
}

/// Keeps back the delete of a row, because triggers could not go along with it, and tells of it.
pub(super) fn refuse_delete(
    connection: &Connection,
    circumstances: &Circumstances<'_>,
    table: &RemoteTable,
    (key, reason): (&[ValueRef<'_>], &str),
) -> Result<(), Failure> {
    create(connection, table)?;
    run(connection, &incoming::keep_delete_sql(table), key)?;
    let key: Vec<Value> = key.iter().map(|value| (*value).to_owned()).collect();
    let why = format!("a trigger here cannot follow its delete: {reason}");
    rejects::record_held(connection, table, &key, &why, circumstances.at).map_err(explain)
}

/// The rows of the table that are kept back, as they are encoded.
pub(super) fn rows(
    connection: &Connection,
    table: &RemoteTable,
    visit: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for_each(connection, table, (&table.images_sql("i.", Image::Incoming), "i.\"present\""), visit)
}

/// The keys of rows of the table whose deletes are kept back, as they are encoded.
pub(super) fn deletes(
    connection: &Connection,
    table: &RemoteTable,
    visit: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for_each(connection, table, (&table.our_keys_sql("i."), "NOT i.\"present\""), visit)
}

/// Whether a delete is kept back, of whichever table.
pub(super) fn has_deletes(
    connection: &Connection,
    tables: &[RemoteTable],
) -> Result<bool, Failure> {
    let mut any = false;
    for table in tables {
        deletes(connection, table, &mut |_| {
            any = true;
            Ok(())
        })?;
    }
    Ok(any)
}

fn for_each(
    connection: &Connection,
    table: &RemoteTable,
    (columns, condition): (&str, &str),
    visit: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !has_any(connection, table).map_err(explain)? {
        return Ok(());
    }
    let sql = format!(
        "SELECT {columns} FROM {} AS i WHERE {condition} AND {}",
        table.incoming_sql(),
        without_change(table, "i."),
    );
    let mut statement = connection.prepare(&sql).map_err(explain)?;
    let width = statement.column_count();
    let mut rows = statement.query([]).map_err(explain)?;
    let mut bytes = Vec::new();
    while let Some(row) = rows.next().map_err(explain)? {
        bytes.clear();
        for column in 0..width {
            write_value(&mut bytes, value(row, column).map_err(explain)?);
        }
        visit(&bytes)?;
    }
    Ok(())
}

fn run(connection: &Connection, sql: &str, values: &[ValueRef<'_>]) -> Result<(), Failure> {
    let run = || {
        let mut statement = connection.prepare_cached(sql)?;
        for (n, value) in values.iter().enumerate() {
            bind(&mut statement, n + 1, *value)?;
        }
        statement.raw_execute()
    };
    run().map(drop).map_err(explain)
}

#[cfg(test)]
mod tests;
