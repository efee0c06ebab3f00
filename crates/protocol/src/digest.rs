//! Digests of rows, by which two databases find out where they differ without sending rows.
//!
//! Each row has a digest of its key and one of all its values. Rows are compared range by range,
//! where a range is all digests of keys that begin with the same bits. Its *sum* is the number of
//! its rows and the sum of their digests, so that the order in which a database finds rows does not
//! matter. The order of the keys themselves would: no two databases sort text alike.
//!
//! Invariants:
//! KD1. Rows that are equal on the wire have the same digests, however a database stores them:
//!      SQLite knows one zero of REAL, and no NaN.
//! KD2. So have rows that differ only in the notation of a moment or a UUID: a remote keeps its own
//!      (`digest/notation.rs`). Their keys differ.

use model::{Code, Failure, RowReader, ValueRef, write_value};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Bits of the digest of a key.
pub const KEY_DIGEST_BITS: u32 = 32;

/// Memory that is kept for the next row, in bytes.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// What a key consists of, in short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyDigest(u32);

/// What a row consists of, in short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowDigest([u8; RowDigest::BYTES]);

impl RowDigest {
    /// Its bytes.
    pub const BYTES: usize = 16;

    /// As it crosses.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// What crossed.
    pub fn from_slice(bytes: &[u8]) -> Option<RowDigest> {
        bytes.try_into().ok().map(RowDigest)
    }
}

/// Works out digests, with the memory of the row before.
#[derive(Debug, Default)]
pub struct Digester {
    bytes: Vec<u8>,
}

impl Digester {
    /// The digest of a row, from all its values.
    pub fn row<'v>(&mut self, values: impl IntoIterator<Item = ValueRef<'v>>) -> RowDigest {
        RowDigest(self.digest(values, true))
    }

    /// The digest of a key, from its values.
    pub fn key<'v>(&mut self, key: impl IntoIterator<Item = ValueRef<'v>>) -> KeyDigest {
        let [a, b, c, d, ..] = self.digest(key, false);
        KeyDigest(u32::from_be_bytes([a, b, c, d]))
    }

    fn digest<'v>(
        &mut self,
        values: impl IntoIterator<Item = ValueRef<'v>>,
        is_row: bool,
    ) -> [u8; 16] {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        for value in values {
            let one = match value {
                ValueRef::Text(text) if is_row => notation::of(text),
                _ => None,
            };
            let one = one.as_ref().map_or(value, |text| ValueRef::Text(text));
            write_canonical(&mut self.bytes, [one]);
        }
        let mut digest = [0; 16];
        digest.copy_from_slice(&Sha256::digest(&self.bytes)[..16]);
        digest
    }
}

/// Appends values in the one way in which all databases write them (KD1).
pub fn write_canonical<'v>(out: &mut Vec<u8>, values: impl IntoIterator<Item = ValueRef<'v>>) {
    for value in values {
        write_value(
            out,
            match value {
                ValueRef::Real(number) if number.is_nan() => ValueRef::Null,
                ValueRef::Real(0.0) => ValueRef::Real(0.0),
                other => other,
            },
        );
    }
}

/// The next `count` values of a reader.
pub fn read_values<'a>(
    reader: &mut RowReader<'a>,
    count: usize,
    values: &mut Vec<ValueRef<'a>>,
) -> Result<(), Failure> {
    values.clear();
    for _ in 0..count {
        values.push(reader.value()?);
    }
    Ok(())
}

/// Digests of keys that begin with the same bits, and those of more such beginnings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranges {
    /// How many bits a beginning has.
    bits: u8,
    /// The beginnings, sorted.
    prefixes: Vec<u32>,
}

impl Ranges {
    /// One range with all keys.
    pub fn all() -> Ranges {
        Ranges { bits: 0, prefixes: vec![0] }
    }

    /// Bits of a beginning.
    pub fn bits(&self) -> u32 {
        u32::from(self.bits)
    }

    /// How many ranges.
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// True of no range.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// The range that a key is in, by its number; none if it is in none of them.
    pub fn find(&self, key: KeyDigest) -> Option<usize> {
        if self.bits == 0 {
            return (!self.prefixes.is_empty()).then_some(0);
        }
        self.prefixes.binary_search(&(key.0 >> (KEY_DIGEST_BITS - self.bits()))).ok()
    }

    /// Refuses what is not sorted, or has other bits than it says.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let fits = self.bits() < KEY_DIGEST_BITS
            && self.prefixes.iter().all(|prefix| prefix >> self.bits == 0)
            && self.prefixes.is_sorted_by(|one, next| one < next);
        match fits {
            true => Ok(()),
            false => Err(Failure::new(Code::MalformedMessage, "ranges that are none")),
        }
    }
}

/// What the rows of a range come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many rows.
    pub rows: u64,
    digests: u128,
}

impl Sum {
    /// Bytes of a sum on the wire: the number of rows and the sum of the digests, little-endian.
    pub const BYTES: usize = 24;

    fn add(&mut self, digest: RowDigest) {
        self.rows += 1;
        self.digests = self.digests.wrapping_add(u128::from_le_bytes(digest.0));
    }
}

/// The sums of ranges, each range cut into parts of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Sums {
    ranges: Ranges,
    split: u8,
    sums: Vec<Sum>,
}

impl Sums {
    /// Of no row. `split` is the power of two of the parts of a range.
    pub fn new(ranges: Ranges, split: u8) -> Sums {
        let sums = vec![Sum::default(); ranges.len() << split];
        Sums { ranges, split, sums }
    }

    /// Adds a row, if it is in one of the ranges.
    pub fn add(&mut self, key: KeyDigest, digest: RowDigest) {
        let Some(range) = self.ranges.find(key) else { return };
        // The bits behind the beginning, of which the first ones name the part.
        let behind = key.0 << self.ranges.bits();
        let part =
            behind.checked_shr(KEY_DIGEST_BITS - u32::from(self.split)).unwrap_or(0) as usize;
        if let Some(sum) = self.sums.get_mut((range << self.split) + part) {
            sum.add(digest);
        }
    }

    /// Rows that were added.
    pub fn rows(&self) -> u64 {
        self.sums.iter().map(|sum| sum.rows).sum()
    }

    /// How many sums there are.
    pub fn len(&self) -> usize {
        self.sums.len()
    }

    /// True of none.
    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// As they cross.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.sums.len() * Sum::BYTES);
        for sum in &self.sums {
            bytes.extend_from_slice(&sum.rows.to_le_bytes());
            bytes.extend_from_slice(&sum.digests.to_le_bytes());
        }
        bytes
    }

    /// The parts whose sums are others there, and the most rows that one of them has at either end.
    /// `bytes` are the sums of the same ranges there.
    pub fn differing(&self, bytes: &[u8]) -> Result<(Ranges, u64), Failure> {
        if bytes.len() != self.sums.len() * Sum::BYTES {
            return Err(Failure::new(
                Code::MalformedMessage,
                "other sums came than were asked for",
            ));
        }
        let (mut prefixes, mut rows_max) = (Vec::new(), 0);
        for (at, (here, there)) in self.sums.iter().zip(bytes.chunks_exact(Sum::BYTES)).enumerate()
        {
            let there = parsed(there);
            if *here == there {
                continue;
            }
            let (range, part) = (at >> self.split, at & ((1 << self.split) - 1));
            let prefix = self.ranges.prefixes.get(range).copied().unwrap_or(0);
            prefixes.push((prefix << self.split) | part as u32);
            rows_max = rows_max.max(here.rows).max(there.rows);
        }
        Ok((Ranges { bits: self.ranges.bits + self.split, prefixes }, rows_max))
    }
}

fn parsed(bytes: &[u8]) -> Sum {
    let (mut rows, mut digests) = ([0; 8], [0; 16]);
    rows.copy_from_slice(&bytes[..8]);
    digests.copy_from_slice(&bytes[8..Sum::BYTES]);
    Sum { rows: u64::from_le_bytes(rows), digests: u128::from_le_bytes(digests) }
}

mod notation;
#[cfg(test)]
mod tests;
