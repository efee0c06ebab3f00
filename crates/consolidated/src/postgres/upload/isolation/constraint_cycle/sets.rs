//! The rows of a constraint cycle on their way to statements.

use crate::postgres::upload::batch::are_enough;
use crate::postgres::upload::isolation::constraint_cycle::room::{Known, make_room};
use crate::postgres::upload::isolation::state::{Isolation, Ran};
use crate::postgres::upload::stop::Stop;
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::event_of;
use crate::upload::waiting::WaitingRows;

/// Rows of one table with one change, each with its number in the constraint cycle.
struct Set {
    table: usize,
    change: Change,
    rows: Vec<(usize, Vec<u8>)>,
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
        for (number, row) in waiting.rows().iter().enumerate() {
            let table = row.table;
            let (change, bytes) = make_room(isolation, row, number, known)?;
            let member = (number, bytes);
            match sets.iter_mut().find(|set| (set.table, set.change) == (table, change)) {
                Some(set) => set.rows.push(member),
                None => sets.push(Set { table, change, rows: vec![member] }),
            }
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
            let mut rest = &set.rows[..];
            while !rest.is_empty() {
                let (mut count, mut bytes) = (0, 0);
                while count < rest.len() && !are_enough(count, bytes) {
                    bytes += rest[count].1.len();
                    count += 1;
                }
                let (members, others) = rest.split_at(count);
                set.apply(isolation, members, failed)?;
                rest = others;
            }
        }
        Ok(())
    }
}

impl Set {
    fn apply(
        &self,
        isolation: &mut Isolation<'_, '_>,
        members: &[(usize, Vec<u8>)],
        failed: &mut [bool],
    ) -> Result<(), Stop> {
        let (numbers, rows): (Vec<usize>, Vec<Vec<u8>>) = members.iter().cloned().unzip();
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
