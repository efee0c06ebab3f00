//! Rows of an upload that stay under a key which another row has left, and a third one takes.
//!
//! At the remote its own `ON UPDATE` has taken the row along, and the user has set it back: to the
//! old key, which is another row's by then. So the row is as it was, and yet it is to be where the
//! center's `ON UPDATE` does not leave it. Where nobody takes the key, the remote lacks the foreign
//! key, and the row goes along.

use crate::sqlite::details::CatalogTable;
use crate::sqlite::upload::attempt::Attempt;
use crate::sqlite::upload::key_change::passing::tuple;
use crate::synchronization::change::Change;
use crate::upload::rebase::{Rebased, rebase_staying};
use crate::upload::row_map::RowMap;
use crate::upload::uploaded_row::{UploadedRow, each_row};
use model::{Failure, ValueRef};

/// Keys that rows of the upload come to, of the tables `wanted`.
pub(super) fn taken(attempt: &Attempt<'_>, wanted: &[usize]) -> Result<RowMap, Failure> {
    let mut keys = RowMap::within(attempt.spills);
    let published = |at: usize| &attempt.tables[at].published;
    let comes = |table: usize, change| {
        matches!(change, Change::KeyChange | Change::Insert) && wanted.contains(&table)
    };
    each_row(attempt.request.batches, &published, comes, |table, row| {
        keys.add(&row.new_key(published(table), table))
    })?;
    Ok(keys)
}

impl Attempt<'_> {
    /// `row`, which key changes of the upload have made `after` out of `before`.
    pub(super) fn over_effect(
        &self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
        (before, after): (&[ValueRef<'_>], &[ValueRef<'_>]),
    ) -> Result<Rebased, Failure> {
        let stays = self.staying(position, row, (before, after))?;
        Ok(rebase_staying(row, &table.published, before, after, &stays))
    }

    /// The columns in which the row stays where it was.
    fn staying(
        &self,
        position: usize,
        row: &UploadedRow<'_>,
        (before, after): (&[ValueRef<'_>], &[ValueRef<'_>]),
    ) -> Result<Vec<usize>, Failure> {
        let mut stays = Vec::new();
        let (Some(moving), Some(links)) = (&self.moving, self.links) else { return Ok(stays) };
        if matches!(row.change, Change::Insert | Change::Delete) {
            return Ok(stays);
        }
        let same = |one: &[ValueRef<'_>], other: &[ValueRef<'_>], columns: &[usize]| {
            columns.iter().all(|column| one[*column].identical(other[*column]))
        };
        let followed = |columns: &[usize]| {
            same(&row.old, &row.new, columns)
                && same(&row.old, before, columns)
                && !same(before, after, columns)
        };
        for link in links.of(position).filter(|link| followed(&link.columns)) {
            if moving.taken.contains(&(link.parent, tuple(&row.old, &link.columns)))? {
                stays.extend(&link.columns);
            }
        }
        let passing = self.passing.iter().flatten();
        for one in passing.filter(|one| one.reference.child == position) {
            let columns = &one.reference.columns;
            if followed(columns) && one.is_taken(&tuple(&row.old, columns))? {
                stays.extend(columns);
            }
        }
        Ok(stays)
    }
}
