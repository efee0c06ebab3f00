//! Runs the statement of one row. Triggers of the owner may fire.
//!
//! If the row is at fault, it is reported, and nothing of its statement remains. SQLite undoes a
//! statement that fails, with exceptions: `RAISE(FAIL)` and `OR FAIL` keep the changes, and if a
//! function fails in a trigger, SQLite does not always undo. Once a statement may have left
//! changes, all rows are applied again, each in its own savepoint. Most uploads never need this and
//! pay nothing.
//!
//! A script that only reads may fail for the data of a row. The first such row ends the attempt.
//! The next one does each row in a savepoint too and goes on, so that it finds all of them.
//!
//! `RAISE(ROLLBACK)` and `OR ROLLBACK` end the whole transaction, with the changes of other
//! uploads. A later statement would be committed alone, so none follows: the row is noted, and the
//! writer applies the upload in another transaction without it.

use super::{Attempt, Stop};
use crate::script::Event;
use crate::sqlite::errors::{RowFault, row_fault, undoes_itself};
use crate::sqlite::upload::input::Turn;
use crate::sqlite::values::{bind_row, bind_sessions, write_row};
use crate::upload::reason::Reason;
use rusqlite::Statement;

impl Attempt<'_> {
    /// Runs `statement`, which is `sql`, and says how many rows it changed, or what is wrong with
    /// the row, of which nothing is left then.
    pub(in crate::sqlite::upload) fn execute(
        &self,
        statement: &mut Statement<'_>,
        sql: &str,
        turn: Turn<'_>,
        event: Event,
    ) -> Result<Result<usize, (RowFault, Reason)>, Stop> {
        let ran = statement.raw_execute();
        self.outcome(ran, sql, turn, event)
    }

    /// The same of a statement that has run.
    pub(super) fn outcome(
        &self,
        ran: rusqlite::Result<usize>,
        sql: &str,
        turn: Turn<'_>,
        event: Event,
    ) -> Result<Result<usize, (RowFault, Reason)>, Stop> {
        let error = match ran {
            Ok(changes) => return Ok(Ok(changes)),
            Err(error) => error,
        };
        let connection = self.input.connection;
        let ended = connection.is_autocommit();
        // `OR FAIL` in a user's script keeps what it did before.
        let own = turn.table.own(event).is_some();
        let undone = ended || undoes_itself(connection, &error) && !own;
        let table = &turn.table.published.name;
        let (fault, reason) = row_fault(connection, error, sql, table, event.name())?;
        if ended {
            return Err(Stop::Ended(turn.id(), reason));
        }
        match self.is_careful() {
            true => self.input.run("ROLLBACK TO one_row")?,
            false if undone => {}
            false => return Err(Stop::LeftTraces),
        }
        Ok(Err((fault, reason)))
    }

    /// Whether each row has a savepoint. A row that is taken back needs one.
    fn is_careful(&self) -> bool {
        self.known.careful || self.known.foreign_keys.is_some()
    }

    /// Does `work` for one row, in a careful attempt in the savepoint `one_row`. If a script cannot
    /// read the row, it is noted there, nothing of it remains, and the result is `otherwise`.
    pub(in crate::sqlite::upload) fn each_alone<T>(
        &mut self,
        otherwise: T,
        work: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        if !self.is_careful() {
            return work(self);
        }
        self.input.run("SAVEPOINT one_row")?;
        let outcome = self.read_alone(work)?;
        if outcome.is_none() {
            self.input.run("ROLLBACK TO one_row")?;
        }
        self.input.run("RELEASE one_row")?;
        Ok(outcome.unwrap_or(otherwise))
    }

    /// Does `work`. If a script cannot read the row of it, that is noted, and the result is none.
    pub(in crate::sqlite::upload) fn read_alone<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<Option<T>, Stop> {
        match work(self) {
            Err(Stop::Unreadable(row, reason)) => {
                self.progress.unreadable.reject(&row, reason)?;
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }

    /// The row as it is at the center now.
    pub(in crate::sqlite::upload) fn fetch(
        &mut self,
        turn: Turn<'_>,
    ) -> Result<Option<Vec<u8>>, Stop> {
        let (input, event, Turn { table, row, position }) = (self.input, Event::UploadLook, turn);
        let (script, failing) = (table.required(event)?, turn.failing(event));
        let columns = (position, table.published.width());
        let known = self.progress.fetching.take_if(|(of, _)| *of == columns);
        let (_, statement) = match known {
            Some(known) => self.progress.fetching.insert(known),
            None => {
                let prepared = input.connection.prepare_cached(&script.sql);
                let mut statement = prepared
                    .map_err(|error| Stop::at_reading(input, error, &script.sql, turn, event))?;
                bind_sessions(&mut statement, script, input.request.session).map_err(&failing)?;
                self.progress.fetching.insert((columns, statement))
            }
        };
        bind_row(statement, script, row).map_err(&failing)?;
        let mut rows = statement.raw_query();
        let found = match rows.next() {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(error) => return Err(Stop::at_reading(input, error, &script.sql, turn, event)),
        };
        let mut image = Vec::with_capacity(row.bytes.len());
        write_row(&mut image, found, table.published.width()).map_err(&failing)?;
        Ok(Some(image))
    }
}
