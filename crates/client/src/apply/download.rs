//! A download as it was received.

use crate::schema::RemoteTable;
use model::{Failure, Spill, Spills};
use protocol::{DownloadBegin, DownloadMode, Message, Operation, RowsFrame, TableDownload};
use std::sync::Arc;

/// A download, received completely or so far.
#[derive(Debug)]
pub(crate) struct Download {
    pub(crate) begin: DownloadBegin,
    /// Payloads of [`RowsFrame`]s in the order of the stream.
    pub(crate) upserts: Spill,
    /// Likewise per table, because deletes go from the last table to the first.
    pub(crate) deletes: Vec<Spill>,
    /// Frames of rejects and lost conflicts.
    pub(crate) rejects: Spill,
    /// Rows that are not deleted.
    pub(crate) upsert_rows: u64,
    pub(crate) delete_rows: u64,
    /// Per table: what came that is not deleted.
    pub(super) came: Vec<Came>,
}

/// The received rows of a table.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Came {
    pub(super) rows: bool,
    /// How many.
    pub(super) count: u64,
    /// How many bytes they have.
    pub(super) bytes: u64,
}

impl Download {
    /// An empty one.
    pub(crate) fn new(begin: DownloadBegin, spills: &Arc<Spills>) -> Download {
        Download {
            deletes: begin.tables.iter().map(|_| spills.open()).collect(),
            upserts: spills.open(),
            rejects: spills.open(),
            upsert_rows: 0,
            delete_rows: 0,
            came: begin.tables.iter().map(|_| Came::default()).collect(),
            begin,
        }
    }

    /// Adds rows.
    pub(crate) fn keep_rows(&mut self, frame: RowsFrame) -> Result<(), Failure> {
        if frame.operation == Operation::Delete {
            self.delete_rows += u64::from(frame.count);
            return self.deletes[usize::from(frame.table)].append(frame.into_payload());
        }
        let came = &mut self.came[usize::from(frame.table)];
        came.rows = true;
        came.count += u64::from(frame.count);
        came.bytes += frame.bytes.len() as u64;
        self.upsert_rows += u64::from(frame.count);
        self.upserts.append(frame.into_payload())
    }

    /// Adds everything of another part of the same download behind what is here.
    pub(crate) fn take_over(&mut self, rest: Download) -> Result<(), Failure> {
        for spill in [rest.upserts].into_iter().chain(rest.deletes) {
            let mut frames = spill.drain();
            while let Some(payload) = frames.next_chunk()? {
                self.keep_rows(RowsFrame::from_payload(payload.into_owned())?)?;
            }
        }
        self.rejects = rest.rejects;
        Ok(())
    }

    /// Adds rejects, or lost conflicts.
    pub(crate) fn keep_told(&mut self, told: &Message) -> Result<(), Failure> {
        self.rejects.append(told.to_frame()?)
    }

    /// Rows that were announced; none where nothing was said.
    pub(crate) fn rows_announced(&self) -> Option<u64> {
        let announced = self.begin.tables.iter().filter_map(|table| table.rows);
        announced.reduce(u64::saturating_add)
    }

    /// Rows so far.
    pub(crate) fn rows(&self) -> u64 {
        self.upsert_rows + self.delete_rows
    }

    /// The download has no row and no reject, and no whole table whose other rows must be deleted.
    pub(super) fn is_empty(&self) -> bool {
        let refreshes = |table: &TableDownload| table.mode == DownloadMode::Refresh;
        self.rows() == 0 && self.rejects.is_empty() && !self.begin.tables.iter().any(refreshes)
    }

    pub(super) fn mode(&self, table: &RemoteTable) -> DownloadMode {
        self.begin.tables[usize::from(table.position)].mode
    }
}
