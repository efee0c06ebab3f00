//! What of a download that was cut a remote presents, and what it is told for the next time.

/// What a remote keeps of downloads that were cut.
#[derive(Debug, Clone, Copy, Default)]
pub struct Resuming<'a> {
    /// The remote is told how to go on if this download is cut.
    pub is_offered: bool,
    /// The last download was cut. So the rows of all tables are sent in key order, otherwise only
    /// those of large tables that are sent whole.
    pub was_cut: bool,
    /// What it keeps.
    pub tables: &'a [ResumedTable],
}

impl Resuming<'_> {
    /// A download was cut, so this one may be cut too.
    pub(crate) fn follows_cut(&self) -> bool {
        self.was_cut || !self.tables.is_empty()
    }
}

/// What a remote keeps of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumedTable {
    /// Position of the table in the schema.
    pub table: usize,
    /// The token of the first download, if it is not that of the last segment.
    pub first: Option<Vec<u8>>,
    /// Tokens with positions, from the newest, which came least far, to the oldest.
    pub segments: Vec<(Vec<u8>, Vec<u8>)>,
    /// Likewise of deleted keys.
    pub deletes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// How a remote may go on with a table if this download is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableToken {
    /// Names the snapshot; none if it cannot go on.
    pub token: Option<Vec<u8>>,
    /// What it keeps of the table counts.
    pub continued: bool,
}
