//! Chunks in memory or on disk that are found by their numbers.
//!
//! The places of all chunks would take more memory than small chunks themselves. So only some are
//! kept, and a chunk is read from the last of them on.
//!
//! Bounds: those of the [`Spill`]. Beside them a list holds one place for [`STRIDE_BYTES`].

use crate::failure::Failure;
use crate::memory::Hold;
use crate::spill::{Spill, SpillPosition, Spills};
use std::borrow::Cow;
use std::cell::Cell;
use std::mem::size_of;
use std::sync::Arc;

/// Bytes of chunks from one place that is kept to the next. A chunk may be larger.
const STRIDE_BYTES: usize = 4 << 10;

/// Chunks by number.
pub struct SpillList {
    chunks: Spill,
    /// Where some chunks are, the first one among them.
    places: Vec<SpillPosition>,
    /// Bytes of the chunks since the last place.
    since: usize,
    /// Behind the chunk that was read last: whoever reads all in their order looks for none.
    behind: Cell<SpillPosition>,
    /// What the places take.
    held: Hold,
}

impl SpillList {
    /// An empty one, with memory and files from `spills`.
    pub fn new(spills: &Arc<Spills>) -> SpillList {
        SpillList {
            chunks: spills.open(),
            places: Vec::new(),
            since: 0,
            behind: Cell::default(),
            held: spills.memory().hold(),
        }
    }

    /// Number of chunks.
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// True when nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Appends one chunk, whose number is how many there were.
    pub fn append(&mut self, chunk: Vec<u8>) -> Result<(), Failure> {
        if self.places.is_empty() || self.since >= STRIDE_BYTES {
            self.places.push(self.chunks.end());
            self.held.grow(size_of::<SpillPosition>() as u64);
            self.since = 0;
        }
        self.since += chunk.len();
        self.chunks.append(chunk)
    }

    /// The chunk with a number; none where there is no such chunk.
    pub fn get(&self, number: usize) -> Result<Option<Cow<'_, [u8]>>, Failure> {
        let behind = self.places.partition_point(|place| place.chunks() <= number);
        let Some(place) = behind.checked_sub(1).and_then(|at| self.places.get(at)) else {
            return Ok(None);
        };
        let last = self.behind.get();
        let is_closer = (place.chunks()..=number).contains(&last.chunks());
        let mut position = if is_closer { last } else { *place };
        loop {
            let at = position.chunks();
            let chunk = self.chunks.read_at(&mut position)?;
            if at == number || chunk.is_none() {
                self.behind.set(position);
                return Ok(chunk);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spill::tests::small_disk;

    // S9
    #[test]
    fn each_chunk_is_found_whether_in_memory_or_on_disk() {
        for memory in [0, 100_000, 1 << 30] {
            let spills = Spills::new(small_disk(1 << 30), memory, 1 << 30);
            let mut list = SpillList::new(&spills);
            assert!(list.is_empty() && list.get(0).unwrap().is_none());
            let lens = [0, 3, 40_000, 900, 1, 70_000, 4096, 0];
            let chunk = |number: usize| vec![number as u8; lens[number % lens.len()]];
            let count = 200;
            for number in 0..count {
                assert!(list.get(number).unwrap().is_none());
                list.append(chunk(number)).unwrap();
                assert_eq!(*list.get(number).unwrap().unwrap(), chunk(number));
            }
            for number in (0..count).chain((0..count).rev()).chain((0..count).step_by(7)) {
                assert_eq!(*list.get(number).unwrap().unwrap(), chunk(number), "{memory}");
            }
            assert_eq!((list.len(), list.get(count).unwrap()), (count, None));
            drop(list);
            assert_eq!(spills.memory_bytes(), 0);
        }
    }

    // S9: a place for each chunk takes more than a small chunk.
    #[test]
    fn places_of_small_chunks_take_little() {
        let spills = Spills::new(small_disk(1 << 30), 1 << 30, 1 << 30);
        let mut list = SpillList::new(&spills);
        let count = 100_000;
        (0..count).for_each(|number: u64| list.append(number.to_le_bytes().to_vec()).unwrap());
        assert!(list.held.bytes() < count, "{} bytes of places", list.held.bytes());
        for number in (0..count).step_by(991) {
            let chunk = list.get(number as usize).unwrap().unwrap();
            assert_eq!(*chunk, number.to_le_bytes());
        }
    }
}
