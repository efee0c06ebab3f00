//! The upload: begin, rows, end, and its acknowledgement.

use model::{Code, Failure, Progress, Receipt};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An upload follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadBegin {
    /// The upload that this one follows: must be the server's last.
    pub previous: Progress,
    /// The number of this upload, above `previous`.
    pub progress: Progress,
}

impl UploadBegin {
    /// Refuses numbers that no client has.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.previous.0 < 0 || self.progress < self.previous {
            let message = "the progress of an upload is negative, or behind the one before";
            return Err(Failure::new(Code::MalformedMessage, message));
        }
        Ok(())
    }
}

/// Rows of the upload that were deleted at the remote and entered again, so that their updates are
/// new rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnteredAgain {
    /// Position of their table.
    pub table: u16,
    /// Their keys, one after the other: of each the key's columns as a row.
    #[serde(with = "serde_bytes")]
    pub keys: Vec<u8>,
}

/// The upload is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadEnd {
    /// Rows sent; must be the rows received.
    pub rows: u64,
}

/// The upload is durable. Leaves as soon as it is, before the download is fetched.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UploadCommitted {
    /// The last committed upload.
    pub progress: Progress,
    /// Rows of the upload by operation, conflicts and rejects included.
    #[serde(default)]
    pub inserts: u64,
    /// See `inserts`.
    #[serde(default)]
    pub updates: u64,
    /// See `inserts`.
    #[serde(default)]
    pub deletes: u64,
    /// Rows with a conflict, which the rule of the table resolved.
    #[serde(default)]
    pub conflicts: u64,
    /// The same by the name of their table, as remotes know it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub conflicts_by_table: BTreeMap<String, u64>,
    /// Rows that the consolidated database refused.
    #[serde(default)]
    pub rejected: u64,
    /// Rows that a script ignores; not among those above.
    #[serde(default, skip_serializing_if = "is_none")]
    pub ignored: u64,
    /// To be stored with the outcome, and presented from then on. None where a download follows,
    /// which ends with one.
    #[serde(default)]
    pub receipt: Option<Receipt>,
}

fn is_none(rows: &u64) -> bool {
    *rows == 0
}
