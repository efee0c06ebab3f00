//! One server process per file (trap 17).

use model::{Code, Failure};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

/// Held for as long as a server serves a database; the operating system gives it back even when
/// the server is killed.
#[derive(Debug)]
pub(crate) struct ServeLock {
    _file: File,
}

impl ServeLock {
    /// Removes the lock's file; for callers that leave nothing behind. Holding the lock meanwhile
    /// keeps a server from starting on it.
    pub(super) fn remove(self, database: &Path) -> Result<(), Failure> {
        let path = ServeLock::path(database);
        std::fs::remove_file(&path).map_err(|error| {
            Failure::new(Code::CannotWrite, format!("cannot remove {}", path.display()))
                .source(error)
        })
    }

    // Beside the database and not the database itself: closing any handle of that file would
    // drop the locks that SQLite holds on it in this process.
    fn path(database: &Path) -> PathBuf {
        let mut path = database.to_owned().into_os_string();
        path.push("-syncline");
        PathBuf::from(path)
    }

    /// Takes the lock, or fails if another server has it.
    pub(crate) fn take(database: &Path) -> Result<ServeLock, Failure> {
        let path = ServeLock::path(database);
        let file = File::options().create(true).append(true).open(&path).map_err(|e| {
            Failure::new(Code::CannotWrite, format!("cannot write {}", path.display())).source(e)
        })?;
        match file.try_lock() {
            Ok(()) => Ok(ServeLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Failure::new(
                Code::ServedAlready,
                format!("another server serves {}", database.display()),
            )),
            Err(TryLockError::Error(error)) => {
                Err(Failure::new(Code::CannotWrite, format!("cannot lock {}", path.display()))
                    .source(error))
            }
        }
    }
}
