//! Values by key, in the order of the keys, of which what does not fit in memory lies on disk.
//!
//! What is added is in memory first. When there is no more memory it becomes a run: sorted entries
//! in the chunks of a [`Spill`], with the first key of every chunk beside it. Runs of about one
//! size become one, so that there are few of them.
//!
//! A key has the value that was added last, but an empty one never takes the place of another.
//!
//! Bounds: the memory of the spills. Whatever is left of it, a map holds [`RECENT_BYTES_MIN`], and
//! of each run the first keys of its chunks and, while it is read, one chunk.

use crate::code::Code;
use crate::failure::Failure;
use crate::memory::Hold;
use crate::spill::{Spill, SpillPosition, SpillReader, Spills};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map;
use std::fmt;
use std::sync::Arc;

/// Bytes of entries that stay in memory although there is none left: runs would be too many.
const RECENT_BYTES_MIN: u64 = 256 << 10;

/// Bytes of entries in a chunk of a run. One entry may exceed it.
const CHUNK_BYTES: usize = 16 << 10;

/// Runs of one level that become one of the next.
const RUNS_MAX: usize = 8;

/// Bytes that an entry takes in memory, beside its key and its value.
const ENTRY_BYTES: usize = 96;

/// Bytes of a length in front of a key or a value.
const LEN_BYTES: usize = 4;

/// Values by key.
pub struct SpillMap {
    spills: Arc<Spills>,
    recent: BTreeMap<Vec<u8>, Vec<u8>>,
    held: Hold,
    /// The oldest first.
    runs: Vec<Run>,
}

/// Sorted entries.
struct Run {
    chunks: Spill,
    /// The first key of each chunk, and where that is.
    index: Vec<(Vec<u8>, SpillPosition)>,
    last: Vec<u8>,
    /// How often its entries were put together with others.
    level: u32,
    /// What the index takes.
    held: Hold,
}

impl SpillMap {
    /// An empty one.
    pub fn new(spills: &Arc<Spills>) -> SpillMap {
        let (recent, held) = (BTreeMap::new(), spills.memory().hold());
        SpillMap { spills: spills.clone(), recent, held, runs: Vec::new() }
    }

    /// True when nothing was added.
    pub fn is_empty(&self) -> bool {
        self.recent.is_empty() && self.runs.is_empty()
    }

    /// Adds an entry.
    pub fn add(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), Failure> {
        let bytes = entry_bytes(&key, &value);
        if !self.held.try_grow(bytes) {
            if self.held.bytes() >= RECENT_BYTES_MIN {
                self.end_run()?;
            }
            self.held.grow(bytes);
        }
        match self.recent.entry(key) {
            btree_map::Entry::Vacant(entry) => drop(entry.insert(value)),
            btree_map::Entry::Occupied(mut entry) => {
                let less = match value.is_empty() {
                    true => bytes,
                    false => entry_bytes(entry.key(), entry.get()),
                };
                if !value.is_empty() {
                    entry.insert(value);
                }
                self.held.shrink(less);
            }
        }
        Ok(())
    }

    /// The value of `key`.
    pub fn get(&self, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>, Failure> {
        let mut found = self.recent.get(key).map(|value| Cow::Borrowed(value.as_slice()));
        for run in self.runs.iter().rev() {
            if found.as_ref().is_some_and(|value| !value.is_empty()) {
                break;
            }
            found = run.get(key)?.map(Cow::Owned).or(found);
        }
        Ok(found)
    }

    /// Shows all entries to `visit`, in the order of their keys.
    pub fn visit<E: From<Failure>>(
        &self,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut cursors = cursors(&self.runs)?;
        let mut recent = self.recent.iter().peekable();
        loop {
            let oldest = least(&cursors);
            let (key, newest) = match (oldest, recent.peek()) {
                (None, None) => return Ok(()),
                (Some(key), Some((other, _))) if key < other.as_slice() => (key.to_vec(), None),
                (Some(key), None) => (key.to_vec(), None),
                (_, Some((key, value))) => ((*key).clone(), Some(value.as_slice())),
            };
            if newest.is_some() {
                recent.next();
            }
            let older = take(&mut cursors, &key)?;
            match newest.filter(|value| !value.is_empty()) {
                Some(value) => visit(&key, value)?,
                None => visit(&key, &older)?,
            }
        }
    }

    /// Makes a run of what is in memory.
    fn end_run(&mut self) -> Result<(), Failure> {
        let recent = std::mem::take(&mut self.recent);
        let mut run = Writing::new(&self.spills, 0);
        // What an entry took is given back as it goes: its run may have it.
        for (key, value) in recent {
            self.held.shrink(entry_bytes(&key, &value));
            run.add(&key, &value)?;
        }
        self.held.release();
        self.runs.push(run.end()?);
        while let Some(level) = self.crowded() {
            let together = self.runs.split_off(self.runs.len() - RUNS_MAX);
            self.runs.push(merge(&self.spills, &together, level + 1)?);
        }
        Ok(())
    }

    /// The level of the last runs, if these are as many as may be.
    fn crowded(&self) -> Option<u32> {
        let level = self.runs.last()?.level;
        let same = self.runs.iter().rev().take_while(|run| run.level == level).count();
        (same >= RUNS_MAX).then_some(level)
    }
}

fn entry_bytes(key: &[u8], value: &[u8]) -> u64 {
    (ENTRY_BYTES + key.len() + value.len()) as u64
}

/// One run of the entries of several, the oldest first.
fn merge(spills: &Arc<Spills>, runs: &[Run], level: u32) -> Result<Run, Failure> {
    let mut cursors = cursors(runs)?;
    let mut writing = Writing::new(spills, level);
    while let Some(key) = least(&cursors).map(<[u8]>::to_vec) {
        let value = take(&mut cursors, &key)?;
        writing.add(&key, &value)?;
    }
    writing.end()
}

fn cursors(runs: &[Run]) -> Result<Vec<Cursor<'_>>, Failure> {
    runs.iter().map(Cursor::new).collect()
}

/// The least key in front of any cursor.
fn least<'c>(cursors: &'c [Cursor<'_>]) -> Option<&'c [u8]> {
    cursors.iter().filter_map(Cursor::key).min()
}

/// Takes `key` from all cursors that are at it; what the newest of them says counts.
fn take(cursors: &mut [Cursor<'_>], key: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    for cursor in cursors.iter_mut().filter(|cursor| cursor.key() == Some(key)) {
        let newer = cursor.take()?;
        if !newer.is_empty() {
            value = newer;
        }
    }
    Ok(value)
}

impl Run {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        if key > self.last.as_slice() {
            return Ok(None);
        }
        let behind = self.index.partition_point(|(first, _)| first.as_slice() <= key);
        let Some((_, position)) = behind.checked_sub(1).and_then(|at| self.index.get(at)) else {
            return Ok(None);
        };
        let Some(chunk) = self.chunks.read_at(&mut position.clone())? else {
            return Err(torn());
        };
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
}

/// A run that is being written.
struct Writing {
    run: Run,
    position: SpillPosition,
    chunk: Vec<u8>,
}

impl Writing {
    fn new(spills: &Arc<Spills>, level: u32) -> Writing {
        let (chunks, held) = (spills.open(), spills.memory().hold());
        let run = Run { chunks, index: Vec::new(), last: Vec::new(), level, held };
        Writing { run, position: SpillPosition::default(), chunk: Vec::new() }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        if self.chunk.len() >= CHUNK_BYTES {
            self.end_chunk()?;
        }
        if self.chunk.is_empty() {
            self.run.held.grow(entry_bytes(key, &[]));
            // Where it is is known when the one before has been read past.
            self.run.index.push((key.to_vec(), self.position));
        }
        for part in [key, value] {
            let len = u32::try_from(part.len()).map_err(|_| torn())?;
            self.chunk.extend_from_slice(&len.to_le_bytes());
        }
        self.chunk.extend_from_slice(key);
        self.chunk.extend_from_slice(value);
        self.run.last.clear();
        self.run.last.extend_from_slice(key);
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

    fn end(mut self) -> Result<Run, Failure> {
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
struct Cursor<'r> {
    chunks: SpillReader<'r>,
    chunk: Cow<'r, [u8]>,
    offset: usize,
}

impl<'r> Cursor<'r> {
    fn new(run: &'r Run) -> Result<Cursor<'r>, Failure> {
        let mut chunks = run.chunks.reader();
        let chunk = chunks.next_chunk()?.unwrap_or_default();
        Ok(Cursor { chunks, chunk, offset: 0 })
    }

    fn key(&self) -> Option<&[u8]> {
        entry(self.chunk.get(self.offset..)?).map(|(key, ..)| key)
    }

    /// The value of the entry, behind which it is then.
    fn take(&mut self) -> Result<Vec<u8>, Failure> {
        let rest = self.chunk.get(self.offset..).unwrap_or_default();
        let (_, value, behind) = entry(rest).ok_or_else(torn)?;
        let value = value.to_vec();
        self.offset = self.chunk.len() - behind.len();
        if behind.is_empty() {
            (self.chunk, self.offset) = (self.chunks.next_chunk()?.unwrap_or_default(), 0);
        }
        Ok(value)
    }
}

impl fmt::Debug for SpillMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpillMap")
            .field("recent", &self.recent.len())
            .field("runs", &self.runs.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spill::tests::small_disk;

    /// A number that looks like no other's neighbor.
    fn scattered(n: u64) -> [u8; 8] {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
    }

    // S9: what became of a million rows took 110 MB until the upload was committed.
    #[test]
    fn what_does_not_fit_in_memory_is_found_and_in_order() {
        let spills = Spills::new(small_disk(1 << 30), 512 << 10, 1 << 30);
        let mut map = SpillMap::new(&spills);
        let count = 30_000;
        for n in 0..count {
            map.add(scattered(n).to_vec(), n.to_string().into_bytes()).unwrap();
            assert!(spills.memory_bytes() < (512 << 10) + 2 * RECENT_BYTES_MIN, "{n}");
        }
        assert!(map.runs.len() < 3 * RUNS_MAX, "{map:?}");
        assert!(map.runs.iter().any(|run| run.chunks.disk_bytes() > 0));
        for n in (0..count).step_by(7) {
            assert_eq!(*map.get(&scattered(n)).unwrap().unwrap(), *n.to_string().as_bytes());
        }
        assert!(map.get(&scattered(count)).unwrap().is_none());
        assert!(map.get(&[]).unwrap().is_none() && map.get(&[255; 9]).unwrap().is_none());
        let mut keys: Vec<[u8; 8]> = (0..count).map(scattered).collect();
        keys.sort_unstable();
        let mut wanted = keys.into_iter();
        map.visit(|key, _| {
            assert_eq!(wanted.next().unwrap(), key);
            Ok::<(), Failure>(())
        })
        .unwrap();
        assert_eq!(wanted.next(), None);
        drop(map);
        assert_eq!(spills.memory_bytes(), 0);
    }

    #[test]
    fn the_last_value_counts_and_an_empty_one_only_alone() {
        for memory in [0, 1 << 30] {
            let spills = Spills::new(small_disk(1 << 30), memory, 1 << 30);
            let mut map = SpillMap::new(&spills);
            assert!(map.is_empty());
            for round in ["", "first", "", "second", ""] {
                for n in 0..5_000u64 {
                    let value = if n.is_multiple_of(3) { "" } else { round };
                    map.add(scattered(n).to_vec(), value.as_bytes().to_vec()).unwrap();
                }
            }
            assert_eq!(map.runs.is_empty(), memory > 0);
            let wanted = |n: u64| if n.is_multiple_of(3) { "" } else { "second" };
            for n in 0..5_000 {
                let value = map.get(&scattered(n)).unwrap().unwrap().into_owned();
                assert_eq!(value, wanted(n).as_bytes(), "{n}");
            }
            let mut seen = 0;
            map.visit(|_, value| {
                assert!(value.is_empty() || value == b"second");
                seen += 1;
                Ok::<(), Failure>(())
            })
            .unwrap();
            assert_eq!(seen, 5_000);
            drop(map);
            assert_eq!(spills.memory_bytes(), 0);
        }
    }
}
