//! Changes of rows of a table that is published again, made before its rows have arrived (trap 23).
//!
//! Such a change is based on the rows that were here since the table was unpublished. If the center
//! has the same row, the change is an ordinary one. If the center has another row or none, no user
//! has seen what the change would overwrite. Then the change is recorded in the reject table, and
//! the row gets the downloaded values.

use super::circumstances::Circumstances;
use super::values::key_of;
use super::{incoming, rejects, values};
use crate::apply::key_changes::moved_rows::moved;
use crate::capture::change_log;
use crate::connection::explain;
use crate::schema::{Image, RemoteTable};
use crate::sql::{all, ident};
use model::{Code, Failure, Value};
use rusqlite::{Connection, ErrorCode};

/// A change over a row that is not the center's.
struct Stale {
    /// Where the row lay.
    key: Vec<Value>,
    /// Where the change has moved it to.
    moved: Option<Vec<Value>>,
}

/// Undoes the changes of `table` that are not based on the downloaded rows.
pub(super) fn take_back(
    connection: &Connection,
    table: &RemoteTable,
    circumstances: &Circumstances<'_>,
) -> Result<(), Failure> {
    let Circumstances { tables, open_generation: open, at, .. } = *circumstances;
    for stale in stale(connection, table, open).map_err(explain)? {
        let keys: Vec<&[Value]> =
            stale.moved.iter().chain([&stale.key]).map(Vec::as_slice).collect();
        let others =
            |connection: &Connection| others_changed(connection, tables, open, table, &keys);
        settle(connection, &others, &mut || {
            let code = Code::RowDiffersOnReturn;
            rejects::record_stranded(connection, table, keys[0], code, at)?;
            if let Some(moved) = &stale.moved {
                change_log::forget(connection, table, open, moved)?;
                let live = table.key_is_parameter("", 1);
                let sql = format!("DELETE FROM {} WHERE {live}", table.table_sql());
                let mut statement = connection.prepare_cached(&sql)?;
                values::bind_key(&mut statement, moved)?;
                statement.raw_execute()?;
            }
            incoming::write(connection, table, open, &stale.key)
        })?;
    }
    Ok(())
}

/// Writes, unless that breaks a constraint or takes `others` that were changed along with it. Then
/// the change stays, and is a conflict.
fn settle(
    connection: &Connection,
    others: &dyn Fn(&Connection) -> Result<i64, Failure>,
    write: &mut dyn FnMut() -> rusqlite::Result<()>,
) -> Result<(), Failure> {
    let before = others(connection)?;
    connection.execute_batch("SAVEPOINT syncline_stale").map_err(explain)?;
    let settled = match write() {
        Ok(()) => others(connection)? == before,
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => false,
        Err(error) => return Err(explain(error)),
    };
    if !settled {
        connection.execute_batch("ROLLBACK TO syncline_stale").map_err(explain)?;
    }
    connection.execute_batch("RELEASE syncline_stale").map_err(explain)
}

/// Changed rows that exist, those of `table` with one of `keys` not counted.
fn others_changed(
    connection: &Connection,
    tables: &[RemoteTable],
    open: i64,
    table: &RemoteTable,
    keys: &[&[Value]],
) -> Result<i64, Failure> {
    let mut count = 0;
    for table in tables.iter().filter(|table| table.uploads()) {
        count += change_log::live_entries(connection, table, open).map_err(explain)?;
    }
    let at = table.key.len() + 1;
    let sql = format!(
        "SELECT EXISTS (SELECT 1 FROM {} AS t WHERE {}) AND EXISTS \
         (SELECT 1 FROM {} WHERE \"generation\" = ?{at} AND {})",
        table.table_sql(),
        table.key_is_parameter("t.", 1),
        table.change_sql(),
        table.our_key_is_parameter(1),
    );
    for key in keys {
        let mut statement = connection.prepare_cached(&sql).map_err(explain)?;
        values::bind_key(&mut statement, key).map_err(explain)?;
        statement.raw_bind_parameter(at, open).map_err(explain)?;
        let mut rows = statement.raw_query();
        let own = rows.next().map_err(explain)?.map_or(Ok(0), |row| row.get::<_, i64>(0));
        count -= own.map_err(explain)?;
    }
    Ok(count)
}

/// Changes that are not based on the downloaded rows. A large column that the change did not set
/// has the value of the row.
fn stale(connection: &Connection, table: &RemoteTable, open: i64) -> rusqlite::Result<Vec<Stale>> {
    let columns = table.published.columns.iter().zip(&table.large);
    let same = all(columns.map(|(name, large)| {
        let (old, came) = (Image::Old.column(name), Image::Incoming.column(name));
        let seen = match large {
            None => format!("c.{old}"),
            Some(bit) => format!(
                "CASE WHEN c.\"captured\" & {} THEN c.{old} ELSE t.{} END",
                1u64 << bit,
                ident(name)
            ),
        };
        format!("{seen} IS i.{came} COLLATE BINARY")
    }));
    let sql = format!(
        "SELECT {} FROM {} AS c LEFT JOIN {} AS i ON {} LEFT JOIN {} AS t ON {} \
         WHERE c.\"generation\" = ?1 AND c.\"existed\" = 1 \
         AND (i.\"present\" IS NOT 1 OR NOT ({same}))",
        table.our_keys_sql("c."),
        table.change_sql(),
        table.incoming_sql(),
        table.same_our_key("i.", "c."),
        table.table_sql(),
        table.same_key("t.", "c."),
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([open])?;
    let mut stale = Vec::new();
    while let Some(row) = rows.next()? {
        let key = key_of(table, row)?;
        stale.push(Stale { moved: moved(connection, table, open, &key)?, key });
    }
    Ok(stale)
}
