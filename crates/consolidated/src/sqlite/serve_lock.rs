//! One server process per file (trap 17).

use crate::url::Url;
use model::{Code, Failure};
use std::fs::{File, TryLockError};
use std::path::PathBuf;

/// Held for as long as a server serves a database; the operating system gives it back even when
/// the server is killed.
#[derive(Debug)]
pub struct ServeLock {
    _file: File,
}

impl ServeLock {
    /// Takes the lock, or says that somebody else has it.
    pub fn take(url: &Url) -> Result<ServeLock, Failure> {
        let Url::Sqlite(database) = url;
        // Beside the database and not the database itself: closing any handle of that file would
        // drop the locks that SQLite holds on it in this process.
        let mut path = database.clone().into_os_string();
        path.push("-syncline");
        let path = PathBuf::from(path);
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
