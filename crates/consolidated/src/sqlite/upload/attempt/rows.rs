//! Applies the rows of an upload, one by one, in an attempt.
//!
//! The order is: inserts and updates as they were sent, parents first; deletes, children first;
//! rows that leave the partition, if other rows need them before.

use super::{Attempt, RowOutcome, Stop};
use crate::script::{Event, Script};
use crate::sqlite::details::CatalogTable;
use crate::sqlite::errors::{RowFault, row_fault};
use crate::sqlite::event_script::Running;
use crate::sqlite::upload::fence::{self, Standing};
use crate::sqlite::upload::input::{Input, Turn};
use crate::sqlite::upload::{conflict, constraint, foresight};
use crate::sqlite::values::{bind_row, bind_sessions};
use crate::synchronization::change::{Change, UploadedRows};
use crate::upload::changed_columns::{ChangedColumns, Chosen};
use crate::upload::reason::Reason;
use crate::upload::uploaded_row::{UploadedRow, each_batch, event_of};
use crate::upload::waiting::WaitingRow;
use model::Failure;
use rusqlite::{CachedStatement, Statement};

/// The statements for rows of one table with the same change. Updates have one for every set of
/// columns that rows change.
struct Statements<'a> {
    input: &'a Input<'a>,
    table: &'a CatalogTable,
    event: Event,
    assigns_changes: bool,
    /// The columns that the last row changes.
    changed: ChangedColumns,
    /// Or why rows that need a statement are to be rejected.
    prepared: Vec<(ChangedColumns, Chosen<'a, Script>, Result<CachedStatement<'a>, Reason>)>,
}

/// The script for a row and its statement, or why the row is to be rejected.
type Prepared<'s, 'a> = Result<(&'s Script, &'s mut CachedStatement<'a>), Reason>;

impl<'a> Statements<'a> {
    /// None so far, for rows of the table at a position.
    fn new(input: &'a Input<'a>, position: usize, change: Change) -> Statements<'a> {
        let table = &*input.tables[position];
        let (event, assigns_changes) = (event_of(change), table.assigns_changes(change));
        let (changed, prepared) = (ChangedColumns::default(), Vec::new());
        Statements { input, table, event, assigns_changes, changed, prepared }
    }

    /// What a row needs. A statement serves for many rows.
    fn of<'s>(&'s mut self, row: &UploadedRow<'_>) -> Result<Prepared<'s, 'a>, Failure> {
        if self.assigns_changes {
            self.changed.read(row);
        }
        let known = self.prepared.iter().position(|(of, ..)| *of == self.changed);
        let at = match known {
            Some(at) => at,
            None => {
                let (script, statement) = self.prepare()?;
                self.prepared.push((self.changed.clone(), script, statement));
                self.prepared.len() - 1
            }
        };
        let (_, script, statement) = &mut self.prepared[at];
        Ok(match statement {
            Ok(statement) => Ok((script, statement)),
            Err(reason) => Err(reason.clone()),
        })
    }

    /// What the last row needs.
    fn prepare(
        &self,
    ) -> Result<(Chosen<'a, Script>, Result<CachedStatement<'a>, Reason>), Failure> {
        let Statements { input, table, event, .. } = *self;
        let script = match table.own(event) {
            Some(own) => Chosen::Whole(own),
            None if self.assigns_changes => Chosen::Variant(table.update(&self.changed)?),
            None => Chosen::Whole(table.required(event)?),
        };
        let prepare = || {
            let mut statement = input.connection.prepare_cached(&script.sql)?;
            bind_sessions(&mut statement, &script, input.request.session)?;
            Ok(statement)
        };
        let statement = prepare().map(Ok).or_else(|error| {
            let (connection, name) = (input.connection, &table.published.name);
            let fault = row_fault(connection, error, &script.sql, name, event.name());
            fault.map(|(_, reason)| Err(reason))
        })?;
        Ok((script, statement))
    }
}

impl<'a> Attempt<'a> {
    pub(in crate::sqlite::upload) fn rows(&mut self) -> Result<(), Stop> {
        let (batches, tables) = (self.input.request.batches, self.input.tables.len());
        let mut deleting = vec![false; tables];
        each_batch(batches, |batch| {
            let (count, applied) = (u64::from(batch.count), &mut self.record.applied);
            if self.input.ignores(&batch) {
                applied.ignored += count;
                return Ok(());
            }
            match batch.change {
                Change::Insert => applied.inserts += count,
                Change::Update => applied.updates += count,
                Change::Delete => {
                    applied.deletes += count;
                    deleting[batch.table] = true;
                    return Ok(());
                }
            }
            self.batch(batch)
        })?;
        if deleting.contains(&true) {
            self.progress.before_deletes = Some(self.record.tally(self.input)?);
        }
        // Children first, or RESTRICT would stop the parent's delete.
        for table in (0..tables).rev().filter(|table| deleting[*table]) {
            each_batch(batches, |batch| {
                match batch.table == table && batch.change == Change::Delete {
                    true => self.batch(batch),
                    false => Ok(()),
                }
            })?;
        }
        self.cues.end(&mut Running(self.input.connection))?;
        for row in self.waits.leaving.take().into_rows() {
            let outcome = self.retry(&row)?;
            self.put_off(row, outcome)?;
        }
        Ok(())
    }

    fn batch(&mut self, batch: UploadedRows<'_>) -> Result<(), Stop> {
        let input = self.input;
        let turn = (input.tables[batch.table].published.name.as_str(), batch.change);
        self.cues.turn(&mut Running(input.connection), turn, u64::from(batch.count))?;
        self.record.begin(input, batch.table)?;
        let mut statements = Statements::new(input, batch.table, batch.change);
        input.each_of(batch, |turn| {
            if self.is_put_off(turn)? {
                return Ok(());
            }
            let outcome = match statements.of(turn.row)? {
                Ok((script, statement)) => {
                    self.at_turn(turn, |attempt| attempt.row(statement, script, turn))?
                }
                Err(reason) => return Ok(self.record.reject(turn, reason)?),
            };
            match outcome {
                RowOutcome::Done => Ok(()),
                outcome => Ok(self.put_off(WaitingRow::of(turn.position, turn.row), outcome)?),
            }
        })
    }

    /// Does what is to be done with a row at its turn. In a search, it is taken back if a foreign
    /// key is broken then.
    fn at_turn(
        &mut self,
        turn: Turn<'_>,
        work: impl FnOnce(&mut Self) -> Result<RowOutcome, Stop>,
    ) -> Result<RowOutcome, Stop> {
        let searched = self.known.foreign_keys.as_ref().filter(|_| !self.progress.together);
        self.each_alone(RowOutcome::Done, |attempt| match searched {
            Some(foreign_keys) => constraint::checked(attempt, foreign_keys, turn, work),
            None => work(attempt),
        })
    }

    /// Whether the row is not to be applied now: it is impossible, or comes after the others.
    fn is_put_off(&mut self, turn: Turn<'_>) -> Result<bool, Failure> {
        let known = self.known;
        if known.refused.is_empty() && known.postponed.is_empty() {
            return Ok(false);
        }
        let id = turn.id();
        if let Some(reason) = known.refused.reason(&id)? {
            self.record.reject(turn, reason)?;
            return Ok(true);
        }
        if !known.postponed.contains(&id)? {
            return Ok(false);
        }
        let (row, waits) = (WaitingRow::of(turn.position, turn.row), &mut self.waits);
        waits.leaving.push(row).or_else(|too_many| waits.no_room.reject(&id, too_many))?;
        Ok(true)
    }

    /// Tries a waiting row once more.
    pub(in crate::sqlite::upload) fn retry(
        &mut self,
        waits: &WaitingRow,
    ) -> Result<RowOutcome, Stop> {
        self.input.waiting(waits, |turn| self.at_turn(turn, |attempt| attempt.apply_one(turn)))
    }

    /// Applies one row by itself.
    pub(in crate::sqlite::upload) fn apply_one(
        &mut self,
        turn: Turn<'_>,
    ) -> Result<RowOutcome, Stop> {
        let mut statements = Statements::new(self.input, turn.position, turn.row.change);
        match statements.of(turn.row)? {
            Ok((script, statement)) => self.row(statement, script, turn),
            Err(reason) => {
                self.record.reject(turn, reason)?;
                Ok(RowOutcome::Done)
            }
        }
    }

    fn row(
        &mut self,
        statement: &mut Statement<'_>,
        script: &Script,
        turn: Turn<'_>,
    ) -> Result<RowOutcome, Stop> {
        let (event, Turn { row, .. }) = (turn.event(), turn);
        if turn.table.is_own(row.change) {
            return self.own_row(statement, script, turn);
        }
        let expects = row.change != Change::Insert;
        if expects
            && self.progress.conflicts >= foresight::ENOUGH
            && let Some(now) = self.foresee(script, turn)?
        {
            return conflict::resolve_found(self, turn, Some(now), String::new());
        }
        bind_row(statement, script, row).map_err(turn.failing(event))?;
        let written = self.input.connection.total_changes();
        match self.execute(statement, &script.sql, turn, event)? {
            // Only triggers can have written something then.
            Ok(0) if self.input.connection.total_changes() != written => {
                conflict::instead(self, turn)?;
            }
            Ok(0) if !expects => conflict::veto(self, turn)?,
            Ok(0) => {
                self.progress.conflicts = self.progress.conflicts.saturating_add(1);
                return conflict::resolve(self, turn, String::new());
            }
            Ok(changes) => {
                self.progress.conflicts = 0;
                self.record.changed(turn.position, changes);
                let violated = constraint::foreign_keys_violated(self.input.connection)?;
                self.progress.was_violated |= violated;
                if turn.table.details.is_fenced() {
                    // Scripts write to covered rows and to keys where there is none.
                    let before = if expects { Standing::Inside } else { Standing::Absent };
                    fence::check_written(self, turn, before)?;
                }
                self.record.echo(turn);
            }
            Err((RowFault::Refused(_), reason)) => self.record.reject(turn, reason)?,
            Err((fault, reason)) => {
                return match self.meets_its_row(turn, fault)? {
                    true => conflict::resolve(self, turn, reason.message),
                    false => Ok(RowOutcome::InTheWay(reason.message)),
                };
            }
        }
        Ok(RowOutcome::Done)
    }

    /// The row at the center if it certainly is not what the row of the upload expects.
    fn foresee(&mut self, script: &Script, turn: Turn<'_>) -> Result<Option<Vec<u8>>, Stop> {
        let Some(now) = self.fetch(turn)? else { return Ok(None) };
        let certain = foresight::is_certain(&mut self.progress.compared, script, turn, &now)?;
        Ok(certain.then_some(now))
    }

    /// Whether a row that is not unique meets the one with its key.
    fn meets_its_row(&self, turn: Turn<'_>, fault: RowFault) -> Result<bool, Stop> {
        match fault {
            RowFault::KeyExists => Ok(true),
            // Which constraint is reported first is SQLite's choice.
            RowFault::NotUnique if turn.row.change == Change::Insert => {
                Ok(fence::standing(self.input, turn)? != Standing::Absent)
            }
            RowFault::NotUnique | RowFault::Refused(_) => Ok(false),
        }
    }
}
