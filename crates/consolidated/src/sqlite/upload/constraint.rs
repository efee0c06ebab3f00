//! Rows that block each other, and rows that refer to a missing row.
//!
//! SQLite cannot defer UNIQUE (trap 10). If values are exchanged (A to B and B to A), the rows
//! first get temporary values. Foreign keys are deferred (trap 11), so a violation shows only at
//! the end, without naming a row. Then the row is searched for (`constraint/isolation.rs`).

mod hidden;
mod isolation;

use super::attempt::{Attempt, RowOutcome, Stop, id_of};
use crate::deploy::TableFacts;
use crate::quote::{ident, join};
use crate::script::Event;
use crate::sqlite::deploy::tables::{self, UserTable};
use crate::sqlite::details::CatalogTable;
use crate::sqlite::errors::{failed, script_failed};
use crate::sqlite::tracking::unique_columns;
use crate::sqlite::upload::fence::{self, Standing};
use crate::sqlite::values::Bind;
use crate::synchronization::change::Change;
use crate::upload::owed_rows::OwedRows;
use crate::upload::uploaded_row::{UploadedRow, each_row};
use crate::upload::waiting::WaitingRow;
pub(in crate::sqlite) use hidden::ForeignKeys;
pub(in crate::sqlite) use isolation::{Found, search};

use model::{Code, Failure};
use rusqlite::{Connection, ffi};
use std::collections::BTreeMap;

/// Applies the waiting rows now that all others are. Returns rows that are impossible and must be
/// left out of a new attempt.
pub(in crate::sqlite) fn settle_waiting(attempt: &mut Attempt<'_>) -> Result<OwedRows, Stop> {
    let mut waiting = attempt.waits.in_the_way.take().into_rows();
    while !waiting.is_empty() {
        let before = waiting.len();
        let mut still = Vec::new();
        for row in waiting {
            if let RowOutcome::InTheWay(message) = attempt.retry(&row)? {
                still.push(WaitingRow { reason: (Code::RowNotUnique, message), ..row });
            }
        }
        waiting = still;
        if waiting.len() == before {
            break;
        }
    }
    match waiting.is_empty() {
        true => Ok(OwedRows::within(attempt.spills)),
        false => untie(attempt, &waiting),
    }
}

/// Applies rows that are in each other's way, if they are and not in that of others.
fn untie(attempt: &mut Attempt<'_>, waiting: &[WaitingRow]) -> Result<OwedRows, Stop> {
    let user_tables = tables::read(attempt.connection)?;
    let mut aside = Vec::with_capacity(waiting.len());
    for (number, row) in waiting.iter().enumerate() {
        aside.push(
            attempt
                .each_alone(false, |attempt| place_holder(attempt, &user_tables, row, number))?,
        );
    }
    let mut impossible = Vec::new();
    for (row, is_aside) in waiting.iter().zip(&aside) {
        let outcome = match is_aside {
            true => attempt.each_alone(RowOutcome::Done, |attempt| finish_placed(attempt, row))?,
            false => attempt.retry(row)?,
        };
        if outcome != RowOutcome::Done {
            impossible.push(row);
        }
    }
    let mut refused = OwedRows::within(attempt.spills);
    if aside.contains(&true) {
        // Without one of them, those that were to take its values are impossible in the next
        // attempt.
        if attempt.known.hurried && !impossible.is_empty() {
            impossible = waiting.iter().collect();
        }
        for row in impossible {
            refused.reject(&id_of(attempt.tables, row)?, row.reason.clone())?;
        }
        return Ok(refused);
    }
    // Nothing was moved about: the rows are refused on the spot.
    for waits in impossible {
        let table = attempt.tables[waits.table].clone();
        let row = waits.read(&table.published)?;
        attempt.reject(&table, waits.table, &row, waits.reason.clone())?;
    }
    Ok(refused)
}

/// Gives the unique columns of an updated row temporary values, if the row is still the one that
/// the remote has.
fn place_holder(
    attempt: &Attempt<'_>,
    user_tables: &BTreeMap<String, UserTable>,
    waits: &WaitingRow,
    number: usize,
) -> Result<bool, Stop> {
    let table = &attempt.tables[waits.table];
    let Some(user_table) = user_tables.get(&table.published.name) else { return Ok(false) };
    let columns: Vec<String> = unique_columns(user_table)
        .into_iter()
        .filter(|column| !user_table.key.contains(column))
        .collect();
    let row = waits.read(&table.published)?;
    let as_seen = match attempt.fetch(table, &row)? {
        Some(now) => waits.change == Change::Update && row.is_as_seen(&now)?,
        None => false,
    };
    if !as_seen || columns.is_empty() {
        return Ok(false);
    }
    let placing = failed("move a row out of the way of another");
    let set = join(&columns, ", ", |name| {
        let column = user_table.column(name);
        let value = match column {
            Some(column) if !column.not_null => "NULL".to_owned(),
            Some(column) if column.declared_type.to_uppercase().contains("INT") => {
                (i64::MIN / 2 + number as i64).to_string()
            }
            _ => format!("'syncline waiting {number}'"),
        };
        format!("{} = {value}", ident(name))
    });
    let name = ident(&table.published.name);
    let (condition, key) = key_condition(table, &row);
    let sql = format!("UPDATE {name} SET {set} WHERE {condition}");
    let mut statement = attempt.connection.prepare(&sql).map_err(&placing)?;
    for (index, value) in key.iter().enumerate() {
        statement.raw_bind_parameter(index + 1, Bind(*value)).map_err(&placing)?;
    }
    let checks = |on: &str| {
        let sql = format!("PRAGMA ignore_check_constraints = {on}");
        attempt.connection.execute_batch(&sql).map_err(&placing)
    };
    checks("ON")?;
    let placed = attempt.execute(&mut statement, &sql, (table, &row, Event::UploadUpdate));
    checks("OFF")?;
    // A trigger of the owner's may refuse what is there for a moment only.
    Ok(placed?.is_ok_and(|changes| changes == 1))
}

/// `"k" = ?1 AND …` with the key that the row had.
fn key_condition<'r>(
    table: &CatalogTable,
    row: &UploadedRow<'r>,
) -> (String, Vec<model::ValueRef<'r>>) {
    let columns: Vec<&str> = table
        .published
        .key
        .iter()
        .map(|c| table.published.columns[usize::from(*c)].as_str())
        .collect();
    let mut number = 0;
    let parts: Vec<String> = columns
        .iter()
        .map(|column| {
            number += 1;
            format!("{} = ?{number}", ident(column))
        })
        .collect();
    let key = table.published.key.iter().map(|column| row.old[usize::from(*column)]).collect();
    (parts.join(" AND "), key)
}

/// Gives a row with placeholders its new values. It was compared before it got them.
fn finish_placed(attempt: &mut Attempt<'_>, waits: &WaitingRow) -> Result<RowOutcome, Stop> {
    let table = attempt.tables[waits.table].clone();
    let name = &table.published.name;
    let row = waits.read(&table.published)?;
    let (condition, key) = key_condition(&table, &row);
    let mut number = key.len();
    let mut assignments = Vec::new();
    for column in &table.published.columns {
        number += 1;
        assignments.push(format!("{} = ?{number}", ident(column)));
    }
    let event = Event::UploadUpdate;
    let sql =
        format!("UPDATE OR ABORT {} SET {} WHERE {condition}", ident(name), assignments.join(", "));
    let bound = attempt.connection.prepare(&sql).and_then(|mut statement| {
        for (index, value) in key.iter().chain(&row.new).enumerate() {
            statement.raw_bind_parameter(index + 1, Bind(*value))?;
        }
        Ok(statement)
    });
    let mut statement = bound.map_err(|error| script_failed(error, name, event.name()))?;
    match attempt.execute(&mut statement, &sql, (&table, &row, event))? {
        Ok(_) => {
            fence::check_written(attempt, &table, waits.table, &row, Standing::Inside)?;
            attempt.echo(&table, waits.table, &row);
            Ok(RowOutcome::Done)
        }
        Err((_, message)) => Ok(RowOutcome::InTheWay(message)),
    }
}

/// Whether an uploaded row may refer to nothing, or have taken away what others refer to, although
/// SQLite counts no broken foreign key: one was broken in between.
pub(in crate::sqlite) fn hides_violations(attempt: &Attempt<'_>) -> Result<bool, Failure> {
    if !attempt.was_violated || attempt.known.acquitted {
        return Ok(false);
    }
    let foreign_keys = ForeignKeys::of(attempt.connection, attempt.tables)?;
    let published = |position: usize| &attempt.tables[position].published;
    let mut found = false;
    each_row(
        attempt.request.batches,
        &published,
        |_, _| true,
        |position, row| {
            if !found && !attempt.known.refused.contains(&row.key(published(position), position))? {
                found = !foreign_keys.broken_at(attempt.connection, position, row)?.is_empty();
            }
            Ok(())
        },
    )?;
    Ok(found)
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
