//! Applies the rows of an upload with key changes, rebased onto the effects of these changes.

pub(super) mod original;

use super::attempt::{Attempt, RowOutcome, Stop};
use crate::sqlite::details::CatalogTable;
use crate::sqlite::upload::conflict;
use crate::sqlite::upload::key_change::{self, Rebasing};
use crate::synchronization::change::{Change, UploadedRows};
use crate::upload::rebase::Rebased;
use crate::upload::uploaded_row::{RowId, UploadedRow};
use model::Failure;
use original::Original;

impl Attempt<'_> {
    /// Applies a batch of an upload with key changes, whose rows may have to be rebased.
    pub(super) fn batch_rebased(
        &mut self,
        batch: UploadedRows<'_>,
        table: &CatalogTable,
    ) -> Result<(), Stop> {
        let (mut row, mut rest) = (UploadedRow::default(), batch.rows);
        for _ in 0..batch.count {
            rest = row.read(rest, batch.change, table.published.width())?;
            let position = batch.table;
            if self.is_done(table, position, &row)? || self.is_put_off(table, position, &row)? {
                continue;
            }
            let outcome = self.each_alone(RowOutcome::Done, |attempt| {
                attempt.rebase_and_apply(table, position, &row)
            })?;
            if let RowOutcome::InTheWay(_) = outcome {
                self.waiting_rows.push(&self.park(table, position, &row))?;
            }
        }
        Ok(())
    }

    /// Applies a row over what its own row, and those that it refers to, have become.
    pub(super) fn rebase_and_apply(
        &mut self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) -> Result<RowOutcome, Stop> {
        self.note_if_it_passes(position, row)?;
        let rebased = match key_change::rebase_over_key_changes(self, table, position, row)? {
            Rebasing::AsItIs => return self.apply_one(table, position, row),
            Rebasing::Gone => {
                conflict::lost(self, table, position, row)?;
                return Ok(RowOutcome::Done);
            }
            Rebasing::Onto(rebased) => rebased,
        };
        self.apply_rebased(table, position, row, &rebased)
    }

    /// Applies `rebased` instead of `row`. The remote knows it as `row`.
    pub(in super::super) fn apply_rebased(
        &mut self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
        rebased: &Rebased,
    ) -> Result<RowOutcome, Stop> {
        let rebased = rebased.row(table.published.width())?;
        let moved =
            (row.change == Change::KeyChange).then(|| row.new_key(&table.published, position));
        let same = rebased.change != Change::Delete && rebased.new == row.new;
        let id = self.id(table, position, row);
        // One that was rebased before is known by what it was at first.
        let before = self.original.take();
        let (moved, same) = match &before {
            Some(before) => (before.moved.clone(), before.same && same),
            None => (moved, same),
        };
        self.original = Some(Original { id, moved, same });
        let nothing = rebased.change == Change::Update && rebased.old == rebased.new;
        let owed = self.owed.added();
        let outcome = match nothing {
            true => {
                self.echo(table, position, &rebased);
                Ok(RowOutcome::Done)
            }
            false if row.change == Change::Update && rebased.change == Change::KeyChange => {
                self.apply_noting(table, position, &rebased)
            }
            false => self.apply_one(table, position, &rebased),
        };
        if !same && outcome.as_ref().is_ok_and(|outcome| *outcome == RowOutcome::Done) {
            if self.owed.added() == owed {
                let id = self.id(table, position, row);
                self.stored_rebased.add(&id)?;
            }
            self.owe(table, position, &rebased)?;
        }
        self.original = before;
        outcome
    }

    /// Applies a row that goes back to its key, behind the key changes: what refers to it goes
    /// along, and later rows of the upload are meant for that.
    fn apply_noting(
        &mut self,
        table: &CatalogTable,
        position: usize,
        rebased: &UploadedRow<'_>,
    ) -> Result<RowOutcome, Stop> {
        self.note_effects()?;
        let outcome = self.apply_one(table, position, rebased)?;
        self.note_no_effects()?;
        Ok(outcome)
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
    ) -> Result<bool, Failure> {
        match &self.moving {
            Some(moving) if row.change == Change::Delete => {
                moving.done.contains(&row.key(&table.published, position))
            }
            _ => Ok(false),
        }
    }
}
