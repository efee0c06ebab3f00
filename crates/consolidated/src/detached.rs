//! Rows of an upload that refer to a value which passes from a deleted row to another one.
//!
//! A remote deletes a parent, gives another row the value that children refer to, and has a child
//! under that value: one that was set back there, or a new one. The value is unique, so at the
//! centre the other row comes behind the delete, and `ON DELETE` would act on the child in between.
//! So the child refers to nothing meanwhile. Where a reference cannot be NULL, `ON DELETE` acts.
//!
//! Keys that pass on are another matter: key changes go first, each in its own way.

use crate::rebase::Rebased;
use crate::synchronization::{BatchSource, Change};
use crate::uploaded_row::each_row;
use model::{Failure, PublishedTable, ValueRef, write_value};
use std::collections::{BTreeSet, HashSet};

/// A foreign key between tables of an upload. Tables and columns are positions.
pub(crate) struct Reference {
    pub(crate) child: usize,
    pub(crate) columns: Vec<usize>,
    pub(crate) parent: usize,
    pub(crate) referred: Vec<usize>,
}

impl Reference {
    /// A value of it may pass on with a delete, and be away meanwhile.
    fn concerns(&self, tables: &[&PublishedTable]) -> bool {
        let in_key = |column: &usize| is_in_key(tables[self.child], *column);
        !self.is_to_key(tables) && !self.columns.iter().any(in_key)
    }

    /// It refers to the whole key of the parent.
    pub(crate) fn is_to_key(&self, tables: &[&PublishedTable]) -> bool {
        let parent = tables[self.parent];
        self.referred.len() == parent.key.len()
            && self.referred.iter().all(|column| is_in_key(parent, *column))
    }
}

fn is_in_key(table: &PublishedTable, column: usize) -> bool {
    table.key.iter().any(|at| usize::from(*at) == column)
}

/// A row that refers to nothing for a while.
pub(crate) struct Detached {
    pub(crate) table: usize,
    /// As it was sent.
    pub(crate) change: Change,
    pub(crate) row: Vec<u8>,
    /// The updates that detach and attach it.
    pub(crate) away: Vec<u8>,
    pub(crate) back: Vec<u8>,
}

/// The rows to be detached before the deletes of an upload.
pub(crate) fn find(
    references: &[Reference],
    tables: &[&PublishedTable],
    batches: BatchSource<'_>,
) -> Result<Vec<Detached>, Failure> {
    let concerned: Vec<&Reference> = references.iter().filter(|it| it.concerns(tables)).collect();
    let published = |at: usize| tables[at];
    let (mut deleted, mut taken) = (HashSet::new(), HashSet::new());
    if !concerned.is_empty() {
        each_row(
            batches,
            &published,
            |_, _| true,
            |table, row| {
                for (at, reference) in
                    concerned.iter().enumerate().filter(|(_, it)| it.parent == table)
                {
                    let (old, new) = (&row.old, &row.new);
                    let [old, new] = [old, new].map(|image| tuple(image, &reference.referred));
                    match row.change {
                        Change::Delete => deleted.extend(old.map(|value| (at, value))),
                        Change::Insert => taken.extend(new.map(|value| (at, value))),
                        Change::Update | Change::KeyChange if old != new => {
                            taken.extend(new.map(|value| (at, value)));
                        }
                        Change::Update | Change::KeyChange => {}
                    }
                }
                Ok(())
            },
        )?;
    }
    let passing: HashSet<_> = deleted.intersection(&taken).collect();
    let mut found = Vec::new();
    if passing.is_empty() {
        return Ok(found);
    }
    let writes = |_, change| change != Change::Delete;
    each_row(batches, &published, writes, |table, row| {
        let mut columns: BTreeSet<usize> = BTreeSet::new();
        for (at, reference) in concerned.iter().enumerate().filter(|(_, it)| it.child == table) {
            let value = tuple(&row.new, &reference.columns);
            if value.is_some_and(|value| passing.contains(&(at, value))) {
                columns.extend(&reference.columns);
            }
        }
        if columns.is_empty() {
            return Ok(());
        }
        let mut apart = row.new.clone();
        columns.into_iter().for_each(|column| apart[column] = ValueRef::Null);
        let update = |old: &[ValueRef<'_>], new: &[ValueRef<'_>]| {
            Rebased::of(Change::Update, tables[table], old, new).bytes
        };
        let (away, back) = (update(&row.new, &apart), update(&apart, &row.new));
        let (change, row) = (row.change, row.bytes.to_vec());
        found.push(Detached { table, change, row, away, back });
        Ok(())
    })?;
    Ok(found)
}

/// Columns of an image, encoded; none where one is NULL, which refers to nothing.
fn tuple(image: &[ValueRef<'_>], columns: &[usize]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for column in columns {
        if image[*column] == ValueRef::Null {
            return None;
        }
        write_value(&mut bytes, image[*column]);
    }
    Some(bytes)
}
