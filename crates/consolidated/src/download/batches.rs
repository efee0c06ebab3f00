//! Cuts the rows of cursors into batches, and leaves out what need not be sent.
//!
//! Invariants:
//! DB1. A row is sent once: an owed one that a cursor returns is not sent again as what is owed.
//! DB2. A key of a row that is sent is not deleted.
//! DB3. What is owed is sent, also where the remote has just uploaded it.

use crate::download::Sink;
use crate::download::owed::{OwedKeys, Page, State};
use crate::download::range::DownloadRange;
use crate::download::resume::{self, Upto, Window};
use crate::script::{Event, trace};
use crate::synchronization::sent::Sent;
use crate::synchronization::{DownloadBatch, FetchRequest, Fetched};
use crate::upload::echo::EchoKind;
use crate::upload::rebase::values;
use crate::upload::uploaded_row::key_of;
use model::{Code, Failure, PublishedTable, RowReader, ValueRef, skip_row};
use std::borrow::Cow;
use std::time::Instant;

/// What the rows of a cursor are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Rows,
    DeletedKeys,
    /// The rows that are owed, where they exist.
    Owed,
}

impl Kind {
    /// The cursor that returns it. What is owed comes through that of the rows too, where a user
    /// wrote it.
    pub(crate) fn event(self) -> Event {
        match self {
            Kind::Rows | Kind::Owed => Event::DownloadCursor,
            Kind::DeletedKeys => Event::DownloadDeleteCursor,
        }
    }

    fn echoed(self) -> EchoKind {
        match self {
            Kind::DeletedKeys => EchoKind::DeletedKey,
            Kind::Rows | Kind::Owed => EchoKind::Row,
        }
    }
}

/// The part of a download that one cursor returns. Those of a table follow each other in the order
/// of their kinds; where scripts run between them, deleted keys come first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// Of the table.
    pub(crate) position: usize,
    pub(crate) kind: Kind,
    /// The whole table is sent. The remote removes rows that do not arrive, so even rows that it
    /// has just uploaded are sent.
    pub(crate) refreshed: bool,
    /// Owed rows of the table are sent as its cursor meets them, and only others are looked up.
    pub(crate) meets_owed: bool,
    /// A user wrote the cursor.
    pub(crate) own: bool,
    /// Which reading of the table's rows or deleted keys it is; none where the remote is told no
    /// positions.
    pub(crate) stretch: Option<Stretch>,
}

/// One of the readings of a table's rows or deleted keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) ordered: bool,
    /// Segments of the remote that lie before.
    pub(crate) passed: u16,
    pub(crate) is_last: bool,
}

impl Stretch {
    /// Of a window of a table whose range this is. Deleted keys without an order are few, or the
    /// download is the first that may be cut: their end alone is not worth a position. And a remote
    /// keeps them only behind all rows, so it is told nothing where they come first.
    pub(crate) fn of<P, S: Clone>(
        range: &DownloadRange<P, S>,
        window: &Window<S>,
        kind: Kind,
        deletes_first: bool,
    ) -> Option<Stretch> {
        let Window { ordered, passed, is_last, .. } = *window;
        let is_kept = kind == Kind::Rows || (ordered && !deletes_first);
        let tells = range.tells_positions() && is_kept;
        tells.then_some(Stretch { ordered, passed, is_last })
    }
}

/// What is sent of a download, as it comes.
pub(crate) struct Batches<'a, 's> {
    request: &'a FetchRequest<'a>,
    sink: Sink<'s>,
    /// Keys of the present table that are owed: they are sent once, as what is owed. A row that was
    /// met is sent whatever it is, and is not to be deleted.
    owed: Option<OwedKeys>,
    buffer: Vec<u8>,
    count: u32,
    /// Where the last row of the buffer begins.
    last: usize,
    /// Rows of the present part that were sent.
    of_part: u64,
    /// When its cursor began, or the one before had ended.
    began: Option<Instant>,
    fetched: Fetched,
}

impl<'a, 's> Batches<'a, 's> {
    pub(crate) fn new(request: &'a FetchRequest<'a>, sink: Sink<'s>) -> Batches<'a, 's> {
        Batches {
            request,
            sink,
            owed: None,
            buffer: Vec::new(),
            count: 0,
            last: 0,
            of_part: 0,
            began: trace::begin(request.session),
            fetched: Fetched::default(),
        }
    }

    /// Goes to the next table.
    pub(crate) fn begin(&mut self, owed: Option<OwedKeys>) {
        self.owed = owed.filter(|owed| !owed.is_empty());
    }

    /// Takes the row or deleted key that `write` appends.
    pub(crate) fn row(
        &mut self,
        part: Part,
        table: &PublishedTable,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let begin = self.buffer.len();
        write(&mut self.buffer)?;
        if part.own && is_nobodys(part.kind, table, &self.buffer[begin..])? {
            self.buffer.truncate(begin);
            return Ok(());
        }
        self.sort(part, table, begin)?;
        let (bytes_max, rows_max) = (self.request.batch_bytes, self.request.batch_rows);
        if self.buffer.len() < bytes_max && self.count < rows_max {
            return Ok(());
        }
        // All rows before the last one of the batch have been sent, or the remote has them.
        let position = match part.stretch.filter(|stretch| stretch.ordered && self.count > 0) {
            Some(_) => resume::behind(&key_in(table, part.kind, &self.buffer[self.last..])?),
            None => None,
        };
        self.send(part)?;
        match (position, part.stretch) {
            (Some(position), Some(stretch)) => self.tell(part, stretch.passed, false, position),
            _ => Ok(()),
        }
    }

    /// Tells the remote how far the rows or deleted keys of a table have been sent.
    fn tell(
        &mut self,
        part: Part,
        passed: u16,
        complete: bool,
        position: Vec<u8>,
    ) -> Result<(), Failure> {
        let (table, deletes) = (part.position, part.kind == Kind::DeletedKeys);
        (self.sink)(DownloadBatch::Position { table, deletes, passed, complete, position })
    }

    /// The next keys behind `behind` of owed rows of the present table that no cursor so far has
    /// returned, and that may be there.
    pub(crate) fn findable(&self, behind: Option<&[u8]>) -> Result<Page, Failure> {
        self.owed.as_ref().map_or_else(|| Ok(Page::default()), |owed| owed.findable(behind))
    }

    /// Whether no row with this key of the present table was sent so far.
    pub(crate) fn still_owes(&self, key: &[u8]) -> Result<bool, Failure> {
        let state = self.owed.as_ref().map_or(Ok(None), |owed| owed.state(key))?;
        Ok(state.is_some_and(State::is_due))
    }

    /// An owed row exists, however its key is spelled: that is not to be deleted.
    pub(crate) fn found(&mut self, key: &[u8]) -> Result<(), Failure> {
        self.owed.as_mut().map_or(Ok(()), |owed| owed.note(key, State::Found))
    }

    /// Ends a part. Owed rows that were not found are gone.
    pub(crate) fn end(&mut self, part: Part) -> Result<(), Failure> {
        self.send(part)?;
        self.trace(part);
        match (part.kind, part.stretch) {
            (Kind::Owed, _) => self.owed_deletes(part),
            (_, Some(stretch)) if stretch.is_last => {
                self.tell(part, stretch.passed, true, resume::position(&Upto::End))
            }
            // Up to the position where that segment of the remote ends.
            (_, Some(stretch)) => self.tell(part, stretch.passed + 1, false, Vec::new()),
            _ => Ok(()),
        }
    }

    /// Tells of a cursor that has ended. Of what is generated it depends on the database what runs.
    fn trace(&mut self, part: Part) {
        let began = std::mem::replace(&mut self.began, trace::begin(self.request.session));
        let rows = std::mem::take(&mut self.of_part);
        let is_own = part.own && part.kind != Kind::Owed;
        if rows > 0 || is_own {
            let (session, event) = (self.request.session, part.kind.event());
            let table = session.schema.tables.get(part.position).map(|table| table.name.as_str());
            trace::ran(session, event, table, Some(rows), began);
        }
    }

    /// Counts rows that no cursor looked at, because the remote has just uploaded them.
    pub(crate) fn count_filtered(&mut self, position: usize, rows: u64) {
        if rows > 0 {
            self.fetched.filtered += rows;
            self.sent(position).filtered += rows;
        }
    }

    fn sent(&mut self, position: usize) -> &mut Sent {
        let sent = &mut self.fetched.sent;
        if sent.len() <= position {
            sent.resize(position + 1, Sent::default());
        }
        &mut sent[position]
    }

    pub(crate) fn finish(self) -> Fetched {
        self.fetched
    }

    /// Keeps what begins at `begin` among the rows, or leaves it out.
    fn sort(&mut self, part: Part, table: &PublishedTable, begin: usize) -> Result<(), Failure> {
        let image = &self.buffer[begin..];
        let key = match self.owed.is_some() {
            true => key_in(table, part.kind, image)?,
            false => Cow::Borrowed([].as_slice()),
        };
        let is_wanted = match self.owed.as_mut() {
            Some(owed) => is_wanted(owed, part, &key)?,
            None => (part.kind == Kind::Owed).then_some(true),
        };
        let is_left_out = match is_wanted {
            Some(is_wanted) => !is_wanted,
            None => {
                let is_echo = !part.refreshed
                    && self.request.echo.contains(part.kind.echoed(), part.position, image);
                self.count_filtered(part.position, u64::from(is_echo));
                is_echo
            }
        };
        if is_left_out {
            self.buffer.truncate(begin);
            return Ok(());
        }
        self.count += 1;
        self.last = begin;
        Ok(())
    }

    fn send(&mut self, part: Part) -> Result<(), Failure> {
        if self.count == 0 {
            return Ok(());
        }
        // The next batch will be about as large.
        let next = Vec::with_capacity(self.buffer.len());
        let rows = std::mem::replace(&mut self.buffer, next);
        let count = std::mem::take(&mut self.count);
        self.fetched.rows += u64::from(count);
        let table = part.position;
        self.of_part += u64::from(count);
        let sent = self.sent(table);
        sent.bytes += rows.len() as u64;
        *match part.kind {
            Kind::Rows | Kind::Owed => &mut sent.rows,
            Kind::DeletedKeys => &mut sent.deleted,
        } += u64::from(count);
        (self.sink)(match part.kind {
            Kind::Rows | Kind::Owed => DownloadBatch::Upserts { table, count, rows },
            Kind::DeletedKeys => DownloadBatch::Deletes { table, count, rows },
        })
    }

    fn owed_deletes(&mut self, part: Part) -> Result<(), Failure> {
        let Some(owed) = self.owed.take() else { return Ok(()) };
        let gone = Part { kind: Kind::DeletedKeys, ..part };
        let (bytes_max, rows_max) = (self.request.batch_bytes, self.request.batch_rows);
        let mut page = owed.due(None)?;
        loop {
            for key in &page.keys {
                self.buffer.extend_from_slice(key);
                self.count += 1;
                if self.buffer.len() >= bytes_max || self.count >= rows_max {
                    self.send(gone)?;
                }
            }
            page = match page.end() {
                Some(end) => owed.due(Some(end))?,
                None => break,
            };
        }
        self.send(gone)
    }
}

/// Whether what a cursor returns under `key` is sent because it is owed, or not sent because what
/// is owed follows; none if it is not owed.
fn is_wanted(owed: &mut OwedKeys, part: Part, key: &[u8]) -> Result<Option<bool>, Failure> {
    let state = owed.state(key)?;
    let is_due = state.is_some_and(State::is_due);
    Ok(match part.kind {
        Kind::Owed => {
            if is_due {
                // It exists, so its key is not to be deleted.
                owed.note(key, State::Found)?;
            }
            Some(true)
        }
        Kind::DeletedKeys => (is_due || state == Some(State::Met)).then_some(false),
        Kind::Rows if !part.meets_owed => is_due.then_some(false),
        Kind::Rows => {
            if is_due {
                owed.note(key, State::Met)?;
            }
            (is_due || state == Some(State::Met)).then_some(true)
        }
    })
}

/// Whether what a user's cursor returns has no key, because a value of it is NULL. Of deleted keys
/// that is nothing. A row would get a key of its own at each remote, so it is refused.
fn is_nobodys(kind: Kind, table: &PublishedTable, image: &[u8]) -> Result<bool, Failure> {
    let key = key_in(table, kind, image)?;
    let (mut reader, mut is_null) = (RowReader::new(&key), false);
    for _ in &table.key {
        is_null |= reader.value()? == ValueRef::Null;
    }
    if is_null && kind != Kind::DeletedKeys {
        let message =
            format!("download_cursor of table {} returns a row without a key", table.name);
        return Err(Failure::new(Code::ScriptFailed, message)
            .table(table.name.as_str())
            .hint("a column of the key is NULL: leave such rows out"));
    }
    Ok(is_null)
}

/// The key in what a cursor returns.
fn key_in<'r>(
    table: &PublishedTable,
    kind: Kind,
    image: &'r [u8],
) -> Result<Cow<'r, [u8]>, Failure> {
    if let Kind::DeletedKeys = kind {
        return Ok(Cow::Borrowed(image));
    }
    let key = &table.key;
    // Most tables begin with their key.
    if key.iter().enumerate().all(|(place, column)| usize::from(*column) == place) {
        let behind = skip_row(image, key.len())?;
        return Ok(Cow::Borrowed(&image[..image.len() - behind.len()]));
    }
    Ok(Cow::Owned(key_of(table, &values(image)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synchronization::resuming::Resuming;
    use crate::synchronization::{Held, Session};
    use crate::upload::echo::Echo;
    use model::{Counter, DatabaseId, Direction, RemoteId, ScriptVersion, UserName, write_value};
    use std::sync::Arc;

    fn encoded(values: &[i64]) -> Vec<u8> {
        let mut row = Vec::new();
        values.iter().for_each(|value| write_value(&mut row, ValueRef::Integer(*value)));
        row
    }

    fn table() -> PublishedTable {
        PublishedTable {
            compress: true,
            fires: false,
            name: "t".into(),
            columns: vec!["v".into(), "id".into()],
            key: vec![1],
            direction: Direction::Both,
            create: vec![],
            fingerprint: String::new(),
        }
    }

    /// What is sent of a table whose second column is its key. Its rows with the keys 1, 2 and 3
    /// are owed. The cursor returns the first, then itself and a row that nobody owes, and names
    /// the keys 1, 2 and 8 as deleted; the last is found by its key.
    fn sent(meets_owed: bool) -> Vec<String> {
        let table = table();
        let session = Session {
            by_scripts: Default::default(),
            publications: std::sync::Arc::default(),
            ends: false,
            is_session: false,
            authenticates: Default::default(),
            database_id: DatabaseId("d".into()),
            deployment: 1,
            remote_id: RemoteId::new("r").unwrap(),
            user: UserName::new("u").unwrap(),
            owner: UserName::new("u").unwrap(),
            claims: Default::default(),
            script_version: ScriptVersion::new("1").unwrap(),
            schema: Arc::default(),
            held: Held::Untold,
            waiting: Arc::default(),
            acknowledge: false,
            fetched_by_writer: false,
            asks_for_times: false,
            counted: None,
            passed: Default::default(),
        };
        let request = FetchRequest {
            session: &session,
            counter: Counter(1),
            marks: &[],
            held_marks: &[],
            is_counted: false,
            echo: &Echo::default(),
            time_us: None,
            wanted: &[],
            batch_bytes: 1000,
            batch_rows: 1000,
            row_bytes_max: 1000,
            resuming: Resuming::default(),
        };
        let mut owed = OwedKeys::within(&Arc::default());
        [1, 2, 3].iter().for_each(|key| owed.owe(&encoded(&[*key])).unwrap());
        let mut sent = Vec::new();
        let mut sink = |batch| {
            sent.push(match batch {
                DownloadBatch::Upserts { rows, .. } => format!("rows {:?}", values(&rows)?),
                DownloadBatch::Deletes { rows, .. } => format!("keys {:?}", values(&rows)?),
                other => format!("{other:?}"),
            });
            Ok(())
        };
        let mut batches = Batches::new(&request, &mut sink);
        let (refreshed, own) = (false, false);
        let part = |kind| Part { position: 0, kind, refreshed, meets_owed, own, stretch: None };
        batches.begin(Some(owed));
        let mut take = |kind, rows: &[&[i64]]| {
            for row in rows {
                let write = |buffer: &mut Vec<u8>| {
                    buffer.extend(encoded(row));
                    Ok(())
                };
                batches.row(part(kind), &table, write).unwrap();
            }
            batches.end(part(kind)).unwrap();
        };
        take(Kind::Rows, &[&[10, 1], &[10, 1], &[70, 7]]);
        take(Kind::DeletedKeys, &[&[1], &[2], &[8]]);
        let looked_up: &[&[i64]] = if meets_owed { &[&[30, 3]] } else { &[&[10, 1], &[30, 3]] };
        take(Kind::Owed, looked_up);
        batches.finish();
        sent
    }

    fn ints(values: &[i64]) -> String {
        let values: Vec<_> = values.iter().map(|value| ValueRef::Integer(*value)).collect();
        format!("{values:?}")
    }

    // Trap 5: what is owed comes once, or as a delete where it is gone.
    #[test]
    fn an_owed_row_that_a_cursor_has_met_is_not_deleted_and_the_others_are_looked_up() {
        let rows = |values: &[i64]| format!("rows {}", ints(values));
        let keys = |values: &[i64]| format!("keys {}", ints(values));
        let met = [rows(&[10, 1, 10, 1, 70, 7]), keys(&[8]), rows(&[30, 3]), keys(&[2])];
        assert_eq!(sent(true), met);
        let looked_up = [rows(&[70, 7]), keys(&[8]), rows(&[10, 1, 30, 3]), keys(&[2])];
        assert_eq!(sent(false), looked_up);
    }
}
