//! Changes of rows of a table that is published again, made before its rows have arrived (trap 23).
//!
//! Such a change is based on the rows that were here since the table was unpublished. If the center
//! has the same row, the change is an ordinary one. If the center has another row or none, no user
//! has seen what the change would overwrite. Then the change is recorded in the reject table, and
//! the row gets the downloaded values.

use super::circumstances::Circumstances;
use super::values::key_of;
use super::{incoming, rejects};
use crate::capture::change_log;
use crate::connection::{bind, explain};
use crate::schema::{Image, RemoteTable};
use crate::sql::{all, ident};
use model::{Code, Failure, RowReader, Value, write_value};
use rusqlite::{Connection, ErrorCode};
use std::collections::BTreeSet;

/// Undoes the changes of `table` that are not based on the downloaded rows.
pub(super) fn take_back(
    connection: &Connection,
    table: &RemoteTable,
    circumstances: &Circumstances<'_>,
) -> Result<(), Failure> {
    let open = circumstances.open_generation;
    let stale = stale(connection, table, open).map_err(explain)?;
    // Values of a UNIQUE index may have passed from one of these rows to another, so all are taken
    // back together where that is possible.
    if stale.is_empty() || take_back_some(connection, table, circumstances, &stale)? {
        return Ok(());
    }
    for one in stale.chunks(1) {
        take_back_some(connection, table, circumstances, one)?;
    }
    Ok(())
}

/// Undoes these changes, or none of them.
fn take_back_some(
    connection: &Connection,
    table: &RemoteTable,
    circumstances: &Circumstances<'_>,
    stale: &[Vec<Value>],
) -> Result<bool, Failure> {
    let Circumstances { tables, open_generation: open, at, .. } = *circumstances;
    let keys: BTreeSet<Vec<u8>> = stale.iter().map(|key| encoded(key)).collect();
    let others = |connection: &Connection| others_changed(connection, tables, open, table, &keys);
    settle(connection, &others, &mut || {
        for key in stale {
            rejects::record_stranded(connection, table, key, Code::RowDiffersOnReturn, at)?;
        }
        stale.iter().try_for_each(|key| incoming::write(connection, table, open, key))
    })
}

fn encoded(key: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    key.iter().for_each(|value| write_value(&mut bytes, value.as_ref()));
    bytes
}

/// Writes, unless that breaks a constraint or takes `others` that were changed along with it. Then
/// the change stays, and is a conflict. Yields whether it was taken back.
fn settle(
    connection: &Connection,
    others: &dyn Fn(&Connection) -> Result<i64, Failure>,
    write: &mut dyn FnMut() -> rusqlite::Result<()>,
) -> Result<bool, Failure> {
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
    connection.execute_batch("RELEASE syncline_stale").map_err(explain)?;
    Ok(settled)
}

/// Changed rows that exist, those of `table` with one of `keys` not counted.
fn others_changed(
    connection: &Connection,
    tables: &[RemoteTable],
    open: i64,
    table: &RemoteTable,
    keys: &BTreeSet<Vec<u8>>,
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
        let mut reader = RowReader::new(key);
        for n in 1..at {
            bind(&mut statement, n, reader.value()?).map_err(explain)?;
        }
        statement.raw_bind_parameter(at, open).map_err(explain)?;
        let mut rows = statement.raw_query();
        let own = rows.next().map_err(explain)?.map_or(Ok(0), |row| row.get::<_, i64>(0));
        count -= own.map_err(explain)?;
    }
    Ok(count)
}

/// The keys of changes that are not based on the downloaded rows. A large column that the change
/// did not set has the value of the row.
fn stale(
    connection: &Connection,
    table: &RemoteTable,
    open: i64,
) -> rusqlite::Result<Vec<Vec<Value>>> {
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
        stale.push(key_of(table, row)?);
    }
    Ok(stale)
}
