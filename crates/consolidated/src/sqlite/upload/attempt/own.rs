//! Applies a row by a script that a user wrote.
//!
//! Such rows are decided in the order in which they were sent. None waits for another one, and none
//! comes last because it leaves. What the script does is not known beforehand, so a fence is asked
//! before and afterwards.

use super::{Attempt, RowOutcome, Stop};
use crate::catalog::table::Whole;
use crate::script::{Detection, Event, Script};
use crate::sqlite::details::TableDetails;
use crate::sqlite::errors::not_unique;
use crate::sqlite::upload::fence::{self, Standing};
use crate::sqlite::upload::input::Turn;
use crate::sqlite::upload::{conflict, constraint};
use crate::sqlite::values::{bind, bind_row, bind_sessions, write_row};
use crate::upload::detected::{Detected, detected};
use crate::upload::reason::Reason;
use crate::upload::rebase::Rebased;
use crate::upload::uploaded_row::UploadedRow;
use rusqlite::Statement;

impl Attempt<'_> {
    /// Applies one row. `first` is the first statement of `script`, bound to the session.
    pub(super) fn own_row(
        &mut self,
        first: &mut Statement<'_>,
        script: &Script,
        turn: Turn<'_>,
    ) -> Result<RowOutcome, Stop> {
        let fenced = turn.table.details.is_fenced();
        let before = if fenced { fence::standing(self.input, turn)? } else { Standing::Inside };
        if before == Standing::Outside {
            fence::reject_touching(self, turn)?;
            return Ok(RowOutcome::Done);
        }
        match turn.table.detection(turn.row.change) {
            Some(Detection::Forced) => {
                let now = self.fetch(turn)?;
                return conflict::by_scripts(self, turn, now.as_deref(), before);
            }
            Some(detection) => match self.detected(detection, turn)? {
                Ok(Detected::AsSeen) => {}
                // Once is enough, also where the script returns something else each time.
                Ok(Detected::Aside(_)) if self.record.differs => {}
                Ok(Detected::Aside(anew)) => return conflict::apply_rebased(self, turn, &anew),
                Ok(Detected::Conflict) => {
                    let now = self.fetch(turn)?;
                    return conflict::by_scripts(self, turn, now.as_deref(), before);
                }
                Err(fault) => {
                    self.record.reject(turn, fault)?;
                    return Ok(RowOutcome::Done);
                }
            },
            None => {}
        }
        let changes = match self.run_own(first, script, (turn, turn.event()))? {
            Ok(changes) => changes,
            Err(fault) => {
                self.record.reject(turn, fault)?;
                return Ok(RowOutcome::Done);
            }
        };
        if changes == 0 && script.counts() {
            return match conflict::resolve(self, turn, String::new())? {
                RowOutcome::InTheWay(why) if why.is_empty() => {
                    conflict::veto(self, turn)?;
                    Ok(RowOutcome::Done)
                }
                RowOutcome::InTheWay(why) => {
                    self.record.reject(turn, not_unique(why))?;
                    Ok(RowOutcome::Done)
                }
                outcome => Ok(outcome),
            };
        }
        self.record.changed(turn.position, changes);
        let violated = constraint::foreign_keys_violated(self.input.connection)?;
        self.progress.was_violated |= violated;
        fence::check_written(self, turn, before)?;
        self.record.echo(turn);
        Ok(RowOutcome::Done)
    }

    /// What the script that reads the row says about it, or what is wrong with the row.
    fn detected(
        &mut self,
        detection: Detection,
        turn: Turn<'_>,
    ) -> Result<Result<Detected, Reason>, Stop> {
        let fetching = detection.fetching();
        let Some((event, script)) =
            fetching.and_then(|event| Some((event, turn.table.own(event)?)))
        else {
            return Ok(Ok(Detected::AsSeen));
        };
        if script.is_ignored() {
            return Ok(Ok(Detected::AsSeen));
        }
        self.cues.ran(event, 1);
        let (connection, failing) = (self.input.connection, turn.failing(event));
        let whole = turn.table.whole.as_ref();
        let wide = whole.map(|whole| whole.widen(turn.row, None)).transpose()?;
        let wide = whole.zip(wide.as_ref()).map(|(whole, wide)| whole.read(wide)).transpose()?;
        let row = wide.as_ref().unwrap_or(turn.row);
        let read = |statement: &mut Statement<'_>| -> rusqlite::Result<Option<Vec<u8>>> {
            let mut rows = statement.raw_query();
            let Some(found) = rows.next()? else { return Ok(None) };
            let mut image = Vec::with_capacity(row.bytes.len());
            write_row(&mut image, found, row.old.len())?;
            Ok(Some(image))
        };
        let ran = match connection.prepare_cached(&script.sql) {
            Ok(mut statement) => {
                bind(&mut statement, script, self.input.request.session, row).map_err(&failing)?;
                read(&mut statement)
            }
            Err(error) => Err(error),
        };
        match ran {
            Ok(now) => {
                let narrow = |now: Vec<u8>| match whole {
                    Some(whole) => whole.narrow(&now),
                    None => Ok(now),
                };
                let now = now.map(narrow).transpose()?;
                Ok(Ok(detected(detection, turn.row, now.as_deref())?))
            }
            Err(error) => {
                let outcome = self.outcome(Err(error), &script.sql, turn, event)?;
                Ok(outcome.map(|_| Detected::AsSeen).map_err(|(_, reason)| reason))
            }
        }
    }

    /// The row of an older shape for scripts of all columns, and their table. None of today's.
    fn wide<'t>(
        &mut self,
        turn: Turn<'t>,
    ) -> Result<Option<(&'t Whole<TableDetails>, Rebased)>, Stop> {
        let Some(whole) = &turn.table.whole else { return Ok(None) };
        Ok(Some((whole, self.widened(whole, turn)?)))
    }

    fn widened(&mut self, whole: &Whole<TableDetails>, turn: Turn<'_>) -> Result<Rebased, Stop> {
        let wide = whole.widen(turn.row, None)?;
        if !whole.asks(turn.row.change) {
            return Ok(wide);
        }
        let (table, row) = (&*whole.table, &whole.read(&wide)?);
        match self.fetch(Turn { table, row, ..turn })? {
            Some(now) => Ok(whole.widen(turn.row, Some(&now))?),
            None => Ok(wide),
        }
    }

    /// Runs all statements of the script of an event, and says how many rows changed. A view
    /// changes none itself: what its triggers change counts.
    pub(in crate::sqlite::upload) fn run_own(
        &mut self,
        first: &mut Statement<'_>,
        script: &Script,
        (turn, event): (Turn<'_>, Event),
    ) -> Result<Result<usize, Reason>, Stop> {
        self.cues.ran(event, 1);
        let (connection, failing) = (self.input.connection, turn.failing(event));
        let wide = if script.is_own() { self.wide(turn)? } else { None };
        let wide = wide.as_ref().map(|(whole, wide)| whole.read(wide)).transpose()?;
        let (row, of) = (wide.as_ref().unwrap_or(turn.row), (turn, event));
        let total = connection.total_changes();
        let mut changes = match self.run_one(first, script, of, row)? {
            Ok(changes) => changes,
            fault => return Ok(fault),
        };
        for then in script.statements().skip(1) {
            let mut statement = match connection.prepare_cached(&then.sql) {
                Ok(statement) => statement,
                Err(error) => {
                    let outcome = self.outcome(Err(error), &then.sql, turn, event)?;
                    return Ok(outcome.map_err(|(_, reason)| reason));
                }
            };
            let session = self.input.request.session;
            bind_sessions(&mut statement, then, session).map_err(&failing)?;
            match self.run_one(&mut statement, then, of, row)? {
                Ok(more) => changes += more,
                fault => return Ok(fault),
            }
        }
        if changes == 0 {
            changes = (connection.total_changes() - total) as usize;
        }
        Ok(Ok(changes))
    }

    /// Runs one statement, which is bound to the session.
    fn run_one(
        &self,
        statement: &mut Statement<'_>,
        script: &Script,
        (turn, event): (Turn<'_>, Event),
        row: &UploadedRow<'_>,
    ) -> Result<Result<usize, Reason>, Stop> {
        bind_row(statement, script, row).map_err(turn.failing(event))?;
        let outcome = self.outcome(run(statement), &script.sql, turn, event)?;
        Ok(outcome.map_err(|(_, reason)| reason))
    }
}

/// Runs a statement, and counts the rows that it changes, or returns.
fn run(statement: &mut Statement<'_>) -> rusqlite::Result<usize> {
    if statement.column_count() == 0 {
        return statement.raw_execute();
    }
    let (mut rows, mut count) = (statement.raw_query(), 0);
    while rows.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}
