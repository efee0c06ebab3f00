//! Runs the statement of one row. Triggers of the owner may fire.
//!
//! If the row is at fault, it is reported, and nothing of its statement remains. SQLite undoes a
//! statement that fails, with exceptions: `RAISE(FAIL)` and `OR FAIL` keep the changes, and if a
//! function fails in a trigger, SQLite does not always undo. Once a statement may have left
//! changes, all rows are applied again, each in its own savepoint. Most uploads never need this and
//! pay nothing.
//!
//! A script that only reads may fail for the data of a row. The first such row ends the attempt.
//! The next one does each row in a savepoint and goes on, so that it finds all of them.
//!
//! `RAISE(ROLLBACK)` and `OR ROLLBACK` end the whole transaction, with the changes of other
//! uploads. A later statement would be committed alone, so none follows: the row is noted, and the
//! writer applies the upload in another transaction without it.

use super::super::errors::{RowFault, failed, row_fault, undoes_itself};
use super::attempt::{Attempt, Stop};
use crate::script::Event;
use crate::sqlite::details::CatalogTable;
use crate::upload::uploaded_row::{RowId, UploadedRow};
use model::{Code, Failure};
use rusqlite::Statement;

/// The row of which a statement speaks.
pub(in super::super) type Of<'r> = (&'r CatalogTable, &'r UploadedRow<'r>, Event);

impl Attempt<'_> {
    /// Runs `statement`, which is `sql`, and says how many rows it changed, or what is wrong with
    /// the row.
    pub(in super::super) fn execute(
        &self,
        statement: &mut Statement<'_>,
        sql: &str,
        of: Of<'_>,
    ) -> Result<Result<usize, (RowFault, String)>, Stop> {
        if self.known.apart {
            self.savepoint("SAVEPOINT one_row")?;
        }
        match statement.raw_execute() {
            Ok(changes) => {
                if self.known.apart {
                    self.savepoint("RELEASE one_row")?;
                }
                Ok(Ok(changes))
            }
            Err(error) => self.fault(error, sql, of).map(Err),
        }
    }

    /// What is wrong with the row whose statement failed, of which nothing is left then.
    pub(in super::super) fn fault(
        &self,
        error: rusqlite::Error,
        sql: &str,
        (table, row, event): Of<'_>,
    ) -> Result<(RowFault, String), Stop> {
        let ended = self.connection.is_autocommit();
        let undone = ended || undoes_itself(self.connection, &error);
        let (fault, message) =
            row_fault(self.connection, error, sql, &table.published.name, event.name())?;
        if ended {
            return Err(self.end(table, row, fault, message).into());
        }
        if self.known.apart {
            self.savepoint("ROLLBACK TO one_row")?;
            self.savepoint("RELEASE one_row")?;
        } else if !undone {
            return Err(Stop::LeftTraces);
        }
        Ok((fault, message))
    }

    /// Notes the row for which a script failed that only reads, if it failed for its data.
    pub(in super::super) fn unanswered(
        &self,
        error: rusqlite::Error,
        sql: &str,
        (table, row, event): Of<'_>,
    ) -> Failure {
        let name = &table.published.name;
        let said = format!("{event} of table {name}: {error}");
        let (fault, message) = match row_fault(self.connection, error, sql, name, event.name()) {
            Ok(found) => found,
            Err(failure) => return failure,
        };
        if let Some(id) = self.id_of(table, row)
            && let Err(failure) =
                self.known.unanswered.borrow_mut().reject(&id, (fault.code(), message))
        {
            return failure;
        }
        Failure::new(Code::ScriptFailed, said).table(name.as_str())
    }

    /// Does `work` for one row. Once a script has failed that only reads, the attempt searches for
    /// all rows for which one does: nothing of such a row remains, and the result is `otherwise`.
    pub(in super::super) fn each_alone<T>(
        &mut self,
        otherwise: T,
        work: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        if !self.known.searching {
            return work(self);
        }
        let known = self.known.unanswered.borrow().added();
        self.savepoint("SAVEPOINT searched")?;
        let outcome = work(self);
        let found = outcome.is_err() && self.known.unanswered.borrow().added() > known;
        if !found && outcome.is_err() {
            // All of the attempt is undone.
            return outcome;
        }
        if found {
            self.savepoint("ROLLBACK TO searched")?;
        }
        self.savepoint("RELEASE searched")?;
        if found { Ok(otherwise) } else { outcome }
    }

    /// The same for work that only reads.
    pub(in super::super) fn read_alone<T>(
        &self,
        otherwise: T,
        work: impl FnOnce(&Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let known = self.known.unanswered.borrow().added();
        match work(self) {
            Err(_) if self.known.unanswered.borrow().added() > known => Ok(otherwise),
            outcome => outcome,
        }
    }

    /// An attempt that has found such rows is given up where their search ends.
    pub(super) fn end_search(&self) -> Result<(), Failure> {
        match self.known.unanswered.borrow().is_empty() {
            true => Ok(()),
            false => Err(Failure::new(Code::ScriptFailed, "a script cannot read some rows")),
        }
    }

    fn id_of(&self, table: &CatalogTable, row: &UploadedRow<'_>) -> Option<RowId> {
        let name = &table.published.name;
        let position = self.tables.iter().position(|it| it.published.name == *name)?;
        Some(row.key(&table.published, position))
    }

    /// Notes the row at which the transaction was ended.
    fn end(
        &self,
        table: &CatalogTable,
        row: &UploadedRow<'_>,
        fault: RowFault,
        message: String,
    ) -> Failure {
        let name = &table.published.name;
        let failure =
            Failure::new(Code::ScriptFailed, format!("a transaction was ended: {message}"))
                .table(name.as_str());
        if let Some(id) = self.id_of(table, row) {
            self.known.ended.borrow_mut().insert(id, (fault.code(), message));
        }
        failure
    }

    pub(in super::super) fn savepoint(&self, sql: &str) -> Result<(), Failure> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]))
            .map(|_| ())
            .map_err(failed("keep a row apart"))
    }
}
