//! A download that arrives, as far as it may be cut.
//!
//! The server says from time to time up to where the rows of a table are complete, or its deleted
//! keys ([`Position`]). What lies before is stored in the file, with the position, in ordinary
//! transactions: after some time, and when the connection is lost. The next Hello presents the
//! positions, and the server sends the rest, and what has changed of what is here. When that is
//! complete, both are put together (`arriving/merge.rs`) and applied as one download, which also
//! removes what was kept.
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
    /// What Hello presented counts.
    continued: bool,
    /// The token of the first download of which rows are kept.
    first: Option<Vec<u8>>,
    rows: Stream,
    deletes: Stream,
    /// Frames of deleted keys before this one are stored.
    deletes_stored: SpillPosition,
}

/// Rows or deleted keys of a table.
#[derive(Debug, Default)]
struct Stream {
    /// What Hello presented of them, if it counts.
    segments: Vec<Segment>,
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
            let continued = kept.filter(|_| download.continued);
            if download.continued && (continued.is_none() || download.token.is_none()) {
                return Err(malformed("the server goes on with a table that is not kept"));
            }
            let first = continued.and_then(|it| {
                let oldest = it.segments.last().map(|oldest| &oldest.token);
                it.first.as_ref().or(oldest).map(|token| token.to_vec())
            });
            tables.push(ArrivingTable {
                token: download.token.as_ref().map(|token| token.to_vec()),
                continued: continued.is_some(),
                first,
                rows: Stream::behind(continued.map(|it| &it.segments)),
                deletes: Stream::behind(continued.map(|it| &it.deletes)),
                deletes_stored: SpillPosition::default(),
            });
        }
        let (stored, receipt) = (SpillPosition::default(), begin.receipt.clone());
        let (dropped, gained) = (false, false);
        Ok(Arriving { tables, receipt, stored, dropped, gained, bytes: 0, since_ms: now_ms })
    }

    /// Whether anything is gone on with.
    pub(crate) fn continues(&self) -> bool {
        self.tables.iter().any(|table| table.continued)
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
        tables.filter(|(_, table)| table.continued).map(|(at, _)| at)
    }

    /// Rows of so many bytes have arrived.
    pub(crate) fn note(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// The rows or deleted keys of a table are complete up to here.
    pub(crate) fn reach(&mut self, reached: Position, download: &Download) -> Result<(), Failure> {
        let at = usize::from(reached.table);
        let table = self.tables.get_mut(at).filter(|table| table.token.is_some());
        let (Some(table), Some(deletes)) = (table, download.deletes.get(at)) else {
            return Err(malformed("a position of a table that cannot be resumed"));
        };
        match reached.deletes {
            false => table.rows.reach(reached, download.upserts.len()),
            // A row that came back would be taken for one that was never kept.
            true if !table.rows.complete => {
                Err(malformed("a position of deleted keys before that of all rows"))
            }
            true => table.deletes.reach(reached, deletes.len()),
        }
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
        let moved = |table: &ArrivingTable| table.rows.moved || table.deletes.moved;
        if waited && self.bytes >= bytes_min && self.tables.iter().any(moved) {
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
            for (at, _) in self.tables.iter().enumerate().filter(|(_, it)| !it.continued) {
                partial::drop_table(&transaction, at).map_err(explain)?;
            }
        }
        let (stored, mut gained) = self.store_rows(&transaction, download)?;
        let mut keys_stored = Vec::with_capacity(self.tables.len());
        for (at, table) in self.tables.iter().enumerate() {
            let (keys, gained_keys) = table.store_keys(&transaction, (at, download))?;
            gained |= gained_keys;
            keys_stored.push(keys);
            if table.rows.moved || table.deletes.moved {
                partial::set(&transaction, &table.resumed(at as u16))?;
            }
        }
        if let Some(receipt) = &self.receipt {
            facts::set(&transaction, "receipt", receipt.as_bytes()).map_err(explain)?;
        }
        facts::set(&transaction, WAS_CUT, 1).map_err(explain)?;
        transaction.commit().map_err(explain)?;
        (self.stored, self.dropped, self.gained) = (stored, true, gained);
        for (table, keys) in self.tables.iter_mut().zip(keys_stored) {
            (table.rows.moved, table.deletes.moved, table.deletes_stored) = (false, false, keys);
        }
        Ok(())
    }

    /// Stores the rows up to the positions. Says up to where, and whether that brings more than was
    /// kept before.
    fn store_rows(
        &self,
        transaction: &Connection,
        download: &Download,
    ) -> Result<(SpillPosition, bool), Failure> {
        let (mut stored, mut gained) = (self.stored, self.gained);
        loop {
            let mut next = stored;
            let Some(payload) = download.upserts.read_at(&mut next)? else { break };
            let (position, operation, count) = RowsFrame::split(&payload)?;
            let table = self.tables.get(usize::from(position));
            let Some(table) = table else { return Err(malformed("rows of an unknown table")) };
            let (frame, rows) = (stored.chunks(), &table.rows);
            if table.token.is_some() && frame < rows.upto && operation == Operation::Upsert {
                let kept = (position, rows.is_again(frame), count);
                partial::keep(transaction, kept, &payload).map_err(explain)?;
                gained |= !rows.is_again(frame);
            } else if table.token.is_some() && !rows.complete {
                // It waits for the next position.
                break;
            }
            stored = next;
        }
        Ok((stored, gained))
    }
}

impl ArrivingTable {
    /// Likewise the deleted keys.
    fn store_keys(
        &self,
        transaction: &Connection,
        (at, download): (usize, &Download),
    ) -> Result<(SpillPosition, bool), Failure> {
        let (mut stored, mut gained) = (self.deletes_stored, false);
        let Some(frames) = download.deletes.get(at) else { return Ok((stored, gained)) };
        while stored.chunks() < self.deletes.upto {
            let again = self.deletes.is_again(stored.chunks());
            let Some(payload) = frames.read_at(&mut stored)? else { break };
            let (position, _, count) = RowsFrame::split(&payload)?;
            partial::keep(transaction, (position, again, count), &payload).map_err(explain)?;
            gained |= !again;
        }
        Ok((stored, gained))
    }

    /// What the next Hello says.
    fn resumed(&self, at: u16) -> ResumedTable {
        let token = self.token.as_deref().unwrap_or_default();
        let (segments, deletes) = (self.rows.presented(token), self.deletes.presented(token));
        let is_last = |first: &&Vec<u8>| segments.last().is_some_and(|last| last.token == **first);
        let first = self.first.as_ref().filter(|first| !is_last(first));
        let first = first.map(|first| first.clone().into());
        ResumedTable { table: at, first, segments, deletes }
    }
}

impl Stream {
    /// Goes on behind these segments, or begins.
    fn behind(segments: Option<&Vec<Segment>>) -> Stream {
        let segments = segments.cloned().unwrap_or_default();
        let fresh_from = segments.is_empty().then_some(0);
        Stream { segments, fresh_from, ..Stream::default() }
    }

    /// It is complete up to here; `frames` of it have arrived so far.
    fn reach(&mut self, reached: Position, frames: usize) -> Result<(), Failure> {
        let passed = usize::from(reached.passed);
        if self.complete || passed < self.passed || passed > self.segments.len() {
            return Err(malformed("a position that is not behind the last one"));
        }
        let position = match (reached.position.is_empty(), passed.checked_sub(1)) {
            (false, _) => reached.position,
            (true, Some(last)) => self.segments[last].position.to_vec(),
            (true, None) => return Err(malformed("a position that is nowhere")),
        };
        if position.len() > Position::BYTES_MAX {
            return Err(malformed("a position that is too long"));
        }
        if passed == self.segments.len() || reached.complete {
            self.fresh_from.get_or_insert(frames);
        }
        (self.passed, self.upto, self.position) = (passed, frames, Some(position));
        (self.complete, self.moved) = (reached.complete, true);
        Ok(())
    }

    /// The segments for the next Hello: up to the last position as `token` says, then what was kept
    /// before.
    fn presented(&self, token: &[u8]) -> Vec<Segment> {
        let reached = self.position.as_ref().map(|position| Segment {
            token: token.to_vec().into(),
            position: position.clone().into(),
        });
        let mut segments: Vec<Segment> = reached.into_iter().collect();
        if !self.complete {
            segments.extend(self.segments.iter().skip(self.passed).cloned());
        }
        while segments.len() > ResumedTable::SEGMENTS_MAX {
            // What lies between its neighbors is then taken for as old as what follows.
            segments.remove(1);
        }
        segments
    }

    /// Whether a frame has keys that were kept before.
    fn is_again(&self, frame: usize) -> bool {
        self.fresh_from.is_none_or(|fresh| frame < fresh)
    }

    /// Whether a frame has only keys that were not kept.
    fn is_fresh(&self, frame: usize) -> bool {
        self.complete && frame < self.upto && !self.is_again(frame)
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
