//! Something about each of many rows, by table and key.
//!
//! It may be about all rows of an upload. So what there is no memory for lies on disk.

use crate::upload::uploaded_row::RowId;
use model::{Code, Failure, SpillMap, Spills};
use std::sync::Arc;

/// Bytes of the number of a table in front of a key.
const TABLE_BYTES: usize = 4;

/// Bytes by row. A set of rows has none for any.
#[derive(Debug)]
pub(crate) struct RowMap {
    rows: SpillMap,
}

impl RowMap {
    /// An empty one, with memory and files from `spills`.
    pub(crate) fn within(spills: &Arc<Spills>) -> RowMap {
        RowMap { rows: SpillMap::new(spills) }
    }

    /// True when nothing was ever added.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row, of which there is nothing to say.
    pub(crate) fn add(&mut self, row: &RowId) -> Result<(), Failure> {
        self.put(row, &[])
    }

    /// Adds a row and what there is to say of it, in the place of what was said before.
    pub(crate) fn put(&mut self, row: &RowId, what: &[u8]) -> Result<(), Failure> {
        self.rows.set(&place(row), what)
    }

    pub(crate) fn contains(&self, row: &RowId) -> Result<bool, Failure> {
        if self.is_empty() {
            return Ok(false);
        }
        Ok(self.rows.get(&place(row))?.is_some())
    }

    /// What was said of a row; none where it is not there.
    pub(crate) fn get(&self, row: &RowId) -> Result<Option<Vec<u8>>, Failure> {
        if self.is_empty() {
            return Ok(None);
        }
        Ok(self.rows.get(&place(row))?.map(|value| value.to_vec()))
    }

    /// Shows every row to `visit`: table, key, and what was said of it.
    pub(crate) fn visit<E: From<Failure>>(
        &self,
        mut visit: impl FnMut(RowId, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.rows.visit(|place, what| {
            let (table, key) = read_place(place)?;
            visit((table, key.to_vec()), what)
        })
    }
}

/// Table and key, in whose order rows are.
pub(crate) fn place((table, key): &RowId) -> Vec<u8> {
    let mut place = Vec::with_capacity(TABLE_BYTES + key.len());
    place.extend_from_slice(&(*table as u32).to_be_bytes());
    place.extend_from_slice(key);
    place
}

/// The table and the key of the row at a [`place`].
pub(crate) fn read_place(place: &[u8]) -> Result<(usize, &[u8]), Failure> {
    let torn = || Failure::new(Code::Bug, "the place of a row does not read");
    let (table, key) = place.split_first_chunk::<TABLE_BYTES>().ok_or_else(torn)?;
    Ok((u32::from_be_bytes(*table) as usize, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_what_was_said_of_it_last() {
        let mut rows = RowMap::within(&Arc::new(Spills::default()));
        let row = |table: usize, key: u8| (table, vec![key]);
        assert!(rows.is_empty() && !rows.contains(&row(0, 1)).unwrap());
        rows.put(&row(1, 7), b"first").unwrap();
        rows.put(&row(1, 7), b"second").unwrap();
        rows.add(&row(0, 9)).unwrap();
        assert!(!rows.contains(&row(0, 1)).unwrap() && rows.contains(&row(0, 9)).unwrap());
        assert_eq!(rows.get(&row(0, 1)).unwrap(), None);
        assert_eq!(rows.get(&row(1, 7)).unwrap(), Some(b"second".to_vec()));
        let mut seen = Vec::new();
        rows.visit(|row, what| {
            seen.push((row, what.to_vec()));
            Ok::<(), Failure>(())
        })
        .unwrap();
        assert_eq!(seen, [(row(0, 9), vec![]), (row(1, 7), b"second".to_vec())]);
    }
}
