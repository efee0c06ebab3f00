//! What a watermark of this backend says. Nobody else reads it.
//!
//! 33 bytes: version 1, then generation, incarnation, sequence, counter, each eight bytes,
//! little-endian.
//!
//! Why the sequence is safe (S2): entries of a table's log are numbered inside the transaction
//! that makes the change, SQLite has one writer, and a reader's snapshot holds whole transactions
//! only. So the largest number a snapshot shows has no smaller one still to come.

use model::{Counter, Failure, Watermark};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// Changes when the database is found to have been restored (trap 3).
    pub(super) generation: i64,
    /// Changes when the table's log is made anew.
    pub(super) incarnation: i64,
    /// The last entry of the table's log that the remote has.
    pub(super) sequence: i64,
    /// The synchronization that handed this out; settles what was owed before it.
    pub(super) counter: Counter,
}

impl Mark {
    pub(super) fn read(watermark: &Watermark) -> Option<Mark> {
        let (version, rest) = watermark.as_bytes().split_first()?;
        if *version != 1 || rest.len() != 32 {
            return None;
        }
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&rest[at * 8..at * 8 + 8]);
            i64::from_le_bytes(bytes)
        };
        Some(Mark {
            generation: number(0),
            incarnation: number(1),
            sequence: number(2),
            counter: Counter(number(3)),
        })
    }

    pub(super) fn write(self) -> Result<Watermark, Failure> {
        let mut bytes = vec![1];
        for number in [self.generation, self.incarnation, self.sequence, self.counter.0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        Watermark::new(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_comes_back_and_rubbish_is_none() {
        let mark = Mark { generation: -1, incarnation: 2, sequence: i64::MAX, counter: Counter(4) };
        assert_eq!(Mark::read(&mark.write().unwrap()), Some(mark));
        for bytes in [vec![], vec![1], vec![2; 33], vec![1; 34]] {
            assert_eq!(Mark::read(&Watermark::new(bytes).unwrap()), None);
        }
    }
}
