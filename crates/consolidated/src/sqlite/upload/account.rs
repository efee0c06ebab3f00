//! What the remote receives about its upload.
//!
//! This is: rows that need not be sent back, owed rows, and rejected rows.

use super::attempt::Attempt;
use crate::administration::readable;
use crate::download::range::has_other_claims;
use crate::sqlite::details::CatalogTable;
use crate::sqlite::download::watermark::Logs;
use crate::sqlite::upload::made;
use crate::sqlite::upload::own_entries::OwnEntries;
use crate::sqlite::upload::record;
use crate::synchronization::Applied;
use crate::synchronization::change::Change;
use crate::upload::echo::Echo;
use crate::upload::uploaded_row::{RowId, UploadedRow, each_row};
use model::{Code, Failure};

impl Attempt<'_> {
    /// Notes that the remote need not be sent this row.
    pub(in super::super) fn echo(
        &mut self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) {
        if self.differs {
            self.own_entries[position].iter_mut().for_each(OwnEntries::differs);
            return;
        }
        match &mut self.own_entries[position] {
            Some(own) => own.stored(table, row),
            None => self.add_to_echo(table, position, row),
        }
    }

    fn add_to_echo(&mut self, table: &CatalogTable, position: usize, row: &UploadedRow<'_>) {
        self.applied.echo.add_uploaded(&table.published, position, row);
    }

    /// The same for a row that another user has changed too: the log has entries of it that are not
    /// of this upload.
    pub(in super::super) fn echo_shared(
        &mut self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) {
        if self.differs {
            return self.echo(table, position, row);
        }
        if let Some(own) = &mut self.own_entries[position] {
            own.stored(table, row);
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
        self.owed.owe(&row.key(&table.published, position))
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
        let id = row.key(&table.published, position);
        self.owed.reject(&id, (code, readable::message(message)))
    }

    /// Whether the remote is already sent this row.
    pub(in super::super) fn is_owed(&self, row: &RowId) -> Result<bool, Failure> {
        self.owed.contains(row)
    }

    /// Settles what need not be sent: whole own entries of the logs, or else row by row.
    pub(super) fn end_own_entries(&mut self) -> Result<(), Failure> {
        let mut unsettled = vec![false; self.tables.len()];
        for (position, own) in self.own_entries.iter().enumerate() {
            let Some(own) = own else { continue };
            match own.end(self.connection, &self.tables[position])? {
                Some((first, last)) => self.applied.echo.add_own_entries(position, first, last),
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

    /// Owes the rows that no watermark covers, because they came with other claims.
    fn owe_under_other_claims(&mut self) -> Result<(), Failure> {
        let (request, tables) = (self.request, self.tables);
        let others = tables.iter().map(|table| has_other_claims::<Logs>(&**table, request));
        let others = others.collect::<Result<Vec<bool>, Failure>>()?;
        if !others.contains(&true) {
            return Ok(());
        }
        let published = |position: usize| &tables[position].published;
        let wanted = |position: usize, change| others[position] && change != Change::Delete;
        each_row(request.batches, &published, wanted, |position, row| {
            self.owed.owe(&row.key(published(position), position))
        })
    }

    pub(super) fn finish(mut self) -> Result<Applied, Failure> {
        if self.request.download_follows {
            self.end_own_entries()?;
        }
        made::write(&self, self.counter, &self.owed)?;
        self.write_records()?;
        self.tell_left_out()?;
        self.owe_under_other_claims()?;
        record::write(self.connection, self.tables, self.request, self.counter, &self.owed)?;
        let mut applied = self.applied;
        if !self.request.download_follows {
            applied.echo = Echo::default();
        }
        Ok(applied)
    }
}
