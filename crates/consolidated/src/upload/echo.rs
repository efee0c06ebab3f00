//! Remembers what a remote has just uploaded, so that it is not sent back (trap 8).
//!
//! A row is skipped if its whole image is equal to the uploaded one. If the center stored something
//! different, by a trigger, a rounding type or a rule, the digest differs and the row is sent. Two
//! proofs make digests unnecessary. A center that numbers its transactions may prove that no row of
//! an upload can differ; then the number of the transaction is enough, and the rows are not read. A
//! center that numbers the entries of a log uses the first and the last number.

use crate::synchronization::change::Change;
use crate::upload::uploaded_row::UploadedRow;
use model::{Hold, Memory, PublishedTable};
use siphasher::sip128::{Hasher128, SipHasher13};
use std::collections::HashSet;
use std::hash::Hasher;
use std::sync::Arc;

/// Digests of the rows and keys of one upload that the center took over unchanged.
///
/// Bound: [`Echo::LEN_MAX`] digests, and the memory for remotes; beyond it rows do come back, which
/// is merely slower.
#[derive(Debug, Default)]
pub struct Echo {
    digests: HashSet<u128>,
    /// Of which nothing has to come back, whatever its digests.
    pub(crate) upload: Option<Transaction>,
    /// Table, and the first and last number of what the upload wrote to its log.
    own_entries: Vec<(usize, i64, i64)>,
    memory: Option<Hold>,
}

/// A transaction of the center. Its number means nothing on another system or timeline, where
/// another transaction may have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(crate) system: u64,
    pub(crate) timeline: u32,
    pub(crate) number: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EchoKind {
    Row = 1,
    DeletedKey = 2,
}

/// Bytes that a digest takes in the set of them.
const DIGEST_BYTES: usize = 20;

impl Echo {
    /// Most digests kept, 16 bytes each.
    pub const LEN_MAX: usize = 1_000_000;

    /// Nothing yet, with digests for which there is memory.
    pub(crate) fn within(memory: &Arc<Memory>) -> Echo {
        Echo { memory: Some(memory.hold()), ..Echo::default() }
    }

    /// Whether there is memory for another digest. They take more of it by doubling what they have.
    fn has_room(&mut self) -> bool {
        let capacity = self.digests.capacity();
        let Some(memory) = self.memory.as_mut().filter(|_| self.digests.len() == capacity) else {
            return true;
        };
        memory.try_grow((DIGEST_BYTES * capacity.max(1)) as u64)
    }

    fn add(&mut self, kind: EchoKind, table: usize, image: &[u8]) {
        if self.digests.len() < Echo::LEN_MAX && self.has_room() {
            self.digests.insert(digest(kind, table, image));
        }
    }

    /// Notes what the remote has of an uploaded row of the table at `position`, whatever became of
    /// it: if the center says the same, it need not be sent.
    pub(crate) fn add_uploaded(
        &mut self,
        table: &PublishedTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) {
        if !table.direction.downloads() {
            return;
        }
        match row.change {
            Change::Delete => {
                let (_, key) = row.key(table, position);
                self.add(EchoKind::DeletedKey, position, &key);
            }
            Change::Insert | Change::Update => self.add(EchoKind::Row, position, row.new_image()),
        }
    }

    /// Notes that the numbers from `first` to `last` in the log of `table` are the upload's own,
    /// and that the remote has all that they tell of.
    pub(crate) fn add_own_entries(&mut self, table: usize, first: i64, last: i64) {
        self.own_entries.push((table, first, last));
    }

    /// First and last number of what the upload alone wrote to the log of `table`.
    pub(crate) fn own(&self, table: usize) -> Option<(i64, i64)> {
        let found = self.own_entries.iter().find(|(of, ..)| *of == table);
        found.map(|(_, first, last)| (*first, *last))
    }

    pub(crate) fn contains(&self, kind: EchoKind, table: usize, image: &[u8]) -> bool {
        !self.digests.is_empty() && self.digests.contains(&digest(kind, table, image))
    }
}

/// A digest of a row alone.
pub(crate) fn image_digest(image: &[u8]) -> [u8; 16] {
    digest(EchoKind::Row, 0, image).to_le_bytes()
}

/// 128 bits, because a collision would hide a row from a remote.
fn digest(kind: EchoKind, table: usize, image: &[u8]) -> u128 {
    let mut hasher = SipHasher13::new_with_keys(kind as u64, table as u64);
    hasher.write(image);
    hasher.finish128().as_u128()
}

#[cfg(test)]
mod tests {
    use super::*;

    // S9
    #[test]
    fn digests_end_with_the_memory_and_give_it_back() {
        let memory = Memory::new(100_000);
        let mut echo = Echo::within(&memory);
        for n in 0..100_000u32 {
            echo.add(EchoKind::Row, 0, &n.to_le_bytes());
        }
        assert!(memory.used_bytes() <= 100_000);
        let known = (0..100_000u32).filter(|n| echo.contains(EchoKind::Row, 0, &n.to_le_bytes()));
        let known = known.count();
        assert!((1_500..5_000).contains(&known), "{known}");
        drop(echo);
        assert_eq!(memory.used_bytes(), 0);
    }
}
