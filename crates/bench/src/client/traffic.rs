//! What a synchronization carried.

/// Rows that a synchronization carried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) uploaded: u64,
    pub(crate) downloaded: u64,
    /// Uploaded rows with a conflict, or that were refused.
    pub(crate) disputed: u64,
}
