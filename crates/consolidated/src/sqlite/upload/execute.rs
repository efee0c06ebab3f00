//! Runs the statement of one row. Triggers of the owner may fire.
//!
//! If the row is at fault, it is reported, and nothing of its statement remains. SQLite undoes a
//! statement that fails, with exceptions: `RAISE(FAIL)` and `OR FAIL` keep the changes, and if a
//! function fails in a trigger, SQLite does not always undo. Once a statement may have left
//! changes, all rows are applied again, each in its own savepoint. Most uploads never need this and
//! pay nothing.
//!
//! `RAISE(ROLLBACK)` and `OR ROLLBACK` end the whole transaction, with the changes of other
//! uploads. A later statement would be committed alone, so none follows: the row is noted, and the
//! writer applies the upload in another transaction without it.

use super::super::catalog::CatalogTable;
use super::super::errors::{RowFault, failed, row_fault, undoes_itself};
use super::{Attempt, Ended};
use crate::script::Event;
use crate::uploaded_row::UploadedRow;
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
    ) -> Result<Result<usize, (RowFault, String)>, Failure> {
        if self.apart {
            self.savepoint("SAVEPOINT one_row")?;
        }
        match statement.raw_execute() {
            Ok(changes) => {
                if self.apart {
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
    ) -> Result<(RowFault, String), Failure> {
        let ended = self.connection.is_autocommit();
        let undone = ended || undoes_itself(self.connection, &error);
        let (fault, message) =
            row_fault(self.connection, error, sql, &table.published.name, event.name())?;
        if ended {
            return Err(self.end(table, row, fault, message));
        }
        if self.apart {
            self.savepoint("ROLLBACK TO one_row")?;
            self.savepoint("RELEASE one_row")?;
        } else if !undone {
            self.left_traces.set(true);
            return Err(Failure::new(Code::Bug, "the rows were not applied anew"));
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
        self.note(self.unanswered, table, row, (fault.code(), message));
        Failure::new(Code::ScriptFailed, said).table(name.as_str())
    }

    fn note(
        &self,
        rows: &Ended,
        table: &CatalogTable,
        row: &UploadedRow<'_>,
        reason: (Code, String),
    ) {
        let name = &table.published.name;
        let position = self.tables.iter().position(|it| it.published.name == *name);
        if let Some(position) = position {
            rows.borrow_mut().insert(self.id(table, position, row), reason);
        }
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
        self.note(self.ended, table, row, (fault.code(), message));
        failure
    }

    fn savepoint(&self, sql: &str) -> Result<(), Failure> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]))
            .map(|_| ())
            .map_err(failed("keep a row apart"))
    }
}
