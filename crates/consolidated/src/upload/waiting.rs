//! Rows of an upload that wait, because other rows of it may be in their way.
//!
//! They are in memory. So there is a limit, and a row above it is rejected.

use crate::synchronization::change::Change;
use crate::upload::reason::Reason;
use crate::upload::uploaded_row::UploadedRow;
use model::{Code, Failure, Hold, PublishedTable, Spills};

/// Most rows that wait.
const ROWS_MAX: usize = 100_000;

/// Most bytes of rows that wait.
const BYTES_MAX: u64 = 16 << 20;

/// Bytes that a row takes beside its values and the message.
const ROW_BYTES: u64 = size_of::<WaitingRow>() as u64;

/// A row that waits, and what is wrong with it where nothing helps.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WaitingRow {
    pub(crate) table: usize,
    pub(crate) change: Change,
    pub(crate) row: Vec<u8>,
    pub(crate) reason: Reason,
}

impl WaitingRow {
    /// An uploaded row, before it is known why it waits.
    pub(crate) fn of(table: usize, row: &UploadedRow<'_>) -> WaitingRow {
        let reason = (Code::RowNotUnique, String::new()).into();
        WaitingRow { table, change: row.change, row: row.bytes.to_vec(), reason }
    }

    pub(crate) fn read(&self, table: &PublishedTable) -> Result<UploadedRow<'_>, Failure> {
        let mut row = UploadedRow::default();
        row.read(&self.row, self.change, table.width())?;
        Ok(row)
    }
}

/// Rows that wait, in the order in which they came.
#[derive(Debug)]
pub(crate) struct WaitingRows {
    rows: Vec<WaitingRow>,
    hold: Hold,
}

impl WaitingRows {
    /// None, which count as memory of `spills`.
    pub(crate) fn within(spills: &Spills) -> WaitingRows {
        WaitingRows { rows: Vec::new(), hold: spills.memory().hold() }
    }

    /// Adds a row; or says why it is to be rejected, if it is above the limit.
    pub(crate) fn push(&mut self, row: WaitingRow) -> Result<(), Reason> {
        let bytes = ROW_BYTES + (row.row.len() + row.reason.message.len()) as u64;
        if self.rows.len() >= ROWS_MAX || self.hold.bytes() + bytes > BYTES_MAX {
            let why = format!(
                "more than {ROWS_MAX} rows or {} MiB of this upload wait for other rows of it: {}",
                BYTES_MAX >> 20,
                row.reason.message
            );
            return Err((Code::TooManyRowsWait, why).into());
        }
        self.hold.grow(bytes);
        self.rows.push(row);
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Takes all of them, which leaves none.
    pub(crate) fn take(&mut self) -> WaitingRows {
        WaitingRows { rows: std::mem::take(&mut self.rows), hold: self.hold.take() }
    }

    /// All of them, for who applies or rejects each.
    pub(crate) fn into_rows(self) -> Vec<WaitingRow> {
        self.rows
    }

    pub(crate) fn rows(&self) -> &[WaitingRow] {
        &self.rows
    }

    /// Brings them into another order; those that are equal in it stay in theirs.
    pub(crate) fn sort_by_key<K: Ord>(&mut self, key: impl FnMut(&WaitingRow) -> K) {
        self.rows.sort_by_key(key);
    }

    /// Leaves those for which `stays` holds, and returns the others.
    pub(crate) fn remove(&mut self, mut stays: impl FnMut(&WaitingRow) -> bool) -> Vec<WaitingRow> {
        self.rows.extract_if(.., |row| !stays(row)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bytes: usize) -> WaitingRow {
        let reason = (Code::RowNotUnique, "in the way".to_owned()).into();
        WaitingRow { table: 1, change: Change::Update, row: vec![0; bytes], reason }
    }

    // S9
    #[test]
    fn a_row_above_the_limit_is_refused_with_its_reason() {
        let spills = Spills::default();
        let mut rows = WaitingRows::within(&spills);
        let half = BYTES_MAX as usize / 2;
        assert!(rows.push(row(half)).is_ok() && rows.push(row(10)).is_ok());
        let Reason { code, message: why, .. } = rows.push(row(half)).unwrap_err();
        assert_eq!(code, Code::TooManyRowsWait);
        assert!(why.ends_with(": in the way"), "{why}");
        let taken = rows.take();
        assert_eq!((rows.len(), taken.rows()), (0, &[row(half), row(10)][..]));
        assert!(spills.memory().used_bytes() > half as u64);
        drop(taken);
        assert_eq!(spills.memory().used_bytes(), 0);
        (0..ROWS_MAX).for_each(|_| rows.push(row(1)).unwrap());
        assert!(rows.push(row(1)).is_err());
    }
}
