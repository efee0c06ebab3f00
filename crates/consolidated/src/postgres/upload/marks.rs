//! Rows of an upload, told apart in little memory.

use model::{Failure, SpillMap, Spills};
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;
use std::sync::Arc;

/// Rows of the upload, by their table and key, 16 bytes each. What there is no memory for lies on
/// disk.
#[derive(Debug)]
pub(in crate::postgres) struct Marks(SpillMap);

impl Marks {
    /// None, with memory and files from `spills`.
    pub(in crate::postgres) fn within(spills: &Arc<Spills>) -> Marks {
        Marks(SpillMap::new(spills))
    }

    pub(in crate::postgres) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(in crate::postgres) fn add(&mut self, mark: u128) -> Result<(), Failure> {
        self.0.add(mark.to_be_bytes().to_vec(), Vec::new())
    }

    pub(in crate::postgres) fn contains(&self, mark: u128) -> Result<bool, Failure> {
        Ok(!self.is_empty() && self.0.get(&mark.to_be_bytes())?.is_some())
    }
}

/// The mark of the row of a table with this key.
pub(in crate::postgres) fn mark(table: usize, key: &[u8]) -> u128 {
    let mut hasher = SipHasher13::new_with_keys(0, table as u64);
    hasher.write(key);
    hasher.finish128().as_u128()
}
