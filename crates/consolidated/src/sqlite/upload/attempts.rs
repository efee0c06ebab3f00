//! Applies the rows of an upload, if necessary again without the rows that made it fail.

use super::super::errors::failed;
use super::attempt::{Around, Attempt, Stop};
use super::refused::{LeftOut, Unanswered};
use crate::sqlite::details::CatalogTable;
use crate::sqlite::upload::constraint::{self, OrphanCounts};
use crate::sqlite::upload::fence;
use crate::sqlite::upload::taken_along;
use crate::synchronization::{Applied, UploadRequest};
use crate::upload::owed_rows::OwedRows;
use model::{Code, Counter, Failure};
use rusqlite::Connection;
use std::sync::Arc;

/// The most times that an upload is applied again without the rows that stand in its way.
const ATTEMPTS_MAX: usize = 100;

/// The result of one attempt.
enum Verdict {
    /// All rows are applied, or reported.
    Done,
    /// A foreign key is broken, and no row can be blamed for it: each is watched.
    Watched,
    /// What met a fence because its parent had left is tried once more before it is refused.
    Last(OwedRows),
    Without(OwedRows),
}

/// Applies the rows; where foreign keys or unique values make some of them impossible, everything
/// is undone and applied again without these.
pub(super) fn apply(
    connection: &Connection,
    tables: &[Arc<CatalogTable>],
    request: &UploadRequest<'_>,
    counter: Counter,
    around: Around<'_>,
) -> Result<Applied, Failure> {
    let mut refused = OwedRows::within(around.spills);
    for (row, reason) in around.ended.borrow().iter() {
        refused.reject(row, reason.clone())?;
    }
    let mut postponed = OwedRows::within(around.spills);
    let (mut apart, mut watched) = (false, false);
    let none = || OwedRows::within(around.spills);
    let (unanswered, mut searching) = (Unanswered::new(none()), false);
    for _ in 0..ATTEMPTS_MAX {
        connection.execute_batch("SAVEPOINT rows").map_err(failed("set a savepoint"))?;
        let (postponed_rows, found) = (&postponed, &unanswered);
        let left_out =
            LeftOut { refused: &refused, postponed: postponed_rows, unanswered: found, searching };
        let mut attempt = Attempt::new(connection, tables, request, counter, left_out, around);
        attempt.apart = apart || watched;
        if watched {
            attempt.watch = Some(OrphanCounts::begin(connection)?);
        }
        let verdict = match judge(&mut attempt) {
            Ok(verdict) => Ok(verdict),
            Err(Stop::Failed(failure)) => Err(failure),
            Err(Stop::LeftTraces) => {
                apart = true;
                drop(attempt);
                undo(connection)?;
                continue;
            }
        };
        let finished = match &verdict {
            Ok(Verdict::Done) => attempt.finish().map(Some),
            Ok(_) | Err(_) => {
                drop(attempt);
                Ok(None)
            }
        };
        if let Ok(Some(applied)) = finished {
            connection.execute_batch("RELEASE rows").map_err(failed("release a savepoint"))?;
            return Ok(applied);
        }
        if leave_out(&unanswered.replace(none()), &mut refused)? {
            undo(connection)?;
            searching = true;
            continue;
        }
        finished?;
        let verdict = verdict?;
        undo(connection)?;
        match verdict {
            Verdict::Done => {}
            Verdict::Watched => watched = true,
            Verdict::Last(leaving) => postponed.extend(&leaving)?,
            Verdict::Without(impossible) => refused.extend(&impossible)?,
        }
    }
    Err(Failure::new(Code::ConstraintViolated, "too many rows stand in each other's way"))
}

/// Leaves out rows for which a script has failed; false where none is new.
fn leave_out(rows: &OwedRows, refused: &mut OwedRows) -> Result<bool, Failure> {
    let before = refused.added();
    rows.visit(|table, key, reason| {
        let row = (table, key.to_vec());
        match reason {
            Some(reason) if !refused.contains(&row)? => refused.reject(&row, reason),
            _ => Ok(()),
        }
    })?;
    Ok(refused.added() > before)
}

/// Applies the rows once, and says what is to be done about those that could not be.
fn judge(attempt: &mut Attempt<'_>) -> Result<Verdict, Stop> {
    attempt.rows()?;
    attempt.end_search()?;
    let mut impossible = constraint::settle_waiting(attempt)?;
    fence::written_outside(attempt, &mut impossible)?;
    attempt.end_search()?;
    attempt.fence_was_met |= !impossible.is_empty();
    if attempt.fence_was_met && attempt.leaves_anew {
        let none = OwedRows::within(attempt.spills);
        return Ok(Verdict::Last(std::mem::replace(&mut attempt.leaving, none)));
    }
    if impossible.is_empty() && constraint::violated(attempt)? {
        impossible.extend(&constraint::violators(attempt)?)?;
        if impossible.is_empty() && attempt.watch.is_none() {
            return Ok(Verdict::Watched);
        }
        if impossible.is_empty() {
            let message = "a foreign key is violated and no uploaded row can be blamed";
            return Err(Failure::new(Code::ConstraintViolated, message).into());
        }
    }
    if !impossible.is_empty() {
        return Ok(Verdict::Without(impossible));
    }
    if taken_along::may_be(attempt)? {
        taken_along::reject(attempt)?;
    }
    Ok(Verdict::Done)
}

fn undo(connection: &Connection) -> Result<(), Failure> {
    connection.execute_batch("ROLLBACK TO rows; RELEASE rows").map_err(failed("undo the attempt"))
}
