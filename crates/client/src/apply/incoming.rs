//! The incoming base: a downloaded row whose row here has a pending change (trap 7).
//!
//! The change remains, so the downloaded row must not overwrite it. But if the change is undone
//! later, nothing is uploaded, and the server would never send the row again. So the row is stored
//! beside the change, and applied when there is no change any more.

use super::circumstances::Circumstances;
use super::fired::row;
use super::values::bind_key;
use crate::capture::change_log;
use crate::connection::{explain, value};
use crate::schema::{Image, RemoteTable};
use crate::sql::parameters;
use model::{Failure, Value, ValueRef};
use rusqlite::Connection;

/// Whether there is any incoming row.
pub(crate) fn has_any(connection: &Connection, table: &RemoteTable) -> rusqlite::Result<bool> {
    let sql = format!("SELECT EXISTS (SELECT 1 FROM {})", table.incoming_sql());
    connection.prepare_cached(&sql)?.query_row([], |row| row.get(0))
}

pub(super) fn write(
    connection: &Connection,
    circumstances: &Circumstances<'_>,
    table: &RemoteTable,
    key: &[Value],
) -> rusqlite::Result<()> {
    let (incoming, ours) = (table.incoming_sql(), table.our_key_is_parameter(1));
    let run = |sql: &str, open: Option<i64>| -> rusqlite::Result<usize> {
        let mut statement = connection.prepare_cached(sql)?;
        bind_key(&mut statement, key)?;
        if let Some(open) = open {
            statement.raw_bind_parameter(key.len() + 1, open)?;
        }
        statement.raw_execute()
    };
    let present = match circumstances.fires(table) {
        true => write_firing(connection, table, key)?,
        false => {
            let sql = format!(
                "INSERT OR ABORT INTO {}({}) SELECT {} FROM {incoming} WHERE {ours} \
                 AND \"present\" {}",
                table.table_sql(),
                table.columns_sql(""),
                table.images_sql("", Image::Incoming),
                super::rows::statements::on_conflict(table),
            );
            run(&sql, None)? > 0
        }
    };
    if !present && is_absent(connection, table, key)? {
        let live = table.key_is_parameter("", 1);
        run(&format!("DELETE FROM {} WHERE {live}", table.table_sql()), None)?;
    }
    run(&format!("DELETE FROM {incoming} WHERE {ours}"), None)?;
    if table.uploads() {
        let generation = key.len() + 1;
        let change = table.change_sql();
        let entry = format!("DELETE FROM {change} WHERE \"generation\" = ?{generation} AND {ours}");
        run(&entry, Some(circumstances.open_generation))?;
    }
    Ok(())
}

/// Writes the incoming row, so that triggers fire. False if there is none.
fn write_firing(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
) -> rusqlite::Result<bool> {
    let sql = format!(
        "SELECT {} FROM {} WHERE {} AND \"present\"",
        table.images_sql("", Image::Incoming),
        table.incoming_sql(),
        table.our_key_is_parameter(1)
    );
    let mut statement = connection.prepare_cached(&sql)?;
    bind_key(&mut statement, key)?;
    let mut rows = statement.raw_query();
    let Some(found) = rows.next()? else { return Ok(false) };
    let row: rusqlite::Result<Vec<Value>> =
        (0..table.width()).map(|at| Ok(value(found, at)?.to_owned())).collect();
    drop(rows);
    let row = row?;
    let row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
    row::write(connection, table, &row).map(|_| true)
}

pub(super) fn is_absent(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
) -> rusqlite::Result<bool> {
    let sql = format!(
        "SELECT 1 FROM {} WHERE {} AND NOT \"present\"",
        table.incoming_sql(),
        table.our_key_is_parameter(1)
    );
    let mut statement = connection.prepare_cached(&sql)?;
    bind_key(&mut statement, key)?;
    Ok(statement.raw_query().next()?.is_some())
}

/// The statement that keeps a downloaded row beside the change: the key's values, then the row's.
pub(crate) fn keep_row_sql(table: &RemoteTable) -> String {
    let key_len = table.key.len();
    format!(
        "INSERT OR REPLACE INTO {}({}, \"present\", {}) VALUES ({}, 1, {})",
        table.incoming_sql(),
        table.our_keys_sql(""),
        table.images_sql("", Image::Incoming),
        parameters(1, key_len),
        parameters(key_len + 1, table.width()),
    )
}

/// The statement that keeps a downloaded delete beside the change: the key's values.
pub(crate) fn keep_delete_sql(table: &RemoteTable) -> String {
    format!(
        "INSERT OR REPLACE INTO {}({}, \"present\") VALUES ({}, 0)",
        table.incoming_sql(),
        table.our_keys_sql(""),
        parameters(1, table.key.len()),
    )
}

/// Whether the table has a place for what is kept back. One that does not upload gets it when it
/// is needed first.
pub(crate) fn has_table(connection: &Connection, table: &RemoteTable) -> rusqlite::Result<bool> {
    if table.uploads() {
        return Ok(true);
    }
    let name = format!("syncline_incoming_{}", table.name());
    connection.table_exists(Some("main"), name.as_str())
}

/// Whether any downloaded row of the table waits, beside a change or without one.
pub(super) fn waits(connection: &Connection, table: &RemoteTable) -> rusqlite::Result<bool> {
    Ok(has_table(connection, table)? && has_any(connection, table)?)
}

/// No change waits under the key of `entry`.
pub(super) fn without_change(table: &RemoteTable, entry: &str) -> String {
    match table.uploads() {
        true => format!(
            "NOT EXISTS (SELECT 1 FROM {} AS c WHERE {})",
            table.change_sql(),
            table.same_our_key("c.", entry)
        ),
        false => "1".to_owned(),
    }
}

/// Makes room for what is kept back.
pub(super) fn create(connection: &Connection, table: &RemoteTable) -> Result<(), Failure> {
    match table.uploads() {
        true => Ok(()),
        false => change_log::create_incoming(connection, table).map_err(explain),
    }
}
