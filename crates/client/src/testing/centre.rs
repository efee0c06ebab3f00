//! A small consolidated database with a server, for tests.
//!
//! It keeps rows in maps, resolves no conflicts (the last writer wins) and makes faults on demand.

mod shapes;

use super::{int, remote_schema};
use crate::transport::Transport;
use model::{
    Code, Counter, DatabaseId, Failure, Nonce, Progress, PublishedTable, RemoteSchema, Value,
    Watermark, row_len,
};
use protocol::{
    Capabilities, DownloadBegin, DownloadEnd, DownloadMode, FRAME_BYTES_MAX, Failed, FrameDecoder,
    Hello, MAGIC, Message, Mode, Operation, Outcome, RowsFrame, SchemaChange, TableDownload,
    UploadCommitted, UploadState, Welcome,
};
use shapes::{Shapes, values};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Where the server dies, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Before the upload is committed.
    BeforeCommit,
    /// After the upload is committed, before its acknowledgement leaves.
    AfterCommit,
    /// Behind the acknowledgement.
    AfterAcknowledgement,
    /// Behind the schema change.
    AfterSchemaChange,
    /// In the middle of the download.
    WithinDownload,
    /// It answers this instead of Welcome.
    Refuse(Code),
    /// It sends more rows than it announces.
    Miscount,
}

/// A row, or its absence, and who changed it when.
#[derive(Debug, Clone)]
struct Version {
    row: Option<Vec<u8>>,
    version: i64,
    author: String,
    /// The key that the row has now, of one that left this key.
    moved_to: Option<Vec<u8>>,
}

#[derive(Debug, Clone, Default)]
struct Known {
    progress: Progress,
    counter: Counter,
    nonce: Nonce,
}

/// The consolidated database.
pub(crate) struct Centre {
    schema: RemoteSchema,
    /// Takes uploads under the tables that a remote holds.
    pub(crate) takes_held_shapes: bool,
    shapes: Shapes,
    rows: Vec<BTreeMap<Vec<u8>, Version>>,
    remotes: HashMap<String, Known>,
    version: i64,
    /// What Welcome names.
    pub(crate) capabilities: Capabilities,
    pub(crate) fault: Fault,
    /// Its identity.
    pub(crate) database: String,
    /// Every Hello.
    pub(crate) hellos: Vec<Hello>,
    /// Numbers of the committed uploads.
    pub(crate) commits: Vec<Progress>,
    /// Every uploaded row.
    pub(crate) uploads: Vec<String>,
    /// Bytes of each write of a client.
    pub(crate) writes: Vec<usize>,
}

pub(crate) type SharedCentre = Rc<RefCell<Centre>>;

impl Centre {
    pub(crate) fn new(tables: &[PublishedTable]) -> SharedCentre {
        Rc::new(RefCell::new(Centre {
            schema: remote_schema(tables),
            takes_held_shapes: false,
            shapes: Shapes::new(tables),
            rows: tables.iter().map(|_| BTreeMap::new()).collect(),
            remotes: HashMap::new(),
            version: 1,
            capabilities: Capabilities::KEY_CHANGES,
            fault: Fault::None,
            database: "the database".into(),
            hellos: Vec::new(),
            commits: Vec::new(),
            uploads: Vec::new(),
            writes: Vec::new(),
        }))
    }

    /// Publishes other tables. Rows are kept; what is new in them is NULL.
    pub(crate) fn publish(&mut self, tables: &[PublishedTable]) {
        let held = std::mem::replace(&mut self.schema, remote_schema(tables));
        let mut held_rows = std::mem::take(&mut self.rows);
        self.shapes.add(tables);
        for table in tables {
            let successor = held.tables.iter().position(|old| self.shapes.goes_on(old, table));
            let rows = successor.map(|at| (at, std::mem::take(&mut held_rows[at])));
            let (at, mut rows) = rows.unwrap_or_default();
            for version in rows.values_mut() {
                let Some(row) = &mut version.row else { continue };
                *row = self.shapes.translate(&held.tables[at], table, row, None);
            }
            self.rows.push(rows);
        }
    }

    /// Says what a table and its columns were called first, before they are published.
    pub(crate) fn identify(&mut self, fingerprint: &str, table: &str, columns: &[&str]) {
        let columns = columns.iter().map(|name| (*name).to_owned()).collect();
        self.shapes.identities.insert(fingerprint.into(), (table.into(), columns));
    }

    /// Forgets how a table was, as if no remote could have it any more.
    pub(crate) fn forget_shape(&mut self, fingerprint: &str) {
        self.shapes.forgotten.push(fingerprint.into());
    }

    /// Writes a row at the centre; its key is its first value.
    pub(crate) fn put(&mut self, table: usize, row: &[Value]) {
        let key = super::encode(&row[..1]);
        self.set(table, key, Some(super::encode(row)), "centre");
    }

    /// Deletes a row at the centre.
    pub(crate) fn remove(&mut self, table: usize, key: i64) {
        self.set(table, super::encode(&[int(key)]), None, "centre");
    }

    /// Gives a row at the centre another key, its first value.
    pub(crate) fn change_key(&mut self, table: usize, old: &Value, row: &[Value]) {
        let (old, new) = (super::encode(std::slice::from_ref(old)), super::encode(&row[..1]));
        self.change_keys(table, vec![(old, new, super::encode(row))], "centre");
    }

    /// All old keys are left before the first new one is taken.
    fn change_keys(
        &mut self,
        table: usize,
        changes: Vec<(Vec<u8>, Vec<u8>, Vec<u8>)>,
        author: &str,
    ) {
        for (old, new, _) in &changes {
            self.set(table, old.clone(), None, author);
            let left = self.rows[table].get_mut(old).unwrap();
            left.moved_to = Some(new.clone());
        }
        for (_, new, row) in changes {
            let moved_on = self.rows[table].get(&new).and_then(|version| version.moved_to.clone());
            self.set(table, new.clone(), Some(row), author);
            self.rows[table].get_mut(&new).unwrap().moved_to = moved_on;
        }
    }

    fn set(&mut self, table: usize, key: Vec<u8>, row: Option<Vec<u8>>, author: &str) {
        let (version, author) = (self.version, author.to_owned());
        self.rows[table].insert(key, Version { row, version, author, moved_to: None });
    }

    /// Every row, readable.
    pub(crate) fn lines(&self, table: usize) -> Vec<String> {
        let rows = self.rows[table].values().filter_map(|version| version.row.as_ref());
        rows.map(|row| crate::sql::list(values(row).iter().map(|value| value.as_ref().display())))
            .collect()
    }

    /// A copy of the whole database, to be restored later.
    pub(crate) fn back_up(&self) -> impl Fn(&mut Centre) + use<> {
        let (rows, remotes, version) = (self.rows.clone(), self.remotes.clone(), self.version);
        move |centre| {
            centre.rows = rows.clone();
            centre.remotes = remotes.clone();
            centre.version = version;
        }
    }
}

/// A new connection to the centre.
pub(crate) fn connect(centre: &SharedCentre) -> Box<dyn Transport> {
    Box::new(Conversation {
        centre: centre.clone(),
        decoder: FrameDecoder::new(FRAME_BYTES_MAX),
        greeted: false,
        out: Vec::new(),
        received: 0,
        hello: None,
        upload: None,
        thrown_away: false,
        held: false,
        changed_behind: false,
        closed: false,
    })
}

struct Conversation {
    centre: SharedCentre,
    decoder: FrameDecoder,
    greeted: bool,
    out: Vec<u8>,
    /// How much of `out` was received.
    received: usize,
    hello: Option<Hello>,
    upload: Option<(Progress, Vec<RowsFrame>)>,
    /// The upload that comes with Hello is not looked at.
    thrown_away: bool,
    /// The upload is of the tables that the remote holds.
    held: bool,
    /// The schema change follows the upload.
    changed_behind: bool,
    closed: bool,
}

impl Transport for Conversation {
    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.closed {
            return Err(Failure::new(Code::ConnectionLost, "the centre is gone"));
        }
        self.centre.borrow_mut().writes.push(bytes.len());
        let bytes = match self.greeted {
            true => bytes,
            false => bytes.strip_prefix(&MAGIC).expect("a client begins with the magic"),
        };
        self.greeted = true;
        self.decoder.push(bytes);
        while let Some(frame) = self.decoder.next_frame()? {
            if let Some(message) = Message::decode(frame)? {
                self.hear(message);
            }
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        // Odd pieces, so that frames arrive cut.
        let unread = &self.out[self.received..];
        let len = unread.len().min(buffer.len()).min(50_001);
        buffer[..len].copy_from_slice(&unread[..len]);
        self.received += len;
        Ok(len)
    }
}

impl Conversation {
    fn say(&mut self, message: &Message) {
        if !self.closed {
            Message::Heartbeat.encode(&mut self.out).unwrap();
            message.encode(&mut self.out).unwrap();
        }
    }

    fn hear(&mut self, message: Message) {
        if self.closed {
            return;
        }
        match message {
            Message::Hello(hello) => self.hear_hello(*hello),
            Message::UploadBegin(begin) => self.upload = Some((begin.progress, Vec::new())),
            Message::Rows(frame)
                if frame.operation == Operation::KeyChange && !self.knows_keys() =>
            {
                let failure = Failure::new(Code::MalformedMessage, "unknown operation 5");
                self.say(&Message::Failed(Failed::from(&failure)));
                self.closed = true;
            }
            Message::Rows(frame) => self.upload.as_mut().unwrap().1.push(frame),
            Message::UploadEnd(end) => {
                let (progress, frames) = self.upload.take().unwrap();
                let rows: u64 = frames.iter().map(|frame| u64::from(frame.count)).sum();
                assert_eq!(rows, end.rows);
                if !std::mem::take(&mut self.thrown_away) {
                    self.commit(progress, &frames);
                }
            }
            Message::Heartbeat => {}
            other => panic!("a client said {}", other.name()),
        }
    }

    fn knows_keys(&self) -> bool {
        self.centre.borrow().capabilities.has(Capabilities::KEY_CHANGES)
    }

    fn hear_hello(&mut self, hello: Hello) {
        let centre = self.centre.clone();
        let mut centre = centre.borrow_mut();
        centre.hellos.push(hello.clone());
        if let Fault::Refuse(code) = centre.fault {
            centre.fault = Fault::None;
            let failed = Failed::from(&Failure::new(code, "refused"));
            self.say(&Message::Failed(failed));
            self.closed = true;
            return;
        }
        let known = centre.remotes.entry(hello.remote_id.to_string()).or_default();
        let fresh = hello.counter.0 == 0 && hello.nonce_confirmed.0 == 0;
        let same = known.nonce == hello.nonce_attempt
            || (known.nonce == hello.nonce_confirmed && known.counter <= hello.counter);
        if fresh && known.nonce != hello.nonce_attempt {
            *known = Known::default();
        } else if !same && hello.counter <= known.counter {
            let failed = Failed::from(&Failure::new(Code::CopiedRemote, "a copy"));
            self.say(&Message::Failed(failed));
            self.closed = true;
            return;
        }
        if hello.counter > known.counter || hello.progress > known.progress {
            // Restored: the remote's word counts.
            known.progress = known.progress.max(hello.progress);
        }
        let progress = Some(known.progress);
        let changed = hello.schema_fingerprint.as_ref() != Some(&centre.schema.fingerprint);
        let uploads = matches!(hello.mode, Mode::Full | Mode::UploadOnly);
        let understands = hello.capabilities.has(Capabilities::HELD_SHAPE) && uploads;
        let held = centre.takes_held_shapes && understands && hello.schema_fingerprint.is_some();
        let unknown = |_| centre.shapes.unknown(&hello, &centre.schema);
        let unknown_tables: Vec<u16> = held.then_some(()).map(unknown).unwrap_or_default();
        let can_take = (!changed || held) && unknown_tables.is_empty();
        let upload = match hello.mode {
            Mode::DownloadOnly | Mode::Ping => UploadState::None,
            _ if hello.upload_follows && can_take && hello.outcome == Outcome::Known => {
                UploadState::Taken
            }
            _ => UploadState::Send,
        };
        let changed_first = changed && !held;
        self.held = held;
        self.changed_behind = changed && held && hello.mode == Mode::Full;
        self.thrown_away = hello.upload_follows && upload != UploadState::Taken;
        self.say(&Message::Welcome(Welcome {
            protocol_version: 1,
            capabilities: centre.capabilities,
            schema_change_after_upload: self.changed_behind,
            unknown_tables,
            server: "a test".into(),
            database_id: DatabaseId(centre.database.clone()),
            progress,
            upload,
            schema_change_follows: changed_first,
            token: Some("a token".into()),
            ..Welcome::default()
        }));
        if changed_first {
            self.say_schema_change(&centre, &hello);
        }
        let mode = hello.mode;
        self.hello = Some(hello);
        drop(centre);
        if mode == Mode::DownloadOnly {
            self.download();
        }
    }

    fn say_schema_change(&mut self, centre: &Centre, hello: &Hello) {
        let schema = centre.schema.clone();
        let renamed = match centre.takes_held_shapes {
            true => centre.shapes.renamed(hello, &schema),
            false => Vec::new(),
        };
        self.say(&Message::SchemaChange(Box::new(SchemaChange { schema, renamed })));
    }

    fn commit(&mut self, progress: Progress, frames: &[RowsFrame]) {
        let centre = self.centre.clone();
        let mut centre = centre.borrow_mut();
        let centre = &mut *centre;
        let hello = self.hello.clone().unwrap();
        if centre.fault == Fault::BeforeCommit {
            centre.fault = Fault::None;
            self.closed = true;
            return;
        }
        let known = centre.remotes.get_mut(hello.remote_id.as_str()).unwrap();
        known.nonce = hello.nonce_attempt;
        let mut committed = UploadCommitted { progress, ..UploadCommitted::default() };
        if progress != known.progress {
            assert!(progress > known.progress, "numbers of uploads grow");
            known.progress = progress;
            centre.commits.push(progress);
            // Deletes first, as they free keys that key changes and inserts take.
            let order =
                [Operation::Delete, Operation::KeyChange, Operation::Insert, Operation::Update];
            for operation in order {
                for frame in frames.iter().filter(|frame| frame.operation == operation) {
                    match frame.operation {
                        Operation::Insert => committed.inserts += u64::from(frame.count),
                        Operation::Delete => committed.deletes += u64::from(frame.count),
                        _ => committed.updates += u64::from(frame.count),
                    }
                    let table = match self.held {
                        true => centre.shapes.held(&hello, &centre.schema, frame.table),
                        false => centre.schema.tables[usize::from(frame.table)].clone(),
                    };
                    centre.uploads.extend(super::describe(&table, frame));
                    store(centre, &table, frame, hello.remote_id.as_str());
                }
            }
        } else {
            assert!(frames.is_empty(), "rows under a number that was used");
        }
        if centre.fault == Fault::AfterCommit {
            centre.fault = Fault::None;
            self.closed = true;
            return;
        }
        self.say(&Message::UploadCommitted(committed));
        if centre.fault == Fault::AfterAcknowledgement {
            centre.fault = Fault::None;
            self.closed = true;
            return;
        }
        if self.changed_behind {
            self.say_schema_change(centre, &hello);
            if centre.fault == Fault::AfterSchemaChange {
                centre.fault = Fault::None;
                self.closed = true;
                return;
            }
        }
        if hello.mode == Mode::Full {
            self.download_from(centre);
        }
    }

    fn download(&mut self) {
        let centre = self.centre.clone();
        self.download_from(&mut centre.borrow_mut());
    }

    fn download_from(&mut self, centre: &mut Centre) {
        let hello = self.hello.clone().unwrap();
        let me = hello.remote_id.to_string();
        let known = centre.remotes.get_mut(&me).unwrap();
        let restored = hello.counter > known.counter;
        known.counter = Counter(known.counter.0.max(hello.counter.0) + 1);
        known.nonce = hello.nonce_attempt;
        let counter = known.counter;
        let (mut modes, mut frames, mut total) = (Vec::new(), Vec::new(), 0);
        for (position, table) in centre.schema.tables.iter().enumerate() {
            let mut of_table =
                hello.watermarks.iter().filter(|it| it.fingerprint == table.fingerprint);
            let since = of_table.next().and_then(|it| it.watermark.as_ref()).filter(|_| !restored);
            let since = since.map(|it| i64::from_le_bytes(it.as_bytes().try_into().unwrap()));
            modes.push(match since {
                _ if !table.direction.downloads() => DownloadMode::None,
                Some(_) => DownloadMode::Changes,
                None => DownloadMode::Refresh,
            });
            if !table.direction.downloads() {
                continue;
            }
            let rows = &centre.rows[position];
            let seen = |version: &Version| {
                since.is_some_and(|since| version.version <= since || version.author == me)
            };
            // Keys whose rows a remote that understands them gets as key changes.
            let mut moved: BTreeMap<&Vec<u8>, &Vec<u8>> = BTreeMap::new();
            if since.is_some() && hello.capabilities.has(Capabilities::KEY_CHANGES) {
                for (key, version) in rows.iter().filter(|(_, version)| !seen(version)) {
                    if let Some(to) = &version.moved_to
                        && rows.get(to).is_some_and(|row| row.row.is_some() && !seen(row))
                    {
                        moved.insert(to, key);
                    }
                }
            }
            for (key, version) in rows {
                let (operation, bytes) = match &version.row {
                    _ if seen(version) => continue,
                    Some(row) => match moved.get(key) {
                        Some(&old) => (Operation::KeyChange, [old.as_slice(), row].concat()),
                        None => (Operation::Upsert, row.clone()),
                    },
                    None if since.is_none() || moved.values().any(|old| *old == key) => continue,
                    None => (Operation::Delete, key.clone()),
                };
                total += 1;
                frames.push(RowsFrame { table: position as u16, operation, count: 1, bytes });
            }
        }
        let tables = modes.into_iter().map(|mode| TableDownload { mode }).collect();
        self.say(&Message::DownloadBegin(DownloadBegin { tables, restored, ..Default::default() }));
        for frame in frames {
            self.say(&Message::Rows(frame));
        }
        match std::mem::replace(&mut centre.fault, Fault::None) {
            Fault::WithinDownload => {
                self.closed = true;
                return;
            }
            Fault::Miscount => total += 1,
            other => centre.fault = other,
        }
        let watermark = Watermark::new(centre.version.to_le_bytes().to_vec()).unwrap();
        let watermarks = vec![Some(watermark); centre.schema.tables.len()];
        centre.version += 1;
        let end = DownloadEnd { rows: total, watermarks, counter, receipt: None };
        self.say(&Message::DownloadEnd(end));
    }
}

/// Applies uploaded rows of the table as the remote holds it, the last writer winning.
fn store(centre: &mut Centre, held: &PublishedTable, frame: &RowsFrame, author: &str) {
    let goes_on = |table: &PublishedTable| centre.shapes.goes_on(held, table);
    let position = centre.schema.tables.iter().position(goes_on).expect("an unknown table");
    let table = centre.schema.tables[position].clone();
    let encoded_key = |row: &[u8]| {
        let row = values(row);
        super::encode(&held.key.iter().map(|at| row[usize::from(*at)].clone()).collect::<Vec<_>>())
    };
    let two_images = matches!(frame.operation, Operation::Update | Operation::KeyChange);
    let (mut rest, mut key_changes) = (frame.bytes.as_slice(), Vec::new());
    for _ in 0..frame.count {
        let mut images = Vec::new();
        for _ in 0..if two_images { 2 } else { 1 } {
            let (image, after) = rest.split_at(row_len(rest, held.width()).unwrap());
            images.push(image);
            rest = after;
        }
        let (old_key, key) = (encoded_key(images[0]), encoded_key(images.last().unwrap()));
        let known = centre.rows[position].get(&old_key).and_then(|version| version.row.clone());
        let new = centre.shapes.translate(held, &table, images.last().unwrap(), known.as_deref());
        if frame.operation == Operation::KeyChange {
            assert_ne!(old_key, key, "a key change has two keys");
            key_changes.push((old_key, key, new));
            continue;
        }
        if frame.operation == Operation::Update && centre.capabilities != Capabilities::NONE {
            assert_eq!(old_key, key, "an update has one key");
        }
        let row = (frame.operation != Operation::Delete).then_some(new);
        centre.set(position, key, row, author);
    }
    centre.change_keys(position, key_changes, author);
}
