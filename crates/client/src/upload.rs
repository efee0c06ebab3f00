//! The upload: a frozen generation of the change log, as frames.
//!
//! All frames are written to a spill before the first one leaves. So no transaction of the remote
//! stays open while the network is slow, and a row that is too large is found before anything is
//! sent. It is also known whether the upload is small enough to be sent with Hello.

use crate::capture::change_log::{self, Entry, Reading};
use crate::capture::set_back::SetBack;
use crate::connection::{begin_read, explain};
use crate::progress::{Frozen, State};
use crate::schema::RemoteTable;
use model::{Code, Failure, Spill, Spills, ValueRef, write_value};
use protocol::{
    Capabilities, FRAME_BYTES_MAX, Message, Operation, RowsFrame, UploadBegin, UploadEnd,
};
use rusqlite::Connection;
use std::sync::Arc;

/// A frame is full at this many bytes of rows …
const FRAME_BYTES: usize = 256 * 1024;
/// … or this many rows.
const FRAME_ROWS: u32 = 10_000;

/// The largest row, in bytes as encoded; an update has two. What is missing to the limit of a
/// frame is for the frame itself.
const ROW_BYTES_MAX: usize = FRAME_BYTES_MAX - 64;

/// Takes a frame, and the rows that are sent with it.
type SendFrame<'a> = dyn FnMut(&[u8], u64) -> Result<(), Failure> + 'a;

/// Frames are handed over together while they have fewer bytes, because every call of the network
/// costs as much as copying so many.
const SEND_BYTES: usize = 256 * 1024;

/// An upload, ready to be sent.
#[derive(Debug)]
pub(crate) struct Upload {
    begin: UploadBegin,
    /// Whole frames, in the order of sending.
    parts: Vec<Spill>,
    /// Rows.
    pub(crate) rows: u64,
    /// Rows that got another key, which not every server understands.
    pub(crate) key_changes: u64,
    /// Rows that are as they were and are to stay so, which not every server understands.
    pub(crate) staying: u64,
    /// All that is to be sent.
    pub(crate) bytes: u64,
}

impl Upload {
    /// Spells what `state` has frozen, which may be nothing; `None` if it has more than
    /// `bytes_max` bytes. `alive` is called now and then.
    pub(crate) fn collect(
        connection: &Connection,
        tables: &[RemoteTable],
        state: &State,
        spills: &Arc<Spills>,
        limits: Limits,
        alive: &mut dyn FnMut() -> Result<(), Failure>,
    ) -> Result<Option<Upload>, Failure> {
        let progress = state.frozen.map_or(state.progress, |frozen| frozen.progress);
        let begin = UploadBegin { previous: state.progress, progress };
        let counts = Counts::default();
        let mut collector = Collector { spills, alive, limits, counts, bytes: 0 };
        collector.bytes += Message::UploadBegin(begin).to_frame()?.len() as u64;
        collector.bytes +=
            Message::UploadEnd(UploadEnd { rows: u64::MAX }).to_frame()?.len() as u64;
        let mut parts = Vec::new();
        if let Some(frozen) = state.frozen {
            let transaction = begin_read(connection)?;
            let mut source =
                Source { connection, frozen, open: state.open_generation, set_back: None };
            if limits.rows_stay {
                source.set_back = Some(SetBack::of(connection, tables, frozen.generation)?);
            }
            for table in tables.iter().filter(|table| table.uploads()) {
                match collector.table(&source, table) {
                    Ok(collected) => parts.extend(collected),
                    Err(Stop::TooMany) => return Ok(None),
                    Err(Stop::Failed(failure)) => return Err(failure),
                }
            }
            drop(transaction);
        }
        let Collector { counts: Counts { rows, key_changes, staying }, bytes, .. } = collector;
        Ok(Some(Upload { begin, parts, rows, key_changes, staying, bytes }))
    }

    /// A server with these capabilities understands all of it.
    pub(crate) fn is_understood(&self, server: Capabilities) -> bool {
        (self.key_changes == 0 || server.has(Capabilities::KEY_CHANGES))
            && (self.staying == 0 || server.has(Capabilities::ROWS_STAY))
    }

    /// It has what is frozen.
    pub(crate) fn is_of(&self, frozen: Frozen) -> bool {
        self.begin.progress == frozen.progress
    }

    /// Hands every frame to `send`, with the rows that are sent then.
    pub(crate) fn send(&self, send: &mut SendFrame<'_>) -> Result<(), Failure> {
        let mut gathered = Vec::with_capacity(self.bytes.min(SEND_BYTES as u64) as usize);
        Message::UploadBegin(self.begin).encode(&mut gathered)?;
        let mut rows = 0;
        for part in &self.parts {
            let mut reader = part.reader();
            while let Some(frame) = reader.next_chunk()? {
                if gathered.len() + frame.len() > SEND_BYTES {
                    send(&gathered, rows)?;
                    gathered.clear();
                }
                // Behind the five bytes of a frame's header.
                let (_, _, count) = RowsFrame::split(frame.get(5..).unwrap_or_default())?;
                rows += u64::from(count);
                if frame.len() > SEND_BYTES {
                    send(&frame, rows)?;
                } else {
                    gathered.extend_from_slice(&frame);
                }
            }
        }
        Message::UploadEnd(UploadEnd { rows: self.rows }).encode(&mut gathered)?;
        send(&gathered, rows)
    }
}

/// What an upload may consist of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// It has no more bytes.
    pub(crate) bytes_max: Option<u64>,
    /// A key change is one change. A server that does not know them gets a delete and an insert.
    pub(crate) key_changes: bool,
    /// Rows that were set back are sent. A server that does not know them takes them along.
    pub(crate) rows_stay: bool,
}

impl Limits {
    /// Of an upload to a server with these capabilities.
    pub(crate) fn of(server: Capabilities, bytes_max: Option<u64>) -> Limits {
        Limits {
            bytes_max,
            key_changes: server.has(Capabilities::KEY_CHANGES),
            rows_stay: server.has(Capabilities::ROWS_STAY),
        }
    }
}

/// What is read.
struct Source<'a> {
    connection: &'a Connection,
    frozen: Frozen,
    open: i64,
    set_back: Option<SetBack<'a>>,
}

/// What an upload consists of.
#[derive(Debug, Default)]
struct Counts {
    rows: u64,
    key_changes: u64,
    staying: u64,
}

/// Why collecting ended early.
enum Stop {
    TooMany,
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}

struct Collector<'a> {
    spills: &'a Arc<Spills>,
    alive: &'a mut dyn FnMut() -> Result<(), Failure>,
    limits: Limits,
    counts: Counts,
    bytes: u64,
}

impl Collector<'_> {
    /// The frames of one table: key changes, inserts, updates, deletes.
    fn table(&mut self, source: &Source<'_>, table: &RemoteTable) -> Result<[Spill; 4], Stop> {
        let Source { connection, frozen, open, set_back } = source;
        let operations =
            [Operation::KeyChange, Operation::Insert, Operation::Update, Operation::Delete];
        let mut batches = operations.map(|operation| Batch::new(table, operation, self.spills));
        let Limits { bytes_max, key_changes, .. } = self.limits;
        let reading = Reading { generation: frozen.generation, newer: Some(*open), key_changes };
        let mut too_many = false;
        let visit = &mut |entry: &Entry<'_>| {
            let batch = match (entry.existed, entry.exists_after().map_err(explain)?) {
                (false, false) => return Ok(()),
                (true, true) if key_changes && entry.changed_key().map_err(explain)? => {
                    self.counts.key_changes += 1;
                    &mut batches[0]
                }
                (false, true) => &mut batches[1],
                (true, true) => &mut batches[2],
                (true, false) => &mut batches[3],
            };
            let mut bytes = batch.add(entry, false)?;
            if bytes == 0 {
                match set_back {
                    Some(set_back) if set_back.has(table, entry)? => {}
                    _ => return Ok(()),
                }
                self.counts.staying += 1;
                bytes = batch.add(entry, true)?;
            }
            self.counts.rows += 1;
            self.bytes += bytes;
            if bytes_max.is_some_and(|max| self.bytes > max) {
                too_many = true;
                return Err(Failure::new(Code::Bug, "stopped on purpose"));
            }
            if batch.is_full() {
                self.bytes += batch.flush()?;
                (self.alive)()?;
            }
            Ok(())
        };
        let collected = change_log::for_each(connection, table, reading, visit);
        if too_many {
            return Err(Stop::TooMany);
        }
        collected?;
        for batch in &mut batches {
            self.bytes += batch.flush()?;
        }
        if bytes_max.is_some_and(|max| self.bytes > max) {
            return Err(Stop::TooMany);
        }
        Ok(batches.map(|batch| batch.frames))
    }
}

/// Rows of one table and operation on their way into frames.
struct Batch<'a> {
    table: &'a RemoteTable,
    frame: RowsFrame,
    frames: Spill,
}

impl<'a> Batch<'a> {
    fn new(table: &'a RemoteTable, operation: Operation, spills: &Arc<Spills>) -> Batch<'a> {
        let bytes = Vec::new();
        let frame = RowsFrame { table: table.position, operation, count: 0, bytes };
        Batch { table, frame, frames: spills.open() }
    }

    /// Adds one row and returns its size, which is 0 if the row is unchanged, unless it `stays` so
    /// on purpose.
    fn add(&mut self, entry: &Entry<'_>, stays: bool) -> Result<u64, Failure> {
        let start = self.frame.bytes.len();
        let changed = match self.frame.operation {
            Operation::Insert | Operation::Upsert => self.write_after(entry).map(|()| true),
            Operation::Delete => self.write_before(entry).map(|_| true),
            Operation::Update | Operation::KeyChange => self.write_update(entry),
        };
        if !changed.map_err(explain)? && !stays {
            self.frame.bytes.truncate(start);
            return Ok(0);
        }
        self.frame.count += 1;
        let bytes = self.frame.bytes.len() - start;
        if bytes > ROW_BYTES_MAX {
            let key = entry.key_text().map_err(explain)?;
            let message = format!("a row of {} has {bytes} bytes", self.table.name());
            return Err(Failure::new(Code::RowTooLarge, message).table(self.table.name()).key(key));
        }
        if start > 0 && self.frame.bytes.len() > ROW_BYTES_MAX {
            // The rows before it go first, and this one gets a frame of its own.
            let row = self.frame.bytes.split_off(start);
            self.frame.count -= 1;
            self.flush()?;
            self.frame.bytes = row;
            self.frame.count = 1;
        }
        Ok(bytes as u64)
    }

    /// Writes both images; false where they are the same. Values are the same exactly where their
    /// encodings are, so nothing is read twice.
    fn write_update(&mut self, entry: &Entry<'_>) -> rusqlite::Result<bool> {
        let start = self.frame.bytes.len();
        let whole = self.write_before(entry)?;
        let middle = self.frame.bytes.len();
        self.write_after(entry)?;
        if whole {
            let (old, new) = self.frame.bytes[start..].split_at(middle - start);
            return Ok(old != new);
        }
        for column in 0..self.table.width() {
            if entry.changed(column)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes the old image; false where a large column is missing in it, which did not change.
    fn write_before(&mut self, entry: &Entry<'_>) -> rusqlite::Result<bool> {
        let mut whole = true;
        for column in 0..self.table.width() {
            let value = entry.before(column)?;
            whole &= value != ValueRef::Absent;
            write_value(&mut self.frame.bytes, value);
        }
        Ok(whole)
    }

    fn write_after(&mut self, entry: &Entry<'_>) -> rusqlite::Result<()> {
        for column in 0..self.table.width() {
            write_value(&mut self.frame.bytes, entry.after(column)?);
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.frame.bytes.len() >= FRAME_BYTES || self.frame.count >= FRAME_ROWS
    }

    /// Ends the frame; yields the bytes around its rows.
    fn flush(&mut self) -> Result<u64, Failure> {
        if self.frame.count == 0 {
            return Ok(0);
        }
        let (table, operation) = (self.frame.table, self.frame.operation);
        let next = RowsFrame { table, operation, count: 0, bytes: Vec::new() };
        let frame = std::mem::replace(&mut self.frame, next);
        let rows_bytes = frame.bytes.len();
        let encoded = Message::Rows(frame).to_frame()?;
        let around = encoded.len() - rows_bytes;
        self.frames.append(encoded)?;
        Ok(around as u64)
    }
}
