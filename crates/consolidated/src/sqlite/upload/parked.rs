//! Rows of an upload that wait, because other rows of it may be in their way.
//!
//! All rows of an upload may have to wait: those for which there is no memory lie on disk.

use crate::synchronization::Change;
use crate::uploaded_row::RowId;
use model::{Code, Failure, Spill, SpillReader, Spills};
use std::sync::Arc;

/// A row that waits.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Parked {
    pub(in super::super) table: usize,
    pub(in super::super) change: Change,
    pub(in super::super) row: Vec<u8>,
    /// What the remote knows it by.
    pub(in super::super) id: RowId,
}

/// Rows that wait, in the order in which they came, each with a word about it.
#[derive(Debug)]
pub(in super::super) struct ParkedRows {
    rows: Spill,
}

/// Goes through them once.
pub(in super::super) struct ParkedReader<'p> {
    rows: SpillReader<'p>,
}

impl ParkedRows {
    pub(in super::super) fn within(spills: &Arc<Spills>) -> ParkedRows {
        ParkedRows { rows: spills.open() }
    }

    pub(in super::super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(in super::super) fn push(&mut self, parked: &Parked) -> Result<(), Failure> {
        self.push_with(parked, "")
    }

    pub(in super::super) fn push_with(
        &mut self,
        parked: &Parked,
        word: &str,
    ) -> Result<(), Failure> {
        let Parked { table, change, row, id } = parked;
        let parts: [&[u8]; 3] = [&id.1, word.as_bytes(), row];
        let mut chunk = Vec::with_capacity(17 + parts.iter().map(|part| part.len()).sum::<usize>());
        for number in [*table, id.0, id.1.len(), word.len()] {
            chunk.extend_from_slice(&(number as u32).to_le_bytes());
        }
        chunk.push(*change as u8);
        parts.iter().for_each(|part| chunk.extend_from_slice(part));
        self.rows.append(chunk)
    }

    /// Takes all of them, which leaves none.
    pub(in super::super) fn take(&mut self, spills: &Arc<Spills>) -> ParkedRows {
        std::mem::replace(self, ParkedRows::within(spills))
    }

    pub(in super::super) fn reader(&self) -> ParkedReader<'_> {
        ParkedReader { rows: self.rows.reader() }
    }

    /// All of them in memory.
    pub(in super::super) fn to_vec(&self) -> Result<Vec<Parked>, Failure> {
        let (mut all, mut reader) = (Vec::new(), self.reader());
        while let Some((parked, _)) = reader.next_row()? {
            all.push(parked);
        }
        Ok(all)
    }
}

impl ParkedReader<'_> {
    /// The next row and the word about it; none behind the last.
    pub(in super::super) fn next_row(&mut self) -> Result<Option<(Parked, String)>, Failure> {
        match self.rows.next_chunk()? {
            Some(chunk) => read(&chunk).map(Some).ok_or_else(torn),
            None => Ok(None),
        }
    }
}

fn read(chunk: &[u8]) -> Option<(Parked, String)> {
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
    Some((Parked { table, change, row: row.to_vec(), id }, word))
}

const CHANGES: [Change; 4] = [Change::Insert, Change::Update, Change::KeyChange, Change::Delete];

fn torn() -> Failure {
    Failure::new(Code::Bug, "a row that waits does not read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_wait_in_their_order_and_come_back_as_they_were() {
        let spills = Arc::new(Spills::default());
        let mut rows = ParkedRows::within(&spills);
        let parked = |number: u8, change: Change| Parked {
            table: usize::from(number),
            change,
            row: vec![number; 40],
            id: (2, vec![number]),
        };
        let all: Vec<Parked> = (0..4).map(|n| parked(n, CHANGES[usize::from(n)])).collect();
        rows.push(&all[0]).unwrap();
        all[1..].iter().for_each(|one| rows.push_with(one, "in the way").unwrap());
        let taken = rows.take(&spills);
        assert!(rows.is_empty());
        assert_eq!((taken.len(), taken.to_vec().unwrap()), (4, all));
        let mut reader = taken.reader();
        let words: Vec<String> =
            std::iter::from_fn(|| reader.next_row().unwrap()).map(|(_, word)| word).collect();
        assert_eq!(words, ["", "in the way", "in the way", "in the way"]);
    }
}
