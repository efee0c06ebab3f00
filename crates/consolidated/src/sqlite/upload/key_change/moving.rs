//! What must be known of an upload with key changes.

use super::spares::Spares;
use crate::sqlite::details::CatalogTable;
use crate::sqlite::download::arrivals::Arrivals;
use crate::sqlite::download::moves;
use crate::sqlite::links::Links;
use crate::sqlite::upload::effects::Effects;
use crate::sqlite::upload::waiting::WaitingRows;
use crate::synchronization::UploadRequest;
use crate::synchronization::change::Change;
use crate::upload::owed_rows::OwedRows;
use crate::upload::rebase::values;
use crate::upload::row_map::RowMap;
use crate::upload::uploaded_row::{each_row, key_of};
use model::Failure;
use rusqlite::Connection;
use std::sync::Arc;

/// What must be known of an upload with key changes.
pub(in crate::sqlite) struct Moving {
    /// By table, where its log ended before.
    pub(super) begins: Vec<i64>,
    pub(in crate::sqlite) effects: Effects,
    /// Keys that rows of the upload give up, of tables with key changes.
    pub(super) given_up: RowMap,
    /// Keys that rows of the upload come to, of such tables, where the remote says which rows stay.
    pub(super) taken: RowMap,
    /// Rows that the upload changes or deletes.
    pub(in crate::sqlite) named: RowMap,
    /// Deletes that were applied first.
    pub(in crate::sqlite) done: RowMap,
    /// By the new key of a key change that cannot be: the key that its row has kept.
    pub(super) kept: RowMap,
    /// By the spare key of a row that is to be deleted: the key that it had.
    pub(super) aside: RowMap,
    /// Keys that rows had for a while.
    pub(super) spares: Spares,
    /// Rows of the remote that go to the row which takes the key of one that is to be deleted.
    pub(super) following: WaitingRows,
    /// Rows that were moved out of the way, and then could not get their key.
    pub(in crate::sqlite) stuck: OwedRows,
    /// No row is waited for any more.
    pub(in crate::sqlite) settling: bool,
}

impl Moving {
    /// Ends the upload's key changes, and notes that the remote knows those that it asked for.
    pub(in crate::sqlite) fn finish(
        self,
        connection: &Connection,
        tables: &[Arc<CatalogTable>],
        links: Option<&Links>,
        request: &UploadRequest<'_>,
    ) -> Result<(), Failure> {
        self.effects.forget(connection, tables)?;
        if let Some(links) = links {
            self.spares.forget(connection, tables, links, &self.begins)?;
        }
        let remote = request.session.remote_id.as_str();
        let published = |position: usize| &tables[position].published;
        let wanted = |position: usize, change| {
            change == Change::KeyChange && published(position).direction.downloads()
        };
        let mut rows = vec![0; tables.len()];
        (request.batches)(&mut |batch| {
            rows[batch.table] += match wanted(batch.table, batch.change) {
                true => u64::from(batch.count),
                false => 0,
            };
            Ok(())
        })?;
        let mut made = Vec::with_capacity(tables.len());
        for (position, rows) in rows.into_iter().enumerate() {
            let arrivals = || {
                let range = (self.begins[position], i64::MAX);
                Arrivals::of(connection, published(position), position, range, rows)
            };
            made.push((rows > 0).then(arrivals).transpose()?);
        }
        each_row(request.batches, &published, wanted, |position, row| {
            let Some(arrivals) = &made[position] else { return Ok(()) };
            let published = published(position);
            let key = key_of(published, &row.old);
            moves::made_by(connection, published, &values(&key)?, arrivals, remote)
        })?;
        made.iter().flatten().try_for_each(|arrivals| arrivals.forget(connection))
    }
}
