//! The download: begin, rejects, rows, end.

use super::WaitingTable;
use model::{Counter, Receipt, Watermark};
use serde::{Deserialize, Serialize};

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
}

/// How one table is downloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableDownload {
    /// Which rows follow.
    pub mode: DownloadMode,
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
}
