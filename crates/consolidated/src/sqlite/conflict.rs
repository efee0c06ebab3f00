//! A row that did not find what it expected: resolves it by the table's rule (S5).
//!
//! What the rule decides is a script; here is only when it runs, what is counted, and what the
//! remote is owed afterwards.

use super::catalog::CatalogTable;
use super::errors::{RowFault, failed, row_fault, script_failed};
use super::fence::{self, Standing};
use super::upload::{Attempt, RowOutcome, bind};
use crate::script::Event;
use crate::synchronization::Change;
use crate::told;
use crate::uploaded_row::UploadedRow;
use model::{Code, Failure, write_value};
use rusqlite::params;

/// Resolves one row. Two sides that did the same are no conflict.
pub(super) fn resolve(
    attempt: &mut Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
) -> Result<RowOutcome, Failure> {
    let before = match table.details.is_fenced() {
        true => fence::standing(attempt, table, row)?,
        false => Standing::Inside,
    };
    if before == Standing::Outside {
        fence::reject_touching(attempt, table, position, row);
        return Ok(RowOutcome::Done);
    }
    let now = attempt.fetch(table, row)?;
    if agrees(row, now.as_deref()) {
        attempt.echo_shared(table, position, row);
        return Ok(RowOutcome::Done);
    }
    let event = match row.change {
        Change::Delete => Event::ResolveDeleteConflict,
        Change::Insert | Change::Update | Change::KeyChange => Event::ResolveConflict,
    };
    if let Some((fault, message)) = run(attempt, table, position, event, row)? {
        match fault {
            RowFault::NotUnique => return Ok(RowOutcome::InTheWay(message)),
            RowFault::KeyExists => {
                let reason = (Code::RowRefused, message);
                attempt.reject(row.key(&table.published, position), reason);
            }
            RowFault::Refused(code) => {
                attempt.reject(row.key(&table.published, position), (code, message))
            }
        }
        return Ok(RowOutcome::Done);
    }
    fence::check_written(attempt, table, position, row, before)?;
    attempt.applied.conflicts += 1;
    let after = attempt.fetch(table, row)?;
    note(attempt, table, row, now.as_deref(), after.as_deref())?;
    if agrees(row, after.as_deref()) {
        attempt.echo_shared(table, position, row);
    } else {
        attempt.owe(row.key(&table.published, position));
    }
    Ok(RowOutcome::Done)
}

/// The row at the centre is what the remote holds.
fn agrees(row: &UploadedRow<'_>, now: Option<&[u8]>) -> bool {
    match row.change {
        Change::Delete => now.is_none(),
        Change::Insert | Change::Update | Change::KeyChange => now == Some(row.new_image()),
    }
}

/// Runs the script of `event`, if the rule has one.
fn run(
    attempt: &mut Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    event: Event,
    row: &UploadedRow<'_>,
) -> Result<Option<(RowFault, String)>, Failure> {
    let Some(script) = table.script(event) else { return Ok(None) };
    let name = &table.published.name;
    let mut statement = attempt
        .connection
        .prepare_cached(&script.sql)
        .and_then(|mut statement| {
            bind(&mut statement, script, attempt.request.session, row)?;
            Ok(statement)
        })
        .map_err(|error| script_failed(error, name, event.name()))?;
    match statement.raw_execute() {
        Ok(changes) => {
            attempt.changed(position, changes);
            Ok(None)
        }
        Err(error) => row_fault(error, name, event.name()).map(Some),
    }
}

/// Keeps the rows of a conflict and the one that came of it, so that it can be looked at later.
fn note(
    attempt: &Attempt<'_>,
    table: &CatalogTable,
    row: &UploadedRow<'_>,
    now: Option<&[u8]>,
    result: Option<&[u8]>,
) -> Result<(), Failure> {
    let mut old = Vec::new();
    row.old.iter().for_each(|value| write_value(&mut old, *value));
    let told = |image: &[u8]| told::row(&table.published, image);
    let old = (row.change != Change::Insert).then(|| told(&old));
    let new = (row.change != Change::Delete).then(|| told(row.new_image()));
    let session = attempt.request.session;
    attempt
        .connection
        .prepare_cached(
            "INSERT INTO syncline_conflict (detected_at, remote_id, user_name, table_name,
                 operation, conflict_rule, old_row, new_row, consolidated_row,
                 result_row)
             VALUES (datetime('now'), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                session.remote_id.as_str(),
                session.user.as_str(),
                table.published.name,
                told::operation(row.change),
                table.conflict_rule,
                old,
                new,
                now.map(told),
                result.map(told),
            ])
        })
        .map_err(failed("note a conflict"))?;
    Ok(())
}
