//! Sorted entries in the chunks of a spill.

use crate::code::Code;
use crate::failure::Failure;
use crate::memory::Hold;
use crate::spill::{Spill, SpillPosition, Spills};
use std::borrow::Cow;
use std::sync::Arc;

/// Bytes of entries that stay in memory although there is none left: runs would be too many.
pub(super) const RECENT_BYTES_MIN: u64 = 256 << 10;

/// Runs of about one size that become one, and how much larger the runs of the next level are.
pub(super) const RUNS_MAX: usize = 8;

/// Bytes that an entry takes in memory, beside its key and its value.
const ENTRY_BYTES: usize = 96;

/// Bytes of entries in a chunk of a run. One entry may exceed it.
const CHUNK_BYTES: usize = 16 << 10;

/// Bytes of the first key of a chunk that are in the index. Keys may be as long as chunks, and then
/// whole ones would be all of the entries.
const INDEX_KEY_BYTES: usize = 64;

/// Bytes of a length in front of a key or a value.
const LEN_BYTES: usize = 4;

/// Bytes that an entry takes in memory.
pub(super) fn entry_bytes(key: &[u8], value: &[u8]) -> u64 {
    (ENTRY_BYTES + key.len() + value.len()) as u64
}

/// Sorted entries.
pub(super) struct Run {
    pub(super) chunks: Spill,
    /// Which of the runs of a map it is.
    number: u64,
    index: Vec<ChunkStart>,
    last: Vec<u8>,
    /// What its entries would take in memory.
    entry_bytes: u64,
    /// What the index takes.
    held: Hold,
}

/// The first key of a chunk, or the front of it, and where the chunk is.
struct ChunkStart {
    key: Vec<u8>,
    is_whole: bool,
    position: SpillPosition,
}

impl Run {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// How large it is: of two runs of one level the larger is at most as large as several of the
    /// smaller.
    pub(super) fn level(&self) -> u32 {
        (self.entry_bytes / RECENT_BYTES_MIN).max(1).ilog(RUNS_MAX as u64)
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        if key > self.last.as_slice() {
            return Ok(None);
        }
        let Some(start) = self.chunk_of(key)? else { return Ok(None) };
        let chunk = self.read(start)?;
        let mut rest = chunk.as_ref();
        while !rest.is_empty() {
            let (found, value, behind) = entry(rest).ok_or_else(torn)?;
            if found == key {
                return Ok(Some(value.to_vec()));
            }
            rest = behind;
        }
        Ok(None)
    }

    /// The chunk with the entry of `key`, if there is one: the last that does not begin behind it.
    fn chunk_of(&self, key: &[u8]) -> Result<Option<&ChunkStart>, Failure> {
        let (mut least, mut most) = (0, self.index.len());
        while least < most {
            let middle = usize::midpoint(least, most);
            match self.begins_behind(&self.index[middle], key)? {
                true => most = middle,
                false => least = middle + 1,
            }
        }
        Ok(least.checked_sub(1).and_then(|at| self.index.get(at)))
    }

    /// Whether a chunk begins behind `key`. Where the index does not say it, the chunk does.
    fn begins_behind(&self, start: &ChunkStart, key: &[u8]) -> Result<bool, Failure> {
        let front = match start.is_whole {
            true => key,
            false => key.get(..start.key.len()).unwrap_or(key),
        };
        if start.is_whole || front != start.key {
            return Ok(start.key.as_slice() > front);
        }
        let chunk = self.read(start)?;
        let (first, ..) = entry(&chunk).ok_or_else(torn)?;
        Ok(first > key)
    }

    fn read(&self, start: &ChunkStart) -> Result<Cow<'_, [u8]>, Failure> {
        let mut position = start.position;
        self.chunks.read_at(&mut position)?.ok_or_else(torn)
    }
}

/// A run that is being written.
pub(super) struct Writing {
    run: Run,
    position: SpillPosition,
    chunk: Vec<u8>,
}

impl Writing {
    pub(super) fn new(spills: &Arc<Spills>, number: u64) -> Writing {
        let (chunks, held) = (spills.open(), spills.memory().hold());
        let (index, last) = (Vec::new(), Vec::new());
        let run = Run { chunks, number, index, last, entry_bytes: 0, held };
        Writing { run, position: SpillPosition::default(), chunk: Vec::new() }
    }

    /// Adds an entry whose key is behind all others.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        if self.chunk.len() >= CHUNK_BYTES {
            self.end_chunk()?;
        }
        if self.chunk.is_empty() {
            let front = key.get(..INDEX_KEY_BYTES).unwrap_or(key).to_vec();
            self.run.held.grow(entry_bytes(&front, &[]));
            let is_whole = front.len() == key.len();
            // Where it is is known when the one before has been read past.
            self.run.index.push(ChunkStart { key: front, is_whole, position: self.position });
        }
        for part in [key, value] {
            let len = u32::try_from(part.len()).map_err(|_| torn())?;
            self.chunk.extend_from_slice(&len.to_le_bytes());
        }
        self.chunk.extend_from_slice(key);
        self.chunk.extend_from_slice(value);
        self.run.last.clear();
        self.run.last.extend_from_slice(key);
        self.run.entry_bytes += entry_bytes(key, value);
        Ok(())
    }

    fn end_chunk(&mut self) -> Result<(), Failure> {
        let chunk = std::mem::take(&mut self.chunk);
        if !chunk.is_empty() {
            self.run.chunks.append(chunk)?;
            self.run.chunks.read_at(&mut self.position)?;
        }
        Ok(())
    }

    pub(super) fn end(mut self) -> Result<Run, Failure> {
        self.end_chunk()?;
        Ok(self.run)
    }
}

/// The key and the value in front of `bytes`, and what follows them.
fn entry(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (key_len, rest) = bytes.split_first_chunk::<LEN_BYTES>()?;
    let (value_len, rest) = rest.split_first_chunk::<LEN_BYTES>()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_len) as usize)?;
    let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*value_len) as usize)?;
    Some((key, value, rest))
}

fn torn() -> Failure {
    Failure::new(Code::Bug, "an entry of a spill does not read")
}

/// A place in a run, in front of an entry.
pub(super) struct Cursor {
    /// Which run.
    number: u64,
    position: SpillPosition,
    chunk: Vec<u8>,
    offset: usize,
    /// The chunk in hand.
    held: Hold,
}

impl Cursor {
    /// In front of all entries of `run`.
    pub(super) fn new(spills: &Arc<Spills>, run: &Run) -> Result<Cursor, Failure> {
        let (position, held) = (SpillPosition::default(), spills.memory().hold());
        let mut cursor =
            Cursor { number: run.number, position, chunk: Vec::new(), offset: 0, held };
        cursor.next_chunk(run)?;
        Ok(cursor)
    }

    /// In front of the entries of `run` that are behind a key, or of all of them.
    pub(super) fn behind(
        spills: &Arc<Spills>,
        run: &Run,
        behind: Option<&[u8]>,
    ) -> Result<Cursor, Failure> {
        let Some(behind) = behind else { return Cursor::new(spills, run) };
        let chunk = run.chunk_of(behind)?;
        let position = chunk.map_or_else(SpillPosition::default, |start| start.position);
        let (number, held) = (run.number, spills.memory().hold());
        let mut cursor = Cursor { number, position, chunk: Vec::new(), offset: 0, held };
        cursor.next_chunk(run)?;
        while cursor.key().is_some_and(|key| key <= behind) {
            cursor.take(run)?;
        }
        Ok(cursor)
    }

    pub(super) fn is_of(&self, run: &Run) -> bool {
        self.number == run.number
    }

    pub(super) fn key(&self) -> Option<&[u8]> {
        entry(self.chunk.get(self.offset..)?).map(|(key, ..)| key)
    }

    /// The value of the entry, behind which it is then.
    pub(super) fn take(&mut self, run: &Run) -> Result<Vec<u8>, Failure> {
        let rest = self.chunk.get(self.offset..).unwrap_or_default();
        let (_, value, behind) = entry(rest).ok_or_else(torn)?;
        let (value, left) = (value.to_vec(), behind.len());
        self.offset = self.chunk.len() - left;
        if left == 0 {
            self.next_chunk(run)?;
        }
        Ok(value)
    }

    fn next_chunk(&mut self, run: &Run) -> Result<(), Failure> {
        self.held.release();
        self.offset = 0;
        self.chunk = run.chunks.read_at(&mut self.position)?.unwrap_or_default().into_owned();
        self.held.grow(self.chunk.capacity() as u64);
        Ok(())
    }
}
