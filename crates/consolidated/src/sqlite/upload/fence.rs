//! The fence around the rows of a partition (S7).
//!
//! The scripts themselves check the row before the change: they change only covered rows. The row
//! after the change is checked when it was written, because only then its types, its defaults and
//! the effects of triggers are known. A row that is outside then is left out, and the upload is
//! applied again without it. Rows that block each other are left out in the same way.

use super::attempt::Attempt;
use crate::script::Event;
use crate::sqlite::binding::bind;
use crate::sqlite::details::CatalogTable;
use crate::sqlite::errors::script_failed;
use crate::synchronization::change::Change;
use crate::upload::owed_rows::OwedRows;
use crate::upload::uploaded_row::UploadedRow;
use crate::upload::verdict::{is_outside, leads_outside};
use crate::upload::waiting::WaitingRow;
use model::{Failure, RowReader, ValueRef};

/// Where a row at the center is, seen from a remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sqlite) enum Standing {
    Absent,
    Inside,
    Outside,
}

/// Where the row with the key of `row` is now. Without a fence every row is inside.
pub(in crate::sqlite) fn standing(
    attempt: &Attempt<'_>,
    table: &CatalogTable,
    row: &UploadedRow<'_>,
) -> Result<Standing, Failure> {
    let event = if table.details.is_fenced() { Event::UploadFence } else { Event::UploadFetch };
    let script = table.required(event)?;
    let asking = |error| script_failed(error, &table.published.name, event.name());
    let mut statement = attempt.connection.prepare_cached(&script.sql).map_err(asking)?;
    bind(&mut statement, script, attempt.request.session, row).map_err(asking)?;
    let mut rows = statement.raw_query();
    let of = (table, row, event);
    let found = rows.next().map_err(|error| attempt.unanswered(error, &script.sql, of))?;
    let Some(found) = found else { return Ok(Standing::Absent) };
    if event == Event::UploadFetch || found.get(0).map_err(asking)? {
        return Ok(Standing::Inside);
    }
    Ok(Standing::Outside)
}

/// Looks at a row that was written over one that stood there as `before`.
pub(in crate::sqlite) fn check_written(
    attempt: &mut Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
    before: Standing,
) -> Result<(), Failure> {
    if !table.details.is_fenced() || row.change == Change::Delete {
        return Ok(());
    }
    // Of rows with the same value in the column that decides, all are inside or none is.
    let decider = table.details.decider.map(|at| row.new[usize::from(at)]);
    if decider.is_some_and(|value| attempt.is_inside(position, value)) {
        return Ok(());
    }
    match standing(attempt, table, row)? {
        Standing::Outside => {}
        Standing::Absent => return Ok(()),
        Standing::Inside => {
            if let Some(value) = decider {
                note_inside(attempt, table, position, (row, value))?;
            }
            return Ok(());
        }
    }
    if before == Standing::Inside && table.details.may_leave {
        let id = row.key(&table.published, position);
        attempt.leaves_anew |= !attempt.known.postponed.contains(&id)?;
        attempt.leaving.owe(&id)?;
    } else {
        // Its parent may be waiting for another row to move out of its way.
        let mut waits = WaitingRow::of(position, row);
        waits.reason = leads_outside(row.change);
        let id = row.key(&table.published, position);
        attempt.waits.outside.push(waits).or_else(|why| attempt.waits.no_room.reject(&id, why))?;
    }
    Ok(())
}

/// Rows with this value are inside, if the row that is has it: where a rule has decided, or a
/// trigger, another one may be stored than was sent.
fn note_inside(
    attempt: &mut Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    (row, value): (&UploadedRow<'_>, ValueRef<'_>),
) -> Result<(), Failure> {
    let (Some(at), Some(stored)) = (table.details.decider, attempt.fetch(table, row)?) else {
        return Ok(());
    };
    let mut reader = RowReader::new(&stored);
    for _ in 0..at {
        reader.value()?;
    }
    if reader.value()?.identical(value) {
        attempt.note_inside(position, value);
    }
    Ok(())
}

/// A row outside the partition, which must not be changed.
pub(in crate::sqlite) fn reject_touching(
    attempt: &mut Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
) -> Result<(), Failure> {
    attempt.fence_was_met = true;
    attempt.reject(table, position, row, is_outside())
}

/// The rows that are still outside now that all others are written.
pub(in crate::sqlite) fn written_outside(
    attempt: &mut Attempt<'_>,
    refused: &mut OwedRows,
) -> Result<(), Failure> {
    for written in attempt.waits.outside.take().into_rows() {
        let table = attempt.tables[written.table].clone();
        let row = written.read(&table.published)?;
        // One that is gone went with its parent in the same upload: the remote has it still.
        let stands = |attempt: &Attempt<'_>| standing(attempt, &table, &row);
        if attempt.read_alone(Standing::Inside, stands)? == Standing::Inside {
            continue;
        }
        refused.reject(&row.key(&table.published, written.table), written.reason)?;
    }
    Ok(())
}
