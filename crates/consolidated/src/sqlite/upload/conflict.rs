//! Resolves a row that did not find what it expected by the rule of the table (S5).
//!
//! A script implements the rule. This file decides when it runs, what is counted, and what the
//! remote is owed afterwards.

use super::attempt::{Attempt, RowOutcome, Stop};
use super::conflicts::Images;
use super::constraint::foreign_keys_violated;
use super::fence::{self, Standing};
use super::input::Turn;
use super::made;
use crate::script::{Detection, Event};
use crate::sqlite::deploy::tables::has_user_triggers;
use crate::sqlite::errors::{RowFault, row_fault};
use crate::sqlite::values::{Bind, bind, bind_sessions};
use crate::synchronization::change::Change;
use crate::upload::loser::{has_lost, loser, not_kept};
use crate::upload::reason::Reason;
use crate::upload::rebase::{Rebased, values};
use crate::upload::uploaded_row::resolution_of;
use crate::upload::verdict::{Found, Instead, Verdict, agrees, loses};
use model::{Code, Failure};

/// Resolves one row. Two sides that did the same are no conflict. `fault` is what the database said
/// of it, empty if its statement only changed nothing.
pub(super) fn resolve(
    attempt: &mut Attempt<'_>,
    turn: Turn<'_>,
    fault: String,
) -> Result<RowOutcome, Stop> {
    let now = attempt.fetch(turn)?;
    resolve_found(attempt, turn, now, fault)
}

/// The same of a row that is so at the center `now`.
pub(super) fn resolve_found(
    attempt: &mut Attempt<'_>,
    turn: Turn<'_>,
    now: Option<Vec<u8>>,
    fault: String,
) -> Result<RowOutcome, Stop> {
    let now = now.as_deref();
    let before = match now {
        // Only a row that is covered is found.
        Some(_) => Standing::Inside,
        None if turn.table.details.is_fenced() => fence::standing(attempt.input, turn)?,
        None => Standing::Absent,
    };
    let found = Found {
        now,
        is_outside: before == Standing::Outside,
        // Seen after the write.
        leads: false,
        may_leave: turn.table.details.may_leave,
        writes: true,
        is_counted: turn.table.detection(turn.row.change) == Some(Detection::Count),
        added: turn.added(),
    };
    match found.verdict(turn.row)? {
        Verdict::Touches => fence::reject_touching(attempt, turn)?,
        Verdict::Same => attempt.record.echo_shared(turn),
        Verdict::Vetoed if turn.row.change == Change::Insert => {
            return Ok(RowOutcome::InTheWay(fault));
        }
        Verdict::Vetoed => veto(attempt, turn)?,
        // A change that is meant for another state of the row is applied to what the center itself
        // has made of the row.
        Verdict::Conflict | Verdict::Leads => {
            if turn.table.detection(turn.row.change).is_some() {
                return by_scripts(attempt, turn, now, before);
            }
            return match made::over(attempt, turn, now)? {
                Some(anew) => apply_rebased(attempt, turn, &anew),
                None => dispute(attempt, turn, now, before),
            };
        }
    }
    Ok(RowOutcome::Done)
}

/// Lets the scripts of the user decide, then counts, notes and owes.
pub(super) fn by_scripts(
    attempt: &mut Attempt<'_>,
    turn: Turn<'_>,
    now: Option<&[u8]>,
    before: Standing,
) -> Result<RowOutcome, Stop> {
    let event = turn.table.settling(turn.row.change);
    turn.table.resolving().for_each(|event| attempt.cues.ran(event, 1));
    if let Some(script) = turn.table.own(event).filter(|script| !script.is_ignored()) {
        let (connection, session) = (attempt.input.connection, attempt.input.request.session);
        let ran = match connection.prepare_cached(&script.sql) {
            Ok(mut statement) => {
                bind_sessions(&mut statement, script, session).map_err(turn.failing(event))?;
                attempt.run_own(&mut statement, script, (turn, event))?
            }
            Err(error) => {
                let name = &turn.table.published.name;
                Err(row_fault(connection, error, &script.sql, name, event.name())?.1)
            }
        };
        match ran {
            Ok(changes) => attempt.record.changed(turn.position, changes),
            Err(fault) => {
                attempt.record.reject(turn, fault)?;
                return Ok(RowOutcome::Done);
            }
        }
        attempt.progress.was_violated |= foreign_keys_violated(connection)?;
        fence::check_written(attempt, turn, before)?;
    }
    let result = attempt.fetch(turn)?;
    let result = result.as_deref();
    attempt.record.conflict(attempt.input, turn, Images { now, result })?;
    let rule = turn.table.decides(turn.row.change);
    attempt.record.settle(turn, has_lost(turn.row, (now, result), rule, true)?, rule)?;
    Ok(RowOutcome::Done)
}

/// Lets the rule decide, then counts, notes and owes.
fn dispute(
    attempt: &mut Attempt<'_>,
    turn: Turn<'_>,
    now: Option<&[u8]>,
    before: Standing,
) -> Result<RowOutcome, Stop> {
    let event = resolution_of(turn.row.change);
    let has_script = turn.table.script(event).is_some();
    match run(attempt, turn, event)? {
        Ok(()) => {}
        Err((RowFault::NotUnique, reason)) => return Ok(RowOutcome::InTheWay(reason.message)),
        Err((fault, reason)) => {
            // A key that exists is no value that another row gives up.
            let code = if let RowFault::Refused(code) = fault { code } else { Code::RowRefused };
            attempt.record.reject(turn, Reason { code, ..reason })?;
            return Ok(RowOutcome::Done);
        }
    }
    // Without a script all stays as it is.
    let after = if has_script {
        fence::check_written(attempt, turn, before)?;
        attempt.fetch(turn)?
    } else {
        None
    };
    let result = if has_script { after.as_deref() } else { now };
    let rule = &turn.table.conflict_rule;
    if let Some(keeping) = &turn.table.details.losers
        && let Some(lost) = loser(turn.row, (now, result), rule)?
    {
        keep(attempt, turn, keeping, lost)?;
    }
    let record = &mut attempt.record;
    record.conflict(attempt.input, turn, Images { now, result })?;
    let (again, id) = (attempt.input.request.entered_again, turn.id());
    let lost = loses(turn.row, (again, &id), (now, result), rule)?;
    match (agrees(turn.row, result), lost) {
        (true, _) => record.echo_shared(turn),
        (false, Some(reason)) => record.reject_loser(turn, reason)?,
        (false, None) => {
            record.settle(turn, has_lost(turn.row, (now, result), rule, false)?, rule)?;
        }
    }
    Ok(RowOutcome::Done)
}

/// Keeps a row that lost by the statement `keeping`. A table that does not take it is a mistake of
/// its owner, so the whole upload fails rather than that a row is lost.
fn keep(attempt: &Attempt<'_>, turn: Turn<'_>, keeping: &str, lost: &[u8]) -> Result<(), Stop> {
    let (table, event) = (&turn.table.published.name, Event::ConflictRule);
    let failed = |error: rusqlite::Error| not_kept(table, &error.to_string());
    let mut statement = attempt.input.connection.prepare_cached(keeping).map_err(failed)?;
    for (at, value) in values(lost)?.into_iter().enumerate() {
        statement.raw_bind_parameter(at + 1, Bind(value)).map_err(failed)?;
    }
    match attempt.execute(&mut statement, keeping, turn, event)? {
        Ok(_) => Ok(()),
        Err((_, reason)) => Err(not_kept(table, &reason.message).into()),
    }
}

/// Applies `rebased` instead of the row, which is what the remote has.
pub(super) fn apply_rebased(
    attempt: &mut Attempt<'_>,
    turn: Turn<'_>,
    rebased: &Rebased,
) -> Result<RowOutcome, Stop> {
    let row = &rebased.row(turn.table.published.width())?;
    let (anew, deletes) = (Turn { row, ..turn }, row.change == Change::Delete);
    let same = !deletes && row.new == turn.row.new;
    // One that was rebased before differs from what it was at first.
    let before = attempt.record.differs;
    attempt.record.differs |= !same;
    let owed = attempt.record.owed.added();
    let outcome = match !deletes && row.old == row.new {
        true => {
            attempt.record.echo(anew);
            Ok(RowOutcome::Done)
        }
        false => attempt.apply_one(anew),
    };
    let record = &mut attempt.record;
    if !same && outcome.as_ref().is_ok_and(|outcome| *outcome == RowOutcome::Done) {
        if record.owed.added() == owed {
            record.stored_rebased.owe(&turn.id())?;
        }
        record.owed.owe(&anew.id())?;
    }
    record.differs = before;
    outcome
}

/// Tells the remote what became of a row for which the statement changed nothing, while triggers of
/// the owner did something else.
pub(super) fn instead(attempt: &mut Attempt<'_>, turn: Turn<'_>) -> Result<(), Stop> {
    let now = attempt.fetch(turn)?;
    match Instead::of(turn.row, now.as_deref())? {
        Instead::Same => attempt.record.echo_shared(turn),
        Instead::Kept => attempt.record.owed.owe(&turn.id())?,
        Instead::Ignored => veto(attempt, turn)?,
    }
    Ok(())
}

/// Rejects a row that is as it was although no statement failed: because of a trigger's
/// `RAISE(IGNORE)`, or a script that a user wrote.
pub(super) fn veto(attempt: &mut Attempt<'_>, turn: Turn<'_>) -> Result<(), Failure> {
    let (name, event) = (&turn.table.published.name, turn.event());
    let triggers =
        has_user_triggers(attempt.input.connection, name).map_err(turn.failing(event))?;
    let why = match triggers {
        true => "a trigger ignored the row".to_owned(),
        false => format!("the script {event} did not change the row"),
    };
    attempt.record.reject(turn, (Code::RowVetoed, why).into())
}

/// Runs the script of `event`, if the rule has one.
fn run(
    attempt: &mut Attempt<'_>,
    turn: Turn<'_>,
    event: Event,
) -> Result<Result<(), (RowFault, Reason)>, Stop> {
    let Some(script) = turn.table.script(event) else { return Ok(Ok(())) };
    let (input, failing) = (attempt.input, turn.failing(event));
    let mut statement = match input.connection.prepare_cached(&script.sql) {
        Ok(statement) => statement,
        Err(error) => {
            let name = &turn.table.published.name;
            return Ok(Err(row_fault(input.connection, error, &script.sql, name, event.name())?));
        }
    };
    bind(&mut statement, script, input.request.session, turn.row).map_err(&failing)?;
    let ran = attempt.execute(&mut statement, &script.sql, turn, event)?;
    Ok(ran.map(|changes| attempt.record.changed(turn.position, changes)))
}
