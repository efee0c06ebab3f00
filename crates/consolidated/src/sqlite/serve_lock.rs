//! One server process per file (trap 17).

use crate::disk::Location;
use model::{Code, Failure};
use std::any::Any;

/// Held for as long as a server serves a database; the operating system gives it back even when
/// the server is killed.
#[derive(Debug)]
pub(crate) struct ServeLock {
    _held: Box<dyn Any + Send + Sync>,
}

// Beside the database and not the database itself: closing any handle of that file would drop the
// locks that SQLite holds on it in this process.
const SUFFIX: &str = "-syncline";

impl ServeLock {
    /// Removes the lock's file; for callers that leave nothing behind. Holding the lock meanwhile
    /// keeps a server from starting on it.
    pub(super) fn remove(self, database: &Location) -> Result<(), Failure> {
        let path = database.beside(SUFFIX);
        database.disk.remove(&path).map_err(|error| {
            Failure::new(Code::CannotWrite, format!("cannot remove {}", path.display()))
                .source(error)
        })
    }

    /// Takes the lock, or fails if another server has it.
    pub(crate) fn take(database: &Location) -> Result<ServeLock, Failure> {
        let path = database.beside(SUFFIX);
        let held = database.disk.lock(&path).map_err(|error| {
            Failure::new(Code::CannotWrite, format!("cannot lock {}", path.display())).source(error)
        })?;
        let served = || {
            let message = format!("another server serves {}", database.path.display());
            Failure::new(Code::ServedAlready, message)
        };
        Ok(ServeLock { _held: held.ok_or_else(served)? })
    }
}
