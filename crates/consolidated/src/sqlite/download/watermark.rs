//! The content of a watermark of this backend. Only this backend reads it.
//!
//! Version 2, one byte; generation and counter, eight bytes each; the claims, 16; then, for
//! each log that the downloads of the table read, in the order of [`TableDetails::logs`],
//! incarnation and sequence, eight bytes each. All numbers are little-endian. Version 3 has a time,
//! eight bytes, behind the claims.
//!
//! Why the sequence is safe (S2): the entries of a log are numbered inside the transaction that
//! makes the change, SQLite has one writer, and the snapshot of a reader has whole transactions
//! only. So below the largest number that a snapshot shows, no number can appear later.
//!
//! [`TableDetails::logs`]: details::TableDetails

use crate::digest::digest;
use crate::download::mark::{self, Point};
use crate::download::time::Time;
use crate::sqlite::details::TableDetails;
use crate::synchronization::Session;
use model::{Code, Counter, Failure, Watermark};

const VERSION: u8 = 2;
const VERSION_WITH_TIME: u8 = 3;
const HEAD_BYTES: usize = 32;
const TIME_BYTES: usize = 8;
const LOG_BYTES: usize = 16;

pub(in crate::sqlite) type Mark = mark::Mark<Logs>;

/// How far the remote has followed each log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sqlite) struct Logs(pub(in crate::sqlite) Vec<LogMark>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sqlite) struct LogMark {
    /// Changes when the log is created again.
    pub(in crate::sqlite) incarnation: i64,
    /// The last entry that the remote has.
    pub(in crate::sqlite) sequence: i64,
}

impl Point for Logs {
    fn read(watermark: &Watermark) -> Option<Mark> {
        let (version, rest) = watermark.as_bytes().split_first()?;
        let (head, logs) = rest.split_at_checked(HEAD_BYTES)?;
        let (time, logs) = match *version {
            VERSION => (None, logs),
            VERSION_WITH_TIME => {
                let (time, logs) = logs.split_at_checked(TIME_BYTES)?;
                (Some(number(time, 0)), logs)
            }
            _ => return None,
        };
        if logs.len() % LOG_BYTES != 0 {
            return None;
        }
        let logs = logs.chunks(LOG_BYTES);
        let logs =
            logs.map(|log| LogMark { incarnation: number(log, 0), sequence: number(log, 1) });
        Some(Mark {
            generation: number(head, 0),
            counter: Counter(number(head, 1)),
            claims: u128::from_le_bytes(head[16..].try_into().ok()?),
            time,
            point: Logs(logs.collect()),
        })
    }

    fn write(mark: &Mark) -> Result<Watermark, Failure> {
        let mut bytes = vec![if mark.time.is_some() { VERSION_WITH_TIME } else { VERSION }];
        bytes.extend_from_slice(&mark.generation.to_le_bytes());
        bytes.extend_from_slice(&mark.counter.0.to_le_bytes());
        bytes.extend_from_slice(&mark.claims.to_le_bytes());
        bytes.extend(mark.time.into_iter().flat_map(Time::to_le_bytes));
        for log in &mark.point.0 {
            bytes.extend_from_slice(&log.incarnation.to_le_bytes());
            bytes.extend_from_slice(&log.sequence.to_le_bytes());
        }
        Watermark::new(bytes)
    }
}

fn number(bytes: &[u8], at: usize) -> i64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at * 8..at * 8 + 8]);
    i64::from_le_bytes(number)
}

/// A digest of the table's selection and of the values that it has for the remote that
/// synchronizes.
pub(in crate::sqlite) fn claims(
    details: &TableDetails,
    session: &Session,
) -> Result<u128, Failure> {
    if !details.is_fenced() {
        return Ok(0);
    }
    let mut parts = vec![details.selection.as_str()];
    for claim in &details.claims {
        match claim.value(session) {
            // A claim that is missing is not the same as an empty one.
            None => parts.push("missing"),
            Some(value) => parts.extend(["is", value]),
        }
    }
    u128::from_str_radix(&digest(&parts), 16)
        .map_err(|error| Failure::new(Code::Bug, "a digest is no number").source(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_comes_back_and_rubbish_is_none() {
        let log = |incarnation, sequence| LogMark { incarnation, sequence };
        for logs in [vec![], vec![log(2, i64::MAX)], vec![log(2, 3), log(-4, 5), log(6, 7)]] {
            let (generation, counter, claims) = (-1, Counter(4), u128::MAX - 5);
            for time in [None, Some(-7)] {
                let point = Logs(logs.clone());
                let mark = Mark { generation, counter, claims, time, point };
                assert_eq!(Mark::read(&mark.write().unwrap()), Some(mark));
            }
        }
        for bytes in [vec![], vec![1; 33], vec![2; 32], vec![2; 34], vec![2; 48]] {
            assert_eq!(Logs::read(&Watermark::new(bytes).unwrap()), None);
        }
    }
}
