//! Turns the rows of cursors into batches of compact rows, as they arrive.

use super::catalog::Table;
use super::fetch::Sink;
use super::link::RowRef;
use super::owed::Owed;
use super::values::{ColumnType, Reading};
use crate::echo::EchoKind;
use crate::new_keys::NewKeys;
use crate::synchronization::{DownloadBatch, FetchRequest, Fetched};
use model::{Code, Failure, RowReader, write_value};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// What the rows of a cursor are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Rows,
    DeletedKeys,
    /// The rows that are owed, where they exist.
    Owed,
}

/// A cursor's place in the download.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batches {
    /// Of the table.
    pub(super) position: usize,
    pub(super) kind: Kind,
    /// The whole table is sent. The remote removes rows that do not arrive, so even rows that it
    /// has just uploaded are sent.
    pub(super) refreshed: bool,
}

/// A download under way.
pub(super) struct Download<'a, 's> {
    tables: &'a [Arc<Table>],
    owed: &'a [Owed],
    request: &'a FetchRequest<'a>,
    sink: Sink<'s>,
    /// The cursor whose rows arrive.
    cursor: Option<usize>,
    /// How its columns are read.
    readings: Vec<Reading>,
    /// Keys of its table that are owed: they are sent once, as what is owed.
    owed_keys: HashSet<&'a [u8]>,
    /// Rows that the remote knows by other keys, by the position of their table.
    new_keys: BTreeMap<usize, NewKeys>,
    buffer: Vec<u8>,
    count: u32,
    /// Rows with another key, each after the old key.
    moved: Vec<u8>,
    moved_count: u32,
    fetched: Fetched,
}

impl<'a, 's> Download<'a, 's> {
    pub(super) fn new(
        tables: &'a [Arc<Table>],
        owed: &'a [Owed],
        new_keys: BTreeMap<usize, NewKeys>,
        request: &'a FetchRequest<'a>,
        sink: Sink<'s>,
    ) -> Download<'a, 's> {
        Download {
            tables,
            owed,
            request,
            sink,
            cursor: None,
            readings: Vec::new(),
            owed_keys: HashSet::new(),
            new_keys,
            buffer: Vec::new(),
            count: 0,
            moved: Vec::new(),
            moved_count: 0,
            fetched: Fetched::default(),
        }
    }

    /// Takes a row of cursor `at`; rows arrive in the order of the cursors.
    pub(super) fn row(
        &mut self,
        cursors: &[Batches],
        at: usize,
        row: RowRef<'_>,
    ) -> Result<(), Failure> {
        while self.cursor != Some(at) {
            self.next(cursors)?;
            if self.cursor == Some(at) {
                self.readings = readings(&self.tables[cursors[at].position], cursors[at], row)?;
            }
        }
        let batches = cursors[at];
        let begin = self.buffer.len();
        for (column, (reading, raw)) in self.readings.iter().zip(row.values()).enumerate() {
            if reading.write(raw, &mut self.buffer).is_err() {
                let table = &self.tables[batches.position].deployed.published;
                let message = format!("a value of column {column} does not decode");
                return Err(Failure::new(Code::Bug, message).table(table.name.as_str()));
            }
        }
        if !self.is_wanted(batches, begin)? {
            self.buffer.truncate(begin);
            return Ok(());
        }
        if self.has_moved(batches, begin)? {
            let full = self.moved.len() >= self.request.batch_bytes
                || self.moved_count >= self.request.batch_rows;
            return if full { self.send_moved(batches) } else { Ok(()) };
        }
        self.count += 1;
        let full =
            self.buffer.len() >= self.request.batch_bytes || self.count >= self.request.batch_rows;
        if full { self.send(batches) } else { Ok(()) }
    }

    /// Ends the download: cursors that returned nothing are ended too.
    pub(super) fn finish(mut self, cursors: &[Batches]) -> Result<Fetched, Failure> {
        while self.cursor.is_none_or(|at| at < cursors.len()) {
            self.next(cursors)?;
        }
        Ok(self.fetched)
    }

    /// Ends the present cursor and goes to the next.
    fn next(&mut self, cursors: &[Batches]) -> Result<(), Failure> {
        if let Some(batches) = self.cursor.and_then(|at| cursors.get(at)) {
            self.send_moved(*batches)?;
            self.send(*batches)?;
            if batches.kind == Kind::Owed {
                self.owed_deletes(*batches)?;
            }
        }
        let at = self.cursor.map_or(0, |at| at + 1);
        self.cursor = Some(at);
        if let Some(batches) = cursors.get(at)
            && batches.kind != Kind::Owed
        {
            let here = self.owed.iter().filter(|row| row.table == batches.position);
            self.owed_keys = here.map(|row| row.key.as_slice()).collect();
        }
        Ok(())
    }

    /// Whether the row that begins at `begin` is to be sent now.
    fn is_wanted(&mut self, batches: Batches, begin: usize) -> Result<bool, Failure> {
        let image = &self.buffer[begin..];
        let new_keys = self.new_keys.get(&batches.position).filter(|_| !batches.refreshed);
        let kind = match batches.kind {
            Kind::DeletedKeys if new_keys.is_some_and(|keys| keys.is_told(image)) => {
                return Ok(false);
            }
            Kind::Rows => EchoKind::Row,
            Kind::DeletedKeys => EchoKind::DeletedKey,
            Kind::Owed => {
                // It exists, so its key is not to be deleted.
                let key = self.key_of(batches.position, image)?;
                self.owed_keys.remove(key.as_slice());
                return Ok(true);
            }
        };
        if !self.owed_keys.is_empty() {
            let owed = match kind {
                EchoKind::DeletedKey => self.owed_keys.contains(image),
                EchoKind::Row => {
                    self.owed_keys.contains(self.key_of(batches.position, image)?.as_slice())
                }
            };
            if owed {
                return Ok(false);
            }
        }
        if !batches.refreshed && self.request.echo.contains(kind, batches.position, image) {
            // What lies under a key that is said to be another row's comes, no matter who made it.
            let again = match (new_keys, kind) {
                (None, _) => false,
                (Some(keys), EchoKind::DeletedKey) => keys.are_given_up(image),
                (Some(keys), EchoKind::Row) => {
                    keys.are_given_up(&self.key_of(batches.position, image)?)
                }
            };
            if !again {
                self.fetched.filtered += 1;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Puts the row that begins at `begin` with those that have another key than the remote knows.
    fn has_moved(&mut self, batches: Batches, begin: usize) -> Result<bool, Failure> {
        if batches.kind == Kind::DeletedKeys || !self.new_keys.contains_key(&batches.position) {
            return Ok(false);
        }
        let key = self.key_of(batches.position, &self.buffer[begin..])?;
        let new_keys = self.new_keys.get_mut(&batches.position);
        let Some(old) = new_keys.and_then(|new_keys| new_keys.tell(&key)) else {
            return Ok(false);
        };
        self.moved.extend_from_slice(old);
        self.moved.extend_from_slice(&self.buffer[begin..]);
        self.buffer.truncate(begin);
        self.moved_count += 1;
        Ok(true)
    }

    fn key_of(&self, position: usize, image: &[u8]) -> Result<Vec<u8>, Failure> {
        let published = &self.tables[position].deployed.published;
        let mut reader = RowReader::new(image);
        let mut values = Vec::with_capacity(published.width());
        for _ in 0..published.width() {
            values.push(reader.value()?);
        }
        let mut key = Vec::new();
        published.key.iter().for_each(|at| write_value(&mut key, values[usize::from(*at)]));
        Ok(key)
    }

    fn send(&mut self, batches: Batches) -> Result<(), Failure> {
        if self.count == 0 {
            return Ok(());
        }
        // The next batch will be about as large.
        let next = Vec::with_capacity(self.buffer.len());
        let rows = std::mem::replace(&mut self.buffer, next);
        let count = std::mem::take(&mut self.count);
        self.fetched.rows += u64::from(count);
        let table = batches.position;
        (self.sink)(match batches.kind {
            Kind::Rows | Kind::Owed => DownloadBatch::Upserts { table, count, rows },
            Kind::DeletedKeys => DownloadBatch::Deletes { table, count, rows },
        })
    }

    fn send_moved(&mut self, batches: Batches) -> Result<(), Failure> {
        if self.moved_count == 0 {
            return Ok(());
        }
        let (table, count) = (batches.position, std::mem::take(&mut self.moved_count));
        self.fetched.rows += u64::from(count);
        (self.sink)(DownloadBatch::KeyChanges {
            table,
            count,
            rows: std::mem::take(&mut self.moved),
        })
    }

    /// Owed rows that were not found are gone.
    fn owed_deletes(&mut self, batches: Batches) -> Result<(), Failure> {
        let mut keys: Vec<&[u8]> = self.owed_keys.drain().collect();
        keys.sort_unstable();
        let gone = Batches { kind: Kind::DeletedKeys, ..batches };
        for key in keys {
            self.buffer.extend_from_slice(key);
            self.count += 1;
            let full = self.buffer.len() >= self.request.batch_bytes
                || self.count >= self.request.batch_rows;
            if full {
                self.send(gone)?;
            }
        }
        self.send(gone)
    }
}

/// How the columns of a cursor's rows are read.
fn readings(table: &Table, batches: Batches, row: RowRef<'_>) -> Result<Vec<Reading>, Failure> {
    let (published, types) = (&table.deployed.published, &table.deployed.details.columns);
    let expected: Vec<usize> = match batches.kind {
        Kind::Rows | Kind::Owed => (0..published.width()).collect(),
        Kind::DeletedKeys => published.key.iter().map(|at| usize::from(*at)).collect(),
    };
    let wrong =
        |message: String| Failure::new(Code::ScriptFailed, message).table(published.name.as_str());
    let found = row.columns().len();
    if found != expected.len() {
        return Err(wrong(format!("a script returns {found} columns, not {}", expected.len())));
    }
    let reading = |(place, column): (usize, usize)| {
        let kind: Option<&ColumnType> = types.get(column);
        let result = &row.columns()[place].type_;
        kind.and_then(|kind| Reading::of(result, kind)).ok_or_else(|| {
            let name = &published.columns[column];
            wrong(format!("a script returns column {name} as {result}; select it with ::text"))
        })
    };
    expected.into_iter().enumerate().map(reading).collect()
}
