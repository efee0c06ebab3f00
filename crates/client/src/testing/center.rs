//! The real server with a real consolidated database, in the process of the test.

use crate::testing::Site;
use crate::transport::Transport;
use crate::transport::tcp::{self, Tcp, Timeouts};
use consolidated::{SyncModel, Url, administer};
use harness::Proxy;
use model::{Failure, UserName};
use protocol::Message;
use rusqlite::Connection;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;
use tempfile::TempDir;

/// The hash of `secret` that costs least: a test is no attack.
const PASSWORD_HASH: &str = "$argon2id$v=19$m=8,t=1,p=1$YSB0ZXN0aW5nIGNlbnRlcg$\
                             oKRG9Mcb1XOJXdU1kszhhdiuJC0PW69IHgYkak/gvGw";

/// A consolidated database with its server. Everybody reaches it through the proxy.
pub(crate) struct Center {
    pub(crate) proxy: Proxy,
    server: RefCell<Option<server::Server>>,
    /// Bytes of each write of a client.
    pub(crate) writes: Rc<RefCell<Vec<usize>>>,
    folder: TempDir,
}

impl Center {
    /// A database made by this SQL. All its tables are published, and what a remote uploads
    /// replaces what the center has.
    ///
    /// Deploying takes longer than everything else. So it is done once, and all that are made by
    /// the same SQL are copies of one database.
    pub(crate) fn new(sql: &str) -> Center {
        Center::publishing(sql, None)
    }

    /// The same with a model of these sections.
    pub(crate) fn publishing(sql: &str, sections: Option<&str>) -> Center {
        static DEPLOYED: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::new(BTreeMap::new());
        let name = format!("{sql}\n{sections:?}");
        let known = DEPLOYED.lock().unwrap().get(&name).cloned();
        let database = known.unwrap_or_else(|| {
            let database = deployed(sql, sections);
            DEPLOYED.lock().unwrap().insert(name, database.clone());
            database
        });
        Center::start(&database)
    }

    /// Like [`Center::new`], and no copy.
    pub(crate) fn of_its_own(sql: &str) -> Center {
        Center::start(&deployed(sql, None))
    }

    fn start(database: &[u8]) -> Center {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(file(folder.path()), database).unwrap();
        let server = start(folder.path(), protocol::FRAME_BYTES_MAX);
        let proxy = Proxy::new(&server.addresses()[0]);
        proxy.beat(true);
        let server = RefCell::new(Some(server));
        Center { proxy, server, writes: Rc::default(), folder }
    }

    fn file(&self) -> PathBuf {
        file(self.folder.path())
    }

    /// Another program writes, with foreign keys on.
    pub(crate) fn write(&self, sql: &str) {
        self.try_write(sql).unwrap_or_else(|error| panic!("{error} in {sql}"));
    }

    pub(crate) fn try_write(&self, sql: &str) -> rusqlite::Result<()> {
        write(&self.file(), sql)
    }

    /// Remotes get tables that are declared differently, as long as it says so: with constraints
    /// that the center does not have.
    pub(crate) fn declare(&self, from: &'static str, to: &'static str) {
        self.proxy.forge(move |_, message| {
            let Message::SchemaChange(change) = message else { return };
            for create in change.schema.tables.iter_mut().flat_map(|table| &mut table.create) {
                *create = create.replace(from, to);
            }
        });
    }

    /// The tables change, and the model with them.
    pub(crate) fn deploy(&self, sql: &str, sections: &str) {
        self.write(sql);
        administer(&url(&self.file())).unwrap().deploy(&[model(sections)], false).unwrap();
    }

    /// The rows of a query, one line each.
    pub(crate) fn rows(&self, query: &str) -> Vec<String> {
        super::lines(&open(&self.file()), query)
    }

    /// The rows of the last upload of a remote that has uploaded under the tables that it has
    /// now, one line each, sorted. They have to be kept ([`Proxy::keep_rows`]).
    pub(crate) fn last_upload(&self, site: &mut Site) -> Vec<String> {
        let tables = site.tables();
        let frames = self.proxy.last_upload();
        let lines = frames
            .iter()
            .flat_map(|frame| super::describe(&tables[usize::from(frame.table)].published, frame));
        let mut lines: Vec<String> = lines.collect();
        lines.sort();
        lines
    }

    /// A new connection to the center.
    pub(crate) fn connect(&self) -> Result<Box<dyn Transport>, Failure> {
        let tcp = tcp::connect(&self.proxy.url, Timeouts::default())?;
        let writes = self.writes.clone();
        Ok(Box::new(Pieces { tcp, writes, received: Vec::new(), passed: 0 }))
    }

    /// A copy of the whole database.
    pub(crate) fn back_up(&self) -> Vec<u8> {
        settle_log(&self.file());
        std::fs::read(self.file()).unwrap()
    }

    /// Puts such a copy into the place of the database, and starts a server for it.
    pub(crate) fn restore(&self, copy: &[u8]) {
        self.stop();
        settle_log(&self.file());
        std::fs::write(self.file(), copy).unwrap();
        self.serve(protocol::FRAME_BYTES_MAX);
    }

    /// From now on its server takes no larger frames.
    pub(crate) fn limit_frames(&self, bytes_max: usize) {
        self.stop();
        self.serve(bytes_max);
    }

    fn serve(&self, frame_bytes_max: usize) {
        let server = start(self.folder.path(), frame_bytes_max);
        self.proxy.lead_to(&server.addresses()[0]);
        *self.server.borrow_mut() = Some(server);
    }

    fn stop(&self) {
        if let Some(server) = self.server.borrow_mut().take() {
            server.drain();
        }
    }
}

impl Drop for Center {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A database made by this SQL and deployed, with a user.
fn deployed(sql: &str, sections: Option<&str>) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path());
    write(&file, sql).unwrap();
    let sections = sections.map_or_else(|| everything(&file), str::to_owned);
    let mut admin = administer(&url(&file)).unwrap();
    admin.deploy(&[model(&sections)], false).unwrap();
    let anna = UserName::new("anna").unwrap();
    admin.add_user(&anna, PASSWORD_HASH, &BTreeMap::new()).unwrap();
    drop(admin);
    settle_log(&file);
    std::fs::read(&file).unwrap()
}

/// The sections of a model for all tables of a database.
fn everything(file: &Path) -> String {
    let names = "SELECT name FROM sqlite_schema WHERE type = 'table'
        AND name NOT LIKE 'sqlite%' AND name NOT LIKE 'syncline%'";
    let connection = open(file);
    let mut statement = connection.prepare(names).unwrap();
    let names = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    names.map(|name| published(&name.unwrap())).collect()
}

/// The section of a model for a table of which uploads replace what the center has.
pub(crate) fn published(table: &str) -> String {
    format!("[table.{table}]\nconflict = \"remote_wins\"\n")
}

fn model(sections: &str) -> SyncModel {
    SyncModel::parse(&format!("script_version = \"v1\"\n{sections}"), "model.toml").unwrap()
}

fn file(folder: &Path) -> PathBuf {
    folder.join("center.db")
}

fn url(file: &Path) -> Url {
    Url::parse(&format!("sqlite:{}", file.display())).unwrap()
}

fn open(file: &Path) -> Connection {
    let connection = Connection::open(file).unwrap();
    connection.busy_timeout(Duration::from_secs(20)).unwrap();
    connection.pragma_update(None, "foreign_keys", true).unwrap();
    connection
}

fn write(file: &Path, sql: &str) -> rusqlite::Result<()> {
    open(file).execute_batch(&format!("BEGIN IMMEDIATE; {sql}; COMMIT"))
}

/// What is still in the log goes to the file.
fn settle_log(file: &Path) {
    let to_file = "PRAGMA wal_checkpoint(TRUNCATE)";
    open(file).query_row(to_file, [], |_| Ok(())).unwrap();
}

fn start(folder: &Path, frame_bytes_max: usize) -> server::Server {
    let config = server::Config {
        listen: vec!["tcp://127.0.0.1:0".into()],
        workers: 1,
        password_hashes_max: 1,
        spill_dir: Some(folder.to_owned()),
        drain_timeout_s: 0,
        frame_bytes_max,
        ..server::Config::default()
    };
    let components = server::Components::system(&config).unwrap();
    server::start(config, &url(&file(folder)), components).unwrap()
}

/// Bytes of the header of a frame.
const HEADER_BYTES: usize = 5;

/// More is not passed on at once.
const PIECE_BYTES_MAX: usize = 50_001;

/// Passes on what the server says frame by frame, however the network cuts it, so that two
/// synchronizations that do the same have the same steps. Large frames are cut.
struct Pieces {
    tcp: Tcp,
    writes: Rc<RefCell<Vec<usize>>>,
    /// The frame that is passed on, and what has come behind it.
    received: Vec<u8>,
    passed: usize,
}

impl Pieces {
    /// Where the first frame ends, if its length is known.
    fn frame_end(&self) -> Option<usize> {
        let len: [u8; 4] = self.received.get(..HEADER_BYTES)?[..4].try_into().unwrap();
        Some(HEADER_BYTES + u32::from_le_bytes(len) as usize)
    }
}

impl Transport for Pieces {
    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.writes.borrow_mut().push(bytes.len());
        self.tcp.send(bytes)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        if self.frame_end().is_some_and(|end| self.passed >= end) {
            self.received.drain(..self.passed);
            self.passed = 0;
        }
        let mut end = self.received.len();
        while self.frame_end().is_none_or(|end| self.received.len() < end) {
            let mut more = [0; 16 << 10];
            let len = self.tcp.receive(&mut more)?;
            self.received.extend_from_slice(&more[..len]);
            end = self.received.len();
            if len == 0 {
                // It was cut off within a frame.
                break;
            }
        }
        let end = self.frame_end().map_or(end, |frame| frame.min(self.received.len()));
        let len = (end - self.passed).min(buffer.len()).min(PIECE_BYTES_MAX);
        buffer[..len].copy_from_slice(&self.received[self.passed..self.passed + len]);
        self.passed += len;
        Ok(len)
    }
}
