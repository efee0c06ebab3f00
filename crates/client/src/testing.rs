//! A remote in a temporary folder, for the tests of this crate.
//!
//! Real files, real SQLite, and other programs as foreign writers.

pub(crate) mod center;

use crate::apply::circumstances::{Circumstances, Uploads};
use crate::apply::download::Download;
use crate::apply::fired::Fired;
use crate::progress;
use crate::progress::state::State;
use crate::schema::change::waiting::{Names, Waiting};
use crate::schema::{self, LocalTable, RemoteTable};
use crate::upload::UploadFrames;
use crate::upload::left_behind::row_bytes_max;
use crate::upload::{Limits, Upload};
use crate::{Components, Remote, Settings};
use model::{
    Code, Counter, Direction, Failure, PublishedTable, RemoteSchema, RowReader, UserName, Value,
    ValueRef, Watermark, write_value,
};
use protocol::{
    DownloadBegin, DownloadEnd, DownloadMode, FRAME_BYTES_MAX, FrameDecoder, Message, Operation,
    Reject, Rejects, RenamedTable, RowsFrame, SchemaChange, TableDownload,
};
use rusqlite::Connection;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A remote whose tables are published, with nothing to upload. A synchronization that is cut
/// fails, so that a test sees what it has left.
pub(crate) struct Site {
    folder: TempDir,
    pub(crate) remote: Remote,
}

/// Programs that write to the file without knowing of us.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Writer {
    Rust,
    Shell,
    Python,
}

pub(crate) const WRITERS: [Writer; 3] = [Writer::Rust, Writer::Shell, Writer::Python];

impl Site {
    /// A remote without any table.
    pub(crate) fn empty() -> Site {
        let folder = tempfile::tempdir().unwrap();
        let components = Components::system(folder.path()).unwrap();
        let mut remote = Remote::open_or_create(&folder.path().join("r.db"), components).unwrap();
        let user = Some(UserName::new("anna").unwrap());
        remote.remember(&Settings { user, ..Settings::default() }).unwrap();
        remote.fail_when_cut();
        Site { folder, remote }
    }

    /// A remote with the tables that `sql` makes, all published both ways; rows that `sql`
    /// inserts count as synchronized.
    pub(crate) fn new(sql: &str) -> Site {
        let mut site = Site::empty();
        site.write(sql);
        site.publish(&site.all_tables());
        site.settle();
        site
    }

    /// The same file, opened as by the next start of the program.
    pub(crate) fn opened_again(mut self) -> Site {
        let components = Components::system(self.folder.path()).unwrap();
        self.remote = Remote::open(&self.path(), components).unwrap();
        self.remote.fail_when_cut();
        self
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("r.db")
    }

    /// Publishes these tables, as a server would.
    pub(crate) fn publish(&mut self, tables: &[PublishedTable]) {
        self.try_publish(tables).unwrap();
    }

    pub(crate) fn try_publish(&mut self, tables: &[PublishedTable]) -> Result<(), Failure> {
        self.change_schema(tables, &[], Waiting::CarriedOver(Names::Guessed)).map(drop)
    }

    /// Publishes these tables, some under other names; yields what was reported as rejects.
    pub(crate) fn change_schema(
        &mut self,
        tables: &[PublishedTable],
        renamed: &[RenamedTable],
        waiting: Waiting,
    ) -> Result<u64, Failure> {
        let change = SchemaChange { schema: remote_schema(tables), renamed: renamed.to_vec() };
        let told = schema::change::apply(&self.remote.connection, &change, waiting, "now");
        self.remote.tables = None;
        told
    }

    /// Forgets every change, as if it had been uploaded.
    pub(crate) fn settle(&mut self) {
        for name in schema::our_row_tables(&self.remote.connection).unwrap() {
            let sql = format!("DELETE FROM {}", crate::sql::ident(&name));
            self.remote.connection.execute_batch(&sql).unwrap();
        }
    }

    /// Every table of the user, described for publication.
    pub(crate) fn all_tables(&self) -> Vec<PublishedTable> {
        let connection = &self.remote.connection;
        let mut statement = connection
            .prepare(
                "SELECT name, sql FROM sqlite_schema WHERE type = 'table'
                 AND name NOT LIKE 'syncline%' AND name NOT LIKE 'sqlite%'",
            )
            .unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let names: Vec<(String, String)> = rows.collect::<Result<_, _>>().unwrap();
        names
            .into_iter()
            .map(|(name, create)| {
                let local = LocalTable::read(connection, &name).unwrap().unwrap();
                let stored = local.columns.iter().filter(|column| !column.generated);
                let columns: Vec<String> = stored.map(|column| column.name.clone()).collect();
                let position = |name: &str| columns.iter().position(|it| it == name).unwrap();
                PublishedTable {
                    compress: true,
                    fires: false,
                    key: local.key.iter().map(|key| position(&key.name) as u16).collect(),
                    direction: Direction::Both,
                    fingerprint: format!("{name} of {columns:?}"),
                    create: vec![create],
                    columns,
                    name,
                }
            })
            .collect()
    }

    /// Writes as another connection of this process, foreign keys on.
    pub(crate) fn write(&self, sql: &str) {
        self.try_write(sql).unwrap();
    }

    pub(crate) fn try_write(&self, sql: &str) -> rusqlite::Result<()> {
        let connection = Connection::open(self.path())?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.execute_batch(sql)
    }

    /// Writes as another program.
    pub(crate) fn write_as(&self, writer: Writer, sql: &str) {
        self.try_write_as(writer, sql).unwrap_or_else(|said| panic!("{writer:?} failed: {said}"));
    }

    /// The same; what the program says where it fails.
    pub(crate) fn try_write_as(&self, writer: Writer, sql: &str) -> Result<(), String> {
        let mut command = match writer {
            Writer::Rust => return self.try_write(sql).map_err(|error| error.to_string()),
            Writer::Shell => {
                let mut shell = Command::new("sqlite3");
                shell.arg("-bail").arg(self.path()).arg(format!("PRAGMA foreign_keys=ON;{sql}"));
                shell
            }
            Writer::Python => {
                let mut python = Command::new("python3");
                python.arg("-c").arg(
                    "import sqlite3, sys\n\
                     c = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
                     c.executescript('PRAGMA foreign_keys=ON;' + sys.argv[2])\n\
                     c.close()",
                );
                python.arg(self.path()).arg(sql);
                python
            }
        };
        let output = command.output().unwrap();
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    pub(crate) fn tables(&mut self) -> std::sync::Arc<[RemoteTable]> {
        self.remote.tables().unwrap()
    }

    /// Freezes the pending changes.
    pub(crate) fn freeze(&mut self) -> State {
        let tables = self.tables();
        let remote = &mut self.remote;
        let (connection, random) = (&remote.connection, &mut remote.random);
        progress::begin_attempt(connection, &tables, random, progress::Freezing::All).unwrap().state
    }

    /// The frozen upload, one line per row.
    pub(crate) fn frozen_upload(&mut self) -> Vec<String> {
        let tables = self.tables();
        let remote = &self.remote;
        let state = State::read(&remote.connection).unwrap();
        let (connection, spills) = (&remote.connection, &remote.spills);
        let limits =
            Limits { bytes_max: None, row_bytes_max: row_bytes_max(u64::MAX), compression: None };
        let upload = Upload::collect(connection, &tables, &state, spills, limits, &mut || Ok(()))
            .unwrap()
            .unwrap();
        let mut decoder = FrameDecoder::new(FRAME_BYTES_MAX);
        let rows = upload.rows;
        let mut frames = UploadFrames::new(upload, Vec::new()).unwrap();
        while let Some(bytes) = frames.take().unwrap() {
            decoder.push(&bytes);
        }
        let (mut lines, mut again) = (Vec::new(), Vec::new());
        while let Some(frame) = decoder.next_frame().unwrap() {
            match Message::decode(frame).unwrap() {
                Some(Message::Rows(rows)) => {
                    lines.extend(describe(&tables[usize::from(rows.table)].published, &rows));
                }
                Some(Message::EnteredAgain(keys)) => {
                    again.extend(describe_keys(&tables[usize::from(keys.table)], &keys.keys));
                }
                _ => {}
            }
        }
        assert_eq!(lines.len() as u64, rows);
        lines.append(&mut again);
        assert_eq!((frames.rows_done(), frames.rows_total()), (rows, rows));
        lines
    }

    /// What would be uploaded now, one line per row. Afterwards it counts as uploaded.
    pub(crate) fn upload(&mut self) -> Vec<String> {
        let state = self.freeze();
        let lines = self.frozen_upload();
        if let Some(frozen) = state.frozen {
            let tables = self.tables();
            progress::commit_frozen(&self.remote.connection, &tables, frozen, None).unwrap();
        }
        lines
    }

    /// The rows of a query, one line each.
    pub(crate) fn rows(&self, sql: &str) -> Vec<String> {
        lines(&self.remote.connection, sql)
    }

    /// A download to be filled.
    pub(crate) fn download(&mut self) -> Incoming<'_> {
        let tables = self.tables();
        let modes = tables.iter().map(|_| DownloadMode::Changes).collect();
        let uploads = Uploads::Next;
        Incoming { tables, modes, messages: Vec::new(), restored: false, uploads, site: self }
    }
}

/// The keys of rows that were entered again, one line each.
fn describe_keys(table: &RemoteTable, keys: &[u8]) -> Vec<String> {
    let (mut reader, mut lines) = (RowReader::new(keys), Vec::new());
    while !reader.is_at_end() {
        let key = table.key.iter().map(|_| reader.value().unwrap().display());
        lines.push(format!("again {} ({})", table.name(), crate::sql::list(key)));
    }
    lines
}

/// The rows of a query, one line each.
fn lines(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    let width = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    let mut lines = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let values = (0..width).map(|n| crate::connection::value(row, n).unwrap().display());
        lines.push(crate::sql::list(values));
    }
    lines
}

/// A download being put together.
pub(crate) struct Incoming<'a> {
    site: &'a mut Site,
    tables: std::sync::Arc<[RemoteTable]>,
    modes: Vec<DownloadMode>,
    messages: Vec<Message>,
    restored: bool,
    uploads: Uploads,
}

impl Incoming<'_> {
    fn position(&self, table: &str) -> usize {
        self.tables.iter().position(|it| it.name() == table).unwrap()
    }

    fn rows(mut self, table: &str, operation: Operation, rows: &[&[Value]]) -> Self {
        let mut bytes = Vec::new();
        for value in rows.iter().copied().flatten() {
            write_value(&mut bytes, value.as_ref());
        }
        let table = self.position(table) as u16;
        let count = rows.len() as u32;
        self.messages.push(Message::Rows(RowsFrame { table, operation, count, bytes }));
        self
    }

    pub(crate) fn upsert(self, table: &str, rows: &[&[Value]]) -> Self {
        self.rows(table, Operation::Upsert, rows)
    }

    pub(crate) fn delete(self, table: &str, keys: &[&[Value]]) -> Self {
        self.rows(table, Operation::Delete, keys)
    }

    pub(crate) fn reject(mut self, table: &str, key: &[Value], counter: i64, code: Code) -> Self {
        let reject = Reject {
            table: self.position(table) as u16,
            key: encode(key),
            counter: Counter(counter),
            code: code.number(),
            message: "because".into(),
        };
        self.messages.push(Message::Rejects(Rejects { rejects: vec![reject] }));
        self
    }

    pub(crate) fn refresh(mut self, table: &str) -> Self {
        let position = self.position(table);
        self.modes[position] = DownloadMode::Refresh;
        self
    }

    pub(crate) fn restored(mut self) -> Self {
        self.restored = true;
        self
    }

    /// Sets when pending changes are uploaded; otherwise before the next attempt.
    pub(crate) fn uploads(mut self, uploads: Uploads) -> Self {
        self.uploads = uploads;
        self
    }

    /// Applies it, after the frozen generation as a committed one.
    pub(crate) fn apply(self) -> Result<(), Failure> {
        self.apply_by(&mut |connection, download, end, circumstances| {
            crate::apply::apply(connection, download, end, circumstances, &mut |_| {}).map(drop)
        })
    }

    /// The same, by a way of the test's own.
    pub(crate) fn apply_by(self, apply: &mut Apply<'_>) -> Result<(), Failure> {
        let remote = &self.site.remote;
        let tables = self.modes.iter().map(|&mode| TableDownload::new(mode)).collect();
        let begin = DownloadBegin {
            tables,
            restored: self.restored,
            deletes_lost: false,
            waiting_tables: Vec::new(),
            receipt: None,
        };
        let mut download = Download::new(begin, &remote.spills);
        for message in self.messages {
            match message {
                Message::Rows(frame) => download.keep_rows(frame).unwrap(),
                told @ Message::Rejects(_) => download.keep_told(&told).unwrap(),
                _ => unreachable!(),
            }
        }
        let state = State::read(&remote.connection).unwrap();
        let watermark = Some(Watermark::new(b"w".to_vec()).unwrap());
        let end = DownloadEnd {
            rows: 0,
            watermarks: self.modes.iter().map(|_| watermark.clone()).collect(),
            counter: Counter(state.counter.0 + 1),
            receipt: None,
            acknowledge: false,
        };
        let circumstances = Circumstances {
            tables: &self.tables,
            committed: state.frozen,
            open_generation: state.open_generation,
            nonce: state.nonce_attempt,
            at: "2024-02-29T00:00:00.000Z",
            spills: &remote.spills,
            uploads: self.uploads,
            guards: false,
            fill_rows_min: remote.fill_rows_min,
            fired: None,
        };
        apply(&remote.connection, &download, &end, &circumstances)
    }
}

/// The triggers that fire while a download is applied, within a transaction.
pub(crate) fn fired(connection: &Connection, tables: &[RemoteTable]) -> Option<Fired> {
    let state = State::read(connection).unwrap();
    Fired::begin(connection, tables, state.open_generation).unwrap()
}

type Apply<'a> =
    dyn FnMut(&Connection, &Download, &DownloadEnd, &Circumstances<'_>) -> Result<(), Failure> + 'a;

pub(crate) fn remote_schema(tables: &[PublishedTable]) -> RemoteSchema {
    let prints: Vec<&str> = tables.iter().map(|table| table.fingerprint.as_str()).collect();
    RemoteSchema { tables: tables.to_vec(), fingerprint: prints.join("+") }
}

pub(crate) fn encode(values: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values {
        write_value(&mut bytes, value.as_ref());
    }
    bytes
}

pub(crate) fn int(i: i64) -> Value {
    Value::Integer(i)
}

pub(crate) fn text(text: &str) -> Value {
    Value::Text(text.into())
}

/// Rows of an upload, for example `update t (1, 'a') -> (1, 'b')`.
fn describe(table: &PublishedTable, rows: &RowsFrame) -> Vec<String> {
    let mut reader = RowReader::new(&rows.bytes);
    let mut row = || {
        let values = (0..table.width()).map(|_| reader.value().map(ValueRef::display));
        format!("({})", crate::sql::list(values.collect::<Result<Vec<_>, _>>().unwrap()))
    };
    let lines = (0..rows.count)
        .map(|_| match rows.operation {
            Operation::Insert => format!("insert {} {}", table.name, row()),
            Operation::Delete => format!("delete {} {}", table.name, row()),
            Operation::Update => format!("update {} {} -> {}", table.name, row(), row()),
            Operation::Upsert => format!("upsert {} {}", table.name, row()),
        })
        .collect();
    assert!(reader.is_at_end());
    lines
}
