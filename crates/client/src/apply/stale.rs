//! Changes of rows of a table that is published again, made before its rows have arrived (trap 23).
//!
//! Such a change is based on the rows that were here since the table was unpublished. If the center
//! has the same row, the change is an ordinary one. If the center has another row or none, no user
//! has seen what the change would overwrite. Then the change is recorded in the reject table, and
//! the row gets the downloaded values.

use super::circumstances::Circumstances;
use super::constraint::is_constraint;
use super::values::{bind_key, key_of};
use super::{incoming, rejects};
use crate::capture::change_log;
use crate::connection::explain;
use crate::schema::{Image, RemoteTable};
use crate::sql::all;
use model::{Code, Failure, Value};
use rusqlite::Connection;

/// Undoes the changes of `table` that are not based on the downloaded rows.
pub(super) fn take_back(
    connection: &Connection,
    table: &RemoteTable,
    circumstances: &Circumstances<'_>,
) -> Result<(), Failure> {
    let stale = stale(connection, table, circumstances).map_err(explain)?;
    stale.iter().try_for_each(|key| take_back_one(connection, table, circumstances, key))
}

/// Undoes one change, unless that breaks a constraint or takes another changed row along with it.
/// Then the change stays, and is a conflict.
fn take_back_one(
    connection: &Connection,
    table: &RemoteTable,
    circumstances: &Circumstances<'_>,
    key: &[Value],
) -> Result<(), Failure> {
    let at = circumstances.at;
    let before = live_entries(connection, circumstances, table, key)?;
    connection.execute_batch("SAVEPOINT syncline_stale").map_err(explain)?;
    let code = Code::RowDiffersOnReturn;
    rejects::record_stranded(connection, table, key, code, at).map_err(explain)?;
    let settled = match incoming::write(connection, circumstances, table, key) {
        Ok(()) => live_entries(connection, circumstances, table, key)? == before,
        Err(error) if is_constraint(&error) => false,
        Err(error) => return Err(explain(error)),
    };
    if !settled {
        connection.execute_batch("ROLLBACK TO syncline_stale").map_err(explain)?;
    }
    connection.execute_batch("RELEASE syncline_stale").map_err(explain)
}

/// Changed rows that exist, the one with `key` not counted.
fn live_entries(
    connection: &Connection,
    circumstances: &Circumstances<'_>,
    table: &RemoteTable,
    key: &[Value],
) -> Result<i64, Failure> {
    let Circumstances { tables, open_generation: open, .. } = *circumstances;
    let mut count = 0;
    for table in tables.iter().filter(|table| table.uploads()) {
        if let Some(older) = circumstances.is_older(connection, table).map_err(explain)? {
            count += change_log::live_entries(connection, table, open, &older).map_err(explain)?;
        }
    }
    if !table.uploads() {
        return Ok(count);
    }
    let sql = format!(
        "SELECT EXISTS (SELECT 1 FROM {} AS t WHERE {}) AND EXISTS \
         (SELECT 1 FROM {} WHERE \"generation\" = ?{} AND {})",
        table.table_sql(),
        table.key_is_parameter("t.", 1),
        table.change_sql(),
        key.len() + 1,
        table.our_key_is_parameter(1),
    );
    let mut statement = connection.prepare_cached(&sql).map_err(explain)?;
    bind_key(&mut statement, key).map_err(explain)?;
    statement.raw_bind_parameter(key.len() + 1, open).map_err(explain)?;
    let mut rows = statement.raw_query();
    let own = rows.next().map_err(explain)?.map_or(Ok(0), |row| row.get::<_, i64>(0));
    Ok(count - own.map_err(explain)?)
}

/// The keys of changes that are not based on the downloaded rows. A large column that the change
/// did not set has the value of the row.
fn stale(
    connection: &Connection,
    table: &RemoteTable,
    circumstances: &Circumstances<'_>,
) -> rusqlite::Result<Vec<Vec<Value>>> {
    let Some(older) = circumstances.is_older(connection, table)? else { return Ok(Vec::new()) };
    let same = all(table.published.columns.iter().enumerate().map(|(at, name)| {
        let (seen, came) = (table.before_sql(at, "c.", "t."), Image::Incoming.column(name));
        format!("{seen} IS i.{came} COLLATE BINARY")
    }));
    let sql = format!(
        "SELECT {} FROM {} AS c LEFT JOIN {} AS i ON {} LEFT JOIN {} AS t ON {} \
         WHERE c.\"generation\" = ?1 AND c.\"existed\" = 1 AND {older} \
         AND (i.\"present\" IS NOT 1 OR NOT ({same}))",
        table.our_keys_sql("c."),
        table.change_sql(),
        table.incoming_sql(),
        table.same_our_key("i.", "c."),
        table.table_sql(),
        table.same_key("t.", "c."),
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([circumstances.open_generation])?;
    let mut stale = Vec::new();
    while let Some(row) = rows.next()? {
        stale.push(key_of(table, row)?);
    }
    Ok(stale)
}
