//! Keys of one table that a remote is owed together, in one entry of `syncline_owed`.
//!
//! An entry for each key costs ten times as much as the key itself, most of it in the index.
//!
//! A bundle is a mark and the keys, each after its length. It takes the place of a key, and its
//! number of keys is in a column of its own. Rows that were refused or withheld have entries of
//! their own, which say more than a bundle. Rows that lost conflicts by the same rule may share
//! one.

use crate::upload::reason::Reason;
use model::{Code, Failure};

/// No row begins with this byte, so no key is equal to a bundle.
const MARK: u8 = 0xfe;

/// Bytes of the length in front of a key.
const LENGTH_BYTES: usize = 2;

/// Keys that are being put together.
#[derive(Debug)]
pub(crate) struct Bundle {
    bytes: Vec<u8>,
    bytes_max: usize,
    pub(crate) count: i32,
}

impl Bundle {
    /// One of at most so many bytes, of which a database stores as many in one piece.
    pub(crate) fn new(bytes_max: usize) -> Bundle {
        Bundle { bytes: Vec::with_capacity(bytes_max), bytes_max, count: 0 }
    }

    /// Whether a key may be part of a bundle of so many bytes.
    pub(crate) fn may_have(key: &[u8], bytes_max: usize) -> bool {
        1 + LENGTH_BYTES + key.len() <= bytes_max.min(usize::from(u16::MAX))
    }

    /// Whether a key belongs into the next one.
    pub(crate) fn is_full(&self, key: &[u8]) -> bool {
        self.bytes.len() + LENGTH_BYTES + key.len() > self.bytes_max
    }

    /// Adds a key for which there is room.
    pub(crate) fn push(&mut self, key: &[u8]) {
        if self.bytes.is_empty() {
            self.bytes.push(MARK);
        }
        self.bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.count += 1;
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// The bundles of an upload that are being put together: one for each table and what is told of
/// its rows.
#[derive(Debug)]
pub(crate) struct Bundles {
    open: Vec<Bundled>,
    bytes_max: usize,
}

/// A bundle of rows of a table, and what the remote is told of each.
#[derive(Debug)]
pub(crate) struct Bundled {
    pub(crate) table: usize,
    pub(crate) reason: Option<Reason>,
    pub(crate) bundle: Bundle,
}

impl Bundles {
    /// None, and none will have more than so many bytes.
    pub(crate) fn new(bytes_max: usize) -> Bundles {
        Bundles { open: Vec::new(), bytes_max }
    }

    /// Whether a row belongs into a bundle. One that was refused has an entry of its own.
    pub(crate) fn may_have(&self, key: &[u8], reason: Option<&Reason>) -> bool {
        Bundle::may_have(key, self.bytes_max) && !reason.is_some_and(Reason::is_reject)
    }

    /// Adds a row. Returns the bundle in which it had no room.
    pub(crate) fn add(
        &mut self,
        table: usize,
        key: &[u8],
        reason: Option<Reason>,
    ) -> Option<Bundled> {
        let bytes_max = self.bytes_max;
        let mut open = self.open.iter_mut();
        let Some(found) = open.find(|it| it.table == table && it.reason == reason) else {
            let mut bundle = Bundle::new(bytes_max);
            bundle.push(key);
            self.open.push(Bundled { table, reason, bundle });
            return None;
        };
        let is_full = found.bundle.is_full(key);
        let full = is_full.then(|| std::mem::replace(&mut found.bundle, Bundle::new(bytes_max)));
        found.bundle.push(key);
        full.map(|bundle| Bundled { table, reason, bundle })
    }

    /// Those that are not full.
    pub(crate) fn end(self) -> Vec<Bundled> {
        self.open
    }
}

/// The keys of a bundle.
pub(crate) fn keys(bundle: &[u8]) -> Result<Vec<&[u8]>, Failure> {
    let torn = || Failure::new(Code::Drift, "a bundle of owed keys does not read");
    let mut rest = bundle.strip_prefix(&[MARK]).ok_or_else(torn)?;
    let mut keys = Vec::new();
    while !rest.is_empty() {
        let (length, behind) = rest.split_first_chunk().ok_or_else(torn)?;
        let length = usize::from(u16::from_le_bytes(*length));
        let (key, behind) = behind.split_at_checked(length).ok_or_else(torn)?;
        keys.push(key);
        rest = behind;
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_out_as_they_went_in_and_a_bundle_has_a_limit() {
        let mut bundle = Bundle::new(1536);
        let wanted = [&[1, 2, 3][..], &[], &[255; 300]];
        wanted.iter().for_each(|key| bundle.push(key));
        assert_eq!(bundle.count, 3);
        assert!(bundle.is_full(&[0; 1300]) && !bundle.is_full(&[0; 1200]));
        assert!(Bundle::may_have(&[0; 1024], 1536) && !Bundle::may_have(&[0; 1536], 1536));
        let bytes = bundle.into_bytes();
        assert_eq!(keys(&bytes).unwrap(), wanted);
        for torn in [&bytes[..bytes.len() - 1], &bytes[1..], &bytes[..2], &[]] {
            assert_eq!(keys(torn).unwrap_err().code(), Code::Drift);
        }
    }
}
