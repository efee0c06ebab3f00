//! A row as the remote knows it, whatever it was rebased to.

use crate::upload::uploaded_row::RowId;

/// A row as the remote knows it, whatever it was rebased to.
pub(in crate::sqlite::upload) struct Original {
    pub(in crate::sqlite::upload) id: RowId,
    /// The key that it gets at the remote, if it is another one.
    pub(in crate::sqlite::upload) moved: Option<RowId>,
    /// What is to be stored is what the remote has.
    pub(in crate::sqlite::upload) same: bool,
}
