//! How what is read is cut into parts.

/// How much goes into a part of a download, and what is too large for any.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    pub(super) batch_bytes: usize,
    pub(super) batch_rows: u32,
    pub(super) row_bytes_max: usize,
}
