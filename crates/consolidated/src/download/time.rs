//! Times at the center, for cursors that compare what rows were stamped with.
//!
//! Invariants:
//! DT1. A time is handed out with a watermark. What was committed before the snapshot of that
//!     download, the remote has. Everything else is stamped with this time or a later one, if it is
//!     stamped with the clock of the database, not before its transaction began.
//! DT2. Where no such time is known, the remote keeps the one that it has.

/// A moment, in microseconds since 1970 in UTC.
pub(crate) type Time = i64;

/// What a remote has that was never sent anything: 1900-01-01.
pub(crate) const NEVER: Time = -2_208_988_800_000_000;

/// Since when a remote lacks what was stamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    /// Of the table whose cursor runs.
    pub(crate) table: Time,
    /// The oldest of all tables of the download.
    pub(crate) oldest: Time,
}

impl Times {
    /// Before it is known what is downloaded: the oldest that the remote holds of a table.
    pub(crate) fn oldest_of(held: impl Iterator<Item = Option<Time>>) -> Times {
        let oldest = held.map(|time| time.unwrap_or(NEVER)).min().unwrap_or(NEVER);
        Times { table: NEVER, oldest }
    }

    /// The same where scripts want what was stamped since a moment to be sent again.
    pub(crate) fn not_after(self, moment: Option<Time>) -> Times {
        let earlier = |time: Time| moment.map_or(time, |moment| time.min(moment));
        Times { table: earlier(self.table), oldest: earlier(self.oldest) }
    }
}

impl Default for Times {
    fn default() -> Times {
        Times { table: NEVER, oldest: NEVER }
    }
}
