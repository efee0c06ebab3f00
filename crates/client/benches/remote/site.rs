//! A remote with the table `purchase`, and its rows.

use crate::center::{Conversation, Download};
use model::{Direction, PublishedTable, RemoteSchema, UserName, ValueRef, write_value};
use protocol::{DownloadMode, Operation};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use syncline_client::{Components, Credential, Mode, Remote, Report, Request, Settings};
use tempfile::TempDir;

/// Rows of one frame of a download, as a server cuts them.
const ROWS_IN_FRAME: usize = 2_000;

pub(crate) const CREATE: &str = "CREATE TABLE purchase(
    emp_id INTEGER NOT NULL, purch_id INTEGER NOT NULL, cust_id INTEGER NOT NULL,
    cost NUMERIC NOT NULL, order_date TEXT NOT NULL, notes TEXT, PRIMARY KEY(emp_id, purch_id))";

/// What a row has besides its key; the letter at the end is what an update changes.
pub(crate) const REST: &str = "300000000, 123456789.12, '2024-02-29 12:34:56.789012', \
    '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_'";

/// Where the file of a remote lies.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    Memory,
    Disk,
}

impl Place {
    pub(crate) fn folder(self) -> TempDir {
        match self {
            Place::Memory => tempfile::tempdir_in("/dev/shm"),
            Place::Disk => tempfile::tempdir(),
        }
        .unwrap()
    }
}

/// A remote, and what its server sends.
pub(crate) struct Site {
    folder: TempDir,
    schema: Rc<RemoteSchema>,
    download: Rc<Download>,
    remote: Remote,
}

impl Site {
    /// A file that was never synchronized.
    pub(crate) fn new(place: Place) -> Site {
        let folder = place.folder();
        let path = folder.path().join("remote.db");
        let components = Components::system(folder.path()).unwrap();
        let mut remote = Remote::open_or_create(&path, components).unwrap();
        let user = Some(UserName::new("anna").unwrap());
        remote.remember(&Settings { user, ..Settings::default() }).unwrap();
        let names = ["emp_id", "purch_id", "cust_id", "cost", "order_date", "notes"];
        let table = PublishedTable {
            compress: true,
            fires: false,
            name: "purchase".into(),
            columns: names.map(String::from).to_vec(),
            key: vec![0, 1],
            direction: Direction::Both,
            create: vec![CREATE.into()],
            fingerprint: "purchase".into(),
        };
        let schema = Rc::new(RemoteSchema { tables: vec![table], fingerprint: "bench".into() });
        let download = Rc::new(Download::new(DownloadMode::Changes));
        Site { folder, schema, download, remote }
    }

    /// A remote that holds the rows of these numbers.
    pub(crate) fn with_rows(place: Place, rows: i64) -> Site {
        let mut site = Site::new(place);
        site.prepare(&Rc::new(upserts(DownloadMode::Refresh, 0..rows, 0.12)));
        site.synchronize(Mode::DownloadOnly);
        site.prepare(&Rc::new(Download::new(DownloadMode::Changes)));
        site
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("remote.db")
    }

    /// Another program, with the settings that an application would choose.
    pub(crate) fn writer(&self) -> Connection {
        connect(&self.path())
    }

    /// What the server sends from now on.
    pub(crate) fn prepare(&mut self, download: &Rc<Download>) {
        self.download = download.clone();
    }

    pub(crate) fn synchronize(&mut self, mode: Mode) -> Report {
        let request = Request {
            mode,
            credential: Credential::Token("token".into()),
            client: "a bench".into(),
        };
        let (schema, download) = (self.schema.clone(), self.download.clone());
        let mut connect = || Ok(Box::new(Conversation::new(&schema, &download)) as Box<_>);
        self.remote.synchronize(&request, &mut connect, &mut |_| {}).unwrap()
    }
}

/// Opens a file as an application would: WAL, synchronous=NORMAL.
pub(crate) fn connect(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())).unwrap();
    connection.pragma_update(None, "synchronous", "NORMAL").unwrap();
    connection
}

fn key(n: i64) -> [ValueRef<'static>; 2] {
    [ValueRef::Integer(100_000_001), ValueRef::Integer(200_000_000 + n)]
}

/// One row; its key is that of `key`.
pub(crate) fn row(n: i64, cents: f64) -> [ValueRef<'static>; 6] {
    let [emp_id, purch_id] = key(n);
    [
        emp_id,
        purch_id,
        ValueRef::Integer(300_000_000 + n),
        ValueRef::Real(123_456_789.0 + cents),
        ValueRef::Text(b"2024-02-29 12:34:56.789012"),
        ValueRef::Text(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"),
    ]
}

/// A download of rows.
pub(crate) fn upserts(mode: DownloadMode, rows: impl Iterator<Item = i64>, cents: f64) -> Download {
    frames(mode, Operation::Upsert, rows, |bytes, n| {
        for value in row(n, cents) {
            write_value(bytes, value);
        }
    })
}

/// A download of deletes.
pub(crate) fn deletes(rows: impl Iterator<Item = i64>) -> Download {
    frames(DownloadMode::Changes, Operation::Delete, rows, |bytes, n| {
        for value in key(n) {
            write_value(bytes, value);
        }
    })
}

fn frames(
    mode: DownloadMode,
    operation: Operation,
    mut rows: impl Iterator<Item = i64>,
    encode: impl Fn(&mut Vec<u8>, i64),
) -> Download {
    let mut download = Download::new(mode);
    loop {
        let (mut bytes, mut count) = (Vec::new(), 0);
        for n in rows.by_ref().take(ROWS_IN_FRAME) {
            encode(&mut bytes, n);
            count += 1;
        }
        if count == 0 {
            return download;
        }
        download.add(operation, count, bytes);
    }
}
