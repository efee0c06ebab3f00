//! What a file contains, and what of it a power cut would take.

use model::Random;

/// What a disk writes at once.
pub(super) const SECTOR_BYTES: usize = 512;

/// The bytes of a file, with what came since they were synced last.
#[derive(Debug, Clone, Default)]
pub(super) struct Contents {
    bytes: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Debug, Clone)]
struct Change {
    kind: Kind,
    /// Where the bytes before it begin, which follow.
    offset: usize,
    before: Vec<u8>,
    len_before: usize,
}

#[derive(Debug, Clone)]
enum Kind {
    Write(Vec<u8>),
    Resize(usize),
}

impl Contents {
    /// A file that is on the disk.
    pub(super) fn synced(bytes: Vec<u8>) -> Contents {
        Contents { bytes, unsynced: Vec::new() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Fills what there is at `offset` into `buffer`; returns how much that is.
    pub(super) fn read(&self, offset: usize, buffer: &mut [u8]) -> usize {
        let there = self.bytes.get(offset..).unwrap_or_default();
        let len = there.len().min(buffer.len());
        buffer[..len].copy_from_slice(&there[..len]);
        len
    }

    pub(super) fn write(&mut self, offset: usize, new: &[u8]) {
        let end = (offset + new.len()).min(self.bytes.len());
        let before = self.bytes.get(offset..end).unwrap_or_default().to_vec();
        self.note(Kind::Write(new.to_vec()), offset, before);
        put(&mut self.bytes, offset, new);
    }

    pub(super) fn resize(&mut self, len: usize) {
        let before = self.bytes.get(len..).unwrap_or_default().to_vec();
        self.note(Kind::Resize(len), len, before);
        self.bytes.resize(len, 0);
    }

    fn note(&mut self, kind: Kind, offset: usize, before: Vec<u8>) {
        self.unsynced.push(Change { kind, offset, before, len_before: self.bytes.len() });
    }

    /// Brings everything to the disk.
    pub(super) fn sync(&mut self) {
        self.unsynced.clear();
    }

    /// What a power cut leaves: what was synced, and of the rest what `random` says, sector by
    /// sector.
    pub(super) fn cut(&mut self, random: &mut Random) {
        let changes = std::mem::take(&mut self.unsynced);
        for change in changes.iter().rev() {
            self.bytes.resize(change.len_before, 0);
            put(&mut self.bytes, change.offset, &change.before);
            self.bytes.truncate(change.len_before);
        }
        for change in changes {
            match change.kind {
                _ if random.next_u64() & 1 == 0 => {}
                Kind::Resize(len) => self.bytes.resize(len, 0),
                Kind::Write(new) if random.next_u64() & 1 == 0 => {
                    put(&mut self.bytes, change.offset, &new);
                }
                Kind::Write(new) => self.tear(change.offset, &new, random),
            }
        }
    }

    /// Writes only some of the sectors.
    fn tear(&mut self, offset: usize, new: &[u8], random: &mut Random) {
        let (mut from, mut rest) = (offset, new);
        while !rest.is_empty() {
            let len = (SECTOR_BYTES - from % SECTOR_BYTES).min(rest.len());
            let (sector, next) = rest.split_at(len);
            if random.next_u64() & 1 == 0 {
                put(&mut self.bytes, from, sector);
            }
            (from, rest) = (from + len, next);
        }
    }
}

/// Writes `new` at `offset`; what was missing before it is zero.
fn put(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    if new.is_empty() {
        return;
    }
    let end = offset + new.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_synced_survives_every_cut_and_the_rest_survives_some() {
        let (mut whole, mut lost, mut torn) = (0, 0, 0);
        for seed in 0..=99 {
            let mut contents = Contents::default();
            contents.write(0, &[1; 1024]);
            contents.sync();
            contents.write(512, &[2; 1024]);
            contents.resize(100);
            contents.write(600, &[3; 10]);
            contents.cut(&mut Random::from_seed([seed; 32]));
            assert!(contents.bytes()[..100].iter().all(|byte| *byte == 1));
            match contents.bytes().get(512..1536) {
                Some(middle) if middle[..80].iter().all(|byte| *byte == 2) && middle[1023] == 2 => {
                    whole += 1;
                }
                Some(_) => torn += 1,
                None => lost += 1,
            }
        }
        assert!(whole > 0 && lost > 0 && torn > 0, "{whole} {lost} {torn}");
    }

    #[test]
    fn a_cut_undoes_in_the_opposite_order() {
        let mut contents = Contents::synced(b"abcdef".to_vec());
        contents.resize(2);
        contents.write(4, b"XY");
        contents.write(4, b"ZZZZ");
        contents.resize(0);
        assert_eq!(contents.len(), 0);
        for change in std::mem::take(&mut contents.unsynced).iter().rev() {
            contents.bytes.resize(change.len_before, 0);
            put(&mut contents.bytes, change.offset, &change.before);
        }
        assert_eq!(contents.bytes(), b"abcdef");
    }
}
