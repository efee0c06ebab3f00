//! UNIQUE values beside the key that rows of an upload pass on to each other.
//!
//! A foreign key may refer to such a value, and then an update does what a key change does: `ON
//! UPDATE` changes what refers to the row, and to the upload that would be somebody else's change.
//! It is noted in the same way (`effects.rs`). That is found out where a row of the upload is not
//! what the remote saw; all other uploads pay nothing for it.

use crate::sqlite::details::CatalogTable;
use crate::synchronization::change::{Change, RowSource};
use crate::upload::detached::Reference;
use crate::upload::uploaded_row::{UploadedRow, each_row};
use model::{Failure, PublishedTable, SpillMap, Spills, ValueRef, write_value};
use std::sync::Arc;

/// A foreign key to values that the upload changes.
pub(in crate::sqlite) struct Passing {
    pub(super) reference: Reference,
    /// The values that rows of the upload leave, and whether others come to them.
    left: SpillMap,
}

/// What is said of a value that is left.
const LEFT: &[u8] = &[0];
const TAKEN: &[u8] = &[1];

impl Passing {
    /// Those of the upload.
    pub(super) fn of(
        tables: &[Arc<CatalogTable>],
        batches: RowSource<'_>,
        references: Vec<Reference>,
        spills: &Arc<Spills>,
    ) -> Result<Vec<Passing>, Failure> {
        let published = |at: usize| &tables[at].published;
        let all: Vec<&PublishedTable> = (0..tables.len()).map(published).collect();
        let references = references.into_iter();
        let references = references.filter(|reference| !reference.is_to_key(&all));
        let mut passing: Vec<Passing> = references
            .map(|reference| Passing { reference, left: SpillMap::new(spills) })
            .collect();
        if passing.is_empty() {
            return Ok(passing);
        }
        let changes = |_, change| matches!(change, Change::Update | Change::KeyChange);
        each_row(batches, &published, changes, |table, row| {
            for one in passing.iter_mut().filter(|one| one.reference.parent == table) {
                if one.is_changed_by(row) {
                    one.left.set(&tuple(&row.old, &one.reference.referred), LEFT)?;
                }
            }
            Ok(())
        })?;
        passing.retain(|one| !one.left.is_empty());
        let parents: Vec<usize> = passing.iter().map(|one| one.reference.parent).collect();
        let writes = |table: usize, change| change != Change::Delete && parents.contains(&table);
        each_row(batches, &published, writes, |table, row| {
            for one in passing.iter_mut().filter(|one| one.reference.parent == table) {
                let value = tuple(&row.new, &one.reference.referred);
                let comes = row.change == Change::Insert || one.is_changed_by(row);
                if comes && one.left.get(&value)?.is_some() {
                    one.left.set(&value, TAKEN)?;
                }
            }
            Ok(())
        })?;
        Ok(passing)
    }

    /// Another row of the upload takes the value.
    pub(super) fn is_taken(&self, value: &[u8]) -> Result<bool, Failure> {
        Ok(self.left.get(value)?.is_some_and(|taken| *taken == *TAKEN))
    }

    pub(super) fn is_changed_by(&self, row: &UploadedRow<'_>) -> bool {
        let changes = matches!(row.change, Change::Update | Change::KeyChange);
        let referred = &self.reference.referred;
        changes && tuple(&row.old, referred) != tuple(&row.new, referred)
    }
}

/// Columns of an image, encoded.
pub(super) fn tuple(image: &[ValueRef<'_>], columns: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    columns.iter().for_each(|column| write_value(&mut bytes, image[*column]));
    bytes
}
