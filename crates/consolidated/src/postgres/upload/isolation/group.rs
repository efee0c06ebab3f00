//! Uploaded rows that are applied together.

use crate::postgres::upload::batch;
use crate::synchronization::change::Change;
use crate::upload::waiting::WaitingRow;
use std::collections::HashMap;

/// Uploaded rows, as they came.
pub(in crate::postgres) type Rows = Vec<Vec<u8>>;

/// Rows at the center, by key.
pub(in crate::postgres) type Images = HashMap<Vec<u8>, Vec<u8>>;

/// Uploaded rows of one table with one change.
#[derive(Debug, Clone)]
pub(in crate::postgres) struct Group {
    pub(in crate::postgres) table: usize,
    pub(in crate::postgres) change: Change,
    pub(in crate::postgres) rows: Rows,
}

/// Rows on their way into groups of a size that is applied together.
#[derive(Default)]
pub(in crate::postgres) struct Gathering {
    group: Option<Group>,
    bytes: usize,
}

impl Gathering {
    /// Adds a row. Returns the group before it, where the row belongs to the next one.
    pub(in crate::postgres) fn add(
        &mut self,
        table: usize,
        change: Change,
        row: &[u8],
    ) -> Option<Group> {
        let takes = |group: &Group| {
            (group.table, group.change) == (table, change)
                && !batch::are_enough(group.rows.len(), self.bytes)
        };
        let before = match self.group.as_ref().is_some_and(takes) {
            true => None,
            false => self.end(),
        };
        self.bytes += row.len();
        let group = self.group.get_or_insert(Group { table, change, rows: Vec::new() });
        group.rows.push(row.to_vec());
        before
    }

    /// The last group.
    pub(in crate::postgres) fn end(&mut self) -> Option<Group> {
        std::mem::take(self).group
    }
}

/// Rows that waited, in groups.
pub(in crate::postgres) fn groups(rows: &[WaitingRow]) -> Vec<Group> {
    let mut gathering = Gathering::default();
    let each = rows.iter().filter_map(|row| gathering.add(row.table, row.change, &row.row));
    let mut groups: Vec<Group> = each.collect();
    groups.extend(gathering.end());
    groups
}

/// When rows that wait are applied: first what is written, parents first, then deletes, children
/// first.
pub(in crate::postgres) fn turn(row: &WaitingRow) -> (u8, isize, u8) {
    let table = row.table as isize;
    match row.change {
        Change::Insert => (0, table, 0),
        Change::Update => (0, table, 1),
        Change::Delete => (1, -table, 0),
    }
}

/// Puts both halves of rows on a stack, the first on top.
pub(in crate::postgres) fn halve(mut rows: Rows, stack: &mut Vec<Rows>) {
    let second = rows.split_off(rows.len().div_ceil(2));
    stack.extend([second, rows]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upload::waiting::WaitingRows;
    use model::{Code, Spills};

    fn row(table: usize, change: Change, bytes: usize) -> WaitingRow {
        let reason = (Code::RowNotUnique, String::new()).into();
        WaitingRow { table, change, row: vec![table as u8; bytes], reason }
    }

    #[test]
    fn rows_come_back_in_the_order_in_which_they_are_applied_in_groups_of_one_kind() {
        let mut rows = WaitingRows::within(&Spills::default());
        let half = batch::BATCH_BYTES / 2;
        for one in [
            row(0, Change::Delete, 3),
            row(1, Change::Delete, 3),
            row(1, Change::Update, half),
            row(0, Change::Insert, 4),
            row(1, Change::Update, half),
            row(1, Change::Update, half),
        ] {
            rows.push(one).unwrap();
        }
        rows.sort_by_key(turn);
        let groups = groups(rows.rows()).into_iter();
        let groups: Vec<_> =
            groups.map(|group| (group.table, group.change, group.rows.len())).collect();
        let wanted = [
            (0, Change::Insert, 1),
            (1, Change::Update, 2),
            (1, Change::Update, 1),
            (1, Change::Delete, 1),
            (0, Change::Delete, 1),
        ];
        assert_eq!(groups, wanted);
    }
}
