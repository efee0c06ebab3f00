//! What is left out of uploaded rows, because no column takes it.
//!
//! Something may be left out of every row of an upload. So what there is no memory for lies on
//! disk.

use crate::upload::row_map::{RowMap, place, read_place};
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
    /// By their keys after the upload.
    told: RefCell<RowMap>,
    /// Updates of which nothing is left, and their number.
    empty: RefCell<RowMap>,
    empty_rows: Cell<u64>,
    /// The new keys of such rows, by the keys in the upload.
    moved: RefCell<RowMap>,
    /// Bytes of all contents.
    bytes: Cell<usize>,
}

/// A row of which something was left out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Left {
    pub(crate) code: Code,
    pub(crate) why: String,
    /// The row by its key in the upload: the old one, if the key changes.
    pub(crate) sent: RowId,
    /// JSON: the row under the names that the remote has for its columns.
    pub(crate) content: Option<String>,
}

impl LeftOut {
    /// None, with memory and files from `spills`.
    pub(super) fn within(spills: &Arc<Spills>) -> LeftOut {
        let rows = || RefCell::new(RowMap::within(spills));
        LeftOut {
            told: rows(),
            empty: rows(),
            empty_rows: Cell::default(),
            moved: rows(),
            bytes: Cell::default(),
        }
    }

    /// Shows every such row, by its key in the upload and its key afterwards, with the reason.
    pub(crate) fn visit(
        &self,
        mut visit: impl FnMut(RowId, RowId, (Code, String)) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.told.borrow().visit(|row, left| {
            let Left { code, why, sent, .. } = Left::read(left)?;
            visit(sent, row, (code, why))
        })
    }

    /// The whole row of which values were left out, as JSON, as it was uploaded.
    pub(crate) fn content(&self, sent: &RowId) -> Result<Option<String>, Failure> {
        let moved = self.moved.borrow().get(sent)?;
        let told = self.told.borrow();
        let left = match &moved {
            Some(place) => {
                let (table, key) = read_place(place)?;
                told.get(&(table, key.to_vec()))?
            }
            None => told.get(sent)?,
        };
        let left = left.map(|left| Left::read(&left)).transpose()?;
        Ok(left.and_then(|left| left.content))
    }

    /// Shows the rows that no batch contains under their key, with their content: updates without
    /// remaining values, and rows that have got another key.
    pub(crate) fn visit_unsaid(
        &self,
        mut visit: impl FnMut(RowId, Option<String>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.told.borrow().visit(|row, left| {
            let Left { sent, content, .. } = Left::read(left)?;
            match row != sent || self.empty.borrow().contains(&row)? {
                true => visit(row, content),
                false => Ok(()),
            }
        })
    }

    /// How many updates there are of which nothing is left.
    pub(super) fn empty_rows(&self) -> u64 {
        self.empty_rows.get()
    }

    /// Takes note of an update of which nothing is left, by the key that its row has afterwards.
    pub(super) fn add_empty(&self, row: &RowId) -> Result<(), Failure> {
        let mut empty = self.empty.borrow_mut();
        // The rows of an upload are read more than once.
        if empty.contains(row)? {
            return Ok(());
        }
        self.empty_rows.set(self.empty_rows.get() + 1);
        empty.add(row)
    }

    pub(super) fn add(
        &self,
        (row, sent): (RowId, RowId),
        (code, why): (Code, String),
        content: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let mut told = self.told.borrow_mut();
        // The rows of an upload are read more than once: what is kept of one counts once.
        let before = told.get(&row)?.map(|left| Left::read(&left)).transpose()?;
        let kept = before.as_ref().and_then(|left| left.content.as_ref()).map(String::len);
        let others = self.bytes.get() - kept.unwrap_or(0);
        let content = (kept.is_some() || others < ROWS_BYTES_MAX)
            .then(content)
            .filter(|content| others < ROWS_BYTES_MAX || kept >= Some(content.len()));
        self.bytes.set(others + content.as_ref().map_or(0, String::len));
        let left = Left { code, why, sent, content };
        if before.as_ref() == Some(&left) {
            return Ok(());
        }
        if row != left.sent {
            self.moved.borrow_mut().put(&left.sent, &place(&row))?;
        }
        told.put(&row, &left.to_bytes())
    }
}

/// Bytes of a length.
const LEN_BYTES: usize = 4;

impl Left {
    fn to_bytes(&self) -> Vec<u8> {
        let sent = place(&self.sent);
        let content = self.content.as_deref();
        let mut bytes = Vec::new();
        for len in [sent.len(), self.why.len()] {
            bytes.extend_from_slice(&(len as u32).to_le_bytes());
        }
        bytes.push(u8::from(content.is_some()));
        bytes.push(u8::from(self.code == Code::RowKeyFixed));
        for part in [&sent, self.why.as_bytes(), content.unwrap_or_default().as_bytes()] {
            bytes.extend_from_slice(part);
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Left, Failure> {
        let torn = || Failure::new(Code::Bug, "what was left out of a row does not read");
        Left::try_read(bytes).ok_or_else(torn)
    }

    fn try_read(bytes: &[u8]) -> Option<Left> {
        let (sent_len, rest) = bytes.split_first_chunk::<LEN_BYTES>()?;
        let (why_len, rest) = rest.split_first_chunk::<LEN_BYTES>()?;
        let (has_content, rest) = rest.split_first()?;
        let (has_key, rest) = rest.split_first()?;
        let (sent, rest) = rest.split_at_checked(u32::from_le_bytes(*sent_len) as usize)?;
        let (why, rest) = rest.split_at_checked(u32::from_le_bytes(*why_len) as usize)?;
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        let (table, key) = read_place(sent).ok()?;
        let content = match *has_content {
            0 => None,
            _ => Some(text(rest)?),
        };
        let code = if *has_key == 0 { Code::ColumnDropped } else { Code::RowKeyFixed };
        Some(Left { code, why: text(why)?, sent: (table, key.to_vec()), content })
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
                left_out.add((row(n), row(n)), (Code::ColumnDropped, String::new()), text).unwrap();
            }
            let (all, last) = ((0..rows).filter(kept).count(), (0..rows).rfind(kept));
            assert_eq!((all, last), (10, Some(9)), "pass {pass}");
            let sum: usize = (0..10_u8).map(|n| bytes + usize::from(n)).sum();
            assert_eq!(left_out.bytes.get(), sum, "pass {pass}");
        }
        // Rows that grow later exceed the bound by one row, as those that come later do.
        for n in 0..rows {
            left_out
                .add((row(n), row(n)), (Code::ColumnDropped, String::new()), || {
                    "x".repeat(2 * bytes)
                })
                .unwrap();
        }
        assert!(left_out.bytes.get() < ROWS_BYTES_MAX + 2 * bytes);
    }

    #[test]
    fn a_row_under_another_key_is_found_by_the_one_that_was_sent() {
        let left_out = LeftOut::within(&Arc::new(Spills::default()));
        let (sent, row, other) = ((1, vec![1]), (1, vec![2]), (1, vec![3]));
        for _ in 0..2 {
            let content = || "content".to_owned();
            let reason = |why: &str| (Code::ColumnDropped, why.to_owned());
            left_out.add((row.clone(), sent.clone()), reason("moved"), content).unwrap();
            left_out.add((other.clone(), other.clone()), reason("empty"), content).unwrap();
            left_out.add_empty(&other).unwrap();
        }
        assert_eq!(left_out.empty_rows(), 1);
        for key in [&sent, &row, &other] {
            assert_eq!(left_out.content(key).unwrap().as_deref(), Some("content"));
        }
        let (mut told, mut unsaid) = (Vec::new(), Vec::new());
        left_out
            .visit(|sent, row, (_, why)| {
                told.push((sent, row, why));
                Ok(())
            })
            .unwrap();
        left_out
            .visit_unsaid(|row, _| {
                unsaid.push(row);
                Ok(())
            })
            .unwrap();
        let moved = (sent, row.clone(), "moved".to_owned());
        assert_eq!(told, [moved, (other.clone(), other.clone(), "empty".to_owned())]);
        assert_eq!(unsaid, [row, other]);
    }
}
