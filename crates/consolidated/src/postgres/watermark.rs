//! The content of a watermark of this backend. Only this backend reads it.
//!
//! Version 1, then the fields of [`Mark`] in their order, numbers little-endian, and last the
//! snapshot in its short form.
//!
//! Why the snapshot is exact (S2): rows have the transaction that wrote them, and the snapshot is
//! that of the transaction that reads them. The remote has every transaction that the snapshot
//! shows. The others are sent next time, whenever they commit.
//!
//! But after a crash the server assigns some numbers again: those of transactions of which nothing
//! had reached the disk, such as the last ones that were rolled back. The number of the remote's
//! own upload has reached the disk for certain. Rows that are younger are sent again.

use super::snapshot::Snapshot;
use model::{Counter, Failure, Watermark};

/// Longest snapshot in a watermark, in bytes; about 1,500 transactions in flight.
const SNAPSHOT_BYTES_MAX: usize = 3072;

const VERSION: u8 = 1;

/// Bytes before the snapshot.
const HEAD_BYTES: usize = 61;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    /// The cluster: transactions of another one count for nothing.
    pub(super) place: Place,
    /// Changes when the database is found to have been restored (trap 3).
    pub(super) generation: i64,
    /// The synchronization that handed this out; settles what was owed before it.
    pub(super) counter: Counter,
    /// Digest of the incarnations of the tables that decide which rows the remote has.
    pub(super) incarnations: u64,
    /// Digest of the selection and of the values that it depends on (trap 4).
    pub(super) claims: u128,
    /// The first transaction whose number may be given out again after a crash.
    pub(super) perishable: u64,
    /// None for a table that is not downloaded.
    pub(super) snapshot: Option<Snapshot>,
}

/// Where transaction numbers have a meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) system: u64,
    pub(super) timeline: u32,
}

impl Mark {
    pub(super) fn read(watermark: &Watermark) -> Option<Mark> {
        let (head, rest) = watermark.as_bytes().split_at_checked(HEAD_BYTES)?;
        if head[0] != VERSION {
            return None;
        }
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&head[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        Some(Mark {
            place: Place { system: number(1), timeline: (number(5) >> 32) as u32 },
            generation: number(13).cast_signed(),
            counter: Counter(number(21).cast_signed()),
            incarnations: number(29),
            claims: u128::from(number(37)) | u128::from(number(45)) << 64,
            perishable: number(53),
            snapshot: if rest.is_empty() { None } else { Some(Snapshot::read(rest)?) },
        })
    }

    pub(super) fn write(&self) -> Result<Watermark, Failure> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.place.system.to_le_bytes());
        bytes.extend_from_slice(&self.place.timeline.to_le_bytes());
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&self.counter.0.to_le_bytes());
        bytes.extend_from_slice(&self.incarnations.to_le_bytes());
        bytes.extend_from_slice(&self.claims.to_le_bytes());
        bytes.extend_from_slice(&self.perishable.to_le_bytes());
        if let Some(snapshot) = &self.snapshot {
            snapshot.write(&mut bytes);
            if bytes.len() > HEAD_BYTES + SNAPSHOT_BYTES_MAX {
                // So many at once are rare. Sending again what began with the oldest is safe.
                bytes.truncate(HEAD_BYTES);
                snapshot.coarse().write(&mut bytes);
            }
        }
        Watermark::new(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(snapshot: &str) -> Mark {
        Mark {
            place: Place { system: u64::MAX - 7, timeline: 3 },
            generation: -1,
            counter: Counter(i64::MAX),
            incarnations: 5,
            claims: u128::MAX - 6,
            perishable: 8,
            snapshot: Snapshot::parse(snapshot),
        }
    }

    #[test]
    fn a_mark_comes_back_and_rubbish_is_none() {
        for snapshot in ["", "7:7:", "7:900:7,8,500"] {
            let mark = mark(snapshot);
            assert_eq!(Mark::read(&mark.write().unwrap()), Some(mark), "{snapshot}");
        }
        for bytes in [vec![], vec![1], vec![2; 70], vec![1; 60], vec![255; 70]] {
            assert_eq!(Mark::read(&Watermark::new(bytes).unwrap()), None);
        }
    }

    // Trap 1
    #[test]
    fn very_many_transactions_in_flight_still_fit() {
        let list: Vec<String> = (0..50_000_u64).map(|n| (1000 + 2 * n).to_string()).collect();
        let many = mark(&format!("1000:200000:{}", list.join(",")));
        let read = Mark::read(&many.write().unwrap()).unwrap();
        assert_eq!(read.snapshot, many.snapshot.as_ref().map(Snapshot::coarse));
        assert!(read.snapshot.unwrap().is_within(&many.snapshot.unwrap()));
    }
}
