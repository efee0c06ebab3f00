//! The client engine on SQLite: makes a file a remote and synchronizes it.
//!
//! This page is the whole public API. [`Remote`] is a file, and [`Remote::synchronize`] is all that
//! most programs need. A [`Conversation`] is the same as a value that waits for nothing, for
//! programs with their own way to wait. `synchronize.rs` has its steps. `session.rs` decides what
//! each message leads to, without input and output. The parts of the remote are `capture.rs` (its
//! changes), `upload.rs`, `apply.rs` (downloads) and `progress.rs` (what both sides have agreed
//! on).
//!
//! This crate starts no thread and never reads a server's tables. Sockets are in
//! `transport/tcp.rs`. Files, locks, time, random numbers and waiting are in `system.rs` and its
//! folder; the rest of the crate does without an operating system.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod apply;
mod capture;
mod claim;
mod connection;
mod disk;
mod fail_point;
mod moment;
mod progress;
mod retry;
mod schema;
mod session;
mod settings;
mod sql;
mod status;
mod synchronize;
mod system;
pub mod transport;
mod upload;
mod verify;

pub use apply::fired::silent::SilentTrigger;
pub use apply::refresh::SentAgain;
pub use apply::rejects::StoredReject;
pub use apply::rejects::lost_conflicts::StoredConflict;
pub use claim::Claim;
pub use disk::{Disk, FileStatus};
pub use progress::partial::Kept;
pub use protocol::{
    Authentication, Compression, Credential, Mode, NewPassword, Parameters, WaitingTable,
};
pub use settings::Settings;
pub use status::{PendingChange, PendingOperation, Status, TableStatus};
pub use synchronize::{
    Compressed, Conversation, Counts, Downloaded, Event, Host, Next, Report, Request, Step,
};
pub use transport::Transport;
pub use upload::left_behind::{LargeRow, LeftBehind};
pub use verify::{DifferingRow, FileCheck, How, Verification, VerifiedTable, VerifyRequest};

use apply::fired::silent;
use disk::Location;
use model::{Clock, Failure, Files, Random, Spills, ValueRef};
use protocol::WantedRow;
use rusqlite::Connection;
use schema::RemoteTable;
use schema::history::History;
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
    /// Where remotes lie.
    pub disk: Arc<dyn Disk>,
}

/// A remote database: an SQLite file that any SQLite program may go on using.
pub struct Remote {
    /// None where the database lives in memory.
    location: Option<Location>,
    connection: Connection,
    clock: Arc<dyn Clock>,
    random: Random,
    spills: Arc<Spills>,
    /// The tables as they were last read, with the version they were read from.
    tables: Option<(schema::Version, Arc<[RemoteTable]>)>,
    /// Triggers of the application on them that the model does not let fire for downloads.
    silent: Vec<SilentTrigger>,
    /// Settings that no server has accepted yet.
    proposed: Settings,
    /// How rows are compressed on their way, the preferred one first.
    compression: Vec<Compression>,
    parameters: Parameters,
    new_password: Option<NewPassword>,
    fill_rows_min: u64,
    /// A download that was cut is gone on with by the same synchronization.
    goes_on: bool,
    /// Rows that the next synchronization asks for.
    wanted: Vec<WantedRow>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("place", &self.location).finish_non_exhaustive()
    }
}

impl Remote {
    /// A remote without a file. Other programs cannot open it, so the application writes and reads
    /// through [`Remote::execute`] and [`Remote::for_each_row`]; it ends with this value.
    pub fn in_memory(components: Components) -> Result<Remote, Failure> {
        let connection = connection::in_memory()?;
        create_schema(&connection, &History::default())?;
        Ok(Remote::new(None, connection, components))
    }

    fn new(location: Option<Location>, connection: Connection, components: Components) -> Remote {
        let Components { clock, random, files, disk: _ } = components;
        let spills = Spills::new(files, SPILL_MEMORY_BYTES_MAX, SPILL_DISK_BYTES_MAX);
        Remote {
            location,
            connection,
            clock,
            random,
            spills,
            tables: None,
            silent: Vec::new(),
            proposed: Settings::default(),
            compression: Vec::new(),
            parameters: Parameters::default(),
            new_password: None,
            fill_rows_min: apply::first_fill::ROWS_MIN,
            goes_on: true,
            wanted: Vec::new(),
        }
    }

    /// Allows that rows are compressed on their way, in one of these ways. The first that the
    /// server reads is used for uploads, and the server chooses for downloads. Without this call
    /// nothing is compressed, which is right where the server is on the same machine.
    pub fn compress(&mut self, methods: &[Compression]) {
        self.compression = methods.to_vec();
    }

    /// Sends this beside the credential from now on, for the service that knows the users. It is
    /// not kept in the file.
    pub fn say(&mut self, parameters: Parameters) {
        self.parameters = parameters;
    }

    /// Changes the password with the next synchronization, which must have the password of today.
    /// It fails with [`model::Code::PasswordNotChanged`] where the server does not confirm that.
    /// Where no answer came, the same two passwords are sent again: the new one counts already, or
    /// not yet. [`Report::authentication`] and [`Step::PasswordChanged`] say when it counts; then
    /// this must be called with none. It is not kept in the file.
    pub fn change_password(&mut self, new_password: Option<NewPassword>) {
        self.new_password = new_password;
    }

    /// Lets a table that is received for the first time be filled under a hidden name if so many
    /// rows come, instead of 10,000. Fewer are written in the transaction of the download.
    pub fn fill_hidden_from(&mut self, rows: u64) {
        self.fill_rows_min = rows;
    }

    /// Lets a synchronization fail when its download is cut. Otherwise it connects again and goes
    /// on by itself, as long as that brings something: after five attempts in a row that do not,
    /// with pauses of up to eight seconds between them, it fails.
    pub fn fail_when_cut(&mut self) {
        self.goes_on = false;
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

    /// Identity, progress, and pending changes.
    pub fn status(&self) -> Result<Status, Failure> {
        status::status(&self.connection)
    }

    /// The pending changes, table by table.
    pub fn pending(&self) -> Result<Vec<PendingChange>, Failure> {
        status::pending(&self.connection)
    }

    /// The pending changes that no message takes. They are uploaded when they are small enough.
    pub fn too_large(&self) -> Result<LeftBehind, Failure> {
        status::too_large(&self.connection, &self.spills)
    }

    /// The rows that the consolidated database refused.
    pub fn rejects(&self) -> Result<Vec<StoredReject>, Failure> {
        apply::rejects::all(&self.connection)
    }

    /// Why a reject can never be retried, whatever its row is: its table is not uploaded, or
    /// nothing was changed here. None where it can be, or where that depends on the row.
    pub fn never_retried(&mut self, reject: &StoredReject) -> Result<Option<String>, Failure> {
        Ok(retry::never_retried(&self.tables()?, reject))
    }

    /// Forgets rejects by their numbers, all or none.
    pub fn dismiss_rejects(&mut self, ids: &[i64]) -> Result<(), Failure> {
        retry::dismiss(&self.connection, retry::Kind::Reject, ids)
    }

    /// Makes rejected changes again, all or none, and forgets the rejects. What they do is captured
    /// as any change. [`model::Code::RetryOverwrites`] where a row has changed since, unless by
    /// `force`.
    pub fn retry_rejects(&mut self, ids: &[i64], force: bool) -> Result<(), Failure> {
        let tables = self.tables()?;
        retry::retry(&self.connection, &tables, ids, force)
    }

    /// The changes that lost conflicts, the oldest first.
    pub fn conflicts(&self) -> Result<Vec<StoredConflict>, Failure> {
        apply::rejects::lost_conflicts::all(&self.connection)
    }

    /// Forgets lost conflicts by their numbers, all or none.
    pub fn dismiss_conflicts(&mut self, ids: &[i64]) -> Result<(), Failure> {
        retry::dismiss(&self.connection, retry::Kind::Conflict, ids)
    }

    /// Makes changes that lost conflicts again, all or none, to the rows that stayed. What they do
    /// is captured as any change. [`model::Code::RetryOverwrites`] where a row has changed since,
    /// unless by `force`.
    pub fn retry_conflicts(&mut self, ids: &[i64], force: bool) -> Result<(), Failure> {
        let tables = self.tables()?;
        retry::retry_conflicts(&self.connection, &tables, ids, force)
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
        self.silent = silent::off(&self.connection, &tables).map_err(connection::explain)?;
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
