//! Rows of an upload that refer to a value which passes from a deleted row to another one.
//!
//! A remote deletes a parent, gives another row the value that children refer to, and has a child
//! under that value: one that was set back there, or a new one. The value is unique, so at the
//! center the other row comes behind the delete, and `ON DELETE` would act on the child in between.
//! So the child refers to nothing meanwhile. Where a reference cannot be NULL, `ON DELETE` acts.
//!
//! Keys that pass on are another matter: key changes go first, each in its own way.
//!
//! All rows of an upload may be such rows. So what there is no memory for lies on disk.

use crate::synchronization::change::{Change, RowSource};
use crate::upload::rebase::Rebased;
use crate::upload::uploaded_row::each_row;
use model::{
    Code, Failure, PublishedTable, Spill, SpillMap, SpillReader, Spills, ValueRef, write_value,
};
use std::collections::BTreeSet;
use std::sync::Arc;

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
#[derive(Debug, PartialEq)]
pub(crate) struct Detached {
    pub(crate) table: usize,
    /// As it was sent.
    pub(crate) change: Change,
    pub(crate) row: Vec<u8>,
    /// The updates that detach and attach it.
    pub(crate) away: Vec<u8>,
    pub(crate) back: Vec<u8>,
}

/// The same of many, in their order.
#[derive(Debug)]
pub(crate) struct DetachedRows {
    rows: Spill,
}

/// Goes through them once.
pub(crate) struct DetachedReader<'d> {
    rows: SpillReader<'d>,
}

impl DetachedRows {
    /// None, with memory and files from `spills`.
    pub(crate) fn within(spills: &Arc<Spills>) -> DetachedRows {
        DetachedRows { rows: spills.open() }
    }

    pub(crate) fn push(&mut self, detached: &Detached) -> Result<(), Failure> {
        let Detached { table, change, row, away, back } = detached;
        let mut chunk = Vec::with_capacity(13 + row.len() + away.len() + back.len());
        for number in [*table, row.len(), away.len()] {
            chunk.extend_from_slice(&u32::try_from(number).map_err(|_| torn())?.to_le_bytes());
        }
        chunk.push(*change as u8);
        [row, away, back].into_iter().for_each(|part| chunk.extend_from_slice(part));
        self.rows.append(chunk)
    }

    pub(crate) fn reader(&self) -> DetachedReader<'_> {
        DetachedReader { rows: self.rows.reader() }
    }
}

impl DetachedReader<'_> {
    /// The next one, none behind the last.
    pub(crate) fn next_row(&mut self) -> Result<Option<Detached>, Failure> {
        match self.rows.next_chunk()? {
            Some(chunk) => read(&chunk).map(Some).ok_or_else(torn),
            None => Ok(None),
        }
    }
}

fn read(chunk: &[u8]) -> Option<Detached> {
    const CHANGES: [Change; 3] = [Change::Insert, Change::Update, Change::Delete];
    let mut rest = chunk;
    let mut number = || -> Option<usize> {
        let (number, behind) = rest.split_first_chunk()?;
        rest = behind;
        Some(u32::from_le_bytes(*number) as usize)
    };
    let (table, row_len, away_len) = (number()?, number()?, number()?);
    let (change, rest) = rest.split_first()?;
    let change = CHANGES.into_iter().find(|it| *it as u8 == *change)?;
    let (row, rest) = rest.split_at_checked(row_len)?;
    let (away, back) = rest.split_at_checked(away_len)?;
    let [row, away, back] = [row, away, back].map(<[u8]>::to_vec);
    Some(Detached { table, change, row, away, back })
}

fn torn() -> Failure {
    Failure::new(Code::Bug, "a row that refers to nothing does not read")
}

/// The values that rows of an upload refer to, and that pass from a deleted row to another one:
/// each behind the position of its reference among those that are `concerned`.
fn passing(
    concerned: &[&Reference],
    tables: &[&PublishedTable],
    batches: RowSource<'_>,
    spills: &Arc<Spills>,
) -> Result<SpillMap, Failure> {
    let published = |at: usize| tables[at];
    let to = |table: usize| concerned.iter().enumerate().filter(move |(_, it)| it.parent == table);
    let (mut deleted, mut passing) = (SpillMap::new(spills), SpillMap::new(spills));
    let deletes = |at, change| change == Change::Delete && to(at).next().is_some();
    each_row(batches, &published, deletes, |table, row| {
        for (at, reference) in to(table) {
            if let Some(value) = tuple(&row.old, &reference.referred) {
                deleted.add(place(at, &value), Vec::new())?;
            }
        }
        Ok(())
    })?;
    if deleted.is_empty() {
        return Ok(passing);
    }
    let writes = |at, change| change != Change::Delete && to(at).next().is_some();
    each_row(batches, &published, writes, |table, row| {
        for (at, reference) in to(table) {
            let [old, new] = [&row.old, &row.new].map(|image| tuple(image, &reference.referred));
            let Some(taken) = new.filter(|new| old.as_ref() != Some(new)) else { continue };
            let place = place(at, &taken);
            if deleted.get(&place)?.is_some() {
                passing.add(place, Vec::new())?;
            }
        }
        Ok(())
    })?;
    Ok(passing)
}

/// A value of the reference at a position.
fn place(at: usize, value: &[u8]) -> Vec<u8> {
    [&(at as u32).to_be_bytes(), value].concat()
}

/// The rows to be detached before the deletes of an upload.
pub(crate) fn find(
    references: &[Reference],
    tables: &[&PublishedTable],
    batches: RowSource<'_>,
    spills: &Arc<Spills>,
) -> Result<DetachedRows, Failure> {
    let concerned: Vec<&Reference> = references.iter().filter(|it| it.concerns(tables)).collect();
    let mut found = DetachedRows::within(spills);
    if concerned.is_empty() {
        return Ok(found);
    }
    let passing = passing(&concerned, tables, batches, spills)?;
    if passing.is_empty() {
        return Ok(found);
    }
    let published = |at: usize| tables[at];
    let writes = |_, change| change != Change::Delete;
    each_row(batches, &published, writes, |table, row| {
        let mut columns: BTreeSet<usize> = BTreeSet::new();
        for (at, reference) in concerned.iter().enumerate().filter(|(_, it)| it.child == table) {
            if let Some(value) = tuple(&row.new, &reference.columns)
                && passing.get(&place(at, &value))?.is_some()
            {
                columns.extend(&reference.columns);
            }
        }
        if columns.is_empty() {
            return Ok(());
        }
        let mut apart = row.new.clone();
        columns.into_iter().for_each(|column| apart[column] = ValueRef::Null);
        let update = |old: &[ValueRef<'_>], new: &[ValueRef<'_>]| {
            Rebased::of(Change::Update, old, new).bytes
        };
        let (away, back) = (update(&row.new, &apart), update(&apart, &row.new));
        let (change, row) = (row.change, row.bytes.to_vec());
        found.push(&Detached { table, change, row, away, back })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synchronization::change::UploadedRows;
    use model::Direction;

    fn encoded(values: &[ValueRef<'_>]) -> Vec<u8> {
        let mut row = Vec::new();
        values.iter().for_each(|value| write_value(&mut row, *value));
        row
    }

    // S4, S9, Trap 11: without memory as with it.
    #[test]
    fn the_children_of_a_value_that_passes_on_are_found_and_no_others() {
        let table = |name: &str| PublishedTable {
            compress: true,
            name: name.into(),
            columns: vec!["id".into(), "code".into()],
            key: vec![0],
            direction: Direction::Both,
            create: vec![],
            fingerprint: String::new(),
        };
        let (parents, children) = (table("parent"), table("child"));
        let references = [Reference { child: 1, columns: vec![1], parent: 0, referred: vec![1] }];
        let row = |id: i64, code: i64| encoded(&[ValueRef::Integer(id), ValueRef::Integer(code)]);
        let several = |rows: &[Vec<u8>]| (rows.len() as u32, rows.concat());
        // Parents 1 and 2 go; 3 takes the value of 1, and 4 keeps its own.
        let deletes = several(&[row(1, 10), row(2, 20)]);
        let updates =
            several(&[[row(3, 30), row(3, 10)].concat(), [row(4, 40), row(4, 40)].concat()]);
        let inserts = several(&[row(5, 10), row(6, 20), row(7, 40)]);
        let batches: RowSource<'_> = &|visit| {
            let mut show = |table, change, (count, rows): &(u32, Vec<u8>)| {
                visit(UploadedRows { table, change, count: *count, rows })
            };
            show(0, Change::Delete, &deletes)?;
            show(0, Change::Update, &updates)?;
            show(1, Change::Insert, &inserts)
        };
        let spills = Arc::new(Spills::default());
        let found = find(&references, &[&parents, &children], batches, &spills).unwrap();
        let mut reader = found.reader();
        let apart = encoded(&[ValueRef::Integer(5), ValueRef::Null]);
        let one = Detached {
            table: 1,
            change: Change::Insert,
            row: row(5, 10),
            away: [row(5, 10), apart.clone()].concat(),
            back: [apart, row(5, 10)].concat(),
        };
        assert_eq!(reader.next_row().unwrap(), Some(one));
        assert_eq!(reader.next_row().unwrap(), None);
    }
}
