//! What an application has written into a table that is being filled out of its sight.

use crate::apply::constraint::is_constraint;
use crate::apply::incoming;
use crate::apply::values::{bind_key, key_of, run};
use crate::connection::{explain, value};
use crate::schema::{LocalTable, RemoteTable};
use crate::sql::{ident, list};
use model::{Failure, Value, ValueRef};
use rusqlite::Connection;

/// Whether the table has nothing but rows that were made here, of which no server knows. Then all
/// that is received are other rows.
pub(super) fn are_all(
    connection: &Connection,
    table: &RemoteTable,
    generation: i64,
) -> rusqlite::Result<bool> {
    let exists = |sql: String| -> rusqlite::Result<bool> { connection.prepare(&sql)?.exists([]) };
    let live = table.table_sql();
    if incoming::has_table(connection, table)? && incoming::has_any(connection, table)? {
        return Ok(false);
    }
    if !table.uploads() {
        return Ok(!exists(format!("SELECT 1 FROM {live}"))?);
    }
    let change = table.change_sql();
    let of_others =
        format!("SELECT 1 FROM {change} WHERE \"generation\" <> {generation} OR \"existed\" <> 0");
    let not_captured = format!(
        "SELECT 1 FROM {live} AS t WHERE NOT EXISTS \
         (SELECT 1 FROM {change} AS c WHERE c.\"generation\" = {generation} AND {})",
        table.same_key("t.", "c."),
    );
    Ok(!exists(of_others)? && !exists(not_captured)?)
}

/// Takes these rows over into the hidden table. A downloaded row with the key of a change is kept
/// beside the change. False if one of the rows stands in the way of a downloaded one; then nothing
/// was changed.
pub(super) fn take_over(
    connection: &Connection,
    table: &RemoteTable,
    generation: i64,
    hidden: &str,
) -> Result<bool, Failure> {
    if !table.uploads() {
        return Ok(true);
    }
    connection.execute_batch("SAVEPOINT syncline_take_over").map_err(explain)?;
    set_beside(connection, table, generation, hidden).map_err(explain)?;
    let taken = match copy_rows(connection, table, hidden) {
        Ok(()) => true,
        Err(error) if is_constraint(&error) => {
            connection.execute_batch("ROLLBACK TO syncline_take_over").map_err(explain)?;
            false
        }
        Err(error) => return Err(explain(error)),
    };
    connection.execute_batch("RELEASE syncline_take_over").map_err(explain)?;
    Ok(taken)
}

/// Moves the hidden rows with the key of a change to where they are kept beside it.
fn set_beside(
    connection: &Connection,
    table: &RemoteTable,
    generation: i64,
    hidden: &str,
) -> rusqlite::Result<()> {
    let has_key = table.key_is_parameter("", 1);
    let keys = format!(
        "SELECT {} FROM {} WHERE \"generation\" = ?1",
        table.our_keys_sql(""),
        table.change_sql()
    );
    let select = format!("SELECT {} FROM {hidden} WHERE {has_key}", table.columns_sql(""));
    let mut keys = connection.prepare(&keys)?;
    let mut select = connection.prepare_cached(&select)?;
    let mut delete = connection.prepare_cached(&format!("DELETE FROM {hidden} WHERE {has_key}"))?;
    let mut keep = connection.prepare_cached(&incoming::keep_row_sql(table))?;
    let mut changed = keys.query([generation])?;
    while let Some(row) = changed.next()? {
        let key = key_of(table, row)?;
        bind_key(&mut select, &key)?;
        let mut found = select.raw_query();
        let Some(row) = found.next()? else { continue };
        let values = (0..table.width()).map(|at| value(row, at).map(|value| value.to_owned()));
        let values: Vec<Value> = values.collect::<rusqlite::Result<_>>()?;
        drop(found);
        let own = table.key.iter().map(|key| &values[key.position]);
        let kept: Vec<ValueRef<'_>> = own.chain(&values).map(Value::as_ref).collect();
        run(&mut keep, &kept)?;
        bind_key(&mut delete, &key)?;
        delete.raw_execute()?;
    }
    Ok(())
}

/// With the columns that are not published.
fn copy_rows(connection: &Connection, table: &RemoteTable, hidden: &str) -> rusqlite::Result<()> {
    let Some(local) = LocalTable::read(connection, table.name())? else { return Ok(()) };
    let stored = local.columns.iter().filter(|column| !column.generated);
    let columns = list(stored.map(|column| ident(&column.name)));
    connection.execute_batch(&format!(
        "INSERT OR ABORT INTO {hidden}({columns}) SELECT {columns} FROM {}",
        table.table_sql(),
    ))
}
