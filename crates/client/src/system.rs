//! What only ordinary programs have: files with locks, a clock, chance, threads that may wait.
//!
//! A browser has none of it. Here are the functions of [`Remote`] that need it. A
//! [`crate::Conversation`] does without.

mod beside;
mod blocking;
mod clock;
mod detached;
pub(crate) mod disk;
mod files;
mod lock;
mod random;

use crate::disk::Location;
use crate::progress::state::State;
use crate::schema;
use crate::settings;
use crate::transport::Transport;
use crate::verify::{self, Verification, VerifyRequest};
use crate::{Claim, Components, Remote, Report, Request, Step, connection, create_schema};
use lock::RemoteLock;
use model::{Code, Failure};
use std::path::Path;
use std::sync::Arc;

impl Components {
    /// Those of the operating system.
    pub fn system(folder_for_temporary_files: &Path) -> Result<Components, Failure> {
        Ok(Components {
            clock: Arc::new(clock::SystemClock::new()),
            random: random::system()?,
            files: Arc::new(files::TemporaryFiles::new(folder_for_temporary_files)),
            disk: Arc::new(disk::SystemDisk),
        })
    }
}

impl Remote {
    /// Opens a file that is a remote already; [`Code::NotARemote`] otherwise.
    pub fn open(path: &Path, components: Components) -> Result<Remote, Failure> {
        let not_a_remote =
            || Failure::new(Code::NotARemote, format!("`{}` is not a remote", path.display()));
        let location = Location { path: path.to_owned(), disk: components.disk.clone() };
        if !location.exists() {
            let message = format!("there is no file `{}`", path.display());
            return Err(Failure::new(Code::NotARemote, message));
        }
        let connection = connection::open(&location)?;
        if !schema::is_remote(&connection)? {
            return Err(not_a_remote());
        }
        Ok(Remote::new(Some(location), connection, components))
    }

    /// Opens a file and makes it a remote if it is not one: an SQLite file with any tables, or a
    /// file that does not exist.
    pub fn open_or_create(path: &Path, components: Components) -> Result<Remote, Failure> {
        let location = Location { path: path.to_owned(), disk: components.disk.clone() };
        location.require_regular()?;
        let connection = if location.is_missing_or_empty() {
            // It holds what the server knows this remote by.
            location.create_private();
            connection::create(&location)?
        } else {
            connection::open(&location)?
        };
        if !schema::is_remote(&connection)? {
            let history = detached::recall(&connection, &location)?;
            create_schema(&connection, &history)?;
            location.remove_memory();
        }
        Ok(Remote::new(Some(location), connection, components))
    }

    /// Removes the file, and what lies beside it, if no server has accepted it yet and no table but
    /// ours is in it. For whoever has just made it. [`Code::RemoteInUse`] if another synchronizes
    /// it. A file that `was_there` before becomes again what it was.
    pub fn remove_unaccepted(mut self, was_there: bool) -> Result<(), Failure> {
        if was_there {
            return if self.settings()?.server.is_some() { Ok(()) } else { self.detach() };
        }
        let Some(location) = &self.location else { return Ok(()) };
        let lock = RemoteLock::take(location)?;
        if self.settings()?.server.is_some() || schema::has_other_tables(&self.connection)? {
            return Ok(());
        }
        drop(self.connection);
        location.remove_database()?;
        lock.remove(location)
    }

    /// The right to synchronize, for a [`Conversation`]. [`Code::RemoteInUse`] if another has it.
    pub fn claim(&self) -> Result<Claim, Failure> {
        Ok(match self.lock()? {
            Some(lock) => Claim::held(self, lock),
            None => Claim::alone(self),
        })
    }

    /// The lock that goes with it, which other processes can only want where there is a file.
    fn lock(&self) -> Result<Option<RemoteLock>, Failure> {
        self.location.as_ref().map(RemoteLock::take).transpose()
    }

    /// Synchronizes: uploads what changed here in one transaction and downloads what changed at
    /// the center. `connect` is called for every attempt; `observer` is called at every step. This
    /// waits for the server; programs that must not wait drive a [`Conversation`].
    pub fn synchronize(
        &mut self,
        request: &Request,
        connect: &mut dyn FnMut() -> Result<Box<dyn Transport>, Failure>,
        observer: &mut dyn FnMut(Step),
    ) -> Result<Report, Failure> {
        blocking::synchronize(self, request, connect, observer)
    }

    /// Compares what is here with what the consolidated database has for this remote. `connect` is
    /// called for every question. Nothing is changed here or there, and nobody else synchronizes
    /// this file meanwhile.
    pub fn verify(
        &mut self,
        request: &VerifyRequest,
        connect: &mut dyn FnMut() -> Result<Box<dyn Transport>, Failure>,
    ) -> Result<Verification, Failure> {
        let _lock = self.lock()?;
        verify::verify(self, request, &mut |remote, inquiry| {
            blocking::ask(remote, inquiry, connect)
        })
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
        let state = State::read(&transaction)?;
        let history = state.history.retire_all(&transaction, state.database_id.as_ref())?;
        schema::drop_everything(&transaction).map_err(connection::explain)?;
        if let Some(location) = &self.location {
            detached::remember(&transaction, location, history)?;
        }
        transaction.commit().map_err(connection::explain)?;
        self.tables = None;
        match (lock, &self.location) {
            (Some(lock), Some(location)) => lock.remove(location),
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
}
