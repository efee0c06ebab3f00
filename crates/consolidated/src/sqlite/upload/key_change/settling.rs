//! Gives the rows of one table the keys for which they wait.
//!
//! A row that gets another key frees the one that it had, so the row that waits for this one is
//! tried next. Then a chain of any length takes each of its rows twice, in whatever order they were
//! sent. What one row alone allows, a delete that goes first or a temporary key in a ring, is done
//! for all rows of a round.

mod line;
mod round;

use crate::sqlite::upload::attempt::{Attempt, Stop};
use crate::sqlite::upload::waiting::WaitingRows;
use line::Line;
use round::Round;

/// Gives rows the keys for which they wait, as far as possible. Returns those that wait for
/// another unique value.
pub(super) fn settle(
    attempt: &mut Attempt<'_>,
    waiting: &WaitingRows,
) -> Result<WaitingRows, Stop> {
    let mut line = Line::of(attempt.spills, waiting)?;
    while !line.is_empty() {
        let mut round = Round::of(attempt, &mut line)?;
        let on =
            round.move_on_all(attempt)? || round.free(attempt)? || round.open_rings(attempt)?;
        if !on {
            break;
        }
    }
    Ok(line.still_waiting(attempt.spills)?)
}
