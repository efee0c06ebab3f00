//! The download: begin, rejects, rows, end.

use super::WaitingTable;
use model::{Counter, Receipt, Watermark};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// A download follows. It becomes visible at the remote as a whole or not at all (S4).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DownloadBegin {
    /// Per table of the remote schema, in its order.
    pub tables: Vec<TableDownload>,
    /// True when the consolidated database may be in another state than the one that the remote
    /// knows, a restored one for example: rows that a refresh removes from the remote or
    /// overwrites are kept in its reject table.
    #[serde(default)]
    pub restored: bool,
    /// True when deletes may have been lost with it: rows that a refresh brings although they had
    /// gone from the remote are recorded in its reject table too.
    #[serde(default)]
    pub deletes_lost: bool,
    /// All tables that are left out, where more are than Welcome has named: some went meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_tables: Vec<WaitingTable>,
    /// To be stored with the first rows that are kept of the download, and presented from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
}

/// How one table is downloaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableDownload {
    /// Which rows follow.
    pub mode: DownloadMode,
    /// How many rows and deletes about; for a progress bar, nothing may rely on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Names the state of the database of which the rows are, for a later Hello. None if the table
    /// cannot be resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<ByteBuf>,
    /// What the client keeps of the table counts, and what follows is only the rest. Otherwise the
    /// client drops it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub continued: bool,
}

impl TableDownload {
    /// A table from its beginning, which cannot be resumed.
    pub fn new(mode: DownloadMode) -> TableDownload {
        TableDownload { mode, rows: None, token: None, continued: false }
    }
}

/// Which rows of a table follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DownloadMode {
    /// None: the table is not downloaded.
    None,
    /// What changed since the remote's watermark.
    Changes,
    /// All rows of the partition: what the remote holds beyond them disappears.
    Refresh,
}

/// Rows of earlier uploads that the consolidated database refused. Repeated until the remote
/// presents a watermark issued after the reject (trap 5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rejects {
    /// The refused rows.
    pub rejects: Vec<Reject>,
}

/// One refused row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reject {
    /// Position of the table in the remote schema.
    pub table: u16,
    /// The key's columns, encoded as a row.
    #[serde(with = "serde_bytes")]
    pub key: Vec<u8>,
    /// The synchronization in which it was refused; with table and key it names the reject.
    pub counter: Counter,
    /// Number of the error code.
    pub code: u16,
    /// What the consolidated database said.
    pub message: String,
}

/// Rows of earlier uploads that lost conflicts. Repeated as [`Rejects`] are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LostConflicts {
    /// The rows.
    pub conflicts: Vec<LostConflict>,
}

/// A row that lost a conflict: in whole, or some of its columns. The row that stayed is in the
/// same download.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LostConflict {
    /// Position of the table in the remote schema.
    pub table: u16,
    /// The key's columns, encoded as a row.
    #[serde(with = "serde_bytes")]
    pub key: Vec<u8>,
    /// The synchronization that uploaded it; with table and key it names the conflict.
    pub counter: Counter,
    /// What decided, for people.
    pub rule: String,
}

/// All rows of a table, or all its deleted keys, have been sent up to here, of those that are sent
/// in key order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// Position of the table in the remote schema.
    pub table: u16,
    /// It is about deleted keys.
    #[serde(default, skip_serializing_if = "is_false")]
    pub deletes: bool,
    /// How many of the segments that Hello presented for them lie before this position.
    pub passed: u16,
    /// The end of the rows that are sent in order. The rows of the table that follow may have any
    /// key.
    pub complete: bool,
    /// Where it is, which only the server reads; empty at the end of the last segment that lies
    /// before.
    #[serde(with = "serde_bytes")]
    pub position: Vec<u8>,
}

impl Position {
    /// Longest position, in bytes. There is none at a row with a longer key.
    pub const BYTES_MAX: usize = 1 << 10;
}

/// What a client keeps of a table whose downloads were cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumedTable {
    /// Position of the table in the schema of `schema_fingerprint`.
    pub table: u16,
    /// The token of the first download of which rows are kept, unless it is that of the last
    /// segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<ByteBuf>,
    /// The rows that are kept, each segment up to its position: from the newest download, which
    /// came least far, to the oldest.
    pub segments: Vec<Segment>,
    /// Likewise the deleted keys that are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deletes: Vec<Segment>,
}

impl ResumedTable {
    /// Most segments of the rows of a table, and of its deleted keys.
    pub const SEGMENTS_MAX: usize = 4;
}

/// Up to where rows are of which state of the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// From DownloadBegin.
    pub token: ByteBuf,
    /// From a Position.
    pub position: ByteBuf,
}

/// The download is complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DownloadEnd {
    /// Rows sent, upserts and deletes; must be the rows received.
    pub rows: u64,
    /// Per table of the remote schema: the watermark to store with the rows.
    pub watermarks: Vec<Option<Watermark>>,
    /// The counter to store with the rows.
    pub counter: Counter,
    /// To be stored with them too, and presented from then on.
    #[serde(default)]
    pub receipt: Option<Receipt>,
    /// The server waits for an Acknowledgement.
    #[serde(default, skip_serializing_if = "is_false")]
    pub acknowledge: bool,
}

fn is_false(it: &bool) -> bool {
    !it
}
