//! Rows out of memory onto disk: a queue of chunks whose users cannot tell where it lies.
//!
//! Memory is drawn from one budget shared by all spills of a process. When it is used up, every
//! further chunk of a spill goes to its file, so chunks keep their order. Nothing is ever held
//! back: what [`Spill::append`] accepted can be read at once, as often as wanted.
//!
//! Bounds: `memory_bytes_max` for all spills together, `disk_bytes_max` likewise.

use crate::code::Code;
use crate::failure::Failure;
use crate::files::{FileId, Files};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What all spills of one process may use together, and the files behind them.
pub struct Spills {
    files: Arc<dyn Files>,
    memory_bytes_max: u64,
    disk_bytes_max: u64,
    memory_bytes: AtomicU64,
    disk_bytes: AtomicU64,
}

impl Spills {
    /// A budget of `memory_bytes_max` in memory and `disk_bytes_max` in `files`.
    pub fn new(files: Arc<dyn Files>, memory_bytes_max: u64, disk_bytes_max: u64) -> Arc<Spills> {
        Arc::new(Spills {
            files,
            memory_bytes_max,
            disk_bytes_max,
            memory_bytes: AtomicU64::new(0),
            disk_bytes: AtomicU64::new(0),
        })
    }

    /// A new empty spill.
    pub fn open(self: &Arc<Spills>) -> Spill {
        Spill {
            spills: self.clone(),
            memory: Vec::new(),
            memory_bytes: 0,
            file: None,
            file_bytes: 0,
            chunks: 0,
        }
    }

    /// Bytes of memory that spills hold now.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }
}

fn take(used: &AtomicU64, bytes: u64, max: u64) -> bool {
    used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
        now.checked_add(bytes).filter(|sum| *sum <= max)
    })
    .is_ok()
}

/// Chunks in the order in which they were appended. Dropping it gives everything back.
pub struct Spill {
    spills: Arc<Spills>,
    memory: Vec<Vec<u8>>,
    memory_bytes: u64,
    file: Option<FileId>,
    file_bytes: u64,
    chunks: usize,
}

impl Spill {
    /// Appends one chunk of at most 4 GiB.
    pub fn append(&mut self, chunk: Vec<u8>) -> Result<(), Failure> {
        let len = chunk.len() as u64;
        if self.file.is_none() && take(&self.spills.memory_bytes, len, self.spills.memory_bytes_max)
        {
            self.memory_bytes += len;
            self.memory.push(chunk);
        } else {
            self.append_to_file(&chunk)?;
        }
        self.chunks += 1;
        Ok(())
    }

    fn append_to_file(&mut self, chunk: &[u8]) -> Result<(), Failure> {
        let len = u32::try_from(chunk.len())
            .map_err(|_| Failure::new(Code::SpillFailed, "a chunk of more than 4 GiB"))?;
        let bytes = u64::from(len) + 4;
        if !take(&self.spills.disk_bytes, bytes, self.spills.disk_bytes_max) {
            return Err(Failure::new(Code::SpillFailed, "the spill has reached its limit on disk"));
        }
        self.file_bytes += bytes;
        let failed =
            |error| Failure::new(Code::SpillFailed, "cannot write the spill").source(error);
        let file = match self.file {
            Some(file) => file,
            None => *self.file.insert(self.spills.files.create().map_err(failed)?),
        };
        self.spills.files.append(file, &len.to_le_bytes()).map_err(failed)?;
        self.spills.files.append(file, chunk).map_err(failed)
    }

    /// Bytes that did not fit in memory and lie on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Number of chunks.
    pub fn len(&self) -> usize {
        self.chunks
    }

    /// True when nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.chunks == 0
    }

    /// Reads all chunks from the first one.
    pub fn reader(&self) -> SpillReader<'_> {
        SpillReader { spill: self, position: SpillPosition::default() }
    }

    /// The chunk at `position`, which moves on to the next; `None` after the last.
    ///
    /// For readers that cannot hold a borrow of the spill while they wait.
    pub fn read_at(&self, position: &mut SpillPosition) -> Result<Option<Cow<'_, [u8]>>, Failure> {
        if let Some(chunk) = self.memory.get(position.chunk) {
            position.chunk += 1;
            return Ok(Some(Cow::Borrowed(chunk)));
        }
        let Some(file) = self.file.filter(|_| position.chunk < self.chunks) else {
            return Ok(None);
        };
        let failed = |error| Failure::new(Code::SpillFailed, "cannot read the spill").source(error);
        let mut len = [0; 4];
        self.spills.files.read_exact_at(file, position.offset, &mut len).map_err(failed)?;
        let mut chunk = vec![0; u32::from_le_bytes(len) as usize];
        self.spills.files.read_exact_at(file, position.offset + 4, &mut chunk).map_err(failed)?;
        position.offset += 4 + chunk.len() as u64;
        position.chunk += 1;
        Ok(Some(Cow::Owned(chunk)))
    }
}

impl fmt::Debug for Spill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spill")
            .field("chunks", &self.chunks)
            .field("memory_bytes", &self.memory_bytes)
            .field("file_bytes", &self.file_bytes)
            .finish()
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        self.spills.memory_bytes.fetch_sub(self.memory_bytes, Ordering::Relaxed);
        self.spills.disk_bytes.fetch_sub(self.file_bytes, Ordering::Relaxed);
        if let Some(file) = self.file {
            self.spills.files.remove(file);
        }
    }
}

/// A place between two chunks of a [`Spill`].
#[derive(Debug, Clone, Copy, Default)]
pub struct SpillPosition {
    chunk: usize,
    offset: u64,
}

/// Goes through the chunks of a [`Spill`] once.
#[derive(Debug)]
pub struct SpillReader<'a> {
    spill: &'a Spill,
    position: SpillPosition,
}

impl<'a> SpillReader<'a> {
    /// The next chunk, `None` after the last.
    pub fn next_chunk(&mut self) -> Result<Option<Cow<'a, [u8]>>, Failure> {
        self.spill.read_at(&mut self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::io;
    use std::sync::Mutex;

    /// Files in memory on a disk of `capacity` bytes.
    #[derive(Default)]
    struct SmallDisk {
        capacity: usize,
        files: Mutex<HashMap<u64, Vec<u8>>>,
    }

    impl Files for SmallDisk {
        fn create(&self) -> io::Result<FileId> {
            let mut files = self.files.lock().unwrap();
            let id = files.len() as u64;
            files.insert(id, Vec::new());
            Ok(FileId(id))
        }
        fn append(&self, file: FileId, bytes: &[u8]) -> io::Result<()> {
            let mut files = self.files.lock().unwrap();
            let used: usize = files.values().map(Vec::len).sum();
            if used + bytes.len() > self.capacity {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            files.get_mut(&file.0).unwrap().extend_from_slice(bytes);
            Ok(())
        }
        fn read_exact_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
            let files = self.files.lock().unwrap();
            let from = offset as usize;
            buffer.copy_from_slice(&files[&file.0][from..from + buffer.len()]);
            Ok(())
        }
        fn remove(&self, file: FileId) {
            self.files.lock().unwrap().remove(&file.0);
        }
    }

    fn disk(capacity: usize) -> Arc<SmallDisk> {
        Arc::new(SmallDisk { capacity, ..SmallDisk::default() })
    }

    #[test]
    fn chunks_come_back_in_order_whether_in_memory_or_on_disk() {
        let disk = disk(10_000);
        let spills = Spills::new(disk.clone(), 100, 10_000);
        let mut spill = spills.open();
        for n in 0..50u8 {
            spill.append(vec![n; usize::from(n)]).unwrap();
        }
        let mut reader = spill.reader();
        for n in 0..50u8 {
            assert_eq!(*reader.next_chunk().unwrap().unwrap(), vec![n; usize::from(n)]);
        }
        assert!(reader.next_chunk().unwrap().is_none());
        assert!(spills.memory_bytes() <= 100);
        drop(spill);
        assert_eq!(spills.memory_bytes(), 0);
        assert!(disk.files.lock().unwrap().is_empty(), "the file is removed with the spill");
    }

    // S9
    #[test]
    fn a_full_disk_and_a_reached_limit_are_failures_with_a_code() {
        let spills = Spills::new(disk(10), 0, 10_000);
        let full = spills.open().append(vec![0; 100]).unwrap_err();
        assert_eq!(full.code(), Code::SpillFailed);
        let spills = Spills::new(disk(10_000), 0, 50);
        let limit = spills.open().append(vec![0; 100]).unwrap_err();
        assert_eq!(limit.code(), Code::SpillFailed);
    }
}
