//! The content of a watermark of this backend. Only this backend reads it.
//!
//! Version 1, one byte; the system, eight bytes, and its timeline, four; generation, counter and
//! incarnations, eight bytes each; the claims, 16; what is perishable, eight; and last the snapshot
//! in its short form. All numbers are little-endian. Version 2 has a time, eight bytes, before the
//! snapshot.
//!
//! Why the snapshot is exact (S2): rows have the transaction that wrote them, and the snapshot is
//! that of the transaction that reads them. The remote has every transaction that the snapshot
//! shows. The others are sent next time, whenever they commit.
//!
//! But after a crash the server assigns some numbers again: those of transactions of which nothing
//! had reached the disk, such as the last ones that were rolled back. The number of the remote's
//! own upload has reached the disk for certain. Rows that are younger are sent again.

use crate::download::mark;
use crate::download::time::Time;
use crate::postgres::download::snapshot::Snapshot;
use model::{Counter, Failure, Watermark};

/// Longest snapshot in a watermark, in bytes; about 1,500 transactions in flight.
const SNAPSHOT_BYTES_MAX: usize = 3072;

const VERSION: u8 = 1;
const VERSION_WITH_TIME: u8 = 2;

/// Bytes before the time, or the snapshot.
const HEAD_BYTES: usize = 61;

pub(in crate::postgres) type Mark = mark::Mark<Point>;

/// The cluster and the transactions that a mark is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::postgres) struct Point {
    /// The cluster: transactions of another one count for nothing.
    pub(in crate::postgres) space: NumberSpace,
    /// Digest of the incarnations of the tables that decide which rows the remote has.
    pub(in crate::postgres) incarnations: u64,
    /// The first transaction whose number may be given out again after a crash.
    pub(in crate::postgres) perishable: u64,
    /// None for a table that is not downloaded.
    pub(in crate::postgres) snapshot: Option<Snapshot>,
}

/// Where transaction numbers have a meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::postgres) struct NumberSpace {
    pub(in crate::postgres) system: u64,
    pub(in crate::postgres) timeline: u32,
}

impl mark::Point for Point {
    fn read(watermark: &Watermark) -> Option<Mark> {
        let (head, rest) = watermark.as_bytes().split_at_checked(HEAD_BYTES)?;
        let (time, rest) = match head[0] {
            VERSION => (None, rest),
            VERSION_WITH_TIME => {
                let (time, rest) = rest.split_first_chunk()?;
                (Some(Time::from_le_bytes(*time)), rest)
            }
            _ => return None,
        };
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&head[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let point = Point {
            space: NumberSpace { system: number(1), timeline: (number(5) >> 32) as u32 },
            incarnations: number(29),
            perishable: number(53),
            snapshot: if rest.is_empty() { None } else { Some(Snapshot::read(rest)?) },
        };
        Some(Mark {
            generation: number(13).cast_signed(),
            counter: Counter(number(21).cast_signed()),
            claims: u128::from(number(37)) | u128::from(number(45)) << 64,
            time,
            point,
        })
    }

    fn write(mark: &Mark) -> Result<Watermark, Failure> {
        let Point { space, incarnations, perishable, snapshot } = &mark.point;
        let mut bytes = vec![if mark.time.is_some() { VERSION_WITH_TIME } else { VERSION }];
        bytes.extend_from_slice(&space.system.to_le_bytes());
        bytes.extend_from_slice(&space.timeline.to_le_bytes());
        bytes.extend_from_slice(&mark.generation.to_le_bytes());
        bytes.extend_from_slice(&mark.counter.0.to_le_bytes());
        bytes.extend_from_slice(&incarnations.to_le_bytes());
        bytes.extend_from_slice(&mark.claims.to_le_bytes());
        bytes.extend_from_slice(&perishable.to_le_bytes());
        bytes.extend(mark.time.into_iter().flat_map(Time::to_le_bytes));
        if let Some(snapshot) = snapshot {
            let head_bytes = bytes.len();
            snapshot.write(&mut bytes);
            if bytes.len() > head_bytes + SNAPSHOT_BYTES_MAX {
                // So many at once are rare. Sending again what began with the oldest is safe.
                bytes.truncate(head_bytes);
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
        let point = Point {
            space: NumberSpace { system: u64::MAX - 7, timeline: 3 },
            incarnations: 5,
            perishable: 8,
            snapshot: Snapshot::parse(snapshot),
        };
        let (generation, counter, claims) = (-1, Counter(i64::MAX), u128::MAX - 6);
        Mark { generation, counter, claims, time: None, point }
    }

    #[test]
    fn a_mark_comes_back_and_rubbish_is_none() {
        for snapshot in ["", "7:7:", "7:900:7,8,500"] {
            for time in [None, Some(-7)] {
                let mark = Mark { time, ..mark(snapshot) };
                assert_eq!(Mark::read(&mark.write().unwrap()), Some(mark), "{snapshot}");
            }
        }
        for bytes in [vec![], vec![1], vec![2; 70], vec![1; 60], vec![255; 70]] {
            assert_eq!(<Point as mark::Point>::read(&Watermark::new(bytes).unwrap()), None);
        }
    }

    // Trap 1
    #[test]
    fn very_many_transactions_in_flight_still_fit() {
        let list: Vec<String> = (0..50_000_u64).map(|n| (1000 + 2 * n).to_string()).collect();
        let many = mark(&format!("1000:200000:{}", list.join(",")));
        let read = Mark::read(&many.write().unwrap()).unwrap().point.snapshot;
        let many = many.point.snapshot;
        assert_eq!(read, many.as_ref().map(Snapshot::coarse));
        assert!(read.unwrap().is_within(&many.unwrap()));
    }
}
