//! Resolves a row that did not find what it expected by the rule of the table (S5).
//!
//! A script implements the rule. This file decides when it runs, what is counted, and what the
//! remote is owed afterwards.

use super::attempt::{Attempt, RowOutcome, Stop};
use crate::script::Event;
use crate::sqlite::binding::bind;
use crate::sqlite::deploy::tables::has_user_triggers;
use crate::sqlite::details::CatalogTable;
use crate::sqlite::errors::{RowFault, script_failed};
use crate::sqlite::upload::fence::{self, Standing};
use crate::sqlite::upload::made;
use crate::sqlite::upload::records::Images;
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::{UploadedRow, event_of};
use crate::upload::verdict::{Found, Verdict, agrees};
use model::{Code, Failure};

/// Resolves one row. Two sides that did the same are no conflict. `fault` is what the database said
/// of it, empty if its statement only changed nothing.
pub(in crate::sqlite) fn resolve(
    attempt: &mut Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
    fault: String,
) -> Result<RowOutcome, Stop> {
    let now = attempt.fetch(table, row)?;
    resolve_found(attempt, table, position, row, now, fault)
}

/// The same of a row that is so at the center `now`, whose new key, if it has one, is the old one.
pub(in crate::sqlite) fn resolve_found(
    attempt: &mut Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
    now: Option<Vec<u8>>,
    fault: String,
) -> Result<RowOutcome, Stop> {
    let met = Met::of(attempt, table, row, now.as_deref())?;
    match undisputed(attempt, table, position, row, met, fault)? {
        Some(outcome) => Ok(outcome),
        None => dispute(attempt, table, position, row, met),
    }
}

/// What a row met: the row that is there, if the partition covers it.
#[derive(Clone, Copy)]
struct Met<'n> {
    now: Option<&'n [u8]>,
    before: Standing,
}

impl<'n> Met<'n> {
    fn of(
        attempt: &Attempt<'_>,
        table: &CatalogTable,
        row: &UploadedRow<'_>,
        now: Option<&'n [u8]>,
    ) -> Result<Met<'n>, Failure> {
        let before = match now {
            // Only a row that is covered is found.
            Some(_) => Standing::Inside,
            None if table.details.is_fenced() => fence::standing(attempt, table, row)?,
            None => Standing::Absent,
        };
        Ok(Met { now, before })
    }
}

/// The outcome of a row that the rule of the table need not decide; none if it must.
fn undisputed(
    attempt: &mut Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
    met: Met<'_>,
    fault: String,
) -> Result<Option<RowOutcome>, Stop> {
    let done = Ok(Some(RowOutcome::Done));
    let found = Found {
        now: met.now,
        is_outside: met.before == Standing::Outside,
        // Seen after the write.
        leads: false,
        may_leave: table.details.may_leave,
        writes: true,
    };
    let verdict = found.verdict(row)?;
    match verdict {
        Verdict::Touches => {
            fence::reject_touching(attempt, table, position, row)?;
            return done;
        }
        Verdict::Same => {
            attempt.echo_shared(table, position, row);
            return done;
        }
        Verdict::Vetoed if row.change == Change::Insert => {
            return Ok(Some(RowOutcome::InTheWay(fault)));
        }
        Verdict::Conflict | Verdict::Leads | Verdict::Vetoed => {}
    }
    if verdict == Verdict::Vetoed {
        veto(attempt, table, position, row)?;
        return done;
    }
    meant_for_another(attempt, table, position, row, met.now)
}

/// Lets the rule decide, then counts, notes and owes.
fn dispute(
    attempt: &mut Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
    met: Met<'_>,
) -> Result<RowOutcome, Stop> {
    let event = match row.change {
        Change::Delete => Event::ResolveDeleteConflict,
        Change::Insert | Change::Update => Event::ResolveConflict,
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
            fence::check_written(attempt, table, position, row, met.before)?;
            Some(attempt.fetch(table, row)?)
        }
        // All stays as it is.
        None => None,
    };
    let result = after.as_ref().map_or(met.now, |after| after.as_deref());
    attempt.record_conflict(table, row, Images { now: met.now, result })?;
    if agrees(row, result) {
        attempt.echo_shared(table, position, row);
    } else {
        attempt.owe(table, position, row)?;
    }
    Ok(RowOutcome::Done)
}

/// The outcome of a change that is meant for another state of the row: it is applied to what the
/// center itself has made of the row. None if the rule decides.
fn meant_for_another(
    attempt: &mut Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
    now: Option<&[u8]>,
) -> Result<Option<RowOutcome>, Stop> {
    if let Some(anew) = made::over(attempt, table, position, row, now)? {
        return attempt.apply_rebased(table, position, row, &anew).map(Some);
    }
    Ok(None)
}

/// Rejects a row that is as it was although no statement failed: because of a trigger's
/// `RAISE(IGNORE)`, or a script that a user wrote.
pub(in crate::sqlite) fn veto(
    attempt: &mut Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
) -> Result<(), Failure> {
    let (name, event) = (&table.published.name, event_of(row.change).name());
    let triggers = has_user_triggers(attempt.connection, name)
        .map_err(|error| script_failed(error, name, event))?;
    let why = match triggers {
        true => "a trigger ignored the row".to_owned(),
        false => format!("the script {event} did not change the row"),
    };
    attempt.reject(table, position, row, (Code::RowVetoed, why))
}

/// Runs the script of `event`, if the rule has one.
fn run(
    attempt: &mut Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    event: Event,
    row: &UploadedRow<'_>,
) -> Result<Option<(RowFault, String)>, Stop> {
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
    match attempt.execute(&mut statement, &script.sql, (table, row, event))? {
        Ok(changes) => {
            attempt.changed(position, changes);
            attempt.resolved = changes > 0;
            Ok(None)
        }
        Err(fault) => Ok(Some(fault)),
    }
}
