//! The rows of a constraint cycle on their way to statements, on disk where memory is short.

use crate::postgres::upload::batch::are_enough;
use crate::postgres::upload::isolation::constraint_cycle::room::{Known, make_room};
use crate::postgres::upload::isolation::state::{Isolation, Ran};
use crate::postgres::upload::isolation::waiting::WaitingRows;
use crate::postgres::upload::stop::Stop;
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::event_of;
use model::{Code, Failure, Spill};

/// Rows of one table with one change, each with its number in the constraint cycle.
struct Set {
    table: usize,
    change: Change,
    rows: Spill,
}

/// What is left to do for the rows of a constraint cycle, once there is room for them.
pub(super) struct Sets(Vec<Set>);

impl Sets {
    /// Makes room for the rows of `waiting`.
    pub(super) fn of(
        isolation: &mut Isolation<'_, '_>,
        waiting: &WaitingRows,
        known: &mut Known,
    ) -> Result<Sets, Stop> {
        let mut sets: Vec<Set> = Vec::new();
        let (mut rows, mut number) = (waiting.reader(), 0_usize);
        while let Some(waiting_rows) = rows.next_row()? {
            let table = waiting_rows.table;
            let (change, bytes) = make_room(isolation, waiting_rows, number, known)?;
            let is_same = |set: &Set| (set.table, set.change) == (table, change);
            let set = match sets.iter().position(is_same) {
                Some(at) => &mut sets[at],
                None => {
                    let rows = isolation.upload.spills.open();
                    sets.push(Set { table, change, rows });
                    let last = sets.len() - 1;
                    &mut sets[last]
                }
            };
            let mut chunk = (number as u32).to_le_bytes().to_vec();
            chunk.extend_from_slice(&bytes);
            set.rows.append(chunk)?;
            number += 1;
        }
        Ok(Sets(sets))
    }

    /// Applies them, and notes in `failed` which could not be. Rows that refer to each other within
    /// one table must come in one statement, as far as it takes them.
    pub(super) fn apply(
        &self,
        isolation: &mut Isolation<'_, '_>,
        failed: &mut [bool],
    ) -> Result<(), Stop> {
        for set in &self.0 {
            let mut rows = set.rows.reader();
            loop {
                let mut members = Vec::new();
                let mut bytes = 0;
                while !are_enough(members.len(), bytes)
                    && let Some(chunk) = rows.next_chunk()?
                {
                    bytes += chunk.len();
                    let (number, row) = chunk.split_first_chunk().ok_or_else(torn)?;
                    members.push((u32::from_le_bytes(*number) as usize, row.to_vec()));
                }
                if members.is_empty() {
                    break;
                }
                set.apply(isolation, members, failed)?;
            }
        }
        Ok(())
    }
}

impl Set {
    fn apply(
        &self,
        isolation: &mut Isolation<'_, '_>,
        members: Vec<(usize, Vec<u8>)>,
        failed: &mut [bool],
    ) -> Result<(), Stop> {
        let (numbers, rows): (Vec<usize>, Vec<Vec<u8>>) = members.into_iter().unzip();
        let mut stack = vec![(0, rows.len())];
        while let Some((begin, end)) = stack.pop() {
            let some = &rows[begin..end];
            match isolation.run(self.table, self.change, event_of(self.change), some)? {
                Ran::Affected(count) if count >= some.len() as u64 => isolation.keep(),
                _ if some.len() == 1 => {
                    isolation.undo();
                    failed[numbers[begin]] = true;
                }
                _ => {
                    isolation.undo();
                    let middle = begin + some.len().div_ceil(2);
                    stack.extend([(middle, end), (begin, middle)]);
                }
            }
        }
        Ok(())
    }
}

fn torn() -> Failure {
    Failure::new(Code::Bug, "a row of a constraint cycle does not read")
}
