//! Rows of an upload that wait, because other rows of the upload may block them.

use super::batch::{self, Reason};
use super::careful::Group;
use crate::synchronization::Change;

/// Most bytes of rows that are looked at together here.
pub(super) const GROUP_BYTES: usize = batch::BATCH_BYTES;

/// Rows that met an obstacle which other rows may move, and its description.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) table: usize,
    pub(super) change: Change,
    pub(super) row: Vec<u8>,
    pub(super) reason: Reason,
}

impl Parked {
    /// What it takes of the memory.
    pub(super) fn bytes(&self) -> u64 {
        (size_of::<Parked>() + self.row.len() + self.reason.1.len()) as u64
    }
}

/// Rows in the order in which they are applied, those of one kind together as far as they are few.
pub(super) fn groups(parked: Vec<Parked>) -> Vec<Group> {
    let place = |table: usize, change: Change| match change {
        Change::Insert => (0, table as isize, 0),
        Change::KeyChange => (0, table as isize, -1),
        Change::Update => (0, table as isize, 1),
        Change::Delete => (1, -(table as isize), 0),
    };
    let mut groups: Vec<(Group, usize)> = Vec::new();
    for Parked { table, change, row, .. } in parked {
        let is_same = |group: &Group| (group.table, group.change) == (table, change);
        // The last of its kind is the one with room.
        match groups.iter_mut().rev().find(|(group, _)| is_same(group)) {
            Some((group, bytes)) if *bytes < GROUP_BYTES => {
                *bytes += row.len();
                group.rows.push(row);
            }
            _ => {
                let bytes = row.len();
                groups.push((Group { table, change, rows: vec![row] }, bytes));
            }
        }
    }
    groups.sort_by_key(|(group, _)| place(group.table, group.change));
    groups.into_iter().map(|(group, _)| group).collect()
}
