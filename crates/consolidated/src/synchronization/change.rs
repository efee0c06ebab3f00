//! The changes that an upload brings.

use model::Failure;

/// What happened to a row at the remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// One image: the new row.
    Insert,
    /// Two images of one key: old, new.
    Update,
    /// One image: the old row.
    Delete,
}

/// Rows of one table with one kind of change.
#[derive(Debug, Clone, Copy)]
pub struct UploadedRows<'a> {
    /// Position of the table in the session's schema.
    pub table: usize,
    /// What happened to them.
    pub change: Change,
    /// How many.
    pub count: u32,
    /// The rows, validated to be `count` rows of the table's width (twice for updates).
    pub rows: &'a [u8],
}

/// Calls back with every batch of an upload, in the order sent; may be asked several times.
pub type RowSource<'a> =
    &'a dyn Fn(&mut dyn FnMut(UploadedRows<'_>) -> Result<(), Failure>) -> Result<(), Failure>;
