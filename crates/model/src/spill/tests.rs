//! Spills in memory, on a small disk, and on none.

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
