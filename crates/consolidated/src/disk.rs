//! What the backend of SQLite wants of a file system, beside what SQLite does with it.

pub(crate) mod system;

use std::any::Any;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files around a consolidated database of SQLite, so that a simulation can own them. SQLite
/// reaches the database file by itself.
pub trait Disk: Debug + Send + Sync {
    /// What SQLite calls its way to these files, which is the name of a VFS; none for its own.
    fn vfs(&self) -> Option<&str>;

    /// What is at `path`.
    fn status(&self, path: &Path) -> io::Result<FileStatus>;

    /// One path of those that lead to the same file.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;

    /// Brings what is in a file to the disk.
    fn sync(&self, path: &Path) -> io::Result<()>;

    /// Brings to the disk which files are beside this one.
    fn sync_folder_of(&self, path: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Locks a file against other processes and other callers of this, and makes it where it is
    /// missing. The lock ends with the value, and with the process; none if another has it.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Any + Send + Sync>>>;
}

/// What is known of a file without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStatus {
    /// No folder, device or the like.
    pub is_regular: bool,
    /// The device and the number on it, which tell it from other files that exist.
    pub device: u64,
    /// See `device`.
    pub number: u64,
    /// How many names it has, where that is known; or else one.
    pub names: u64,
    /// When it was made, in nanoseconds since 1970; zero where that is not known.
    pub born_ns: u128,
}

/// Where a database lies.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    pub(crate) path: PathBuf,
    pub(crate) disk: Arc<dyn Disk>,
}

impl Location {
    /// The file whose name ends so, beside the database.
    pub(crate) fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(suffix);
        PathBuf::from(path)
    }
}
