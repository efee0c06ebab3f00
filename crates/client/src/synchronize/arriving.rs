//! A download that arrives, as far as it may be cut.
//!
//! The server says from time to time up to where the rows of a table are complete ([`Position`]).
//! Rows up to there are stored in the file, with the position, in ordinary transactions: after some
//! time, and when the connection is lost. The next Hello presents the positions, and the server
//! sends the rest, and what has changed of the rows that are here. When that is complete, both are
//! put together (`arriving/merge.rs`) and applied as one download, which also removes what was
//! kept.
//!
//! Invariants:
//! AR1. A stored position and the rows before it are stored in one transaction.
//! AR2. What is kept is dropped with all that it was sent for: with the watermarks of the tables,
//!     with the tables, with the identity of the remote.
//! AR3. What is applied is a download of one state of the database, as any other: a row that was
//!     kept gives way to everything that the last download says of its key.

pub(super) mod merge;
#[cfg(test)]
mod tests;

use crate::apply::download::Download;
use crate::connection::{begin_immediate, explain};
use crate::progress::facts;
use crate::progress::partial::{self, Kept, WAS_CUT};
use model::{Code, Failure, Receipt, SpillPosition};
use protocol::{DownloadBegin, Operation, Position, ResumedTable, RowsFrame, Segment};
use rusqlite::Connection;

/// After so much time what has arrived is stored: a program that ends loses no more than that.
const STORE_INTERVAL_MS: u64 = 10_000;

/// Fewer bytes are not worth a transaction.
const STORE_BYTES_MIN: u64 = 64 << 10;

/// A download that arrives, as far as it may be cut.
#[derive(Debug)]
pub(crate) struct Arriving {
    tables: Vec<ArrivingTable>,
    /// Proves at the center that this download was begun.
    receipt: Option<Receipt>,
    /// Of the frames of rows: those before it are stored, or are not to be.
    stored: SpillPosition,
    /// What does not count any more was dropped.
    dropped: bool,
    /// Rows behind all that was kept before are stored.
    gained: bool,
    /// Bytes that have arrived since.
    bytes: u64,
    since_ms: u64,
}

#[derive(Debug, Default)]
struct ArrivingTable {
    /// Names the state of the database; none if the table cannot be resumed.
    token: Option<Vec<u8>>,
    /// What Hello presented, if it counts.
    continued: Option<ResumedTable>,
    /// Segments of that which lie before the last position.
    passed: usize,
    /// The first frame with rows behind all of them.
    fresh_from: Option<usize>,
    /// Frames before this one are before the last position.
    upto: usize,
    position: Option<Vec<u8>>,
    complete: bool,
    /// The position was not stored yet.
    moved: bool,
}

impl Arriving {
    /// A download that begins. `presented` is what Hello said.
    pub(crate) fn begin(
        begin: &DownloadBegin,
        presented: &[ResumedTable],
        now_ms: u64,
    ) -> Result<Arriving, Failure> {
        let mut tables = Vec::with_capacity(begin.tables.len());
        for (at, download) in begin.tables.iter().enumerate() {
            let kept = presented.iter().find(|it| usize::from(it.table) == at);
            let continued = kept.filter(|_| download.continued).cloned();
            if download.continued && (continued.is_none() || download.token.is_none()) {
                return Err(malformed("the server goes on with a table that is not kept"));
            }
            tables.push(ArrivingTable {
                token: download.token.as_ref().map(|token| token.to_vec()),
                fresh_from: continued.is_none().then_some(0),
                continued,
                ..ArrivingTable::default()
            });
        }
        let (stored, receipt) = (SpillPosition::default(), begin.receipt.clone());
        let (dropped, gained) = (false, false);
        Ok(Arriving { tables, receipt, stored, dropped, gained, bytes: 0, since_ms: now_ms })
    }

    /// Whether anything is gone on with.
    pub(crate) fn continues(&self) -> bool {
        self.tables.iter().any(|table| table.continued.is_some())
    }

    /// Whether more is kept than before this download began.
    pub(crate) fn has_gained(&self) -> bool {
        self.gained
    }

    /// How much is kept of what is gone on with.
    pub(crate) fn kept(&self, connection: &Connection) -> Result<Kept, Failure> {
        let mut all = Kept::default();
        for at in self.continued() {
            let Kept { rows, bytes } = partial::kept(connection, Some(at))?;
            (all.rows, all.bytes) = (all.rows + rows, all.bytes + bytes);
        }
        Ok(all)
    }

    /// Positions of the tables that are gone on with.
    fn continued(&self) -> impl Iterator<Item = usize> {
        let tables = self.tables.iter().enumerate();
        tables.filter(|(_, table)| table.continued.is_some()).map(|(at, _)| at)
    }

    /// Rows of so many bytes have arrived.
    pub(crate) fn note(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// The rows of a table are complete up to here; `frames` have arrived so far.
    pub(crate) fn reach(&mut self, reached: Position, frames: usize) -> Result<(), Failure> {
        let table = self.tables.get_mut(usize::from(reached.table));
        let Some(table) = table.filter(|table| table.token.is_some()) else {
            return Err(malformed("a position of a table that cannot be resumed"));
        };
        let segments = table.continued.as_ref().map_or(&[][..], |it| &it.segments);
        let passed = usize::from(reached.passed);
        if table.complete || passed < table.passed || passed > segments.len() {
            return Err(malformed("a position that is not behind the last one"));
        }
        let position = match (reached.position.is_empty(), passed.checked_sub(1)) {
            (false, _) => reached.position,
            (true, Some(last)) => segments[last].position.to_vec(),
            (true, None) => return Err(malformed("a position that is nowhere")),
        };
        if position.len() > Position::BYTES_MAX {
            return Err(malformed("a position that is too long"));
        }
        if passed == segments.len() || reached.complete {
            table.fresh_from.get_or_insert(frames);
        }
        (table.passed, table.upto, table.position) = (passed, frames, Some(position));
        (table.complete, table.moved) = (reached.complete, true);
        Ok(())
    }

    /// Stores what has arrived, if it is time. What fails here fails again when the download is
    /// applied, if it matters.
    pub(crate) fn store_in_time(
        &mut self,
        connection: &Connection,
        download: &Download,
        now_ms: u64,
    ) {
        let (interval_ms, bytes_min) = patience();
        let waited = now_ms.saturating_sub(self.since_ms) >= interval_ms;
        if waited && self.bytes >= bytes_min && self.tables.iter().any(|table| table.moved) {
            let _ = self.store(connection, download, now_ms);
        }
    }

    /// Stores what has arrived (AR1).
    pub(crate) fn store(
        &mut self,
        connection: &Connection,
        download: &Download,
        now_ms: u64,
    ) -> Result<(), Failure> {
        // Not again at once where it fails.
        (self.bytes, self.since_ms) = (0, now_ms);
        let transaction = begin_immediate(connection)?;
        partial::create(&transaction).map_err(explain)?;
        if !self.dropped {
            for (at, _) in self.tables.iter().enumerate().filter(|(_, it)| it.continued.is_none()) {
                partial::drop_table(&transaction, at).map_err(explain)?;
            }
        }
        let (mut stored, mut gained) = (self.stored, self.gained);
        loop {
            let mut next = stored;
            let Some(payload) = download.upserts.read_at(&mut next)? else { break };
            let (position, operation, count) = RowsFrame::split(&payload)?;
            let table = self.tables.get(usize::from(position));
            let Some(table) = table else { return Err(malformed("rows of an unknown table")) };
            let frame = stored.chunks();
            if table.token.is_some() && frame < table.upto && operation == Operation::Upsert {
                let again = table.fresh_from.is_none_or(|fresh| frame < fresh);
                let kept = (position, again, count);
                partial::keep(&transaction, kept, &payload).map_err(explain)?;
                gained |= !again;
            } else if table.token.is_some() && !table.complete {
                // It waits for the next position.
                break;
            }
            stored = next;
        }
        for (at, table) in self.tables.iter().enumerate().filter(|(_, table)| table.moved) {
            partial::set(&transaction, &table.resumed(at as u16))?;
        }
        if let Some(receipt) = &self.receipt {
            facts::set(&transaction, "receipt", receipt.as_bytes()).map_err(explain)?;
        }
        facts::set(&transaction, WAS_CUT, 1).map_err(explain)?;
        transaction.commit().map_err(explain)?;
        (self.stored, self.dropped, self.gained) = (stored, true, gained);
        self.tables.iter_mut().for_each(|table| table.moved = false);
        Ok(())
    }
}

impl ArrivingTable {
    /// What the next Hello says.
    fn resumed(&self, at: u16) -> ResumedTable {
        let token = || self.token.clone().unwrap_or_default().into();
        let position = self.position.clone().unwrap_or_default().into();
        let mut segments = vec![Segment { token: token(), position }];
        let mut first = None;
        if let Some(before) = &self.continued {
            let last = before.segments.last().map(|segment| &segment.token);
            first = before.first.as_ref().or(last).cloned();
            if !self.complete {
                segments.extend(before.segments.iter().skip(self.passed).cloned());
            }
        }
        while segments.len() > ResumedTable::SEGMENTS_MAX {
            // What lies between its neighbors is then taken for as old as what follows.
            segments.remove(1);
        }
        first.take_if(|first| segments.last().is_some_and(|last| last.token == *first));
        ResumedTable { table: at, first, segments }
    }

    /// Whether a frame of rows has only keys that were not kept.
    fn is_fresh(&self, frame: usize) -> bool {
        self.complete && frame < self.upto && self.fresh_from.is_some_and(|fresh| frame >= fresh)
    }
}

/// After which time what has arrived is stored, and from how many bytes on.
fn patience() -> (u64, u64) {
    #[cfg(feature = "fail-points")]
    fail::fail_point!("client-stores-at-once", |_| (0, 0));
    (STORE_INTERVAL_MS, STORE_BYTES_MIN)
}

fn malformed(message: &str) -> Failure {
    Failure::new(Code::MalformedMessage, message)
}
