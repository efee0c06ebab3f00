//! What an application has written into a table that is being filled out of its sight.

use crate::apply::constraint::is_constraint;
use crate::apply::incoming;
use crate::connection::explain;
use crate::schema::{LocalTable, RemoteTable};
use crate::sql::{ident, list};
use model::Failure;
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

/// Takes these rows over into the hidden table. False if one of the rows stands in the way of a
/// downloaded one, be it by its key or by another value; then nothing was changed.
pub(super) fn take_over(
    connection: &Connection,
    table: &RemoteTable,
    hidden: &str,
) -> Result<bool, Failure> {
    if !table.uploads() {
        return Ok(true);
    }
    connection.execute_batch("SAVEPOINT syncline_take_over").map_err(explain)?;
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
