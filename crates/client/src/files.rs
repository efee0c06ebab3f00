//! Files beside the remote: rows that do not fit in memory, and the lock of the engine.
//!
//! Only this file of the crate uses the file system, apart from SQLite itself.

use model::{Code, Failure, FileId, Files};
use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Temporary files in one folder. They have no name, so nothing remains of them after a kill.
#[derive(Debug)]
pub(crate) struct TemporaryFiles {
    folder: PathBuf,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    files: HashMap<FileId, File>,
}

impl TemporaryFiles {
    pub(crate) fn new(folder: &Path) -> TemporaryFiles {
        TemporaryFiles { folder: folder.to_owned(), open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // Nothing in the map is ever half changed, so a panic elsewhere does no harm to it.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(
        &self,
        file: FileId,
        action: impl FnOnce(&mut File) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.open().files.get_mut(&file) {
            Some(file) => action(file),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }
}

impl Files for TemporaryFiles {
    fn create(&self) -> io::Result<FileId> {
        let file = tempfile::tempfile_in(&self.folder)?;
        let mut open = self.open();
        let id = FileId(open.next);
        open.next += 1;
        open.files.insert(id, file);
        Ok(id)
    }

    fn append(&self, file: FileId, bytes: &[u8]) -> io::Result<()> {
        self.with(file, |file| {
            file.seek(SeekFrom::End(0))?;
            file.write_all(bytes)
        })
    }

    fn read_exact_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.with(file, |file| {
            file.seek(SeekFrom::Start(offset))?;
            file.read_exact(buffer)
        })
    }

    fn remove(&self, file: FileId) {
        self.open().files.remove(&file);
    }
}

/// The right to synchronize one remote file, held against other processes and other
/// [`crate::Remote`]s of this one. Ends with the value, and with the process however it dies.
#[derive(Debug)]
pub(crate) struct RemoteLock {
    file: File,
}

impl RemoteLock {
    /// Takes the lock of the remote at `remote`, or says who has it.
    pub(crate) fn take(remote: &Path) -> Result<RemoteLock, Failure> {
        let path = lock_path(remote);
        let cannot = |error: io::Error| {
            Failure::new(Code::CannotWrite, format!("cannot lock `{}`", path.display()))
                .source(error)
        };
        let file = private().create(true).append(true).open(&path).map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => Ok(RemoteLock { file }),
            Err(TryLockError::WouldBlock) => Err(Failure::new(
                Code::RemoteInUse,
                format!("another process synchronizes `{}`", remote.display()),
            )),
            Err(TryLockError::Error(error)) => Err(cannot(error)),
        }
    }

    /// Removes the lock file: the file is no remote any more.
    pub(crate) fn remove(self, remote: &Path) -> Result<(), Failure> {
        let path = lock_path(remote);
        std::fs::remove_file(&path).map_err(|error| {
            Failure::new(Code::CannotWrite, format!("cannot remove `{}`", path.display()))
                .source(error)
        })
    }
}

impl Drop for RemoteLock {
    fn drop(&mut self) {
        // Closing is not enough: a child that this process is just starting holds a copy of every
        // open file for a moment, and the lock would last as long.
        let _ = self.file.unlock();
    }
}

fn lock_path(remote: &Path) -> PathBuf {
    let mut name = remote.as_os_str().to_owned();
    name.push("-syncline");
    PathBuf::from(name)
}

/// Makes an empty file that only its owner may read, unless there is one already: SQLite gives its
/// journal the same rights. Where it cannot be made, the code that opens it says why.
pub(crate) fn create_private(path: &Path) {
    let _ = private().write(true).create_new(true).open(path);
}

/// Options to open a file with, which make it the owner's alone where they create it.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// What is remembered beside a file that is no remote any more.
fn memory_path(remote: &Path) -> PathBuf {
    let mut name = remote.as_os_str().to_owned();
    name.push("-syncline-detached");
    PathBuf::from(name)
}

/// Larger memories are not ours.
const MEMORY_BYTES_MAX: u64 = 16 << 20;

/// Remembers `text` beside the file, durably.
pub(crate) fn write_memory(remote: &Path, text: &str) -> Result<(), Failure> {
    let path = memory_path(remote);
    let write = || {
        let mut file = private().write(true).create(true).truncate(true).open(&path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|error| {
        Failure::new(Code::CannotWrite, format!("cannot write `{}`", path.display())).source(error)
    })
}

/// What is remembered beside the file; none where there is nothing that reads.
pub(crate) fn read_memory(remote: &Path) -> Option<String> {
    let file = File::open(memory_path(remote)).ok()?;
    let mut text = String::new();
    file.take(MEMORY_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Forgets it; where it cannot be removed it is overwritten next time.
pub(crate) fn remove_memory(remote: &Path) {
    let _ = std::fs::remove_file(memory_path(remote));
}

/// Tells one file from another that took its place. Zero where the system does not.
pub(crate) fn number(path: &Path) -> u64 {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path).map_or(0, |metadata| metadata.ino())
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        0
    }
}

/// True when there is no file at `path`, or one without a byte.
pub(crate) fn is_missing_or_empty(path: &Path) -> bool {
    std::fs::metadata(path).map_or(true, |metadata| metadata.is_file() && metadata.len() == 0)
}

/// Refuses devices, folders and the like, which SQLite would try to read as a file.
pub(crate) fn require_regular(path: &Path) -> Result<(), Failure> {
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => Err(Failure::new(
            Code::RemoteNotADatabase,
            format!("`{}` is not a regular file", path.display()),
        )),
        Err(_) if path.parent().is_some_and(|it| !it.as_os_str().is_empty() && !it.exists()) => {
            let message = format!("the folder of `{}` does not exist", path.display());
            Err(Failure::new(Code::RemoteNotADatabase, message))
        }
        _ => Ok(()),
    }
}

/// True when there is something at `path`.
pub(crate) fn exists(path: &Path) -> bool {
    path.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_appended_can_be_read_at_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let files = TemporaryFiles::new(folder.path());
        let (a, b) = (files.create().unwrap(), files.create().unwrap());
        files.append(a, b"hello ").unwrap();
        files.append(b, b"other").unwrap();
        files.append(a, b"world").unwrap();
        let mut buffer = [0; 5];
        files.read_exact_at(a, 6, &mut buffer).unwrap();
        assert_eq!(&buffer, b"world");
        files.remove(a);
        assert!(files.read_exact_at(a, 0, &mut buffer).is_err());
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "the files have no name");
    }

    // S8
    #[test]
    fn a_remote_is_locked_once_and_free_again_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let remote = folder.path().join("r.db");
        let lock = RemoteLock::take(&remote).unwrap();
        assert_eq!(RemoteLock::take(&remote).unwrap_err().code(), Code::RemoteInUse);
        drop(lock);
        RemoteLock::take(&remote).unwrap();
    }
}
