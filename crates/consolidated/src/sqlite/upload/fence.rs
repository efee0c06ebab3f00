//! The fence around the rows of a partition (S7).
//!
//! The scripts themselves check the row before the change: they change only covered rows. The row
//! after the change is checked when it was written, because only then its types, its defaults and
//! the effects of triggers are known. A row that is outside then is left out, and the upload is
//! applied again without it. Rows that block each other are left out in the same way.

use super::attempt::{Attempt, Stop};
use super::input::{Input, Turn};
use crate::script::Event;
use crate::sqlite::values::bind;
use crate::synchronization::change::Change;
use crate::upload::owed_rows::OwedRows;
use crate::upload::verdict::{is_outside, leads_outside};
use crate::upload::waiting::WaitingRow;
use model::{Failure, RowReader, ValueRef, write_value};

/// Where a row at the center is, seen from a remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Absent,
    Inside,
    Outside,
}

/// Where the row with the key of an uploaded one is now. Without a fence every row is inside.
pub(super) fn standing(input: &Input<'_>, turn: Turn<'_>) -> Result<Standing, Stop> {
    let fenced = turn.table.details.is_fenced();
    let event = if fenced { Event::UploadFence } else { Event::UploadLook };
    let (script, failing) = (turn.table.required(event)?, turn.failing(event));
    let unread = |error| Stop::at_reading(input, error, &script.sql, turn, event);
    let mut statement = input.connection.prepare_cached(&script.sql).map_err(unread)?;
    bind(&mut statement, script, input.request.session, turn.row).map_err(&failing)?;
    let mut rows = statement.raw_query();
    match rows.next() {
        Ok(Some(_)) if !fenced => Ok(Standing::Inside),
        Ok(Some(found)) => Ok(match found.get(0).map_err(&failing)? {
            true => Standing::Inside,
            false => Standing::Outside,
        }),
        Ok(None) => Ok(Standing::Absent),
        Err(error) => Err(unread(error)),
    }
}

/// Looks at a row that was written over one that stood there as `before`.
pub(super) fn check_written(
    attempt: &mut Attempt<'_>,
    turn: Turn<'_>,
    before: Standing,
) -> Result<(), Stop> {
    let Turn { table, position, row } = turn;
    if !table.details.is_fenced() || row.change == Change::Delete {
        return Ok(());
    }
    // Of rows with the same value in the column that decides, all are inside or none is.
    let decider = table.details.decider.map(|at| row.new[usize::from(at)]);
    let is_inside = |value: ValueRef<'_>| {
        let known = attempt.progress.inside.as_ref().filter(|(of, _)| *of == position);
        known.is_some_and(|(_, known)| RowReader::new(known).value().is_ok_and(|it| it == value))
    };
    if decider.is_some_and(is_inside) {
        return Ok(());
    }
    match standing(attempt.input, turn)? {
        Standing::Outside => {}
        Standing::Absent => return Ok(()),
        Standing::Inside => {
            return decider.map_or(Ok(()), |value| note_inside(attempt, turn, value));
        }
    }
    let (id, waits) = (turn.id(), &mut attempt.waits);
    if before == Standing::Inside && table.details.may_leave {
        if table.is_own(row.change) {
            return Ok(());
        }
        attempt.progress.leaves_anew |= !attempt.known.postponed.contains(&id)?;
        attempt.progress.leaving.owe(&id)?;
    } else {
        // Its parent may be waiting for another row to move out of its way.
        let row = WaitingRow { reason: leads_outside(row.change), ..WaitingRow::of(position, row) };
        waits.outside.push(row).or_else(|why| waits.no_room.reject(&id, why))?;
    }
    Ok(())
}

/// Rows with this value are inside, if the row that is has it: where a rule has decided, or a
/// trigger, another one may be stored than was sent.
fn note_inside(attempt: &mut Attempt<'_>, turn: Turn<'_>, value: ValueRef<'_>) -> Result<(), Stop> {
    let (Some(at), Some(stored)) = (turn.table.details.decider, attempt.fetch(turn)?) else {
        return Ok(());
    };
    let mut reader = RowReader::new(&stored);
    for _ in 0..at {
        reader.value()?;
    }
    if reader.value()?.identical(value) {
        let mut known = Vec::new();
        write_value(&mut known, value);
        attempt.progress.inside = Some((turn.position, known));
    }
    Ok(())
}

/// A row outside the partition, which must not be changed.
pub(super) fn reject_touching(attempt: &mut Attempt<'_>, turn: Turn<'_>) -> Result<(), Failure> {
    attempt.progress.fence_was_met = true;
    attempt.record.reject(turn, is_outside())
}

/// The rows that are still outside now that all others are written.
pub(super) fn written_outside(
    attempt: &mut Attempt<'_>,
    refused: &mut OwedRows,
) -> Result<(), Stop> {
    let input = attempt.input;
    for written in attempt.waits.outside.take().into_rows() {
        // One that is gone went with its parent in the same upload: the remote has it still.
        let stands =
            attempt.read_alone(|_| input.waiting(&written, |turn| standing(input, turn)))?;
        if stands.is_some_and(|stands| stands != Standing::Inside) {
            refused.reject(&input.id_of(&written)?, written.reason)?;
        }
    }
    Ok(())
}
