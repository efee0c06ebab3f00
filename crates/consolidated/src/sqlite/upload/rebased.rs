//! Applies a row of an upload over what the center itself has made of it.

use super::attempt::{Attempt, RowOutcome, Stop};
use crate::sqlite::details::CatalogTable;
use crate::synchronization::change::Change;
use crate::upload::rebase::Rebased;
use crate::upload::uploaded_row::UploadedRow;

impl Attempt<'_> {
    /// Applies `rebased` instead of `row`, which is what the remote has.
    pub(in super::super) fn apply_rebased(
        &mut self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
        rebased: &Rebased,
    ) -> Result<RowOutcome, Stop> {
        let rebased = rebased.row(table.published.width())?;
        let deletes = rebased.change == Change::Delete;
        let same = !deletes && rebased.new == row.new;
        // One that was rebased before differs from what it was at first.
        let before = self.differs;
        self.differs |= !same;
        let owed = self.owed.added();
        let outcome = match !deletes && rebased.old == rebased.new {
            true => {
                self.echo(table, position, &rebased);
                Ok(RowOutcome::Done)
            }
            false => self.apply_one(table, position, &rebased),
        };
        if !same && outcome.as_ref().is_ok_and(|outcome| *outcome == RowOutcome::Done) {
            if self.owed.added() == owed {
                self.stored_rebased.add(&row.key(&table.published, position))?;
            }
            self.owe(table, position, &rebased)?;
        }
        self.differs = before;
        outcome
    }
}
