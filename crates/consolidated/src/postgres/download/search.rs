//! What a download looks for rows with.

use crate::download::time::Times;
use crate::postgres::catalog::table::Table;
use crate::postgres::download::cursor::Source;
use crate::postgres::download::moment::DownloadRange;
use crate::postgres::download::snapshot::Xid8;
use crate::postgres::optimize::departure_probe::DepartureProbe;
use crate::synchronization::FetchRequest;
use std::sync::Arc;

/// The tables of a download, and what is known of it.
#[derive(Clone, Copy)]
pub(in crate::postgres) struct Search<'a> {
    pub(in crate::postgres) tables: &'a [Arc<Table>],
    pub(in crate::postgres) ranges: &'a [DownloadRange],
    pub(in crate::postgres) request: &'a FetchRequest<'a>,
    /// None where the answers do not count any more.
    pub(in crate::postgres) departures: Option<&'a DepartureProbe>,
    pub(in crate::postgres) own_upload: Xid8,
}

impl<'a> Search<'a> {
    /// For rows that are owed, whatever was sent before.
    pub(super) fn source(self) -> Source<'a> {
        let (session, times) = (self.request.session, Times::default());
        Source { session, since: None, own_upload: self.own_upload, times }
    }
}
