//! What surrounds the application of a download.

use super::fired::Fired;
use crate::capture::change_log;
use crate::progress::state::Frozen;
use crate::schema::RemoteTable;
use model::{Code, Failure, Nonce, Spills};
use rusqlite::Connection;
use std::sync::Arc;

/// When changes are uploaded that are pending while a download is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Uploads {
    /// Before the next attempt. Then they no longer block the download.
    Next,
    /// After this download.
    Later,
    /// When the center has their table again, or takes their row.
    WithTheirTable,
    /// Not in this synchronization, which only downloads.
    Not,
}

impl Uploads {
    /// Another attempt uploads no change that is in the way now.
    pub(super) fn have_to_wait(self) -> bool {
        matches!(self, Uploads::Later | Uploads::WithTheirTable)
    }
}

/// What surrounds the application of a download.
pub(crate) struct Circumstances<'a> {
    pub(crate) tables: &'a [RemoteTable],
    /// The upload that was committed in the same synchronization.
    pub(crate) committed: Option<Frozen>,
    /// The generation that triggers write to.
    pub(crate) open_generation: i64,
    /// The nonce of the attempt.
    pub(crate) nonce: Option<Nonce>,
    /// Now, as text.
    pub(crate) at: &'a str,
    pub(crate) spills: &'a Arc<Spills>,
    /// When changes are uploaded that are pending now.
    pub(crate) uploads: Uploads,
    /// Rows that cannot make room stay as they are (`apply/guarded.rs`).
    pub(crate) guards: bool,
    /// From so many rows on a table is filled under a hidden name (`apply/first_fill.rs`).
    pub(crate) fill_rows_min: u64,
    /// The application's triggers that fire.
    pub(crate) fired: Option<&'a Fired>,
}

impl Circumstances<'_> {
    /// Whether the application's triggers on the table fire.
    pub(super) fn fires(&self, table: &RemoteTable) -> bool {
        self.fired.is_some_and(|fired| fired.fires(table))
    }

    /// The condition for entries `c` of the table that this download has found; none if it has
    /// found none.
    pub(super) fn is_older(
        &self,
        connection: &Connection,
        table: &RemoteTable,
    ) -> rusqlite::Result<Option<String>> {
        match self.fired {
            Some(fired) => Ok(fired.is_older(table)),
            None => Ok(change_log::has_entries(connection, table, self.open_generation)?
                .then(|| "1".to_owned())),
        }
    }
}

/// The download cannot be applied. With local changes they may be the reason, and uploading them
/// helps; without, the published tables do not fit together.
pub(crate) fn blocked(
    connection: &Connection,
    circumstances: &Circumstances<'_>,
    message: &str,
) -> Failure {
    if waits_here(connection, circumstances) {
        return Failure::new(Code::ApplyBlocked, message);
    }
    Failure::new(Code::RemoteSchemaDiffers, message)
        .hint("the constraint holds at the center: publish what it needs, or leave it out here")
}

/// Local changes wait to be uploaded.
pub(crate) fn waits_here(connection: &Connection, circumstances: &Circumstances<'_>) -> bool {
    if let Some(fired) = circumstances.fired {
        return fired.any_older();
    }
    circumstances.tables.iter().any(|table| {
        change_log::has_entries(connection, table, circumstances.open_generation).unwrap_or(true)
    })
}
