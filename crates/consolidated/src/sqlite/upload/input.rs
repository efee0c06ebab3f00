//! What an upload brings: the same in every attempt at it.

use crate::script::Event;
use crate::sqlite::details::CatalogTable;
use crate::sqlite::errors::{failed, script_failed};
use crate::synchronization::UploadRequest;
use crate::synchronization::change::{Change, UploadedRows};
use crate::upload::uploaded_row::{RowId, UploadedRow, each_batch, event_of};
use crate::upload::waiting::WaitingRow;
use model::{Counter, Failure, Spills};
use rusqlite::Connection;
use std::sync::Arc;

/// An upload, and what it meets. No attempt changes it.
pub(super) struct Input<'a> {
    pub(super) connection: &'a Connection,
    pub(super) tables: &'a [Arc<CatalogTable>],
    pub(super) request: &'a UploadRequest<'a>,
    /// With a watermark of this counter the remote has what it is owed now.
    pub(super) counter: Counter,
    /// Where what is held for remotes lies.
    pub(super) spills: &'a Arc<Spills>,
}

/// An uploaded row at its turn, with its table.
#[derive(Clone, Copy)]
pub(super) struct Turn<'r> {
    pub(super) table: &'r CatalogTable,
    /// The position of the table.
    pub(super) position: usize,
    pub(super) row: &'r UploadedRow<'r>,
}

impl Input<'_> {
    /// Runs statements without parameters, such as those of a savepoint.
    pub(super) fn run(&self, sql: &str) -> Result<(), Failure> {
        self.connection.execute_batch(sql).map_err(failed("set a savepoint"))
    }

    /// Whether the script for the rows of a batch ignores them: they stay at the remote as they
    /// are.
    pub(super) fn ignores(&self, batch: &UploadedRows<'_>) -> bool {
        self.tables[batch.table].ignores(batch.change)
    }

    /// Visits the rows of a batch, unless they are ignored.
    pub(super) fn each_of<E: From<Failure>>(
        &self,
        batch: UploadedRows<'_>,
        mut visit: impl FnMut(Turn<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.ignores(&batch) {
            return Ok(());
        }
        let (table, position) = (&*self.tables[batch.table], batch.table);
        let (mut row, mut rest) = (UploadedRow::default(), batch.rows);
        for _ in 0..batch.count {
            rest = row.read(rest, batch.change, table.published.width())?;
            visit(Turn { table, position, row: &row })?;
        }
        Ok(())
    }

    /// Visits the uploaded rows for which `wanted` holds, in the order of the upload. `wanted` gets
    /// the position of the table, and the change.
    pub(super) fn each_row<E: From<Failure>>(
        &self,
        wanted: impl Fn(usize, Change) -> bool,
        mut visit: impl FnMut(Turn<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        each_batch(self.request.batches, |batch| match wanted(batch.table, batch.change) {
            true => self.each_of(batch, &mut visit),
            false => Ok(()),
        })
    }

    /// Shows `visit` a row that waits.
    pub(super) fn waiting<T, E: From<Failure>>(
        &self,
        waits: &WaitingRow,
        visit: impl FnOnce(Turn<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let (table, position) = (&*self.tables[waits.table], waits.table);
        visit(Turn { table, position, row: &waits.read(&table.published)? })
    }

    /// Table and key of a row that waits.
    pub(super) fn id_of(&self, waits: &WaitingRow) -> Result<RowId, Failure> {
        self.waiting(waits, |turn| Ok(turn.id()))
    }
}

impl<'r> Turn<'r> {
    /// Table and key.
    pub(super) fn id(self) -> RowId {
        self.row.key(&self.table.published, self.position)
    }

    /// The columns in which the changes of both sides count. A user's script that counts no changes
    /// may have made this one.
    pub(super) fn added(self) -> &'r [u16] {
        let is_own = self.table.is_own(self.row.change);
        if is_own { &[] } else { &self.table.details.added }
    }

    /// The event at which the row is applied.
    pub(super) fn event(self) -> Event {
        event_of(self.row.change)
    }

    /// For `map_err`: the failure of a script of its table.
    pub(super) fn failing(self, event: Event) -> impl Fn(rusqlite::Error) -> Failure + 'r {
        move |error| script_failed(error, &self.table.published.name, event.name())
    }
}
