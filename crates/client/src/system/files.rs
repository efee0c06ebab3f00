//! Files for rows that do not fit in memory.

use model::{FileId, Files};
use std::collections::HashMap;
use std::fs::File;
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
}
