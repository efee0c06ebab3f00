//! Rows that block each other, and rows that refer to a missing row.
//!
//! SQLite cannot defer UNIQUE (trap 10). If values are exchanged (A to B and B to A), the rows
//! first get temporary values. Foreign keys are deferred (trap 11), so a violation shows only at
//! the end, without naming a row. Then the row is searched for (`constraint/isolation.rs`).

mod hidden;
mod isolation;

use super::attempt::{Attempt, RowOutcome, Stop};
use super::fence::{self, Standing};
use super::input::Turn;
use crate::deploy::TableFacts;
use crate::quote::{ident, join};
use crate::script::Event;
use crate::sqlite::deploy::tables::{self, UserTable};
use crate::sqlite::errors::failed;
use crate::sqlite::errors::not_unique;
use crate::sqlite::tracking::unique_columns;
use crate::sqlite::values::Bind;
use crate::synchronization::change::Change;
use crate::upload::owed_rows::OwedRows;
use crate::upload::waiting::WaitingRow;
pub(super) use hidden::ForeignKeys;
pub(super) use isolation::{Found, checked, search};

use model::{Code, Failure, ValueRef};
use rusqlite::{Connection, Statement, ffi};
use std::collections::BTreeMap;

/// Applies the waiting rows now that all others are. Returns rows that are impossible and must be
/// left out of a new attempt.
pub(super) fn settle_waiting(attempt: &mut Attempt<'_>) -> Result<OwedRows, Stop> {
    let mut waiting = attempt.waits.in_the_way.take().into_rows();
    while !waiting.is_empty() {
        let before = waiting.len();
        let mut still = Vec::new();
        for row in waiting {
            if let RowOutcome::InTheWay(message) = attempt.retry(&row)? {
                still.push(WaitingRow { reason: not_unique(message), ..row });
            }
        }
        waiting = still;
        if waiting.len() == before {
            return untie(attempt, &waiting);
        }
    }
    Ok(OwedRows::within(attempt.input.spills))
}

/// Applies rows that are in each other's way, if they are and not in that of others.
fn untie(attempt: &mut Attempt<'_>, waiting: &[WaitingRow]) -> Result<OwedRows, Stop> {
    let input = attempt.input;
    let user_tables = tables::read(input.connection)?;
    let mut aside = Vec::with_capacity(waiting.len());
    for (number, row) in waiting.iter().enumerate() {
        aside.push(attempt.each_alone(false, |attempt| {
            input.waiting(row, |turn| place_holder(attempt, &user_tables, turn, number))
        })?);
    }
    let mut impossible = Vec::new();
    for (row, is_aside) in waiting.iter().zip(&aside) {
        let outcome = match is_aside {
            true => attempt.each_alone(RowOutcome::Done, |attempt| {
                input.waiting(row, |turn| finish_placed(attempt, turn))
            })?,
            false => attempt.retry(row)?,
        };
        if outcome != RowOutcome::Done {
            impossible.push(row);
        }
    }
    let mut refused = OwedRows::within(input.spills);
    if !aside.contains(&true) {
        // Nothing was moved about: the rows are refused on the spot.
        for row in impossible {
            let reason = row.reason.clone();
            input.waiting(row, |turn| attempt.record.reject(turn, reason))?;
        }
        return Ok(refused);
    }
    // Without one of them, those that were to take its values are impossible in the next attempt.
    if attempt.known.hurried && !impossible.is_empty() {
        impossible = waiting.iter().collect();
    }
    for row in impossible {
        refused.reject(&input.id_of(row)?, row.reason.clone())?;
    }
    Ok(refused)
}

/// Gives the unique columns of an updated row temporary values, if the row is still the one that
/// the remote has.
fn place_holder(
    attempt: &mut Attempt<'_>,
    user_tables: &BTreeMap<String, UserTable>,
    turn: Turn<'_>,
    number: usize,
) -> Result<bool, Stop> {
    let (published, row) = (&turn.table.published, turn.row);
    let Some(user_table) = user_tables.get(&published.name) else { return Ok(false) };
    let columns = unique_columns(user_table).into_iter();
    let columns: Vec<String> = columns.filter(|column| !user_table.key.contains(column)).collect();
    let as_seen = match attempt.fetch(turn)? {
        Some(now) => row.change == Change::Update && row.is_as_seen(&now)?,
        None => false,
    };
    if !as_seen || columns.is_empty() {
        return Ok(false);
    }
    let set = join(&columns, ", ", |name| {
        let value = match user_table.column(name) {
            Some(column) if !column.not_null => "NULL".to_owned(),
            Some(column) if column.declared_type.to_uppercase().contains("INT") => {
                (i64::MIN / 2 + number as i64).to_string()
            }
            _ => format!("'syncline waiting {number}'"),
        };
        format!("{} = {value}", ident(name))
    });
    let connection = attempt.input.connection;
    let (sql, mut statement) = update_by_key(connection, "UPDATE", turn, (&set, &[]))?;
    let checks = |on: &str| {
        let sql = format!("PRAGMA ignore_check_constraints = {on}");
        connection.execute_batch(&sql).map_err(failed(MOVING))
    };
    checks("ON")?;
    let placed = attempt.execute(&mut statement, &sql, turn, Event::UploadUpdate);
    checks("OFF")?;
    // A trigger of the owner's may refuse what is there for a moment only.
    Ok(placed?.is_ok_and(|changes| changes == 1))
}

/// What is being done by the statements of this file.
const MOVING: &str = "move a row out of the way of another";

/// Gives a row with placeholders its new values. It was compared before it got them.
fn finish_placed(attempt: &mut Attempt<'_>, turn: Turn<'_>) -> Result<RowOutcome, Stop> {
    let Turn { table, row, .. } = turn;
    let first = table.published.key.len() + 1;
    let columns = table.published.columns.iter().zip(first..);
    let set: Vec<String> =
        columns.map(|(column, number)| format!("{} = ?{number}", ident(column))).collect();
    let connection = attempt.input.connection;
    let set = (set.join(", "), row.new.as_slice());
    let (sql, mut statement) = update_by_key(connection, "UPDATE OR ABORT", turn, (&set.0, set.1))?;
    match attempt.execute(&mut statement, &sql, turn, Event::UploadUpdate)? {
        Ok(_) => {
            fence::check_written(attempt, turn, Standing::Inside)?;
            attempt.record.echo(turn);
            Ok(RowOutcome::Done)
        }
        Err((_, reason)) => Ok(RowOutcome::InTheWay(reason.message)),
    }
}

/// The statement that updates a row by the key that it had. The parameters of `set` follow those of
/// the key, and get `values`.
fn update_by_key<'c>(
    connection: &'c Connection,
    update: &str,
    turn: Turn<'_>,
    (set, values): (&str, &[ValueRef<'_>]),
) -> Result<(String, Statement<'c>), Failure> {
    let published = &turn.table.published;
    let key: Vec<usize> = published.key.iter().map(|at| usize::from(*at)).collect();
    let condition = key
        .iter()
        .enumerate()
        .map(|(number, at)| format!("{} = ?{}", ident(&published.columns[*at]), number + 1));
    let condition = condition.collect::<Vec<_>>().join(" AND ");
    let sql = format!("{update} {} SET {set} WHERE {condition}", ident(&published.name));
    let prepare = || {
        let mut statement = connection.prepare(&sql)?;
        let key = key.iter().map(|at| &turn.row.old[*at]);
        for (index, value) in key.chain(values).enumerate() {
            statement.raw_bind_parameter(index + 1, Bind(*value))?;
        }
        Ok(statement)
    };
    let statement = prepare().map_err(failed(MOVING))?;
    Ok((sql, statement))
}

/// Whether an uploaded row may refer to nothing, or have taken away what others refer to, although
/// SQLite counts no broken foreign key: one was broken in between.
pub(super) fn hides_violations(attempt: &Attempt<'_>) -> Result<bool, Failure> {
    let (input, known) = (attempt.input, attempt.known);
    if !attempt.progress.was_violated || known.acquitted {
        return Ok(false);
    }
    let foreign_keys = ForeignKeys::of(input.connection, input.tables)?;
    let mut found = false;
    let look = |turn: Turn<'_>| {
        if !found && !known.refused.contains(&turn.id())? {
            found = !foreign_keys.broken_at(input.connection, turn)?.is_empty();
        }
        Ok::<(), Failure>(())
    };
    input.each_row(|_, _| true, look)?;
    Ok(found)
}

/// Runs scripts around rows, and refuses what they have done where it breaks a foreign key. What
/// was counted as broken before is not theirs.
pub(in crate::sqlite) fn with_references<T>(
    connection: &Connection,
    run: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let before = foreign_keys_violated(connection)?;
    let done = run()?;
    if !before && foreign_keys_violated(connection)? {
        let message = "a script around the rows breaks a foreign key";
        return Err(Failure::new(Code::ScriptFailed, message));
    }
    Ok(done)
}

/// Whether the transaction, committed now, would break a foreign key, as SQLite counts.
pub(in crate::sqlite) fn foreign_keys_violated(connection: &Connection) -> Result<bool, Failure> {
    let (mut current, mut highest) = (0, 0);
    // SAFETY: the handle is valid for as long as `connection` is borrowed, the call only reads the
    // connection's counters, and both out-pointers are to locals. SQLite offers this count in no
    // other way; a commit would answer for all synchronizations of the group at once.
    #[allow(unsafe_code)]
    let result = unsafe {
        ffi::sqlite3_db_status(
            connection.handle(),
            ffi::SQLITE_DBSTATUS_DEFERRED_FKS,
            &mut current,
            &mut highest,
            0,
        )
    };
    match result {
        ffi::SQLITE_OK => Ok(current != 0),
        _ => Err(Failure::new(Code::Bug, "SQLite does not count deferred foreign keys")),
    }
}
