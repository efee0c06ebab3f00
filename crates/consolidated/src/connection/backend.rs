//! Which backend serves a database: a line of each in every function.

use super::{Administration, Reader, Writer};
use crate::disk::system::SystemDisk;
use crate::disk::{Disk, Location};
use crate::serving::Serving;
use crate::url::Url;
use crate::{postgres, sqlite};
use model::Failure;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

/// The right to serve a database, where only one server at a time may; given back when dropped.
#[derive(Debug)]
pub struct ServeLock {
    _file: Option<sqlite::ServeLock>,
}

impl ServeLock {
    /// The right that this lock stands for.
    pub(crate) fn held(lock: sqlite::ServeLock) -> ServeLock {
        ServeLock { _file: Some(lock) }
    }

    /// The right to a database that any number of servers may share.
    pub(crate) fn shared() -> ServeLock {
        ServeLock { _file: None }
    }
}

/// Connects for administration.
pub fn administer(url: &Url) -> Result<Box<dyn Administration>, Failure> {
    administer_on(url, Arc::new(SystemDisk))
}

/// The same where a database of SQLite lies on this disk.
pub fn administer_on(url: &Url, disk: Arc<dyn Disk>) -> Result<Box<dyn Administration>, Failure> {
    match url {
        Url::Sqlite(path) => sqlite::administer(Location { path: path.clone(), disk }),
        Url::Postgres(url) => postgres::administer(url),
    }
}

/// Connects to apply uploads, without the right to serve.
pub fn open_writer(url: &Url) -> Result<Box<dyn Writer>, Failure> {
    Serving::default().open_writer(url)
}

/// How many writers a database can have at once; none: as many as wanted.
pub fn writers_max(url: &Url) -> Option<usize> {
    match url {
        Url::Sqlite(_) => Some(1),
        Url::Postgres(_) => None,
    }
}

/// Connects to read, without the right to serve.
pub fn open_reader(url: &Url) -> Result<Box<dyn Reader>, Failure> {
    Serving::default().open_reader(url)
}

impl Serving {
    /// Takes the right to serve the database, or fails if another server has it.
    ///
    /// Finds out whether the database was restored or copied since it was served last. If so, it
    /// begins a new generation before the first remote is served. `dir` is the folder of the
    /// configuration, where each start leaves a mark.
    pub fn lock(&self, url: &Url, dir: Option<&Path>) -> Result<ServeLock, Failure> {
        match url {
            Url::Sqlite(path) => {
                let location = self.location(path);
                let lock = sqlite::ServeLock::take(&location)?;
                sqlite::start(&location, dir)?;
                Ok(ServeLock::held(lock))
            }
            Url::Postgres(url) => {
                postgres::start(url, dir)?;
                Ok(ServeLock::shared())
            }
        }
    }

    fn location(&self, path: &Path) -> Location {
        Location { path: path.to_owned(), disk: self.disk.clone() }
    }

    /// Connects to apply uploads.
    pub fn open_writer(&self, url: &Url) -> Result<Box<dyn Writer>, Failure> {
        match url {
            Url::Sqlite(path) => Ok(Box::new(sqlite::Writer::open(&self.location(path), self)?)),
            Url::Postgres(url) => Ok(Box::new(postgres::Writer::open(url, self)?)),
        }
    }

    /// Connects to read.
    pub fn open_reader(&self, url: &Url) -> Result<Box<dyn Reader>, Failure> {
        match url {
            Url::Sqlite(path) => Ok(Box::new(sqlite::Reader::open(&self.location(path), self)?)),
            Url::Postgres(url) => Ok(Box::new(postgres::Reader::open(url, self)?)),
        }
    }
}
