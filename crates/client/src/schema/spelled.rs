//! Statements of a table, each spelled when it is needed first.

use std::sync::OnceLock;

/// Statements that collect an upload.
#[derive(Debug, Clone, Default)]
pub(crate) struct Collecting {
    pub(crate) has_entries: OnceLock<String>,
    /// Reads the entries of a generation; the second where the next one has some too.
    pub(crate) entries: [OnceLock<String>; 2],
    pub(crate) forget: OnceLock<Forgetting>,
}

/// Statements that forget a generation.
#[derive(Debug, Clone)]
pub(crate) struct Forgetting {
    pub(crate) incoming: String,
    pub(crate) has_others: String,
    pub(crate) generation: String,
    pub(crate) all: String,
}

/// Statements that apply a download.
#[derive(Debug, Clone, Default)]
pub(crate) struct Writing {
    pub(crate) upsert: OnceLock<String>,
    pub(crate) insert_batch: OnceLock<String>,
    pub(crate) delete: OnceLock<String>,
    /// What the rows of a table say whose triggers fire (`apply/fired/row.rs`).
    pub(crate) or_abort: OnceLock<&'static str>,
}
