//! UNIQUE values beside the key that rows of an upload pass on to each other.
//!
//! A foreign key may refer to such a value, and then an update does what a key change does: `ON
//! UPDATE` changes what refers to the row, and to the upload that would be somebody else's change.
//! It is noted in the same way (`effects.rs`). That is found out where a row of the upload is not
//! what the remote saw; all other uploads pay nothing for it.

use super::super::upload::Attempt;
use crate::detached::Reference;
use crate::synchronization::Change;
use crate::uploaded_row::{UploadedRow, each_row};
use model::{Failure, PublishedTable, ValueRef, write_value};
use std::collections::HashMap;

/// A foreign key to values that the upload changes.
pub(in super::super) struct Passing {
    pub(super) reference: Reference,
    /// The values that rows of the upload leave, and whether others come to them.
    left: HashMap<Vec<u8>, bool>,
}

impl Passing {
    /// Those of the upload.
    pub(super) fn of(attempt: &Attempt<'_>) -> Result<Vec<Passing>, Failure> {
        let published = |at: usize| &attempt.tables[at].published;
        let tables: Vec<&PublishedTable> = (0..attempt.tables.len()).map(published).collect();
        let references = attempt.references()?.into_iter();
        let references = references.filter(|reference| !reference.is_to_key(&tables));
        let mut passing: Vec<Passing> =
            references.map(|reference| Passing { reference, left: HashMap::new() }).collect();
        if passing.is_empty() {
            return Ok(passing);
        }
        let batches = attempt.request.batches;
        let changes = |_, change| matches!(change, Change::Update | Change::KeyChange);
        each_row(batches, &published, changes, |table, row| {
            for one in passing.iter_mut().filter(|one| one.reference.parent == table) {
                if one.is_changed_by(row) {
                    one.left.insert(tuple(&row.old, &one.reference.referred), false);
                }
            }
            Ok(())
        })?;
        passing.retain(|one| !one.left.is_empty());
        let writes = |table: usize, change| {
            let passes = passing.iter().any(|one| one.reference.parent == table);
            change != Change::Delete && passes
        };
        let mut taken = Vec::new();
        each_row(batches, &published, writes, |table, row| {
            for (at, one) in passing.iter().enumerate() {
                if one.reference.parent != table {
                    continue;
                }
                let value = tuple(&row.new, &one.reference.referred);
                let comes = row.change == Change::Insert || one.is_changed_by(row);
                if comes && one.left.contains_key(&value) {
                    taken.push((at, value));
                }
            }
            Ok(())
        })?;
        for (at, value) in taken {
            passing[at].left.insert(value, true);
        }
        Ok(passing)
    }

    /// Another row of the upload takes the value, and the remote says which rows stay.
    pub(super) fn is_taken(&self, attempt: &Attempt<'_>, value: &[u8]) -> bool {
        attempt.request.rows_stay && self.left.get(value).is_some_and(|taken| *taken)
    }

    fn is_changed_by(&self, row: &UploadedRow<'_>) -> bool {
        let changes = matches!(row.change, Change::Update | Change::KeyChange);
        let referred = &self.reference.referred;
        changes && tuple(&row.old, referred) != tuple(&row.new, referred)
    }
}

impl Attempt<'_> {
    /// Whether a row of the table at `position` may have been changed by a value that the upload
    /// passes on: then all is applied again, with what happens noted.
    pub(in super::super) fn may_have_followed(&mut self, position: usize) -> Result<bool, Failure> {
        if self.moving.is_some() {
            return Ok(false);
        }
        let passing = match self.passing.take() {
            Some(passing) => passing,
            None => Passing::of(self)?,
        };
        let found = passing.iter().any(|one| one.reference.child == position);
        self.passing = Some(passing);
        Ok(found)
    }

    /// Notes what happens while rows are applied that pass values on, and no longer.
    pub(in super::super) fn note_if_it_passes(
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

    pub(in super::super) fn note_effects(&mut self) -> Result<(), Failure> {
        let (connection, tables) = (self.connection, self.tables);
        let moving = self.moving.as_mut();
        moving.map_or(Ok(()), |moving| moving.effects.resume(connection, tables))
    }

    pub(in super::super) fn note_no_effects(&mut self) -> Result<(), Failure> {
        let (connection, tables) = (self.connection, self.tables);
        let moving = self.moving.as_mut();
        moving.map_or(Ok(()), |moving| moving.effects.end(connection, tables))
    }
}

/// Columns of an image, encoded.
pub(super) fn tuple(image: &[ValueRef<'_>], columns: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    columns.iter().for_each(|column| write_value(&mut bytes, image[*column]));
    bytes
}
