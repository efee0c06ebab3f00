//! Temporary files for the spill: unlinked at once, so that a kill leaves nothing behind.

use model::{FileId, Files};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Files in one folder.
#[derive(Debug)]
pub(crate) struct TemporaryFiles {
    folder: PathBuf,
    open: Mutex<HashMap<u64, Arc<Mutex<File>>>>,
    next: AtomicU64,
}

impl TemporaryFiles {
    pub(crate) fn new(folder: PathBuf) -> TemporaryFiles {
        TemporaryFiles { folder, open: Mutex::default(), next: AtomicU64::new(0) }
    }

    fn with<T>(&self, id: FileId, work: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
        let file = {
            let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.get(&id.0).cloned().ok_or(io::ErrorKind::NotFound)?
        };
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut file)
    }
}

impl Files for TemporaryFiles {
    fn create(&self) -> io::Result<FileId> {
        let file = tempfile::tempfile_in(&self.folder)?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(id, Arc::new(Mutex::new(file)));
        Ok(FileId(id))
    }

    fn append(&self, id: FileId, bytes: &[u8]) -> io::Result<()> {
        self.with(id, |file| {
            file.seek(SeekFrom::End(0))?;
            file.write_all(bytes)
        })
    }

    fn read_exact_at(&self, id: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.with(id, |file| {
            file.seek(SeekFrom::Start(offset))?;
            file.read_exact(buffer)
        })
    }

    fn remove(&self, id: FileId) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&id.0);
    }
}
