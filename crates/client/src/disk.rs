//! What the engine wants of a file system, beside what SQLite does with it.

use std::any::Any;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files around a remote, so that a simulation can own them. SQLite reaches the database file
/// by itself.
pub trait Disk: Debug + Send + Sync {
    /// What SQLite calls its way to these files, which is the name of a VFS; none for its own.
    fn vfs(&self) -> Option<&str>;

    /// What is at `path`.
    fn status(&self, path: &Path) -> io::Result<FileStatus>;

    /// Makes an empty file that only its owner may read, where there is none.
    fn create_private(&self, path: &Path) -> io::Result<()>;

    /// Reads a file, not beyond so many bytes.
    fn read(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>>;

    /// Puts `bytes` in the place of what is in the file, durably; where there is no file, in one
    /// that only its owner may read.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Locks a file against other processes and other callers of this, and makes it where it is
    /// missing. The lock ends with the value, and with the process; none if another has it.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Any + Send>>>;
}

/// What is known of a file without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStatus {
    /// No folder, device or the like.
    pub is_regular: bool,
    /// How long it is.
    pub bytes: u64,
    /// Differs from that of a file that took its place; zero where that is not known.
    pub number: u64,
}

/// Where a remote lies.
#[derive(Debug)]
pub(crate) struct Location {
    pub(crate) path: PathBuf,
    pub(crate) disk: Arc<dyn Disk>,
}
