//! The upload: a frozen generation of the change log, as frames.
//!
//! All frames are written to a spill before the first one leaves. So no transaction of the remote
//! stays open while the network is slow, and a row that is too large is found before anything is
//! sent. It is also known whether the upload is small enough to be sent with Hello.

mod frames;
mod images;
pub(crate) mod left_behind;

use crate::capture::change_log::{self, Entry, Reading};
use crate::connection::{begin_read, explain};
use crate::progress::state::{Frozen, State};
use crate::schema::RemoteTable;
pub(crate) use frames::UploadFrames;
use model::{Code, Failure, Spill, Spills};
use protocol::{
    Capabilities, Compression, Compressor, EnteredAgain, Message, Operation, RowsFrame,
    UploadBegin, UploadEnd,
};
use rusqlite::Connection;
use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;

/// A frame is full at this many bytes of rows …
const FRAME_BYTES: usize = 256 * 1024;
/// … or this many rows.
const FRAME_ROWS: u32 = 10_000;
/// A frame of keys is full at this many bytes.
const AGAIN_BYTES: usize = 32 * 1024;

/// An upload, ready to be sent.
#[derive(Debug)]
pub(crate) struct Upload {
    begin: UploadBegin,
    /// Whole frames, in the order of sending.
    parts: Vec<Spill>,
    /// Rows.
    pub(crate) rows: u64,
    limits: Limits,
    /// How rows of it are compressed; none where none are.
    pub(crate) compression: Option<Compression>,
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
        let compressor = Compressor::default();
        let mut collector = Collector { spills, alive, limits, rows: 0, compressor, bytes: 0 };
        collector.bytes += Message::UploadBegin(begin).to_frame()?.len() as u64;
        collector.bytes +=
            Message::UploadEnd(UploadEnd { rows: u64::MAX }).to_frame()?.len() as u64;
        let mut parts = Vec::new();
        if let Some(frozen) = state.frozen {
            let transaction = begin_read(connection)?;
            let source = Source { connection, frozen, open: state.open_generation };
            for table in tables.iter().filter(|table| table.uploads()) {
                match collector.table(&source, table)? {
                    Some(collected) => parts.extend(collected),
                    None => return Ok(None),
                }
            }
            drop(transaction);
        }
        let Collector { rows, bytes, compressor, .. } = collector;
        let compression = limits.compression.filter(|_| compressor.frames() > 0);
        Ok(Some(Upload { begin, parts, rows, limits, compression, bytes }))
    }

    /// A server with these capabilities, which takes rows of so many bytes, reads it.
    pub(crate) fn is_readable(&self, server: Capabilities, row_bytes_max: usize) -> bool {
        let Limits { compression, row_bytes_max: largest, .. } = self.limits;
        largest <= row_bytes_max && compression.is_none_or(|method| server.has(method.capability()))
    }

    /// It has what is frozen.
    pub(crate) fn is_of(&self, frozen: Frozen) -> bool {
        self.begin.progress == frozen.progress
    }
}

/// What an upload may consist of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// It has no more bytes.
    pub(crate) bytes_max: Option<u64>,
    /// No row of it has more bytes as encoded; an update has two images.
    pub(crate) row_bytes_max: usize,
    /// How its rows are compressed.
    pub(crate) compression: Option<Compression>,
}

/// What is read.
struct Source<'a> {
    connection: &'a Connection,
    frozen: Frozen,
    open: i64,
}

struct Collector<'a> {
    spills: &'a Arc<Spills>,
    alive: &'a mut dyn FnMut() -> Result<(), Failure>,
    limits: Limits,
    rows: u64,
    compressor: Compressor,
    bytes: u64,
}

impl Collector<'_> {
    /// The frames of one table: inserts, updates, deletes, and which updates are new rows; none if
    /// the upload is too large with them.
    fn table(
        &mut self,
        source: &Source<'_>,
        table: &RemoteTable,
    ) -> Result<Option<[Spill; 4]>, Failure> {
        let Source { connection, frozen, open } = source;
        let operations = [Operation::Insert, Operation::Update, Operation::Delete];
        let compression = self.limits.compression.filter(|_| table.published.compress);
        let limits = Limits { compression, ..self.limits };
        let new = |operation| Framing::new(table, operation, limits, self.spills);
        let mut batches = operations.map(new);
        let mut again = Again { table, keys: Vec::new(), frames: self.spills.open() };
        let bytes_max = self.limits.bytes_max;
        let reading = Reading { generation: frozen.generation, newer: Some(*open) };
        let is_too_much = |bytes: u64| bytes_max.is_some_and(|max| bytes > max);
        let visit = &mut |entry: &Entry<'_>| {
            let operation = images::operation(entry).map_err(explain)?;
            let batch = batches.iter_mut().find(|it| Some(it.frame.operation) == operation);
            let Some(batch) = batch else { return Ok(Continue(())) };
            let compressor = &mut self.compressor;
            let bytes = batch.add(entry, compressor)?;
            if bytes == 0 {
                return Ok(Continue(()));
            }
            self.rows += 1;
            self.bytes += bytes;
            if entry.again && operation == Some(Operation::Update) {
                self.bytes += again.add(entry)?;
            }
            if is_too_much(self.bytes) {
                return Ok(Break(()));
            }
            if batch.is_full() {
                self.bytes = self.bytes.saturating_add_signed(batch.flush(compressor)?);
                (self.alive)()?;
            }
            Ok(Continue(()))
        };
        if change_log::for_each_until(connection, table, reading, visit)?.is_break() {
            return Ok(None);
        }
        for batch in &mut batches {
            let change = batch.flush(&mut self.compressor)?;
            self.bytes = self.bytes.saturating_add_signed(change);
        }
        self.bytes += again.flush()?;
        let [inserts, updates, deletes] = batches.map(|batch| batch.frames);
        Ok((!is_too_much(self.bytes)).then_some([inserts, updates, deletes, again.frames]))
    }
}

/// Keys of one table whose rows were entered again, on their way into frames.
struct Again<'a> {
    table: &'a RemoteTable,
    keys: Vec<u8>,
    frames: Spill,
}

impl Again<'_> {
    /// Adds one row. Returns the size of the frame that is full with it, else 0.
    fn add(&mut self, entry: &Entry<'_>) -> Result<u64, Failure> {
        images::write_key(self.table, entry, &mut self.keys).map_err(explain)?;
        if self.keys.len() < AGAIN_BYTES { Ok(0) } else { self.flush() }
    }

    /// Ends the frame and returns its size.
    fn flush(&mut self) -> Result<u64, Failure> {
        if self.keys.is_empty() {
            return Ok(0);
        }
        let (table, keys) = (self.table.position, std::mem::take(&mut self.keys));
        let frame = Message::EnteredAgain(EnteredAgain { table, keys }).to_frame()?;
        let bytes = frame.len() as u64;
        self.frames.append(frame)?;
        Ok(bytes)
    }
}

/// Rows of one table and operation on their way into frames.
struct Framing<'a> {
    table: &'a RemoteTable,
    frame: RowsFrame,
    limits: Limits,
    frames: Spill,
}

impl<'a> Framing<'a> {
    fn new(
        table: &'a RemoteTable,
        operation: Operation,
        limits: Limits,
        spills: &Arc<Spills>,
    ) -> Framing<'a> {
        let bytes = Vec::new();
        let frame = RowsFrame { table: table.position, operation, count: 0, bytes };
        Framing { table, frame, limits, frames: spills.open() }
    }

    /// Adds one row and returns its size, which is 0 if the row is unchanged.
    fn add(&mut self, entry: &Entry<'_>, compressor: &mut Compressor) -> Result<u64, Failure> {
        let start = self.frame.bytes.len();
        let (operation, largest) = (self.frame.operation, self.limits.row_bytes_max);
        let changed = images::write(self.table, operation, entry, &mut self.frame.bytes);
        if !changed.map_err(explain)? {
            self.frame.bytes.truncate(start);
            return Ok(0);
        }
        self.frame.count += 1;
        let bytes = self.frame.bytes.len() - start;
        if bytes > largest {
            let key = entry.key_text().map_err(explain)?;
            let message = format!("a row of {} has {bytes} bytes", self.table.name());
            return Err(Failure::new(Code::RowTooLarge, message).table(self.table.name()).key(key));
        }
        if start > 0 && self.frame.bytes.len() > largest {
            // The rows before it go first, and this one gets a frame of its own.
            let row = self.frame.bytes.split_off(start);
            self.frame.count -= 1;
            self.flush(compressor)?;
            self.frame.bytes = row;
            self.frame.count = 1;
        }
        Ok(bytes as u64)
    }

    fn is_full(&self) -> bool {
        self.frame.bytes.len() >= FRAME_BYTES || self.frame.count >= FRAME_ROWS
    }

    /// Ends the frame; yields by how many bytes it is larger than its rows.
    fn flush(&mut self, compressor: &mut Compressor) -> Result<i64, Failure> {
        if self.frame.count == 0 {
            return Ok(0);
        }
        let (table, operation) = (self.frame.table, self.frame.operation);
        let next = RowsFrame { table, operation, count: 0, bytes: Vec::new() };
        let frame = std::mem::replace(&mut self.frame, next);
        let rows_bytes = frame.bytes.len();
        let mut encoded = Message::Rows(frame).to_frame()?;
        if let Some(method) = self.limits.compression {
            compressor.compress(method, &mut encoded)?;
        }
        let larger = encoded.len() as i64 - rows_bytes as i64;
        self.frames.append(encoded)?;
        Ok(larger)
    }
}
