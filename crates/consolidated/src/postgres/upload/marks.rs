//! Rows of an upload, told apart in little memory.

use siphasher::sip128::{Hasher128, SipHasher13};
use std::collections::HashSet;
use std::hash::Hasher;

/// Rows of the upload, by their table and key, 16 bytes each.
pub(in crate::postgres) type Marks = HashSet<u128>;

/// The mark of the row of a table with this key.
pub(in crate::postgres) fn mark(table: usize, key: &[u8]) -> u128 {
    let mut hasher = SipHasher13::new_with_keys(0, table as u64);
    hasher.write(key);
    hasher.finish128().as_u128()
}
