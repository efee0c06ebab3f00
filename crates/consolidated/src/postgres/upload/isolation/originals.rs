//! Rows as they were sent, by what they were rebased to.

use crate::synchronization::change::Change;
use crate::upload::rebase::Rebased;
use model::{Code, Failure, SpillMap, Spills};
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;
use std::sync::Arc;

/// By table, change and row as it was rebased: change and row as it was sent. All rows of an upload
/// may be rebased. So what there is no memory for lies on disk.
pub(in crate::postgres) struct Originals(SpillMap);

impl Originals {
    /// None, with memory and files from `spills`.
    pub(in crate::postgres) fn within(spills: &Arc<Spills>) -> Originals {
        Originals(SpillMap::new(spills))
    }

    /// Takes note that a row was sent as `original`, and rebased to `told`.
    pub(in crate::postgres) fn note(
        &mut self,
        table: usize,
        told: &Rebased,
        (change, original): (Change, &[u8]),
    ) -> Result<(), Failure> {
        let mut value = vec![change as u8];
        value.extend_from_slice(original);
        self.0.add(place(table, told.change, &told.bytes), value)
    }

    /// The change and the row that were sent; none where they were not rebased.
    pub(in crate::postgres) fn of(
        &self,
        table: usize,
        change: Change,
        row: &[u8],
    ) -> Result<Option<(Change, Vec<u8>)>, Failure> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let Some(value) = self.0.get(&place(table, change, row))? else { return Ok(None) };
        let torn = || Failure::new(Code::Bug, "a row as it was sent does not read");
        let (change, original) = value.split_first().ok_or_else(torn)?;
        let changes = [Change::Insert, Change::Update, Change::Delete];
        let change = changes.into_iter().find(|it| *it as u8 == *change).ok_or_else(torn)?;
        Ok(Some((change, original.to_vec())))
    }
}

/// A row may be large, and a key of a map should not be.
fn place(table: usize, change: Change, row: &[u8]) -> Vec<u8> {
    let mut place = mark(table, row).to_be_bytes().to_vec();
    place.push(change as u8);
    place
}

/// The mark of the row of a table with this key.
fn mark(table: usize, key: &[u8]) -> u128 {
    let mut hasher = SipHasher13::new_with_keys(0, table as u64);
    hasher.write(key);
    hasher.finish128().as_u128()
}
