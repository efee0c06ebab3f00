//! The file system of the operating system.

use crate::disk::{Disk, FileStatus};
use std::any::Any;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Files as the operating system has them.
#[derive(Debug)]
pub(crate) struct SystemDisk;

impl Disk for SystemDisk {
    fn vfs(&self) -> Option<&str> {
        None
    }

    fn status(&self, path: &Path) -> io::Result<FileStatus> {
        let metadata = std::fs::metadata(path)?;
        Ok(FileStatus {
            is_regular: metadata.is_file(),
            bytes: metadata.len(),
            number: number(&metadata),
        })
    }

    fn create_private(&self, path: &Path) -> io::Result<()> {
        private().write(true).create_new(true).open(path).map(drop)
    }

    fn read(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(bytes_max).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = private().write(true).create(true).truncate(true).open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Any + Send>>> {
        let file = private().create(true).append(true).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(Locked(file)))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// A file that is locked as long as this is.
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        // Closing is not enough: a child that this process is just starting holds a copy of every
        // open file for a moment, and the lock would last as long.
        let _ = self.0.unlock();
    }
}

/// Options to open a file with, which make it the owner's alone where they create it.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(unix)]
fn number(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn number(_: &Metadata) -> u64 {
    0
}

/// Bytes that are free where a file lies; none where that is not known.
#[cfg(unix)]
pub(crate) fn room(file: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(file).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
pub(crate) fn room(_: &Path) -> Option<u64> {
    None
}

/// What this user may not write of a database: its file, one that SQLite keeps beside it, or their
/// folder. None is opened: closing it would end the locks that SQLite has on it.
#[cfg(unix)]
pub(crate) fn not_writable(database: &Path) -> Option<PathBuf> {
    use rustix::fs::{Access, access};
    let files = ["", "-wal", "-shm", "-journal"].map(|suffix| {
        let mut name = database.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    });
    let is_refused = |file: &PathBuf| {
        let refusal = access(file, Access::WRITE_OK).err();
        refusal.is_some_and(|why| why != rustix::io::Errno::NOENT)
    };
    files.into_iter().chain(database.parent().map(Path::to_owned)).find(is_refused)
}

#[cfg(not(unix))]
pub(crate) fn not_writable(_: &Path) -> Option<PathBuf> {
    None
}
