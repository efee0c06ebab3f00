//! The file of a remote as the file system knows it, and what lies beside it.

use crate::disk::{Disk, Location};
use model::{Code, Failure};
use std::io;
use std::path::{Path, PathBuf};

impl Location {
    /// Makes an empty file that only its owner may read, unless there is one already: SQLite gives
    /// its journal the same rights. Where it cannot be made, the code that opens it says why.
    pub(super) fn create_private(&self) {
        let _ = self.disk.create_private(&self.path);
    }

    /// Removes the database, with the files of SQLite beside it.
    pub(super) fn remove_database(&self) -> Result<(), Failure> {
        for suffix in ["-wal", "-shm", "-journal", ""] {
            let path = self.beside(suffix);
            match self.disk.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    let message = format!("cannot remove `{}`", path.display());
                    return Err(Failure::new(Code::CannotWrite, message).source(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The file of this name beside it.
    pub(super) fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    }

    /// What is remembered beside a file that is no remote any more.
    fn memory_path(&self) -> PathBuf {
        self.beside("-syncline-detached")
    }

    /// Remembers `text` beside the file, durably.
    pub(super) fn write_memory(&self, text: &str) -> Result<(), Failure> {
        let path = self.memory_path();
        self.disk.write(&path, text.as_bytes()).map_err(|error| {
            Failure::new(Code::CannotWrite, format!("cannot write `{}`", path.display()))
                .source(error)
        })
    }

    /// What is remembered beside the file; none where there is nothing that reads.
    pub(super) fn read_memory(&self) -> Option<String> {
        let bytes = self.disk.read(&self.memory_path(), MEMORY_BYTES_MAX).ok()?;
        String::from_utf8(bytes).ok()
    }

    /// Forgets it; where it cannot be removed it is overwritten next time.
    pub(super) fn remove_memory(&self) {
        let _ = self.disk.remove(&self.memory_path());
    }

    /// Tells one file from another that took its place. Zero where the system does not.
    pub(super) fn number(&self) -> u64 {
        self.disk.status(&self.path).map_or(0, |status| status.number)
    }

    /// True when there is no file, or one without a byte.
    pub(super) fn is_missing_or_empty(&self) -> bool {
        let status = self.disk.status(&self.path);
        status.map_or(true, |status| status.is_regular && status.bytes == 0)
    }

    /// Refuses devices, folders and the like, which SQLite would try to read as a file.
    pub(super) fn require_regular(&self) -> Result<(), Failure> {
        let path = &self.path;
        match self.disk.status(path) {
            Ok(status) if !status.is_regular => Err(Failure::new(
                Code::RemoteNotADatabase,
                format!("`{}` is not a regular file", path.display()),
            )),
            Err(_) if path.parent().is_some_and(|folder| is_missing(&*self.disk, folder)) => {
                let message = format!("the folder of `{}` does not exist", path.display());
                Err(Failure::new(Code::RemoteNotADatabase, message))
            }
            _ => Ok(()),
        }
    }

    /// True when there is something at its path.
    pub(super) fn exists(&self) -> bool {
        self.disk.status(&self.path).is_ok()
    }
}

/// Larger memories are not ours.
const MEMORY_BYTES_MAX: u64 = 16 << 20;

/// The folder of a path without one is where the program runs.
fn is_missing(disk: &dyn Disk, folder: &Path) -> bool {
    !folder.as_os_str().is_empty() && disk.status(folder).is_err()
}
