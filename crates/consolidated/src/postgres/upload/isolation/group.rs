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

impl Group {
    /// Whether a row of this table and with this change belongs to the group, which has so many
    /// bytes.
    pub(in crate::postgres) fn takes(&self, place: (usize, Change), bytes: usize) -> bool {
        (self.table, self.change) == place && !batch::are_enough(self.rows.len(), bytes)
    }
}

/// The first of `rows` that are applied together, and those behind them; none where there are none.
pub(in crate::postgres) fn next_group(rows: &[WaitingRow]) -> Option<(Group, &[WaitingRow])> {
    let (table, change) = rows.first().map(|row| (row.table, row.change))?;
    let mut group = Group { table, change, rows: Vec::new() };
    let mut bytes = 0;
    for row in rows.iter().take_while(|row| (row.table, row.change) == (table, change)) {
        if batch::are_enough(group.rows.len(), bytes) {
            break;
        }
        bytes += row.row.len();
        group.rows.push(row.row.clone());
    }
    let others = &rows[group.rows.len()..];
    Some((group, others))
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
        let reason = (Code::RowNotUnique, String::new());
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
        let (mut rest, mut groups) = (rows.rows(), Vec::new());
        while let Some((group, others)) = next_group(rest) {
            groups.push((group.table, group.change, group.rows.len()));
            rest = others;
        }
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
