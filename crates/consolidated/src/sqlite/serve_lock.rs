//! One server process per file (trap 17).

use crate::disk::Location;
use model::{Code, Failure};
use std::any::Any;
use std::path::PathBuf;

/// Held for as long as a server serves a database; the operating system gives it back even when
/// the server is killed.
#[derive(Debug)]
pub(crate) struct ServeLock {
    path: PathBuf,
    _held: Box<dyn Any + Send + Sync>,
}

// Beside the database and not the database itself: closing any handle of that file would drop the
// locks that SQLite holds on it in this process.
const SUFFIX: &str = "-syncline";

impl ServeLock {
    /// Removes the lock's file; for callers that leave nothing behind. Holding the lock meanwhile
    /// keeps a server from starting on it.
    pub(super) fn remove(self, database: &Location) -> Result<(), Failure> {
        database.disk.remove(&self.path).map_err(|error| {
            Failure::new(Code::CannotWrite, format!("cannot remove {}", self.path.display()))
                .source(error)
        })
    }

    /// Takes the lock, or fails if another server has it.
    pub(crate) fn take(database: &Location) -> Result<ServeLock, Failure> {
        let path = lock_path(database)?;
        let held = database.disk.lock(&path).map_err(|error| {
            Failure::new(Code::CannotWrite, format!("cannot lock {}", path.display())).source(error)
        })?;
        let served = || {
            let message = format!("another server serves {}", database.path.display());
            Failure::new(Code::ServedAlready, message)
        };
        Ok(ServeLock { path, _held: held.ok_or_else(served)? })
    }
}

/// Where the lock of the file lies, whichever link leads to it.
///
/// A file with several names has none: SQLite keeps its log beside the name by which a file was
/// opened, so two processes that know it by different names do not see each other's changes, and
/// damage it.
fn lock_path(database: &Location) -> Result<PathBuf, Failure> {
    let Location { path, disk } = database;
    if disk.status(path).is_ok_and(|status| status.names > 1) {
        let message = format!("{} has another name (a hard link)", path.display());
        return Err(Failure::new(Code::ServedAlready, message)
            .hint("another server may know the file by that name: remove the other name"));
    }
    // A file that is missing is told when it is opened.
    let path = disk.canonical(path).unwrap_or_else(|_| path.clone());
    Ok(Location { path, disk: disk.clone() }.beside(SUFFIX))
}
