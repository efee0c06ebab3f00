//! One upload as it came.

use crate::catalog::VersionScripts;
use crate::download;
use crate::identity::Remembered;
use crate::postgres::catalog::table::Table;
use crate::postgres::download::watermark::Mark;
use crate::postgres::link::pulse::Pulse;
use crate::synchronization::UploadRequest;
use model::{Counter, Spills};
use std::sync::Arc;

/// What everything that belongs to one upload needs to know.
#[derive(Clone, Copy)]
pub(in crate::postgres) struct Upload<'a> {
    /// In the order of the session's schema: parents first.
    pub(in crate::postgres) tables: &'a [Arc<Table>],
    pub(in crate::postgres) request: &'a UploadRequest<'a>,
    /// Where what is held for remotes lies.
    pub(in crate::postgres) spills: &'a Arc<Spills>,
    /// For work of this side alone that grows with the upload.
    pub(in crate::postgres) pulse: &'a Pulse,
    /// Up to where the remote has received what it was owed and what was made of its rows, as far
    /// as that is known.
    pub(in crate::postgres) settled: Counter,
    /// Those that run between rows, among others.
    pub(in crate::postgres) scripts: &'a VersionScripts,
}

impl Upload<'_> {
    /// The same when it is known what the center remembers of the remote.
    pub(in crate::postgres) fn of(self, remote: &Remembered) -> Self {
        let tables = self.tables.len();
        let settled =
            download::owed::settled_before(self.request, tables, remote, Mark::counter_of);
        Upload { settled: settled.unwrap_or(Counter(0)), ..self }
    }
}
