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

use crate::code::Code;
use crate::failure::Failure;
use crate::files::{FileId, Files, NoFiles};
use crate::memory::{self, Hold, Memory};
use std::borrow::Cow;
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
    /// Bytes of the last chunk, in the file, that have not come yet.
    missing: u32,
    /// Bytes of the last chunk in the file.
    last_len: u32,
    chunks: usize,
}

impl Spill {
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

    /// Reads all chunks from the first one.
    pub fn reader(&self) -> SpillReader<'_> {
        let held = self.spills.memory.hold();
        SpillReader { spill: self, position: SpillPosition::default(), held }
    }

    /// Hands over all chunks from the first one. The memory of a large chunk is free once the chunk
    /// is handed over.
    pub fn drain(self) -> SpillDrain {
        let in_hand = self.spills.memory.hold();
        SpillDrain { spill: self, position: SpillPosition::default(), in_hand }
    }

    /// The chunk at `position`, which moves on to the next; `None` after the last.
    ///
    /// For readers that cannot hold a borrow of the spill while they wait.
    pub fn read_at(&self, position: &mut SpillPosition) -> Result<Option<Cow<'_, [u8]>>, Failure> {
        self.read_piece_at(position, usize::MAX)
    }

    /// The same of a chunk in memory. Of one on disk at most `bytes_max` bytes, and the next ones
    /// with the next call.
    pub fn read_piece_at(
        &self,
        position: &mut SpillPosition,
        bytes_max: usize,
    ) -> Result<Option<Cow<'_, [u8]>>, Failure> {
        while position.chunk < self.chunks {
            let chunk = match self.blocks.get(position.block) {
                None => return self.read_from_file(position, bytes_max).map(Some),
                Some(Block::Whole(chunk)) => {
                    position.block += 1;
                    chunk.as_slice()
                }
                Some(Block::Shared(block)) => {
                    // Nothing follows it in this block: the next chunk is in the next block.
                    let Some(chunk) = chunk_at(block, position.offset as usize) else {
                        (position.block, position.offset) = (position.block + 1, 0);
                        continue;
                    };
                    position.offset += (LEN_BYTES + chunk.len()) as u64;
                    chunk
                }
            };
            position.chunk += 1;
            return Ok(Some(Cow::Borrowed(chunk)));
        }
        Ok(None)
    }

    fn read_from_file(
        &self,
        position: &mut SpillPosition,
        bytes_max: usize,
    ) -> Result<Cow<'_, [u8]>, Failure> {
        let Some(file) = self.file else {
            return Err(Failure::new(Code::Bug, "a chunk is neither in memory nor on disk"));
        };
        if position.left == 0 {
            let mut len = [0; LEN_BYTES];
            self.spills
                .files
                .read_exact_at(file, position.offset, &mut len)
                .map_err(cannot_read)?;
            position.offset += LEN_BYTES as u64;
            position.left = u32::from_le_bytes(len);
        }
        let len = (position.left as usize).min(bytes_max);
        let mut piece = vec![0; len];
        self.spills.files.read_exact_at(file, position.offset, &mut piece).map_err(cannot_read)?;
        position.offset += len as u64;
        position.left -= len as u32;
        position.chunk += usize::from(position.left == 0);
        Ok(Cow::Owned(piece))
    }
}

/// The chunk whose length is at `offset` of a block.
fn chunk_at(block: &[u8], offset: usize) -> Option<&[u8]> {
    let (len, rest) = block.get(offset..)?.split_first_chunk::<LEN_BYTES>()?;
    rest.get(..u32::from_le_bytes(*len) as usize)
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

/// A place in a [`Spill`].
#[derive(Debug, Clone, Copy, Default)]
pub struct SpillPosition {
    /// Chunks before it.
    chunk: usize,
    block: usize,
    /// In the block, or in the file.
    offset: u64,
    /// Bytes of a chunk of which some were read.
    left: u32,
}

impl SpillPosition {
    /// Chunks that were read whole.
    pub fn chunks(&self) -> usize {
        self.chunk
    }

    /// True where no part of the next chunk was read.
    pub fn is_between_chunks(&self) -> bool {
        self.left == 0
    }
}

/// Goes through the chunks of a [`Spill`] once.
#[derive(Debug)]
pub struct SpillReader<'a> {
    spill: &'a Spill,
    position: SpillPosition,
    /// The chunk in hand, where it came from disk.
    held: Hold,
}

impl<'a> SpillReader<'a> {
    /// The next chunk, `None` after the last.
    pub fn next_chunk(&mut self) -> Result<Option<Cow<'a, [u8]>>, Failure> {
        self.held.release();
        let chunk = self.spill.read_at(&mut self.position)?;
        if let Some(Cow::Owned(chunk)) = &chunk {
            self.held.grow(chunk.len() as u64);
        }
        Ok(chunk)
    }
}

/// Takes the chunks out of a [`Spill`], one after the other.
#[derive(Debug)]
pub struct SpillDrain {
    spill: Spill,
    position: SpillPosition,
    /// The chunk that was handed over last, until the next one is.
    in_hand: Hold,
}

impl SpillDrain {
    /// Every chunk was handed over.
    pub fn is_at_end(&self) -> bool {
        self.position.chunk == self.spill.chunks
    }

    /// The next chunk, `None` after the last. A large one is not copied.
    pub fn next_chunk(&mut self) -> Result<Option<Cow<'_, [u8]>>, Failure> {
        self.in_hand.release();
        let position = &mut self.position;
        if let Some(Block::Shared(block)) = self.spill.blocks.get_mut(position.block)
            && position.offset as usize >= block.len()
        {
            self.spill.held.shrink(std::mem::take(block).capacity() as u64);
            (position.block, position.offset) = (position.block + 1, 0);
        }
        if let Some(Block::Whole(chunk)) = self.spill.blocks.get_mut(position.block) {
            let chunk = std::mem::take(chunk);
            (position.block, position.chunk) = (position.block + 1, position.chunk + 1);
            self.spill.held.shrink(chunk.capacity() as u64);
            self.in_hand.grow(chunk.capacity() as u64);
            return Ok(Some(Cow::Owned(chunk)));
        }
        let chunk = self.spill.read_at(&mut self.position)?;
        if let Some(Cow::Owned(chunk)) = &chunk {
            self.in_hand.grow(chunk.len() as u64);
        }
        Ok(chunk)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::HashMap;
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
            let id = files.keys().max().map_or(0, |last| last + 1);
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

    pub(crate) fn small_disk(capacity: usize) -> Arc<dyn Files> {
        disk(capacity)
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
    fn what_is_drained_is_what_was_appended_and_its_memory_is_free() {
        let lens = [0, 1, 40_000, 0, 60_000, 7, 64 << 10, 30_000, 30_000, 100_000, 0, 5];
        for memory_bytes_max in [0, 200_000, 1 << 20] {
            let spills = Spills::new(disk(1 << 20), memory_bytes_max, 1 << 20);
            let mut spill = spills.open();
            for len in lens {
                spill.append(vec![len as u8; len]).unwrap();
            }
            let (full, mut drain) = (spills.memory_bytes(), spill.drain());
            for len in lens {
                assert!(!drain.is_at_end());
                assert_eq!(*drain.next_chunk().unwrap().unwrap(), vec![len as u8; len]);
                assert!(spills.memory_bytes() <= full.max(len as u64), "{memory_bytes_max}");
            }
            assert!(drain.is_at_end());
            assert!(drain.next_chunk().unwrap().is_none());
            assert!(drain.next_chunk().unwrap().is_none(), "the end stays the end");
            let last_block = full.min(BLOCK_BYTES as u64);
            assert!(spills.memory_bytes() <= last_block, "only the last block stays to the end");
            drop(drain);
            assert_eq!(spills.memory_bytes(), 0);
        }
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

    // S9: a million chunks of one row each took 57 bytes each beside their rows.
    #[test]
    fn small_chunks_cost_little_beside_their_bytes() {
        let spills = Spills::new(disk(0), 1 << 30, 0);
        let mut spill = spills.open();
        for n in 0..100_000u32 {
            spill.append(n.to_le_bytes().to_vec()).unwrap();
        }
        let capacity = |block: &Block| match block {
            Block::Shared(block) | Block::Whole(block) => block.capacity(),
        };
        let bytes: usize = spill.blocks.iter().map(capacity).sum();
        assert_eq!(spills.memory_bytes(), bytes as u64, "all of it counts");
        assert!(bytes < 100_000 * (4 + LEN_BYTES) + 2 * BLOCK_BYTES, "{bytes}");
        let mut reader = spill.reader();
        for n in 0..100_000u32 {
            assert_eq!(*reader.next_chunk().unwrap().unwrap(), n.to_le_bytes());
        }
        assert!(reader.next_chunk().unwrap().is_none());
    }

    #[test]
    fn what_is_appended_is_read_at_once_whatever_was_read_before() {
        let spills = Spills::new(disk(1 << 20), 200_000, 1 << 20);
        let (mut spill, mut position) = (spills.open(), SpillPosition::default());
        for len in [0, 1, 40_000, 0, 60_000, 7, 64 << 10, 30_000, 30_000, 100_000, 0, 5] {
            assert!(spill.read_at(&mut position).unwrap().is_none());
            spill.append(vec![len as u8; len]).unwrap();
            assert_eq!(*spill.read_at(&mut position).unwrap().unwrap(), vec![len as u8; len]);
        }
        assert!(spill.disk_bytes() > 0);
    }

    // S9
    #[test]
    fn a_chunk_that_comes_in_pieces_is_never_in_memory_as_a_whole() {
        let spills = Spills::new(disk(1 << 20), 0, 1 << 20);
        let mut spill = spills.open();
        spill.append(vec![1; 3]).unwrap();
        spill.begin_on_disk(1000).unwrap();
        for _ in 0..10 {
            spill.extend_on_disk(&[7; 100]).unwrap();
        }
        assert!(spill.extend_on_disk(&[7]).is_err(), "it has no more");
        let (last, held) = spill.last_on_disk().unwrap();
        assert_eq!((last, held.bytes()), (vec![7; 1000], 1000));
        drop(held);
        let mut position = SpillPosition::default();
        let mut pieces = Vec::new();
        while let Some(piece) = spill.read_piece_at(&mut position, 300).unwrap() {
            pieces.push((piece.len(), position.is_between_chunks()));
        }
        let wanted = vec![(3, true), (300, false), (300, false), (300, false), (100, true)];
        assert_eq!((pieces, position.chunks()), (wanted, 2));
        assert_eq!(spills.memory_bytes(), 0);
        let mut reader = spill.reader();
        reader.next_chunk().unwrap();
        assert_eq!(reader.next_chunk().unwrap().unwrap().len(), 1000);
        assert_eq!(spills.memory_bytes(), 1000, "what is in hand counts");
    }
}
