//! Releases a download only when everything that it read is on the disk of the database (trap 27).
//!
//! With `synchronous_commit = off` other transactions see a commit before it is durable. A crash
//! undoes it, and a remote that received its rows would keep them forever. So a download with rows
//! waits until the write-ahead log is flushed up to its end at the time of the snapshot. Every
//! commit that the snapshot shows is before that point.
//!
//! Mostly the log is flushed by the time the rows are read. If it is not, the server flushes it by
//! a commit of its own.

use crate::postgres::errors::failed;
use crate::postgres::link::{Call, Link, Row};
use model::{Code, Failure};

/// For the flight that reads rows, after them. `$1` is a place in the log.
pub(in crate::postgres) const IS_FLUSHED: &str =
    "SELECT (pg_current_wal_flush_lsn() - '0/0')::int8 >= $1::int8";

/// Writes a row, so that there is something to commit, unless the log is flushed already. A
/// download that waits for the row checks again when the row is free: one commit serves all
/// downloads that wait, at all servers.
const WRITE: &str = "UPDATE syncline.syncline_timeline SET floor = floor
WHERE timeline = $1::int8 AND (pg_current_wal_flush_lsn() - '0/0')::int8 < $2::int8";

/// Where a download waits for a flush, at most for the lock time-out of its connection and one
/// write to the disk; not for standbys, whose loss is proven otherwise (`timeline.rs`).
const BEGIN: [&str; 2] =
    ["BEGIN ISOLATION LEVEL READ COMMITTED", "SET LOCAL synchronous_commit = 'local'"];

/// When to come back where the log does not reach the disk, in seconds.
const RETRY_AFTER_S: u32 = 2;

/// Waits until the log is on the disk up to `place`. Outside a transaction.
pub(in crate::postgres) fn flush(link: &mut Link, place: i64) -> Result<(), Failure> {
    let timeline = i64::from(link.number_space().timeline);
    let [begin, lightly] = BEGIN.map(|sql| Call::new(sql, &[]));
    let answers = link
        .flight(&[
            begin,
            lightly,
            Call::new(WRITE, &[&timeline, &place]),
            Call::new("COMMIT", &[]),
            Call::new(IS_FLUSHED, &[&place]),
        ])
        .map_err(failed("wait until the database has stored what was read"))?;
    match answers.last().and_then(|answer| answer.rows.first()).is_some_and(is_flushed) {
        true => Ok(()),
        false => {
            let message = "the database has not yet stored the rows that were read";
            Err(Failure::new(Code::DatabaseBusy, message).retry_after_s(RETRY_AFTER_S))
        }
    }
}

/// What [`IS_FLUSHED`] says.
pub(in crate::postgres) fn is_flushed(row: &Row) -> bool {
    row.try_get(0).unwrap_or(false)
}
