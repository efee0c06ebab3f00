//! Rows of an upload with key changes, rebased onto what these set off.

use super::super::catalog::CatalogTable;
use super::super::conflict;
use super::super::key_change::{self, Told};
use super::{Attempt, RowOutcome};
use crate::rebase::Rebased;
use crate::synchronization::{Batch, Change};
use crate::uploaded_row::{RowId, UploadedRow};
use model::Failure;

/// A row as the remote knows it, whatever it was rebased to.
pub(super) struct Original {
    pub(super) id: RowId,
    /// The key that it gets at the remote, if it is another one.
    pub(super) moved: Option<RowId>,
    /// What is to be stored is what the remote has.
    pub(super) same: bool,
}

impl Attempt<'_> {
    /// Applies a batch of an upload with key changes, whose rows may have to be rebased.
    pub(super) fn batch_anew(
        &mut self,
        batch: Batch<'_>,
        table: &CatalogTable,
    ) -> Result<(), Failure> {
        let (mut row, mut rest) = (UploadedRow::default(), batch.rows);
        for _ in 0..batch.count {
            rest = row.read(rest, batch.change, table.published.width())?;
            let position = batch.table;
            if self.is_done(table, position, &row) || self.is_put_off(table, position, &row) {
                continue;
            }
            if let RowOutcome::InTheWay(_) = self.apply_anew(table, position, &row)? {
                self.parked.push(self.park(table, position, &row));
            }
        }
        Ok(())
    }

    /// Applies a row over what its own row, and those that it refers to, have become.
    pub(super) fn apply_anew(
        &mut self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) -> Result<RowOutcome, Failure> {
        let anew = match key_change::told_anew(self, table, position, row)? {
            Told::AsItIs => return self.apply_one(table, position, row),
            Told::Gone => {
                conflict::lost(self, table, position, row)?;
                return Ok(RowOutcome::Done);
            }
            Told::Anew(anew) => anew,
        };
        self.apply_told(table, position, row, &anew)
    }

    /// Applies `anew` in the place of `row`, by which the remote knows it.
    pub(in super::super) fn apply_told(
        &mut self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
        anew: &Rebased,
    ) -> Result<RowOutcome, Failure> {
        let mut told = UploadedRow::default();
        told.read(&anew.bytes, anew.change, table.published.width())?;
        let moved =
            (row.change == Change::KeyChange).then(|| row.new_key(&table.published, position));
        let same = told.change != Change::Delete && told.new == row.new;
        let id = self.id(table, position, row);
        // One that was rebased before is known by what it was at first.
        let before = self.original.take();
        let (moved, same) = match &before {
            Some(before) => (before.moved.clone(), before.same && same),
            None => (moved, same),
        };
        self.original = Some(Original { id, moved, same });
        let nothing = told.change == Change::Update && told.old == told.new;
        let owed = self.owed.len();
        let outcome = match nothing {
            true => {
                self.echo(table, position, &told);
                Ok(RowOutcome::Done)
            }
            false => self.apply_one(table, position, &told),
        };
        if !same && outcome.as_ref().is_ok_and(|outcome| *outcome == RowOutcome::Done) {
            if self.owed.len() == owed {
                self.stored_anew.insert(self.id(table, position, row));
            }
            self.owe(table, position, &told);
        }
        self.original = before;
        outcome
    }

    /// What the remote knows the row by.
    pub(in super::super) fn id(
        &self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) -> RowId {
        match &self.original {
            Some(original) => original.id.clone(),
            None => row.key(&table.published, position),
        }
    }

    pub(super) fn is_done(
        &self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) -> bool {
        let done = self.moving.as_ref().map(|moving| &moving.done);
        done.is_some_and(|done| {
            row.change == Change::Delete && done.contains(&row.key(&table.published, position))
        })
    }
}
