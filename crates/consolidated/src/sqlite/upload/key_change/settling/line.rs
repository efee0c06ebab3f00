//! The rows of one table that wait for keys, each with its number.

use crate::sqlite::upload::waiting::{self, WaitingRow, WaitingRows};
use model::{Failure, Hold, SpillList, Spills};
use std::sync::Arc;

/// Rows that wait. Rows lie on disk where memory is short; a byte of each is in memory, and counts.
pub(super) struct Line {
    rows: SpillList,
    states: Vec<State>,
    waiting: usize,
    _held: Hold,
}

/// What is known of a row.
#[derive(Clone, Copy, PartialEq)]
struct State {
    waits: bool,
    /// It was given a temporary key.
    is_placed: bool,
}

impl Line {
    pub(super) fn of(spills: &Arc<Spills>, waiting: &WaitingRows) -> Result<Line, Failure> {
        let (mut rows, mut reader) = (SpillList::new(spills), waiting.reader());
        while let Some((row, _)) = reader.next_row()? {
            rows.append(waiting::write(&row, ""))?;
        }
        let states = vec![State { waits: true, is_placed: false }; rows.len()];
        let mut held = spills.memory().hold();
        held.grow(size_of_val(states.as_slice()) as u64);
        Ok(Line { waiting: rows.len(), rows, states, _held: held })
    }

    /// No row waits any more.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// How many rows there were at first.
    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    pub(super) fn waits(&self, number: usize) -> bool {
        self.states[number].waits
    }

    /// The row with a number, if it still waits.
    pub(super) fn row(&self, number: usize) -> Result<Option<WaitingRow>, Failure> {
        if !self.waits(number) {
            return Ok(None);
        }
        let chunk = self.rows.get(number)?;
        chunk.map(|chunk| waiting::read(&chunk).map(|(row, _)| row)).transpose()
    }

    /// The row waits no longer.
    pub(super) fn leave(&mut self, number: usize) {
        let state = &mut self.states[number];
        self.waiting -= usize::from(state.waits);
        state.waits = false;
    }

    /// Whether the row was given a temporary key.
    pub(super) fn is_placed(&self, number: usize) -> bool {
        self.states[number].is_placed
    }

    /// Takes note that it was, or that this was tried.
    pub(super) fn place(&mut self, number: usize) {
        self.states[number].is_placed = true;
    }

    /// The rows that still wait, in their order.
    pub(super) fn still_waiting(&self, spills: &Arc<Spills>) -> Result<WaitingRows, Failure> {
        let mut still = WaitingRows::within(spills);
        for number in 0..self.len() {
            if let Some(row) = self.row(number)? {
                still.push(&row)?;
            }
        }
        Ok(still)
    }
}
