//! Rows of an upload that were deleted at the remote and entered again (S5).
//!
//! The center knows a row with such a key, so the remote sends an update. It is a new row all the
//! same: where it loses, the remote is told as it is of a new row.

use crate::synchronization::change::Change;
use crate::upload::row_map::RowMap;
use crate::upload::uploaded_row::{RowId, UploadedRow};
use model::{Failure, Spills};
use std::sync::Arc;

/// Rows by table and key. What is no update of the upload is never looked for.
#[derive(Debug)]
pub struct EnteredAgain {
    rows: RowMap,
}

impl EnteredAgain {
    /// None, with memory and files from `spills`.
    pub fn within(spills: &Arc<Spills>) -> EnteredAgain {
        EnteredAgain { rows: RowMap::within(spills) }
    }

    /// Adds the row with this key, encoded, of the table at this position.
    pub fn add(&mut self, table: usize, key: &[u8]) -> Result<(), Failure> {
        self.rows.add(&(table, key.to_vec()))
    }

    /// Whether an uploaded row, which is called `id`, is one of them.
    pub(crate) fn has(&self, row: &UploadedRow<'_>, id: &RowId) -> Result<bool, Failure> {
        Ok(row.change == Change::Update && self.rows.contains(id)?)
    }
}
