//! Resolves a row that did not find what it expected by the rule of the table (S5).
//!
//! A script implements the rule. This file decides when it runs, what is counted, and what the
//! remote is owed afterwards.

use super::binding::bind;
use super::catalog::CatalogTable;
use super::errors::{RowFault, failed, script_failed};
use super::fence::{self, Standing};
use super::key_change::{self, Spot};
use super::made;
use super::upload::{Attempt, RowOutcome};
use crate::readable;
use crate::rebase;
use crate::script::Event;
use crate::synchronization::Change;
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
    if row.change == Change::KeyChange {
        return resolve_key_change(attempt, table, position, row);
    }
    let Some(before) = standing(attempt, table, position, (row, row))? else {
        return Ok(RowOutcome::Done);
    };
    let now = attempt.fetch(table, row)?;
    // A row that is to go may be there under another key.
    let agrees_surely = row.change != Change::Delete || !is_forgotten(attempt, position);
    if agrees_surely && agrees(row, now.as_deref()) {
        attempt.echo_shared(table, position, row);
        return Ok(RowOutcome::Done);
    }
    if row.change != Change::Insert && attempt.may_have_followed(position)? {
        attempt.met_key_change = true;
        return Ok(RowOutcome::Done);
    }
    if let Some(outcome) = meant_for_another(attempt, table, position, row, now.as_deref())? {
        return Ok(outcome);
    }
    let event = match row.change {
        Change::Delete => Event::ResolveDeleteConflict,
        Change::Insert | Change::Update | Change::KeyChange => Event::ResolveConflict,
    };
    if let Some((fault, message)) = run(attempt, table, position, event, row)? {
        match fault {
            RowFault::NotUnique => return Ok(RowOutcome::InTheWay(message)),
            RowFault::KeyExists => {
                attempt.reject(table, position, row, (Code::RowRefused, message))?;
            }
            RowFault::Refused(code) => attempt.reject(table, position, row, (code, message))?,
        }
        return Ok(RowOutcome::Done);
    }
    attempt.applied.conflicts += 1;
    let after = match table.script(event) {
        Some(_) => {
            fence::check_written(attempt, table, position, row, before)?;
            attempt.fetch(table, row)?
        }
        // All stays as it is.
        None => now.clone(),
    };
    note(attempt, table, row, now.as_deref(), after.as_deref())?;
    if agrees(row, after.as_deref()) {
        attempt.echo_shared(table, position, row);
    } else {
        attempt.owe(table, position, row)?;
    }
    Ok(RowOutcome::Done)
}

/// The outcome of a change that is meant for another state of the row, or may be meant for another
/// row: it is applied to what the upload itself has made of the row, or rejected. None if the rule
/// decides.
fn meant_for_another(
    attempt: &mut Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
    now: Option<&[u8]>,
) -> Result<Option<RowOutcome>, Failure> {
    if let Some(anew) = made::over(attempt, table, position, row, now)? {
        return attempt.apply_rebased(table, position, row, &anew).map(Some);
    }
    if row.change == Change::Insert || !is_forgotten(attempt, position) {
        return Ok(None);
    }
    attempt.reject(table, position, row, rebase::forgotten())?;
    Ok(Some(RowOutcome::Done))
}

/// Key changes of the table that the remote has not received are no longer in the log.
fn is_forgotten(attempt: &Attempt<'_>, position: usize) -> bool {
    attempt.moves.is_some_and(|moves| moves.are_forgotten(position))
}

/// The row to which a change applies; none if another row has its key, and the change is rejected.
/// The row is looked up as the remote has `seen` it, and rejected as it was uploaded: both keys of
/// a key change are owed.
fn standing(
    attempt: &mut Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    (row, seen): (&UploadedRow<'_>, &UploadedRow<'_>),
) -> Result<Option<Standing>, Failure> {
    let standing = match table.details.is_fenced() {
        true => fence::standing(attempt, table, seen)?,
        false => Standing::Inside,
    };
    if standing == Standing::Outside {
        fence::reject_touching(attempt, table, position, row)?;
        return Ok(None);
    }
    Ok(Some(standing))
}

/// A key change whose row is not as the remote saw it. The row gets its new key first, and then
/// the rule decides as if it had had it all along; where the rule leaves everything as it is, so
/// is the key.
fn resolve_key_change(
    attempt: &mut Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
) -> Result<RowOutcome, Failure> {
    let seen = row.as_seen();
    let Some(before) = standing(attempt, table, position, (row, &seen))? else {
        return Ok(RowOutcome::Done);
    };
    let now = attempt.fetch(table, &seen)?;
    if now.is_none() && is_there(attempt, table, position, row)? {
        attempt.echo_shared(table, position, row);
        return Ok(RowOutcome::Done);
    }
    if let Some(outcome) = meant_for_another(attempt, table, position, row, now.as_deref())? {
        return Ok(outcome);
    }
    let spot = Spot::of(attempt, table, row)?;
    if spot.is_taken() {
        return Ok(RowOutcome::InTheWay("another row has the new key".into()));
    }
    let run_sql = |attempt: &Attempt<'_>, sql: &str| {
        attempt.connection.execute_batch(sql).map_err(failed("set a savepoint"))
    };
    run_sql(attempt, "SAVEPOINT conflict")?;
    let reaching = attempt.reaching(table, row)?;
    let mut fault = None;
    if spot.own.is_some() && table.script(Event::ResolveConflict).is_some() {
        fault = key_change::rename(attempt, table, row)?;
    }
    let done = match fault {
        None => run(attempt, table, position, Event::ResolveConflict, row)?,
        Some(_) => fault,
    };
    let after = if done.is_none() { attempt.fetch(table, row)? } else { None };
    // The rule has left the row as it was: then its key stays too.
    let lost = !attempt.resolved || after.is_none();
    if lost {
        run_sql(attempt, "ROLLBACK TO conflict")?;
    }
    run_sql(attempt, "RELEASE conflict")?;
    match done {
        Some((RowFault::NotUnique, message)) => return Ok(RowOutcome::InTheWay(message)),
        Some((RowFault::KeyExists, message)) => {
            attempt.reject(table, position, row, (Code::RowKeyTaken, message))?;
            return Ok(RowOutcome::Done);
        }
        Some((RowFault::Refused(code), message)) => {
            attempt.reject(table, position, row, (code, message))?;
            return Ok(RowOutcome::Done);
        }
        None => {}
    }
    if lost {
        key_change::failed(attempt, table, position, row);
    } else {
        attempt.has_reached(reaching);
        fence::check_written(attempt, table, position, row, before)?;
    }
    attempt.applied.conflicts += 1;
    let result = if lost { &now } else { &after };
    note(attempt, table, row, now.as_deref(), result.as_deref())?;
    match after.filter(|_| !lost) {
        Some(after) if agrees(row, Some(&after)) => attempt.echo_shared(table, position, row),
        _ => attempt.owe(table, position, row)?,
    }
    Ok(RowOutcome::Done)
}

/// The row has its new key already. What is under a key that the remote has given up is another
/// row, however much alike.
fn is_there(
    attempt: &Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
) -> Result<bool, Failure> {
    let others = key_change::is_given_up(attempt, table, position, row);
    Ok(!others && agrees(row, attempt.fetch(table, row)?.as_deref()))
}

/// A change of a row that is gone while its key may be another row's, or of one that refers to such
/// a row: there is nothing that it could be applied to.
pub(super) fn lost(
    attempt: &mut Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
) -> Result<(), Failure> {
    if row.change == Change::Delete {
        attempt.echo_shared(table, position, row);
        return Ok(());
    }
    let message = "the row or its parent was deleted, or another row has its key".to_owned();
    attempt.reject(table, position, row, (Code::RowTakenAlong, message))
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
    attempt.resolved = false;
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
    let reaching = match event {
        Event::ResolveDeleteConflict => attempt.reaching(table, row)?,
        _ => None,
    };
    match attempt.execute(&mut statement, &script.sql, (table, row, event))? {
        Ok(changes) => {
            attempt.changed(position, changes);
            attempt.has_reached(reaching.filter(|_| changes > 0));
            attempt.resolved = changes > 0;
            Ok(None)
        }
        Err(fault) => Ok(Some(fault)),
    }
}

/// Stores the rows of a conflict and the resulting row, so that people can look at them later.
fn note(
    attempt: &Attempt<'_>,
    table: &CatalogTable,
    row: &UploadedRow<'_>,
    now: Option<&[u8]>,
    result: Option<&[u8]>,
) -> Result<(), Failure> {
    let mut old = Vec::new();
    row.old.iter().for_each(|value| write_value(&mut old, *value));
    let told = |image: &[u8]| readable::row(&table.published, image);
    let old = (row.change != Change::Insert).then(|| told(&old));
    let new = (row.change != Change::Delete).then(|| told(row.new_image()));
    let consolidated = now.map(told);
    let result = match result == now {
        true => consolidated.clone(),
        false => result.map(told),
    };
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
                readable::operation(row.change),
                table.conflict_rule,
                old,
                new,
                consolidated,
                result,
            ])
        })
        .map_err(failed("note a conflict"))?;
    Ok(())
}
