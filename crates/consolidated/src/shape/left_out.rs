//! What is left out of uploaded rows, because no column takes it.
//!
//! Something may be left out of every row of an upload. So what there is no memory for lies on
//! disk.

use crate::upload::row_map::RowMap;
use crate::upload::uploaded_row::RowId;
use model::{Code, Failure, Spills};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Bytes of all rows that are kept of the rejects of one upload. The remote has all rows.
pub(crate) const ROWS_BYTES_MAX: usize = 16 << 20;

/// Characters of a value that are reported.
pub(super) const VALUE_CHARS_MAX: usize = 200;

/// Rows with values that no column takes, while they are uploaded.
#[derive(Debug)]
pub struct LeftOut {
    /// By the keys that they have at the remote.
    told: RefCell<RowMap>,
    empty_rows: Cell<u64>,
    /// Bytes of all contents.
    bytes: Cell<usize>,
}

/// A row of which something was left out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Left {
    pub(crate) reason: (Code, String),
    /// It is an update of which nothing is left, so no batch has it.
    pub(crate) empty: bool,
    /// JSON: the row under the names that the remote has for its columns.
    pub(crate) content: Option<String>,
}

impl LeftOut {
    /// None, with memory and files from `spills`.
    pub(super) fn within(spills: &Arc<Spills>) -> LeftOut {
        let told = RefCell::new(RowMap::within(spills));
        LeftOut { told, empty_rows: Cell::default(), bytes: Cell::default() }
    }

    /// Shows every such row.
    pub(crate) fn visit(
        &self,
        mut visit: impl FnMut(RowId, Left) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.told.borrow().visit(|row, left| visit(row, Left::read(left)?))
    }

    /// The whole row of which values were left out, as JSON, as it was uploaded.
    pub(crate) fn content(&self, row: &RowId) -> Result<Option<String>, Failure> {
        let left = self.told.borrow().get(row)?;
        Ok(left.map(|left| Left::read(&left)).transpose()?.and_then(|left| left.content))
    }

    /// How many updates there are of which nothing is left.
    pub(super) fn empty_rows(&self) -> u64 {
        self.empty_rows.get()
    }

    pub(super) fn add(
        &self,
        row: &RowId,
        (reason, empty): ((Code, String), bool),
        content: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let mut told = self.told.borrow_mut();
        // The rows of an upload are read more than once.
        if told.contains(row)? {
            return Ok(());
        }
        let content = (self.bytes.get() < ROWS_BYTES_MAX).then(content);
        self.bytes.set(self.bytes.get() + content.as_ref().map_or(0, String::len));
        self.empty_rows.set(self.empty_rows.get() + u64::from(empty));
        told.put(row, &Left { reason, empty, content }.to_bytes())
    }
}

impl Left {
    fn to_bytes(&self) -> Vec<u8> {
        let (code, why) = &self.reason;
        serde_json::json!((code.number(), why, self.empty, &self.content)).to_string().into_bytes()
    }

    fn read(bytes: &[u8]) -> Result<Left, Failure> {
        let torn = || Failure::new(Code::Bug, "what was left out of a row does not read");
        let (code, why, empty, content) =
            serde_json::from_slice(bytes).map_err(|error| torn().source(error))?;
        Ok(Left { reason: (Code::from_number(code).ok_or_else(torn)?, why), empty, content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S9, S7: with each pass through an upload the rows that were kept counted again, and those of
    // the next pass were not kept.
    #[test]
    fn what_is_kept_of_a_row_counts_once_however_often_it_is_read() {
        let left_out = LeftOut::within(&Arc::new(Spills::default()));
        let (rows, bytes) = (20_u8, ROWS_BYTES_MAX / 10);
        let row = |n: u8| (0, vec![n]);
        let kept = |n: &u8| left_out.content(&row(*n)).unwrap().is_some();
        for pass in 1..=3 {
            for n in 0..rows {
                let text = || "x".repeat(bytes + usize::from(n));
                let reason = (Code::ColumnDropped, "gone".to_owned());
                left_out.add(&row(n), (reason, n == 3), text).unwrap();
            }
            let (all, last) = ((0..rows).filter(kept).count(), (0..rows).rfind(kept));
            assert_eq!((all, last), (10, Some(9)), "pass {pass}");
            let sum: usize = (0..10_u8).map(|n| bytes + usize::from(n)).sum();
            assert_eq!((left_out.bytes.get(), left_out.empty_rows()), (sum, 1), "pass {pass}");
        }
        let mut empty = Vec::new();
        left_out
            .visit(|row, left| {
                assert_eq!(left.reason, (Code::ColumnDropped, "gone".to_owned()));
                empty.extend(left.empty.then_some(row));
                Ok(())
            })
            .unwrap();
        assert_eq!(empty, [row(3)]);
    }
}
