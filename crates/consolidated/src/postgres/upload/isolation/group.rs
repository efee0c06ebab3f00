//! Uploaded rows that are applied together.

use crate::postgres::upload::batch;
use crate::synchronization::change::Change;
use std::collections::HashMap;

/// Most bytes of rows that are looked at together here.
pub(in crate::postgres) const GROUP_BYTES: usize = batch::BATCH_BYTES;

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
    /// bytes. Key changes wait for each other, and are put in order together as far as possible.
    pub(in crate::postgres) fn takes(&self, place: (usize, Change), bytes: usize) -> bool {
        let enough = match self.change {
            Change::KeyChange => bytes >= GROUP_BYTES,
            _ => batch::are_enough(self.rows.len(), bytes),
        };
        (self.table, self.change) == place && !enough
    }
}

/// Puts both halves of rows on a stack, the first on top.
pub(in crate::postgres) fn halve(mut rows: Rows, stack: &mut Vec<Rows>) {
    let second = rows.split_off(rows.len().div_ceil(2));
    stack.extend([second, rows]);
}
