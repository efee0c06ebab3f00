//! Rebases an uploaded change onto what its row has become without a conflict.
//!
//! A remote sends the row as it received it. The center itself may have changed the row since, by a
//! trigger that changed an uploaded row. If the remote saw the values from before, its change
//! applies to the present values.

use crate::synchronization::change::Change;
use crate::upload::uploaded_row::UploadedRow;
use model::{Failure, RowReader, ValueRef, write_value};

/// A change over the row as it is now: what [`UploadedRow::read`] reads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rebased {
    pub(crate) change: Change,
    pub(crate) bytes: Vec<u8>,
}

/// Rebases `row`, whose row was `before` and became `after`.
///
/// Where the remote saw the value from before it now saw the one from after; what it did not
/// change stays as it became. A value that it had not seen so remains what it was, and a conflict.
pub(crate) fn rebase(
    row: &UploadedRow<'_>,
    before: &[ValueRef<'_>],
    after: &[ValueRef<'_>],
) -> Rebased {
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for (column, (saw, wants)) in row.old.iter().zip(&row.new).enumerate() {
        let (before, after) = (before[column], after[column]);
        let sees = if saw.identical(before) { after } else { *saw };
        old.push(sees);
        new.push(if wants.identical(*saw) { sees } else { *wants });
    }
    Rebased::of(row.change, &old, &new)
}

/// Whether `row` changes a number that the center has changed too since the remote saw it, among
/// those in which both changes count. Such a row is left to the rule: rebased, its number would
/// replace the center's.
pub(crate) fn both_changed(row: &UploadedRow<'_>, after: &[ValueRef<'_>], added: &[u16]) -> bool {
    added.iter().map(|at| usize::from(*at)).any(|at| {
        let saw = row.old[at];
        !saw.identical(row.new[at]) && !saw.identical(after[at])
    })
}

impl Rebased {
    /// Read back; `width` is that of the table.
    pub(crate) fn row(&self, width: usize) -> Result<UploadedRow<'_>, Failure> {
        let mut row = UploadedRow::default();
        row.read(&self.bytes, self.change, width)?;
        Ok(row)
    }

    /// The change of a row from `old` to `new`.
    pub(crate) fn of(change: Change, old: &[ValueRef<'_>], new: &[ValueRef<'_>]) -> Rebased {
        let mut bytes = Vec::new();
        let mut write = |image: &[ValueRef<'_>]| {
            image.iter().for_each(|value| write_value(&mut bytes, *value));
        };
        match change {
            Change::Insert => write(new),
            Change::Delete => write(old),
            Change::Update => {
                write(old);
                write(new);
            }
        }
        Rebased { change, bytes }
    }
}

/// The row of these values, as [`values`] reads it.
pub(crate) fn image(values: &[ValueRef<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    values.iter().for_each(|value| write_value(&mut bytes, *value));
    bytes
}

/// The values of an image.
pub(crate) fn values(image: &[u8]) -> Result<Vec<ValueRef<'_>>, Failure> {
    let (mut reader, mut values) = (RowReader::new(image), Vec::new());
    while !reader.is_at_end() {
        values.push(reader.value()?);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(values: &[i64]) -> Vec<ValueRef<'static>> {
        values.iter().map(|value| ValueRef::Integer(*value)).collect()
    }

    fn check(
        change: Change,
        (old, new): ([i64; 3], [i64; 3]),
        (before, after): ([i64; 3], [i64; 3]),
        expected: (Change, [i64; 3], [i64; 3]),
    ) {
        let bytes = Rebased::of(change, &int(&old), &int(&new)).bytes;
        let mut row = UploadedRow::default();
        row.read(&bytes, change, 3).unwrap();
        let rebased = rebase(&row, &int(&before), &int(&after));
        let mut row = UploadedRow::default();
        row.read(&rebased.bytes, rebased.change, 3).unwrap();
        let told = (rebased.change, row.old.clone(), row.new.clone());
        assert_eq!(told, (expected.0, int(&expected.1), int(&expected.2)));
    }

    // S5, Trap 21
    #[test]
    fn what_the_remote_did_not_change_stays_as_it_became() {
        let moved = ([1, 7, 5], [1, 8, 5]);
        // The remote knows nothing of the parent's new key, or has it from its own foreign key.
        check(
            Change::Update,
            ([1, 7, 5], [1, 7, 6]),
            moved,
            (Change::Update, [1, 8, 5], [1, 8, 6]),
        );
        check(
            Change::Update,
            ([1, 7, 5], [1, 8, 6]),
            moved,
            (Change::Update, [1, 8, 5], [1, 8, 6]),
        );
        // It gave the row another parent.
        check(
            Change::Update,
            ([1, 7, 5], [1, 9, 5]),
            moved,
            (Change::Update, [1, 8, 5], [1, 9, 5]),
        );
        check(
            Change::Delete,
            ([1, 7, 5], [1, 7, 5]),
            moved,
            (Change::Delete, [1, 8, 5], [1, 8, 5]),
        );
        // Another user had changed the value: still a conflict.
        check(
            Change::Update,
            ([1, 7, 4], [1, 7, 6]),
            moved,
            (Change::Update, [1, 8, 4], [1, 8, 6]),
        );
    }
}
