//! What was downloaded for rows without a change any more takes its place.

use super::incoming::{has_table, is_absent, write};
use super::orphans::Surroundings;
use super::values::bind_key;
use super::{constraint, orphans, rejects};
use crate::capture::change_log::Change;
use crate::capture::{change_log, undone};
use crate::connection::{explain, triggers_off};
use crate::schema::{RemoteTable, reference};
use model::{Code, Failure, Value, write_value};
use rusqlite::{Connection, Error, ffi};

/// Applies what was downloaded for rows whose change was undone, and forgets those changes.
/// The caller holds the write lock; no generation is frozen.
pub(crate) fn apply_for_undone_changes(
    connection: &Connection,
    tables: &[RemoteTable],
    open: i64,
) -> Result<(), Failure> {
    let mut clinging = None;
    // A row may wait for a later one.
    loop {
        let (mut settled, mut waiting) = (false, false);
        for table in tables.iter().rev() {
            if !has_table(connection, table).map_err(explain)? {
                continue;
            }
            for key in undone(connection, table, open)? {
                triggers_off(connection)?;
                let clinging = match &mut clinging {
                    Some(known) => &*known,
                    None => clinging.insert(reference::clinging_references(connection, tables)?),
                };
                let surroundings =
                    Surroundings { tables, open_generation: open, guards: false, clinging };
                let now = settle(connection, surroundings, table, &key)?;
                if !now && table.uploads() {
                    // An entry would be uploaded as no change, and the downloaded row discarded
                    // with it.
                    undone::forget_entry(connection, table, open, &key)?;
                }
                (settled, waiting) = (settled | now, waiting | !now);
            }
        }
        if !settled || !waiting {
            return Ok(());
        }
    }
}

/// Keys with an incoming row and without a change.
pub(crate) fn undone(
    connection: &Connection,
    table: &RemoteTable,
    open: i64,
) -> Result<Vec<Vec<Value>>, Failure> {
    let mut keys = Vec::new();
    for key in crate::apply::incoming::keys(connection, table).map_err(explain)? {
        let change = match table.uploads() {
            true => change_log::change_of(connection, table, open, &key).map_err(explain)?,
            false => None,
        };
        match change {
            None | Some(Change::None) => keys.push(key),
            Some(_) => {}
        }
    }
    Ok(keys)
}

/// Makes one row what was downloaded. Where that breaks a constraint or takes a changed row along
/// with it, everything stays as it is: the next upload makes room. True where it was done.
fn settle(
    connection: &Connection,
    surroundings: Surroundings<'_>,
    table: &RemoteTable,
    key: &[Value],
) -> Result<bool, Failure> {
    let Surroundings { tables, open_generation: open, .. } = surroundings;
    let before = live_entries(connection, tables, open, table, key)?;
    connection.execute_batch("SAVEPOINT syncline_settle").map_err(explain)?;
    let broken = broken(connection, tables, table, key)?;
    let settled = match write_alone(connection, surroundings, table, key)? {
        Ok(()) => {
            live_entries(connection, tables, open, table, key)? == before
                && self::broken(connection, tables, table, key)? <= broken
        }
        Err(error) if constraint::is_refusal(&error) => false,
        Err(error) => return Err(explain(error)),
    };
    if settled {
        rejects::forget_unfit(connection, table, key).map_err(explain)?;
        orphans::forget(connection, tables, table, key)?;
    } else {
        connection.execute_batch("ROLLBACK TO syncline_settle").map_err(explain)?;
    }
    connection.execute_batch("RELEASE syncline_settle").map_err(explain)?;
    Ok(settled)
}

/// How many foreign keys of a row are broken. One that is deferred would be checked only at the
/// commit, with everything else that is settled.
pub(crate) fn broken(
    connection: &Connection,
    tables: &[RemoteTable],
    table: &RemoteTable,
    key: &[Value],
) -> Result<usize, Failure> {
    if !table.in_foreign_keys {
        return Ok(0);
    }
    let at = usize::from(table.position);
    let mut broken = 0;
    for reference in reference::references_from(connection, tables, at).map_err(explain)? {
        let sql = format!(
            "SELECT 1 FROM {} AS c WHERE {} AND {}",
            table.table_sql(),
            table.key_is_parameter("c.", 1),
            reference.is_broken(),
        );
        let mut statement = connection.prepare_cached(&sql).map_err(explain)?;
        bind_key(&mut statement, key).map_err(explain)?;
        broken += usize::from(statement.raw_query().next().map_err(explain)?.is_some());
    }
    Ok(broken)
}

/// Changed rows that exist, the one with `key` not counted.
pub(crate) fn live_entries(
    connection: &Connection,
    tables: &[RemoteTable],
    open: i64,
    table: &RemoteTable,
    key: &[Value],
) -> Result<i64, Failure> {
    let mut count = 0;
    for table in tables.iter().filter(|table| table.uploads()) {
        count += change_log::live_entries(connection, table, open).map_err(explain)?;
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

/// Like [`write`]. Rows that the center still has are not deleted together with a row: they are set
/// aside. A row with a pending change prevents the delete, and so does a row that the download does
/// not delete.
fn write_alone(
    connection: &Connection,
    surroundings: Surroundings<'_>,
    table: &RemoteTable,
    key: &[Value],
) -> Result<rusqlite::Result<()>, Failure> {
    if table.in_foreign_keys && is_absent(connection, table, key).map_err(explain)? {
        let mut bytes = Vec::new();
        key.iter().for_each(|value| write_value(&mut bytes, value.as_ref()));
        match orphans::set_aside_children(connection, surroundings, table, &bytes) {
            Err(failure) if failure.code() == Code::ApplyBlocked || is_refusal(&failure) => {
                let code = ffi::Error::new(ffi::SQLITE_CONSTRAINT_FOREIGNKEY);
                return Ok(Err(Error::SqliteFailure(code, None)));
            }
            other => drop(other?),
        }
    }
    Ok(write(connection, table, surroundings.open_generation, key))
}

/// Tables that refer to each other in a ring: none of their rows can go first.
pub(crate) fn is_refusal(failure: &Failure) -> bool {
    let source = std::error::Error::source(failure);
    source.and_then(|it| it.downcast_ref::<Error>()).is_some_and(constraint::is_refusal)
}
