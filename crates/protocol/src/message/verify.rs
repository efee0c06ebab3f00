//! Verify: what rows a remote should have, as digests. No row crosses.
//!
//! A remote asks for sums over ranges (`digest.rs`), asks again about parts of those that
//! differ from its own, and at last for the digests of single rows. Each question has a connection
//! of its own, and an answer of one snapshot.

use crate::digest::{KEY_DIGEST_BITS, Ranges};
use model::{Code, Failure};
use serde::{Deserialize, Serialize};

/// Sums that one question may ask for, of all tables together.
pub const SUMS_MAX: usize = 1 << 16;

/// Follows a Hello with `verify_follows`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verify {
    /// What is asked, in the order of the tables; no table twice.
    pub tables: Vec<TableQuestion>,
}

/// What is asked about one table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableQuestion {
    /// Its position in the schema that the remote holds.
    pub table: u16,
    /// Which of its rows.
    pub ranges: Ranges,
    /// What is asked about them.
    pub wanted: Wanted,
}

/// What is asked about ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// Their sums, each range cut into two to the power of this many parts.
    Sums(u8),
    /// Their rows, each as its key and its digest.
    Rows,
}

/// A part of the answer to [`Verify`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Verified {
    /// Position of the table.
    #[serde(default)]
    pub table: u16,
    /// The table is left out today, because it waits until the operator deploys.
    #[serde(default, skip_serializing_if = "is_false")]
    pub waits: bool,
    /// The sums, in the order of their ranges: [`crate::Sum::BYTES`] each.
    #[serde(default, with = "serde_bytes", skip_serializing_if = "Vec::is_empty")]
    pub sums: Vec<u8>,
    /// Entries in `entries`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub count: u32,
    /// Each a row of the key's columns and the digest of the row, a BLOB; NULL where the row is
    /// left out, because it has changed since the watermark or cannot be sent.
    #[serde(default, with = "serde_bytes", skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<u8>,
    /// Of the last part: how many entries were sent in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
}

fn is_false(it: &bool) -> bool {
    !it
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Verify {
    /// Refuses questions that nobody asks, or that are too large to answer.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let malformed = |message: &str| Err(Failure::new(Code::MalformedMessage, message));
        if !self.tables.is_sorted_by(|one, next| one.table < next.table) {
            return malformed("a table is asked about twice, or not in its place");
        }
        let mut sums = 0_usize;
        for question in &self.tables {
            question.ranges.check()?;
            let split = match question.wanted {
                Wanted::Sums(bits) => bits,
                Wanted::Rows => 0,
            };
            if question.ranges.bits() + u32::from(split) >= KEY_DIGEST_BITS {
                return malformed("a range is cut into parts that are too small");
            }
            sums = sums.saturating_add(question.ranges.len().saturating_mul(1 << split));
        }
        match sums > SUMS_MAX {
            true => malformed("more sums are asked for than one answer has"),
            false => Ok(()),
        }
    }
}
