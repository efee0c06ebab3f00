//! Fetches one download from one snapshot.
//!
//! Invariants:
//! F1. Rows and watermarks come from the same snapshot, so no change is between them (S2).
//! F2. Owed rows are sent whatever the watermark of the remote says (trap 5).

use super::binding::{bind, bind_session};
use super::catalog::CatalogTable;
use super::durable::Ends;
use super::errors::{failed, script_failed};
use super::identity;
use super::stretch;
use super::values::write_row;
use super::watermark::{self, LogMark, Mark};
use super::{moves, new_keys};
use crate::echo::{Echo, EchoKind};
use crate::identity::Void;
use crate::new_keys::NewKeys;
use crate::script::{Event, Parameter};
use crate::synchronization::{DownloadBatch, DownloadedTable, FetchRequest, Fetched, TableMark};
use crate::uploaded_row::{UploadedRow, key_of};
use model::{Code, Counter, Failure, RowReader, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row};
use std::collections::HashSet;
use std::sync::Arc;

/// Where the parts of a download go.
pub(super) type Sink<'a> = &'a mut dyn FnMut(DownloadBatch) -> Result<(), Failure>;

/// Sends all rows of `request` to `sink`, and returns up to which entries the logs were read. The
/// connection is inside a read transaction.
pub(super) fn fetch(
    connection: &Connection,
    tables: &[Arc<CatalogTable>],
    request: &FetchRequest<'_>,
    sink: Sink<'_>,
) -> Result<(Fetched, Ends), Failure> {
    let generation = connection
        .prepare_cached("SELECT value FROM syncline_system WHERE name = 'generation'")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .map_err(failed("read the generation"))?;
    let past = Past { generation, void: identity::void(connection, &request.session.remote_id)? };
    let mut spans = Vec::with_capacity(tables.len());
    for (position, table) in tables.iter().enumerate() {
        let held = request.marks.get(position);
        spans.push(span(connection, table, held, &past, request)?);
    }
    let marks = request.present_marks().filter_map(|held| Mark::read(held.watermark.as_ref()?));
    let others: Vec<Mark> = marks.filter(|mark| !past.is_of(mark, request)).collect();
    let other_generation = others.iter().any(|mark| mark.generation != generation);
    let deletes_lost = !others.is_empty() && (other_generation || past.void.deletes_lost);
    let modes = modes(tables, &spans, request);
    let (restored, waiting) = (!others.is_empty(), request.session.waiting.clone());
    sink(DownloadBatch::Begin { tables: modes, restored, deletes_lost, waiting })?;
    let owed = read_owed(connection, tables, request)?;
    let settled = settled(request.marks, tables.len());
    for row in &owed {
        if row.withheld.is_some() {
            let (table, key, counter) = (row.table, row.key.clone(), row.counter);
            sink(DownloadBatch::Withheld { table, key, counter })?;
        }
        // A row that was withheld stays owed when the remote knows of it.
        if let Some((code, message)) = &row.reject
            && (row.withheld.is_none() || row.counter > settled)
        {
            sink(DownloadBatch::Reject {
                table: row.table,
                key: row.key.clone(),
                counter: row.counter,
                code: *code,
                message: message.clone(),
            })?;
        }
    }
    let owed: Vec<Owed> = owed.into_iter().filter(|row| !row.is_too_large(request)).collect();
    let (owed_keys, fetched) = (HashSet::new(), Fetched::default());
    let new_keys = NewKeys::default();
    let mut download = Download { connection, request, sink, owed_keys, new_keys, fetched };
    for (position, (table, span)) in tables.iter().zip(&spans).enumerate() {
        let owed_here: Vec<&Owed> = owed.iter().filter(|row| row.table == position).collect();
        download.table(position, table, span, &owed_here)?;
    }
    let mut fetched = download.fetched;
    let mut ends = Ends::new();
    for (position, (table, span)) in tables.iter().zip(spans).enumerate() {
        ends.extend(logs_of(table).iter().cloned().zip(span.until.logs.iter().copied()));
        let until = Some(span.until.write()?);
        fetched.watermarks.push(request.watermark(position, until));
    }
    Ok((fetched, ends))
}

/// Which watermarks are of the past of this database.
struct Past {
    generation: i64,
    void: Void,
}

impl Past {
    fn is_of(&self, mark: &Mark, request: &FetchRequest<'_>) -> bool {
        mark.generation == self.generation && self.void.leaves(mark.counter, request.counter)
    }
}

/// What of a table is sent, and up to where it is complete then.
struct Span {
    mode: DownloadedTable,
    /// The last entry that the remote has of each log that the scripts look at.
    since: Option<Vec<i64>>,
    until: Mark,
}

/// How each table is downloaded. One that is sent whole is a warning, unless it is so every time.
fn modes(
    tables: &[Arc<CatalogTable>],
    spans: &[Span],
    request: &FetchRequest<'_>,
) -> Vec<DownloadedTable> {
    let whole = |position: &usize| spans[*position].mode == DownloadedTable::Refresh;
    let unplanned = |position: &usize| !tables[*position].details.sent_afresh;
    let refreshed = (0..tables.len()).filter(whole).filter(unplanned);
    request.warn_of_refreshes(refreshed.map(|at| (at, tables[at].published.name.as_str())));
    spans.iter().map(|span| span.mode).collect()
}

fn span(
    connection: &Connection,
    table: &CatalogTable,
    held: Option<&TableMark>,
    past: &Past,
    request: &FetchRequest<'_>,
) -> Result<Span, Failure> {
    let published = &table.published;
    let generation = past.generation;
    let mut until = Mark { generation, counter: request.counter, subscription: 0, logs: vec![] };
    if !published.direction.downloads() {
        // The mark still carries the counter, which settles what the remote was sent.
        return Ok(Span { mode: DownloadedTable::None, since: None, until });
    }
    until.subscription = watermark::subscription(&table.details, request.session)?;
    let mut floors = Vec::new();
    for name in logs_of(table) {
        let (log, floor) = end_of_log(connection, name)?;
        until.logs.push(log);
        floors.push(floor);
    }
    let follows = |(then, (now, floor)): (&LogMark, (&LogMark, &i64))| {
        then.incarnation == now.incarnation && (*floor..=now.sequence).contains(&then.sequence)
    };
    let since = held
        .filter(|held| held.fingerprint == published.fingerprint && !table.details.sent_afresh)
        .and_then(|held| Mark::read(held.watermark.as_ref()?))
        .filter(|mark| past.is_of(mark, request) && mark.subscription == until.subscription)
        .filter(|mark| mark.logs.len() == until.logs.len())
        .filter(|mark| mark.logs.iter().zip(until.logs.iter().zip(&floors)).all(follows))
        .map(|mark| mark.logs.iter().map(|log| log.sequence).collect());
    let mode = match since {
        Some(_) => DownloadedTable::Changes,
        None => DownloadedTable::Refresh,
    };
    Ok(Span { mode, since, until })
}

/// Up to where the remote has received what it was owed: its watermarks were issued after that.
pub(super) fn settled(marks: &[TableMark], tables: usize) -> Counter {
    let counters = marks.iter().map(|held| {
        let mark = held.watermark.as_ref().and_then(Mark::read);
        mark.map_or(Counter(0), |mark| mark.counter)
    });
    counters.min().filter(|_| marks.len() == tables).unwrap_or(Counter(0))
}

/// The tables whose logs decide about a download of `table`, itself first.
pub(super) fn logs_of(table: &CatalogTable) -> &[String] {
    match table.details.logs.as_slice() {
        [] => std::slice::from_ref(&table.published.name),
        logs => logs,
    }
}

/// Where the log of a table ends, and what of it was trimmed.
pub(super) fn end_of_log(connection: &Connection, table: &str) -> Result<(LogMark, i64), Failure> {
    let (incarnation, floor): (i64, i64) = connection
        .prepare_cached("SELECT incarnation, floor FROM syncline_log_state WHERE table_name = ?1")
        .and_then(|mut statement| {
            statement.query_row([table], |row| Ok((row.get(0)?, row.get(1)?))).optional()
        })
        .map_err(failed("read the state of a log"))?
        .ok_or_else(|| Failure::new(Code::Drift, format!("table {table} has no log")))?;
    Ok((LogMark { incarnation, sequence: stretch::end_of_log(connection, table)? }, floor))
}

/// A row that the remote must receive.
struct Owed {
    table: usize,
    key: Vec<u8>,
    counter: Counter,
    reject: Option<(u16, String)>,
    /// It was too large to be sent: this many bytes.
    withheld: Option<u64>,
}

impl Owed {
    /// Not even tried: it was too large, and comes as any row does when it changes.
    fn is_too_large(&self, request: &FetchRequest<'_>) -> bool {
        self.withheld.is_some_and(|bytes| bytes > request.row_bytes_max)
    }
}

fn read_owed(
    connection: &Connection,
    tables: &[Arc<CatalogTable>],
    request: &FetchRequest<'_>,
) -> Result<Vec<Owed>, Failure> {
    let reading = failed("read what the remote is owed");
    let mut statement = connection
        .prepare_cached(
            "SELECT table_name, row_key, counter, code, message, withheld FROM syncline_owed
             WHERE remote_id = ?1 ORDER BY table_name, row_key",
        )
        .map_err(&reading)?;
    let mut rows = statement.query([request.session.remote_id.as_str()]).map_err(&reading)?;
    let mut owed = Vec::new();
    while let Some(row) = rows.next().map_err(&reading)? {
        let read = || -> rusqlite::Result<Option<Owed>> {
            let name: String = row.get(0)?;
            let table = tables.iter().position(|table| table.published.name == name);
            let code: Option<u16> = row.get(3)?;
            let message: Option<String> = row.get(4)?;
            let reject = code.map(|code| (code, message.unwrap_or_default()));
            let (key, counter) = (row.get(1)?, Counter(row.get(2)?));
            let withheld = row.get::<_, Option<i64>>(5)?.map(i64::unsigned_abs);
            Ok(table.map(|table| Owed { table, key, counter, reject, withheld }))
        };
        owed.extend(read().map_err(&reading)?);
    }
    Ok(owed)
}

/// A download under way.
struct Download<'a, 's> {
    connection: &'a Connection,
    request: &'a FetchRequest<'a>,
    sink: Sink<'s>,
    /// Keys of the present table that are owed: they are sent once, as what is owed.
    owed_keys: HashSet<&'a [u8]>,
    /// Rows of the present table that the remote knows by other keys.
    new_keys: NewKeys,
    fetched: Fetched,
}

/// What waits to be sent.
#[derive(Default)]
struct Buffers {
    rows: Vec<u8>,
    count: u32,
    /// Rows with another key, each after the old key.
    moved: Vec<u8>,
    moved_count: u32,
}

impl<'a> Download<'a, '_> {
    /// Sends what there is of one table.
    fn table(
        &mut self,
        position: usize,
        table: &CatalogTable,
        span: &Span,
        owed: &[&'a Owed],
    ) -> Result<(), Failure> {
        self.owed_keys = owed.iter().map(|row| row.key.as_slice()).collect();
        let since = span.since.as_deref();
        if let (Some(_), Some((first, last))) = (since, self.request.echo.stretch(position)) {
            self.fetched.filtered += last.abs_diff(first) + 1;
        }
        self.find_new_keys(position, table, since)?;
        if span.mode != DownloadedTable::None {
            self.rows(position, table, since)?;
        }
        if span.mode == DownloadedTable::Changes {
            self.deletes(position, table, since)?;
        }
        owed.iter().try_for_each(|row| self.owed(table, row))
    }

    /// Finds out which rows of a table the remote knows by other keys.
    fn find_new_keys(
        &mut self,
        position: usize,
        table: &CatalogTable,
        since: Option<&[i64]>,
    ) -> Result<(), Failure> {
        self.new_keys = NewKeys::default();
        let Some(last) = since.filter(|_| self.request.key_changes).and_then(|since| since.first())
        else {
            return Ok(());
        };
        let remote = self.request.session.remote_id.as_str();
        let mut new_keys = moves::new_keys(self.connection, &table.published, *last, remote)?;
        if new_keys.is_empty() {
            return Ok(());
        }
        let mut named = HashSet::new();
        let (event, width) = (Event::DownloadDeleteCursor, table.published.key.len());
        self.each(table, event, since, position, &mut |row| {
            let mut key = Vec::new();
            write_row(&mut key, row, width)
                .map_err(|error| script_failed(error, &table.published.name, event.name()))?;
            if new_keys.are_given_up(&key) {
                named.insert(key);
            }
            Ok(())
        })?;
        new_keys::keep_known(&mut new_keys, self.connection, table, *last, &named, &mut |key| {
            Ok(self.covered(table, key)?.is_some())
        })?;
        self.new_keys = new_keys;
        Ok(())
    }

    fn rows(
        &mut self,
        position: usize,
        table: &CatalogTable,
        since: Option<&[i64]>,
    ) -> Result<(), Failure> {
        let width = table.published.width();
        let batches = Batches { position, kind: EchoKind::Row, width };
        self.cursor(table, Event::DownloadCursor, since, &batches)
    }

    fn deletes(
        &mut self,
        position: usize,
        table: &CatalogTable,
        since: Option<&[i64]>,
    ) -> Result<(), Failure> {
        let width = table.published.key.len();
        let batches = Batches { position, kind: EchoKind::DeletedKey, width };
        self.cursor(table, Event::DownloadDeleteCursor, since, &batches)
    }

    /// Runs a cursor and cuts what it returns into batches.
    fn cursor(
        &mut self,
        table: &CatalogTable,
        event: Event,
        since: Option<&[i64]>,
        batches: &Batches,
    ) -> Result<(), Failure> {
        // The remote removes rows of a whole table that do not arrive. So even rows that it has
        // just uploaded are sent.
        let request = self.request;
        let echo = since.is_some().then_some(request.echo);
        let connection = self.connection;
        let mut buffers = Buffers::default();
        each(connection, request, table, event, since, batches.position, &mut |row| {
            let begin = buffers.rows.len();
            write_row(&mut buffers.rows, row, batches.width)
                .map_err(|error| script_failed(error, &table.published.name, event.name()))?;
            self.take(table, batches, echo, &mut buffers, begin)
        })?;
        self.send_moved(batches, &mut buffers)?;
        self.send(batches, buffers.rows, buffers.count)
    }

    fn each(
        &self,
        table: &CatalogTable,
        event: Event,
        since: Option<&[i64]>,
        position: usize,
        visit: &mut dyn FnMut(&Row<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        each(self.connection, self.request, table, event, since, position, visit)
    }

    /// Takes what begins at `begin`, if it is to be sent.
    fn take(
        &mut self,
        table: &CatalogTable,
        batches: &Batches,
        echo: Option<&Echo>,
        buffers: &mut Buffers,
        begin: usize,
    ) -> Result<(), Failure> {
        let image = &buffers.rows[begin..];
        let asks_for_key = !self.owed_keys.is_empty() || !self.new_keys.is_empty();
        let key = match asks_for_key {
            false => Vec::new(),
            true => key_in(table, batches.kind, image)?,
        };
        if self.owed_keys.contains(key.as_slice())
            || batches.kind == EchoKind::DeletedKey && self.new_keys.is_told(&key)
        {
            buffers.rows.truncate(begin);
            return Ok(());
        }
        // What lies under a key that is said to be another row's comes, no matter who made it.
        let again = self.new_keys.are_given_up(&key);
        let known = |echo: &Echo| echo.contains(batches.kind, batches.position, image);
        if !again && echo.is_some_and(known) {
            buffers.rows.truncate(begin);
            self.fetched.filtered += 1;
            return Ok(());
        }
        let (bytes_max, rows_max) = (self.request.batch_bytes, self.request.batch_rows);
        if batches.kind == EchoKind::Row
            && let Some(old) = self.new_keys.tell(&key)
        {
            buffers.moved.extend_from_slice(old);
            buffers.moved.extend_from_slice(image);
            buffers.moved_count += 1;
            buffers.rows.truncate(begin);
            return match buffers.moved.len() >= bytes_max || buffers.moved_count >= rows_max {
                true => self.send_moved(batches, buffers),
                false => Ok(()),
            };
        }
        buffers.count += 1;
        if buffers.rows.len() >= bytes_max || buffers.count >= rows_max {
            let (rows, count) =
                (std::mem::take(&mut buffers.rows), std::mem::take(&mut buffers.count));
            self.send(batches, rows, count)?;
        }
        Ok(())
    }

    fn send_moved(&mut self, batches: &Batches, buffers: &mut Buffers) -> Result<(), Failure> {
        let count = std::mem::take(&mut buffers.moved_count);
        if count == 0 {
            return Ok(());
        }
        self.fetched.rows += u64::from(count);
        let (table, rows) = (batches.position, std::mem::take(&mut buffers.moved));
        (self.sink)(DownloadBatch::KeyChanges { table, count, rows })
    }

    fn send(&mut self, batches: &Batches, rows: Vec<u8>, count: u32) -> Result<(), Failure> {
        if count == 0 {
            return Ok(());
        }
        self.fetched.rows += u64::from(count);
        let table = batches.position;
        (self.sink)(match batches.kind {
            EchoKind::Row => DownloadBatch::Upserts { table, count, rows },
            EchoKind::DeletedKey => DownloadBatch::Deletes { table, count, rows },
        })
    }

    /// Sends a row as it is now, or its key if it is gone.
    fn owed(&mut self, table: &CatalogTable, owed: &Owed) -> Result<(), Failure> {
        if !table.published.direction.downloads() {
            return Ok(());
        }
        let width = table.published.width();
        let mut batches = Batches { position: owed.table, kind: EchoKind::Row, width };
        match self.covered(table, &owed.key)? {
            Some(row) => match self.new_keys.tell(&owed.key) {
                Some(old) => {
                    let moved = [old, row.as_slice()].concat();
                    let mut buffers = Buffers { moved, moved_count: 1, ..Buffers::default() };
                    self.send_moved(&batches, &mut buffers)
                }
                None => self.send(&batches, row, 1),
            },
            None => {
                batches.kind = EchoKind::DeletedKey;
                self.send(&batches, owed.key.clone(), 1)
            }
        }
    }

    /// The row with this key, if it is there and covered.
    fn covered(&self, table: &CatalogTable, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let script = table.required(Event::UploadFetch)?;
        let width = table.published.width();
        let running =
            |error| script_failed(error, &table.published.name, Event::UploadFetch.name());
        let mut image = UploadedRow::default();
        image.new.resize(width, ValueRef::Null);
        image.old.resize(width, ValueRef::Null);
        let mut key = RowReader::new(key);
        for column in &table.published.key {
            image.new[usize::from(*column)] = key.value()?;
        }
        let mut statement = self.connection.prepare_cached(&script.sql).map_err(running)?;
        bind(&mut statement, script, self.request.session, &image).map_err(running)?;
        let mut rows = statement.raw_query();
        let Some(row) = rows.next().map_err(running)? else { return Ok(None) };
        let mut buffer = Vec::new();
        write_row(&mut buffer, row, width).map_err(running)?;
        Ok(Some(buffer))
    }
}

/// Shows `visit` each row of a cursor.
fn each(
    connection: &Connection,
    request: &FetchRequest<'_>,
    table: &CatalogTable,
    event: Event,
    since: Option<&[i64]>,
    position: usize,
    visit: &mut dyn FnMut(&Row<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let script = table.required(event)?;
    let running = |error| script_failed(error, &table.published.name, event.name());
    let mut statement = connection.prepare_cached(&script.sql).map_err(running)?;
    let own = since.and_then(|_| request.echo.stretch(position));
    for (index, parameter) in script.parameters.iter().enumerate() {
        match parameter {
            Parameter::UploadedFirst => {
                statement.raw_bind_parameter(index + 1, own.map(|own| own.0))
            }
            Parameter::UploadedLast => {
                statement.raw_bind_parameter(index + 1, own.map(|own| own.1))
            }
            Parameter::LastDownload => {
                statement.raw_bind_parameter(index + 1, since.map(|since| since[0]))
            }
            Parameter::LastDownloadOf(name) => {
                let log = logs_of(table).iter().position(|log| log == name);
                let since = since.and_then(|since| since.get(log?).copied());
                statement.raw_bind_parameter(index + 1, since)
            }
            other => bind_session(&mut statement, index + 1, other, request.session),
        }
        .map_err(running)?;
    }
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(running)? {
        visit(row)?;
    }
    Ok(())
}

/// The key in what a cursor returns.
fn key_in(table: &CatalogTable, kind: EchoKind, image: &[u8]) -> Result<Vec<u8>, Failure> {
    if let EchoKind::DeletedKey = kind {
        return Ok(image.to_vec());
    }
    let values = crate::rebase::values(image)?;
    Ok(key_of(&table.published, &values))
}

struct Batches {
    position: usize,
    kind: EchoKind,
    width: usize,
}
