//! Rows of an upload that wait, because other rows of it may be in their way.
//!
//! All rows of an upload may have to wait: those for which there is no memory lie on disk.

use crate::synchronization::change::Change;
use crate::upload::uploaded_row::RowId;
use model::{Code, Failure, SpillList, Spills};
use std::sync::Arc;

/// A row that waits.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::sqlite) struct WaitingRow {
    pub(in crate::sqlite) table: usize,
    pub(in crate::sqlite) change: Change,
    pub(in crate::sqlite) row: Vec<u8>,
    /// What the remote knows it by.
    pub(in crate::sqlite) id: RowId,
}

/// Rows that wait, in the order in which they came, each with a word about it.
pub(in crate::sqlite) struct WaitingRows {
    rows: SpillList,
}

/// Goes through them once.
pub(in crate::sqlite) struct WaitingReader<'p> {
    rows: &'p SpillList,
    next: usize,
}

impl WaitingRows {
    pub(in crate::sqlite) fn within(spills: &Arc<Spills>) -> WaitingRows {
        WaitingRows { rows: SpillList::new(spills) }
    }

    pub(in crate::sqlite) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(in crate::sqlite) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(in crate::sqlite) fn push(&mut self, waiting_rows: &WaitingRow) -> Result<(), Failure> {
        self.push_with(waiting_rows, "")
    }

    pub(in crate::sqlite) fn push_with(
        &mut self,
        waiting_rows: &WaitingRow,
        word: &str,
    ) -> Result<(), Failure> {
        self.rows.append(write(waiting_rows, word))
    }

    /// Takes all of them, which leaves none.
    pub(in crate::sqlite) fn take(&mut self, spills: &Arc<Spills>) -> WaitingRows {
        std::mem::replace(self, WaitingRows::within(spills))
    }

    pub(in crate::sqlite) fn reader(&self) -> WaitingReader<'_> {
        WaitingReader { rows: &self.rows, next: 0 }
    }

    /// The row with a number, in the order in which they came.
    pub(in crate::sqlite) fn row(&self, number: usize) -> Result<WaitingRow, Failure> {
        let chunk = self.rows.get(number)?.ok_or_else(torn)?;
        read(&chunk).map(|(row, _)| row)
    }
}

impl WaitingReader<'_> {
    /// The next row and the word about it; none behind the last.
    pub(in crate::sqlite) fn next_row(&mut self) -> Result<Option<(WaitingRow, String)>, Failure> {
        let Some(chunk) = self.rows.get(self.next)? else { return Ok(None) };
        self.next += 1;
        read(&chunk).map(Some)
    }
}

/// A row and the word about it, as bytes.
pub(in crate::sqlite) fn write(row: &WaitingRow, word: &str) -> Vec<u8> {
    let WaitingRow { table, change, row, id } = row;
    let parts: [&[u8]; 3] = [&id.1, word.as_bytes(), row];
    let mut chunk = Vec::with_capacity(17 + parts.iter().map(|part| part.len()).sum::<usize>());
    for number in [*table, id.0, id.1.len(), word.len()] {
        chunk.extend_from_slice(&(number as u32).to_le_bytes());
    }
    chunk.push(*change as u8);
    parts.iter().for_each(|part| chunk.extend_from_slice(part));
    chunk
}

/// What [`write`] has written.
pub(in crate::sqlite) fn read(chunk: &[u8]) -> Result<(WaitingRow, String), Failure> {
    try_read(chunk).ok_or_else(torn)
}

fn torn() -> Failure {
    Failure::new(Code::Bug, "a row that waits does not read")
}

fn try_read(chunk: &[u8]) -> Option<(WaitingRow, String)> {
    let mut rest = chunk;
    let mut number = || -> Option<usize> {
        let (number, behind) = rest.split_first_chunk()?;
        rest = behind;
        Some(u32::from_le_bytes(*number) as usize)
    };
    let (table, id_table, id_len, word_len) = (number()?, number()?, number()?, number()?);
    let (change, rest) = rest.split_first()?;
    let (id, rest) = rest.split_at_checked(id_len)?;
    let (word, row) = rest.split_at_checked(word_len)?;
    let change = CHANGES.into_iter().find(|it| *it as u8 == *change)?;
    let word = std::str::from_utf8(word).ok()?.to_owned();
    let id = (id_table, id.to_vec());
    Some((WaitingRow { table, change, row: row.to_vec(), id }, word))
}

const CHANGES: [Change; 3] = [Change::Insert, Change::Update, Change::Delete];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_wait_in_their_order_and_come_back_as_they_were() {
        let spills = Arc::new(Spills::default());
        let mut rows = WaitingRows::within(&spills);
        let waiting_rows = |number: u8, change: Change| WaitingRow {
            table: usize::from(number),
            change,
            row: vec![number; 40],
            id: (2, vec![number]),
        };
        let all: Vec<WaitingRow> =
            (0..3).map(|n| waiting_rows(n, CHANGES[usize::from(n)])).collect();
        rows.push(&all[0]).unwrap();
        all[1..].iter().for_each(|one| rows.push_with(one, "in the way").unwrap());
        let taken = rows.take(&spills);
        assert!(rows.is_empty());
        let mut reader = taken.reader();
        let (read, words): (Vec<WaitingRow>, Vec<String>) =
            std::iter::from_fn(|| reader.next_row().unwrap()).unzip();
        assert_eq!((taken.len(), &read), (3, &all));
        assert_eq!(words, ["", "in the way", "in the way"]);
    }
}
