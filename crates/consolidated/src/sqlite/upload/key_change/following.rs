//! What follows from values that rows of an upload pass on to each other.

use super::passing::Passing;
use crate::sqlite::upload::attempt::Attempt;
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::UploadedRow;
use model::Failure;

impl Attempt<'_> {
    /// The values that rows of the upload pass on.
    pub(super) fn find_passing(&self) -> Result<Vec<Passing>, Failure> {
        Passing::of(self.tables, self.request.batches, self.references()?, self.spills)
    }

    /// Whether a row of the table at `position` may have been changed by a value that the upload
    /// passes on: then all is applied again, with what happens noted.
    pub(in crate::sqlite) fn may_have_followed(
        &mut self,
        position: usize,
    ) -> Result<bool, Failure> {
        if self.moving.is_some() {
            return Ok(false);
        }
        let passing = match self.passing.take() {
            Some(passing) => passing,
            None => self.find_passing()?,
        };
        let found = passing.iter().any(|one| one.reference.child == position);
        self.passing = Some(passing);
        Ok(found)
    }

    /// Notes what happens while rows are applied that pass values on, and no longer.
    pub(in crate::sqlite) fn note_if_it_passes(
        &mut self,
        position: usize,
        row: &UploadedRow<'_>,
    ) -> Result<(), Failure> {
        let passing = self.passing.iter().flatten();
        let mut passing = passing.filter(|one| one.reference.parent == position);
        let passes = row.change == Change::Update && passing.any(|one| one.is_changed_by(row));
        match row.change {
            Change::Update if passes => self.note_effects(),
            Change::Update | Change::Insert => self.note_no_effects(),
            // Those that go first, all of which are noted.
            Change::KeyChange | Change::Delete => Ok(()),
        }
    }

    pub(in crate::sqlite) fn note_effects(&mut self) -> Result<(), Failure> {
        let (connection, tables) = (self.connection, self.tables);
        let moving = self.moving.as_mut();
        moving.map_or(Ok(()), |moving| moving.effects.resume(connection, tables))
    }

    pub(in crate::sqlite) fn note_no_effects(&mut self) -> Result<(), Failure> {
        let (connection, tables) = (self.connection, self.tables);
        let moving = self.moving.as_mut();
        moving.map_or(Ok(()), |moving| moving.effects.end(connection, tables))
    }
}
