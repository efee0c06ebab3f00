//! What is left out of uploaded rows, because no column takes it.

use crate::upload::uploaded_row::RowId;
use model::Code;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of all rows that are kept of the rejects of one upload. The remote has all rows.
pub(crate) const ROWS_BYTES_MAX: usize = 16 << 20;

/// Characters of a value that are reported.
pub(super) const VALUE_CHARS_MAX: usize = 200;

/// Rows with values that no column takes, while they are uploaded.
#[derive(Debug, Default)]
pub struct LeftOut {
    told: RefCell<BTreeMap<RowId, Left>>,
    /// Updates of which nothing is left.
    pub(super) empty: RefCell<BTreeSet<RowId>>,
    /// The new keys of such rows, by the keys in the upload.
    moved: RefCell<BTreeMap<RowId, RowId>>,
    /// Bytes of all contents.
    bytes: Cell<usize>,
}

/// A row of which something was left out.
#[derive(Debug)]
struct Left {
    why: String,
    /// The row by its key in the upload: the old one, if the key changes.
    sent: RowId,
    /// JSON: the row under the names that the remote has for its columns.
    content: Option<String>,
}

impl LeftOut {
    /// Every such row, by its key in the upload and its key afterwards, with the reason.
    pub(crate) fn told(&self) -> Vec<(RowId, RowId, (Code, String))> {
        let told = self.told.borrow();
        let reason = |left: &Left| (Code::ColumnDropped, left.why.clone());
        told.iter().map(|(row, left)| (left.sent.clone(), row.clone(), reason(left))).collect()
    }

    /// The whole row of which values were left out, as JSON, as it was uploaded.
    pub(crate) fn content(&self, sent: &RowId) -> Option<String> {
        self.content_behind(self.moved.borrow().get(sent).unwrap_or(sent))
    }

    /// The same, by its key after the upload.
    pub(crate) fn content_behind(&self, row: &RowId) -> Option<String> {
        self.told.borrow().get(row).and_then(|left| left.content.clone())
    }

    /// Rows that no batch contains under this key: updates without remaining values, and rows that
    /// have got another key.
    pub(crate) fn unsaid(&self) -> Vec<RowId> {
        let (told, empty) = (self.told.borrow(), self.empty.borrow());
        let unsaid = told.iter().filter(|(row, left)| **row != left.sent || empty.contains(row));
        unsaid.map(|(row, _)| row.clone()).collect()
    }

    pub(super) fn add(
        &self,
        (row, sent): (RowId, RowId),
        why: String,
        content: impl FnOnce() -> String,
    ) {
        let mut told = self.told.borrow_mut();
        // The rows of an upload are read more than once: what is kept of one counts once.
        let kept = told.get(&row).and_then(|left| left.content.as_ref()).map(String::len);
        let others = self.bytes.get() - kept.unwrap_or(0);
        let content = (kept.is_some() || others < ROWS_BYTES_MAX)
            .then(content)
            .filter(|content| others < ROWS_BYTES_MAX || kept >= Some(content.len()));
        self.bytes.set(others + content.as_ref().map_or(0, String::len));
        if row != sent {
            self.moved.borrow_mut().insert(sent.clone(), row.clone());
        }
        told.insert(row, Left { why, sent, content });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S9, S7: with each pass through an upload the rows that were kept counted again, and those of
    // the next pass were not kept.
    #[test]
    fn what_is_kept_of_a_row_counts_once_however_often_it_is_read() {
        let left_out = LeftOut::default();
        let (rows, bytes) = (20_u8, ROWS_BYTES_MAX / 10);
        let row = |n: u8| (0, vec![n]);
        let kept = |n: &u8| left_out.content_behind(&row(*n)).is_some();
        for pass in 1..=3 {
            for n in 0..rows {
                let text = || "x".repeat(bytes + usize::from(n));
                left_out.add((row(n), row(n)), String::new(), text);
            }
            let (all, last) = ((0..rows).filter(kept).count(), (0..rows).rfind(kept));
            assert_eq!((all, last), (10, Some(9)), "pass {pass}");
            let sum: usize = (0..10_u8).map(|n| bytes + usize::from(n)).sum();
            assert_eq!(left_out.bytes.get(), sum, "pass {pass}");
        }
        // Rows that grow later exceed the bound by one row, as those that come later do.
        for n in 0..rows {
            left_out.add((row(n), row(n)), String::new(), || "x".repeat(2 * bytes));
        }
        assert!(left_out.bytes.get() < ROWS_BYTES_MAX + 2 * bytes);
    }
}
