//! What the remote receives about its upload.
//!
//! This is: rows that need not be sent back, owed rows, and rejected rows.

use super::super::catalog::CatalogTable;
use super::super::key_change;
use super::super::ledger;
use super::super::made;
use super::super::stretch::Stretch;
use super::super::watermark::{self, Mark};
use super::Attempt;
use crate::echo::Echo;
use crate::readable;
use crate::synchronization::{Applied, Change};
use crate::uploaded_row::{RowId, UploadedRow, each_row};
use model::{Code, Failure};

/// Bytes that a row takes of which something is kept, beside its key and the rest.
const KEPT_BYTES: usize = 96;

impl Attempt<'_> {
    /// Notes that the remote need not be sent this row.
    pub(in super::super) fn echo(
        &mut self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) {
        if self.original.as_ref().is_some_and(|original| !original.same) {
            self.stretches[position].iter_mut().for_each(Stretch::differs);
            return;
        }
        match &mut self.stretches[position] {
            Some(stretch) => stretch.stored(table, row),
            None => self.add_to_echo(table, position, row),
        }
    }

    fn add_to_echo(&mut self, table: &CatalogTable, position: usize, row: &UploadedRow<'_>) {
        let echo = &mut self.applied.echo;
        match &self.original {
            Some(original) if row.change == Change::KeyChange => {
                echo.add_moved(&table.published, position, row, &original.id.1);
            }
            _ => echo.add_uploaded(&table.published, position, row),
        }
    }

    /// The same for a row that another user has changed too: the log has entries of it that are not
    /// of this upload.
    pub(in super::super) fn echo_shared(
        &mut self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) {
        if self.original.as_ref().is_some_and(|original| !original.same) {
            return self.echo(table, position, row);
        }
        if let Some(stretch) = &mut self.stretches[position] {
            stretch.stored(table, row);
        }
        self.add_to_echo(table, position, row);
    }

    /// Notes that the remote must be sent this row, whatever it will be then.
    pub(in super::super) fn owe(
        &mut self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) -> Result<(), Failure> {
        let id = self.id(table, position, row);
        self.owed.owe(&id)?;
        self.owe_new_key(table, position, row)
    }

    /// Counts what is kept of a row until the end of the attempt.
    pub(in super::super) fn hold(&self, bytes: usize) {
        self.held.borrow_mut().grow((bytes + KEPT_BYTES) as u64);
    }

    pub(in super::super) fn reject(
        &mut self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
        reason: (Code, String),
    ) -> Result<(), Failure> {
        self.applied.rejected += 1;
        let (code, message) = reason;
        let (id, message) = (self.id(table, position, row), readable::message(message));
        self.owed.reject(&id, (code, message))?;
        self.owe_new_key(table, position, row)?;
        key_change::failed(self, table, position, row);
        Ok(())
    }

    /// Whether the remote is already sent this row.
    pub(in super::super) fn is_owed(&self, row: &RowId) -> Result<bool, Failure> {
        self.owed.contains(row)
    }

    /// Of a row that has another key at the remote, that one is owed as well.
    pub(super) fn owe_new_key(
        &mut self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) -> Result<(), Failure> {
        let moved = self.original.as_ref().and_then(|original| original.moved.clone());
        let new = row.change != Change::Insert && row.change != Change::Delete;
        let new = new.then(|| row.new_key(&table.published, position));
        let old = self.id(table, position, row);
        let mut more = moved.into_iter().chain(new).filter(|key| *key != old);
        more.try_for_each(|key| self.owed.owe(&key))
    }

    /// Settles what need not be sent: whole stretches of the logs, or else row by row.
    pub(super) fn end_stretches(&mut self) -> Result<(), Failure> {
        let mut unsettled = vec![false; self.tables.len()];
        for (position, stretch) in self.stretches.iter().enumerate() {
            let Some(stretch) = stretch else { continue };
            match stretch.end(self.connection, &self.tables[position])? {
                Some((first, last)) => self.applied.echo.add_stretch(position, first, last),
                None => unsettled[position] = true,
            }
        }
        if !unsettled.contains(&true) {
            return Ok(());
        }
        let (batches, echo) = (self.request.batches, &mut self.applied.echo);
        let published = |position: usize| &self.tables[position].published;
        each_row(
            batches,
            &published,
            |position, _| unsettled[position],
            |position, row| {
                echo.add_uploaded(published(position), position, row);
                Ok(())
            },
        )
    }

    /// Values for columns that are gone are reported with their rows.
    fn tell_left_out(&mut self) -> Result<(), Failure> {
        let Some(left_out) = self.request.left_out else { return Ok(()) };
        self.applied.rejected += self.owed.tell_left_out(left_out)?;
        Ok(())
    }

    /// A watermark covers the rows that the remote was sent with the claims of that time. Rows that
    /// it inserts with other claims are not covered, and would stay at the remote when the old
    /// claims return. So they are owed (traps 4 and 5).
    fn owe_under_other_claims(&mut self) -> Result<(), Failure> {
        let (request, tables) = (self.request, self.tables);
        let mut others = vec![false; tables.len()];
        for (position, table) in tables.iter().enumerate() {
            let fingerprint = &table.published.fingerprint;
            let held = request.marks.iter().find(|held| held.fingerprint == *fingerprint);
            let mark = held.and_then(|held| Mark::read(held.watermark.as_ref()?));
            if let Some(mark) = mark.filter(|_| table.published.direction.downloads()) {
                let now = watermark::subscription(&table.details, request.session)?;
                others[position] = mark.subscription != now;
            }
        }
        if !others.contains(&true) {
            return Ok(());
        }
        let published = |position: usize| &tables[position].published;
        let wanted = |position: usize, change| others[position] && change != Change::Delete;
        each_row(request.batches, &published, wanted, |position, row| {
            self.owed.owe(&row.key(published(position), position))?;
            if row.change != Change::Insert {
                self.owed.owe(&row.new_key(published(position), position))?;
            }
            Ok(())
        })
    }

    pub(super) fn finish(mut self) -> Result<Applied, Failure> {
        if self.request.download_follows {
            self.end_stretches()?;
        }
        if let Some(moving) = self.moving.take() {
            moving.finish(self.connection, self.tables, self.request)?;
        }
        if let Some(moves) = self.moves {
            moves.note_own_rows(self.connection, self.tables, self.request)?;
        }
        made::write(&self, self.counter, &self.owed)?;
        self.tell_left_out()?;
        self.owe_under_other_claims()?;
        ledger::write(self.connection, self.tables, self.request, self.counter, &self.owed)?;
        let mut applied = self.applied;
        applied.reached = self.reached.count();
        if !self.request.download_follows {
            applied.echo = Echo::default();
        }
        Ok(applied)
    }
}
