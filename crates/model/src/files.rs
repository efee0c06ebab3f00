//! The files of the spill, as the programs provide them.

use std::io;

/// Names one open temporary file of a [`Files`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId(pub u64);

/// Temporary files that grow at the end and are read back by position.
///
/// A trait so that tests can fill the disk or tear a write without owning a machine.
pub trait Files: Send + Sync {
    /// Opens a new empty file that no other process sees.
    fn create(&self) -> io::Result<FileId>;

    /// Writes all of `bytes` at the end of the file.
    fn append(&self, file: FileId, bytes: &[u8]) -> io::Result<()>;

    /// Fills `buffer` with the bytes that begin at `offset`; short files are an error.
    fn read_exact_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Closes and removes the file. Unknown files are ignored.
    fn remove(&self, file: FileId);
}

/// No files at all, where nothing is ever spilled.
#[derive(Debug)]
pub(crate) struct NoFiles;

impl Files for NoFiles {
    fn create(&self) -> io::Result<FileId> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn append(&self, _: FileId, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn read_exact_at(&self, _: FileId, _: u64, _: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remove(&self, _: FileId) {}
}
