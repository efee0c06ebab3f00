//! The client engine on SQLite: makes a file a remote and synchronizes it.
//!
//! This page is the whole public API. [`Remote`] is a file. `synchronize.rs` has the steps of
//! [`Remote::synchronize`]. `session.rs` decides what each message leads to, without input and
//! output. The parts of the remote are `capture.rs` (its changes), `upload.rs`, `apply.rs`
//! (downloads) and `progress.rs` (what both sides have agreed on).
//!
//! This crate starts no thread and never reads a server's tables. Sockets are in
//! `transport/tcp.rs`, files in `files.rs`, time in `clock.rs`, random numbers in `random.rs`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod apply;
mod capture;
mod clock;
mod connection;
mod fail_point;
mod files;
mod progress;
mod random;
mod retry;
mod schema;
mod session;
mod settings;
mod sql;
mod status;
mod synchronize;
pub mod transport;
mod upload;

pub use apply::rejects::StoredReject;
pub use protocol::{Credential, Mode, WaitingTable};
pub use settings::Settings;
pub use status::{PendingChange, PendingOperation, Status, TableStatus};
pub use synchronize::{Counts, Downloaded, Report, Request, Step};
pub use transport::Transport;

use files::RemoteLock;
use model::{Clock, Code, Failure, Files, Random, Spills, ValueRef};
use rusqlite::Connection;
use schema::RemoteTable;
use schema::history::History;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Memory for rows on their way, in bytes; beyond it they go to a temporary file.
const SPILL_MEMORY_BYTES_MAX: u64 = 8 << 20;
/// Temporary files for rows on their way, in bytes.
const SPILL_DISK_BYTES_MAX: u64 = 64 << 30;

/// What the engine needs from outside.
pub struct Components {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub random: Random,
    /// Room for what does not fit in memory.
    pub files: Arc<dyn Files>,
}

impl Components {
    /// Those of the operating system.
    pub fn system(folder_for_temporary_files: &Path) -> Result<Components, Failure> {
        Ok(Components {
            clock: Arc::new(clock::SystemClock::new()),
            random: random::system()?,
            files: Arc::new(files::TemporaryFiles::new(folder_for_temporary_files)),
        })
    }
}

/// A remote database: an SQLite file that any SQLite program may go on using.
pub struct Remote {
    /// None where the database lives in memory.
    path: Option<PathBuf>,
    connection: Connection,
    clock: Arc<dyn Clock>,
    random: Random,
    spills: Arc<Spills>,
    /// The tables as they were last read, with the version they were read from.
    tables: Option<(schema::Version, Arc<[RemoteTable]>)>,
    /// Settings that no server has accepted yet.
    proposed: Settings,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Remote {
    /// Opens a file that is a remote already; [`Code::NotARemote`] otherwise.
    pub fn open(path: &Path, components: Components) -> Result<Remote, Failure> {
        let not_a_remote =
            || Failure::new(Code::NotARemote, format!("`{}` is not a remote", path.display()));
        if !files::exists(path) {
            let message = format!("there is no file `{}`", path.display());
            return Err(Failure::new(Code::NotARemote, message));
        }
        let connection = connection::open(path)?;
        if !schema::is_remote(&connection)? {
            return Err(not_a_remote());
        }
        schema::migration::migrate(&connection)?;
        apply::rejects::complete(&connection)?;
        Ok(Remote::new(Some(path), connection, components))
    }

    /// Opens a file and makes it a remote if it is not one: an SQLite file with any tables, or a
    /// file that does not exist.
    pub fn open_or_create(path: &Path, components: Components) -> Result<Remote, Failure> {
        files::require_regular(path)?;
        let connection = if files::is_missing_or_empty(path) {
            connection::create(path)?
        } else {
            connection::open(path)?
        };
        if !schema::is_remote(&connection)? {
            let history = schema::detached::recall(&connection, path)?;
            create_schema(&connection, &history)?;
            files::remove_memory(path);
        }
        schema::migration::migrate(&connection)?;
        apply::rejects::complete(&connection)?;
        Ok(Remote::new(Some(path), connection, components))
    }

    /// A remote without a file. Other programs cannot open it, so the application writes and reads
    /// through [`Remote::execute`] and [`Remote::for_each_row`]; it ends with this value.
    pub fn in_memory(components: Components) -> Result<Remote, Failure> {
        let connection = connection::in_memory()?;
        create_schema(&connection, &History::default())?;
        Ok(Remote::new(None, connection, components))
    }

    fn new(path: Option<&Path>, connection: Connection, components: Components) -> Remote {
        let Components { clock, random, files } = components;
        let spills = Spills::new(files, SPILL_MEMORY_BYTES_MAX, SPILL_DISK_BYTES_MAX);
        let path = path.map(Path::to_owned);
        Remote {
            path,
            connection,
            clock,
            random,
            spills,
            tables: None,
            proposed: Settings::default(),
        }
    }

    /// Runs statements of the application in one transaction. What they change is captured.
    pub fn execute(&mut self, sql: &str) -> Result<(), Failure> {
        let transaction = connection::begin_immediate(&self.connection)?;
        connection::triggers_on(&self.connection)?;
        transaction.execute_batch(sql).map_err(connection::explain)?;
        transaction.commit().map_err(connection::explain)
    }

    /// Shows every row that a query of the application finds.
    pub fn for_each_row(
        &self,
        query: &str,
        visit: &mut dyn FnMut(&[ValueRef<'_>]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut statement = self.connection.prepare(query).map_err(connection::explain)?;
        let width = statement.column_count();
        let mut rows = statement.query([]).map_err(connection::explain)?;
        while let Some(row) = rows.next().map_err(connection::explain)? {
            let values: Vec<ValueRef<'_>> = (0..width)
                .map(|column| connection::value(row, column))
                .collect::<rusqlite::Result<_>>()
                .map_err(connection::explain)?;
            visit(&values)?;
        }
        Ok(())
    }

    /// The right to synchronize, which other processes can only want where there is a file.
    fn lock(&self) -> Result<Option<RemoteLock>, Failure> {
        self.path.as_deref().map(RemoteLock::take).transpose()
    }

    /// What the file remembers.
    pub fn settings(&self) -> Result<Settings, Failure> {
        settings::read(&self.connection)
    }

    /// Stores the values that are given; `None` and an empty list leave what is there. The remote
    /// ID cannot change once it was used.
    pub fn remember(&mut self, settings: &Settings) -> Result<(), Failure> {
        settings::remember(&self.connection, settings)
    }

    /// Synchronizes with these values instead of those that the file remembers. They are stored
    /// when a server has accepted them, so that a mistake is not what the next synchronization
    /// falls back on. Values that are not given are those of the file.
    pub fn propose(&mut self, settings: &Settings) -> Result<(), Failure> {
        settings::require_possible(&self.connection, settings)?;
        self.proposed = settings.clone();
        Ok(())
    }

    /// Synchronizes: uploads what changed here in one transaction and downloads what changed at
    /// the centre. `connect` is called for every attempt; `observer` is called at every step.
    pub fn synchronize(
        &mut self,
        request: &Request,
        connect: &mut dyn FnMut() -> Result<Box<dyn Transport>, Failure>,
        observer: &mut dyn FnMut(Step),
    ) -> Result<Report, Failure> {
        synchronize::synchronize(self, request, connect, observer)
    }

    /// Identity, progress, and pending changes.
    pub fn status(&self) -> Result<Status, Failure> {
        status::status(&self.connection)
    }

    /// The pending changes, table by table.
    pub fn pending(&self) -> Result<Vec<PendingChange>, Failure> {
        status::pending(&self.connection)
    }

    /// The rows that the consolidated database refused.
    pub fn rejects(&self) -> Result<Vec<StoredReject>, Failure> {
        apply::rejects::all(&self.connection)
    }

    /// Forgets rejects by their numbers, all or none.
    pub fn dismiss_rejects(&mut self, ids: &[i64]) -> Result<(), Failure> {
        retry::dismiss(&self.connection, ids)
    }

    /// Makes rejected changes again, all or none, and forgets the rejects. What they do is captured
    /// as any change. [`Code::RetryOverwrites`] where a row has changed since, unless by `force`.
    pub fn retry_rejects(&mut self, ids: &[i64], force: bool) -> Result<(), Failure> {
        let tables = self.tables()?;
        retry::retry(&self.connection, &tables, ids, force)
    }

    /// Forgets identity, watermarks, rejects and what was captured; keeps tables, rows and
    /// settings. The next synchronization is that of a new remote and receives every table again.
    /// [`Code::PendingChanges`] while changes wait, unless they may be discarded.
    pub fn reset(&mut self, discard_pending: bool) -> Result<(), Failure> {
        let _lock = self.lock()?;
        if !discard_pending {
            self.refuse_pending_changes()?;
        }
        self.tables = None;
        settings::reset(&self.connection)
    }

    /// Makes the file an ordinary database again: removes every object of Syncline, keeps the rows.
    /// [`Code::PendingChanges`] is no obstacle: what waits is in the rows. Beside the file it is
    /// remembered which tables were published: if it becomes a remote of the same database again,
    /// their rows are compared, and what differs is recorded in the reject table.
    pub fn detach(&mut self) -> Result<(), Failure> {
        let lock = self.lock()?;
        let transaction = connection::begin_immediate(&self.connection)?;
        let history = History::retire_all(&transaction)?;
        schema::drop_everything(&transaction).map_err(connection::explain)?;
        if let Some(path) = &self.path {
            schema::detached::remember(&transaction, path, history)?;
        }
        transaction.commit().map_err(connection::explain)?;
        self.tables = None;
        match (lock, &self.path) {
            (Some(lock), Some(path)) => lock.remove(path),
            _ => Ok(()),
        }
    }

    fn refuse_pending_changes(&self) -> Result<(), Failure> {
        let waiting = self.pending()?.len();
        if waiting == 0 {
            return Ok(());
        }
        let message = match waiting {
            1 => "1 change was not uploaded".to_owned(),
            _ => format!("{waiting} changes were not uploaded"),
        };
        Err(Failure::new(Code::PendingChanges, message))
    }

    /// The published tables. If the schema of the file or the publication has changed since, they
    /// are read again and missing triggers are created.
    fn tables(&mut self) -> Result<Arc<[RemoteTable]>, Failure> {
        let version = schema::version(&self.connection)?;
        if let Some((known, tables)) = &self.tables
            && *known == version
        {
            return Ok(tables.clone());
        }
        let tables: Arc<[RemoteTable]> = schema::verified_tables(&self.connection)?.into();
        // Putting triggers right was a change of the schema too.
        self.tables = Some((schema::version(&self.connection)?, tables.clone()));
        Ok(tables)
    }
}

fn create_schema(connection: &Connection, history: &History) -> Result<(), Failure> {
    let transaction = connection::begin_immediate(connection)?;
    schema::create(&transaction).map_err(connection::explain)?;
    history.write(&transaction)?;
    transaction.commit().map_err(connection::explain)
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
