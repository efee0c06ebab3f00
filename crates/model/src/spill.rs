//! Chunks of rows in memory or on disk: a queue whose users see no difference.
//!
//! All spills of a process share one memory budget. When it is used up, every further chunk of a
//! spill goes to its file, so chunks keep their order. A chunk that [`Spill::append`] accepted can
//! be read at once, as often as necessary.
//!
//! Small chunks share blocks of memory, and the overhead of a chunk counts too. Otherwise a million
//! chunks of one row each would cost more than their rows.
//!
//! Bounds: the [`Memory`] for all spills together and its other users, and `disk_bytes_max` for all
//! spills together.

mod reader;
#[cfg(test)]
pub(crate) mod tests;

pub use reader::{SpillDrain, SpillPosition, SpillReader};

use crate::code::Code;
use crate::failure::Failure;
use crate::files::{FileId, Files, NoFiles};
use crate::memory::{self, Hold, Memory};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a block of small chunks. A chunk of more than half of it has a block of its own.
const BLOCK_BYTES: usize = 64 << 10;

/// Bytes of the first block, which grows: most spills hold little.
const BLOCK_BYTES_MIN: usize = 1 << 10;

/// Bytes of the length before a chunk, in a block and in the file.
const LEN_BYTES: usize = 4;

/// What all spills of one process may use together, and the files behind them.
pub struct Spills {
    files: Arc<dyn Files>,
    memory: Arc<Memory>,
    disk_bytes_max: u64,
    disk_bytes: AtomicU64,
}

impl Spills {
    /// A budget of `memory_bytes_max` in memory and `disk_bytes_max` in `files`.
    pub fn new(files: Arc<dyn Files>, memory_bytes_max: u64, disk_bytes_max: u64) -> Arc<Spills> {
        let (memory, disk_bytes) = (Memory::new(memory_bytes_max), AtomicU64::new(0));
        Arc::new(Spills { files, memory, disk_bytes_max, disk_bytes })
    }

    /// A new empty spill.
    pub fn open(self: &Arc<Spills>) -> Spill {
        Spill {
            spills: self.clone(),
            held: self.memory.hold(),
            blocks: Vec::new(),
            file: None,
            file_bytes: 0,
            spilled: SpilledBytes::default(),
            missing: 0,
            last_len: 0,
            chunks: 0,
        }
    }

    /// The budget that they share with everything else that is held for a peer.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Bytes of memory that are in use now.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.used_bytes()
    }
}

/// Without a bound and without files, for programs that nobody takes memory from.
impl Default for Spills {
    fn default() -> Spills {
        let (files, memory, disk_bytes) = (Arc::new(NoFiles), Arc::default(), AtomicU64::new(0));
        Spills { files, memory, disk_bytes_max: 0, disk_bytes }
    }
}

impl fmt::Debug for Spills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spills").field("memory", &self.memory).finish_non_exhaustive()
    }
}

/// Bytes that went to disk in several spills. They count as they are written, so whoever asks knows
/// them also when it ended in a failure.
#[derive(Debug, Clone, Default)]
pub struct SpilledBytes(Arc<AtomicU64>);

impl SpilledBytes {
    /// The bytes so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Memory of a spill.
enum Block {
    /// Chunks, each after its length.
    Shared(Vec<u8>),
    /// One chunk, in the memory in which it came.
    Whole(Vec<u8>),
}

/// Chunks in the order in which they were appended. Dropping it gives everything back.
pub struct Spill {
    spills: Arc<Spills>,
    held: Hold,
    blocks: Vec<Block>,
    file: Option<FileId>,
    file_bytes: u64,
    spilled: SpilledBytes,
    /// Bytes of the last chunk, in the file, that have not come yet.
    missing: u32,
    /// Bytes of the last chunk in the file.
    last_len: u32,
    chunks: usize,
}

impl Spill {
    /// The same spill, whose bytes on disk count here too.
    #[must_use]
    pub fn counted_by(mut self, spilled: &SpilledBytes) -> Spill {
        self.spilled = spilled.clone();
        self
    }

    /// Appends one chunk of at most 4 GiB.
    pub fn append(&mut self, chunk: Vec<u8>) -> Result<(), Failure> {
        let len = u32::try_from(chunk.len()).map_err(|_| too_large())?;
        if self.file.is_some() {
            return self.append_to_file(len, &chunk);
        }
        match chunk.len() > BLOCK_BYTES / 2 {
            true if self.held.try_grow(chunk.capacity() as u64) => {
                self.blocks.push(Block::Whole(chunk));
            }
            false if self.make_room(LEN_BYTES + chunk.len()) => {
                let Some(Block::Shared(block)) = self.blocks.last_mut() else {
                    return Err(Failure::new(Code::Bug, "there is no block with room"));
                };
                block.extend_from_slice(&len.to_le_bytes());
                block.extend_from_slice(&chunk);
            }
            _ => return self.append_to_file(len, &chunk),
        }
        self.chunks += 1;
        Ok(())
    }

    /// Makes room for `bytes` in the last block, or begins one; false if there is no memory left.
    fn make_room(&mut self, bytes: usize) -> bool {
        match self.blocks.last_mut() {
            Some(Block::Shared(block)) if block.len() + bytes <= BLOCK_BYTES => {
                let (len, capacity) = (block.len(), block.capacity());
                if len + bytes <= capacity {
                    return true;
                }
                for wanted in [2 * capacity, len + bytes] {
                    let wanted = wanted.clamp(len + bytes, BLOCK_BYTES);
                    if self.held.try_grow((wanted - capacity) as u64) {
                        block.reserve_exact(wanted - len);
                        return true;
                    }
                }
                false
            }
            last => {
                // Behind a full block there are many chunks, most likely.
                let wanted = if last.is_some() { BLOCK_BYTES } else { BLOCK_BYTES_MIN };
                let mut sizes = [wanted.max(bytes), bytes].into_iter();
                let Some(size) = sizes.find(|size| self.held.try_grow(*size as u64)) else {
                    return false;
                };
                self.blocks.push(Block::Shared(Vec::with_capacity(size)));
                true
            }
        }
    }

    fn append_to_file(&mut self, len: u32, chunk: &[u8]) -> Result<(), Failure> {
        self.begin_on_disk(len)?;
        self.extend_on_disk(chunk)
    }

    /// Begins a chunk of `len` bytes that comes in pieces, on disk: there is no memory for it.
    pub fn begin_on_disk(&mut self, len: u32) -> Result<(), Failure> {
        let bytes = u64::from(len) + LEN_BYTES as u64;
        if !memory::take(&self.spills.disk_bytes, bytes, self.spills.disk_bytes_max) {
            return Err(Failure::new(Code::SpillFailed, "the spill has reached its limit on disk"));
        }
        self.file_bytes += bytes;
        self.spilled.0.fetch_add(bytes, Ordering::Relaxed);
        let file = match self.file {
            Some(file) => file,
            None => *self.file.insert(self.spills.files.create().map_err(cannot_write)?),
        };
        self.spills.files.append(file, &len.to_le_bytes()).map_err(cannot_write)?;
        (self.missing, self.last_len) = (len, len);
        self.chunks += 1;
        Ok(())
    }

    /// The next piece of the chunk that was begun.
    pub fn extend_on_disk(&mut self, piece: &[u8]) -> Result<(), Failure> {
        let left = u32::try_from(piece.len()).ok().and_then(|len| self.missing.checked_sub(len));
        let (Some(file), Some(left)) = (self.file, left) else {
            return Err(Failure::new(Code::Bug, "more of a chunk than it has"));
        };
        self.missing = left;
        match piece.is_empty() {
            true => Ok(()),
            false => self.spills.files.append(file, piece).map_err(cannot_write),
        }
    }

    /// The chunk on disk that was appended last, and its part of the memory.
    pub fn last_on_disk(&self) -> Result<(Vec<u8>, Hold), Failure> {
        let Some(file) = self.file.filter(|_| self.missing == 0) else {
            return Err(Failure::new(Code::Bug, "there is no last chunk on disk"));
        };
        let mut held = self.spills.memory.hold();
        held.grow(u64::from(self.last_len));
        let mut chunk = vec![0; self.last_len as usize];
        let offset = self.file_bytes - u64::from(self.last_len);
        self.spills.files.read_exact_at(file, offset, &mut chunk).map_err(cannot_read)?;
        Ok((chunk, held))
    }

    /// The budget that it shares with others.
    pub fn spills(&self) -> &Arc<Spills> {
        &self.spills
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
}

fn too_large() -> Failure {
    Failure::new(Code::SpillFailed, "a chunk of more than 4 GiB")
}

fn cannot_write(error: io::Error) -> Failure {
    Failure::new(Code::SpillFailed, "cannot write the spill").source(error)
}

fn cannot_read(error: io::Error) -> Failure {
    Failure::new(Code::SpillFailed, "cannot read the spill").source(error)
}

impl fmt::Debug for Spill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spill")
            .field("chunks", &self.chunks)
            .field("memory_bytes", &self.held.bytes())
            .field("file_bytes", &self.file_bytes)
            .finish()
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        self.spills.disk_bytes.fetch_sub(self.file_bytes, Ordering::Relaxed);
        if let Some(file) = self.file {
            self.spills.files.remove(file);
        }
    }
}
