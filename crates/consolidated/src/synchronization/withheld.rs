//! Rows that a download lacks.

use super::Session;
use model::{Code, Counter};

/// A row that cannot be sent. It is owed until it can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithheldRow {
    /// Position of the table.
    pub table: usize,
    /// The key's columns as a row.
    pub key: Vec<u8>,
    /// Why: it is too large, or no script can read it.
    pub code: Code,
    /// The bytes of the row; none are known of one that was not read.
    pub bytes: u64,
    /// Why, for people.
    pub message: String,
}

/// What a download has withheld.
#[derive(Debug)]
pub struct Withholding<'a> {
    /// Who synchronizes what.
    pub session: &'a Session,
    /// The epoch of the synchronization: one that was overtaken must not write any more.
    pub epoch: i64,
    /// The counter of the download. With its watermark the remote knows.
    pub counter: Counter,
    /// Rows that the remote was not sent.
    pub withheld: &'a [WithheldRow],
    /// Table and key of rows that were withheld before and are not any more.
    pub released: &'a [(usize, Vec<u8>)],
}
