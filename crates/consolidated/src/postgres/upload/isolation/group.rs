//! Uploaded rows that are applied together.

use crate::postgres::upload::batch;
use crate::synchronization::change::Change;
use model::{Code, Failure, Spill, SpillReader, Spills};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

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
    /// bytes.
    pub(in crate::postgres) fn takes(&self, place: (usize, Change), bytes: usize) -> bool {
        (self.table, self.change) == place && !batch::are_enough(self.rows.len(), bytes)
    }
}

/// Rows for later, in the order in which they come, on disk where memory is short.
pub(in crate::postgres) struct Groups {
    rows: Spill,
    tables: BTreeSet<usize>,
}

impl Groups {
    /// None, with memory and files from `spills`.
    pub(in crate::postgres) fn within(spills: &Arc<Spills>) -> Groups {
        Groups { rows: spills.open(), tables: BTreeSet::new() }
    }

    /// Adds a row of a table.
    pub(in crate::postgres) fn push(
        &mut self,
        table: usize,
        change: Change,
        row: &[u8],
    ) -> Result<(), Failure> {
        self.tables.insert(table);
        let mut chunk = (table as u32).to_le_bytes().to_vec();
        chunk.push(change as u8);
        chunk.extend_from_slice(row);
        self.rows.append(chunk)
    }

    /// Whether there are rows of a table.
    pub(in crate::postgres) fn have(&self, table: usize) -> bool {
        self.tables.contains(&table)
    }

    /// Takes all of them, which leaves none.
    pub(in crate::postgres) fn take(&mut self) -> Groups {
        let none = Groups::within(self.rows.spills());
        std::mem::replace(self, none)
    }

    pub(in crate::postgres) fn reader(&self) -> GroupsReader<'_> {
        GroupsReader { rows: self.rows.reader(), kept: None }
    }
}

/// Goes through them once.
pub(in crate::postgres) struct GroupsReader<'g> {
    rows: SpillReader<'g>,
    /// Read, and belongs to the next group.
    kept: Option<(usize, Change, Vec<u8>)>,
}

impl GroupsReader<'_> {
    /// The next rows of one table with one change, as many as are looked at together.
    pub(in crate::postgres) fn next_group(&mut self) -> Result<Option<Group>, Failure> {
        let Some((table, change, row)) = self.next_row()? else { return Ok(None) };
        let (mut bytes, mut rows) = (row.len(), vec![row]);
        while !batch::are_enough(rows.len(), bytes)
            && let Some(next) = self.next_row()?
        {
            if (next.0, next.1) != (table, change) {
                self.kept = Some(next);
                break;
            }
            bytes += next.2.len();
            rows.push(next.2);
        }
        Ok(Some(Group { table, change, rows }))
    }

    fn next_row(&mut self) -> Result<Option<(usize, Change, Vec<u8>)>, Failure> {
        if self.kept.is_some() {
            return Ok(self.kept.take());
        }
        let torn = || Failure::new(Code::Bug, "a row for later does not read");
        let Some(chunk) = self.rows.next_chunk()? else { return Ok(None) };
        let (table, rest) = chunk.split_first_chunk().ok_or_else(torn)?;
        let (change, row) = rest.split_first().ok_or_else(torn)?;
        let changes = [Change::Insert, Change::Update, Change::Delete];
        let change = changes.into_iter().find(|it| *it as u8 == *change).ok_or_else(torn)?;
        Ok(Some((u32::from_le_bytes(*table) as usize, change, row.to_vec())))
    }
}

/// Puts both halves of rows on a stack, the first on top.
pub(in crate::postgres) fn halve(mut rows: Rows, stack: &mut Vec<Rows>) {
    let second = rows.split_off(rows.len().div_ceil(2));
    stack.extend([second, rows]);
}
