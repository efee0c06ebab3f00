//! What is kept of an upload: for the logs, the remote and the answer.
//!
//! This is: rows that need not be sent back, owed rows, rejected rows, and conflicts.

use super::conflicts::{Conflicts, Images};
use super::input::{Input, Turn};
use super::owing;
use super::own_entries::{OwnEntries, Tally};
use crate::administration::readable;
use crate::download::range::has_other_claims;
use crate::sqlite::download::watermark::Logs;
use crate::sqlite::errors::failed;
use crate::synchronization::Applied;
use crate::synchronization::change::Change;
use crate::synchronization::counted::Unusual;
use crate::upload::echo::Echo;
use crate::upload::owed_rows::OwedRows;
use crate::upload::reason::Reason;
use model::Failure;

/// What is kept of one attempt.
pub(super) struct Record<'a> {
    pub(super) applied: Applied,
    /// What the remote is owed, and what was rejected.
    pub(super) owed: OwedRows,
    /// Rows that are stored as they were rebased, so that the remote has others.
    pub(super) stored_rebased: OwedRows,
    /// The row that is being applied was rebased, and is not what the remote has.
    pub(super) differs: bool,
    /// What goes to the logs, by table.
    own_entries: Vec<Option<OwnEntries>>,
    /// Rows that statements of the upload have changed.
    direct: u64,
    conflicts: Option<Conflicts<'a>>,
}

impl<'a> Record<'a> {
    pub(super) fn new(input: &Input<'_>) -> Record<'a> {
        Record {
            applied: Applied { echo: Echo::within(input.spills.memory()), ..Applied::default() },
            owed: OwedRows::within(input.spills),
            stored_rebased: OwedRows::within(input.spills),
            differs: false,
            own_entries: input.tables.iter().map(|_| None).collect(),
            direct: 0,
            conflicts: None,
        }
    }

    /// Begins with a table, before its first row.
    pub(super) fn begin(&mut self, input: &Input<'_>, position: usize) -> Result<(), Failure> {
        let own = &mut self.own_entries[position];
        if input.request.download_follows && own.is_none() {
            *own = OwnEntries::begin(input.connection, &input.tables[position])?;
        }
        Ok(())
    }

    /// What is counted of changes at this moment.
    pub(super) fn tally(&self, input: &Input<'_>) -> Result<Tally, Failure> {
        Tally::now(input.connection, input.tables, self.direct)
    }

    /// Notes that a statement has changed so many rows of a table.
    pub(super) fn changed(&mut self, position: usize, changes: usize) {
        self.direct += changes as u64;
        if let Some(own) = &mut self.own_entries[position] {
            own.add(changes);
        }
    }

    /// Notes that the remote need not be sent this row.
    pub(super) fn echo(&mut self, turn: Turn<'_>) {
        match &mut self.own_entries[turn.position] {
            Some(own) if self.differs => own.differs(),
            Some(own) => own.stored(turn.table, turn.row),
            None if self.differs => {}
            None => self.add_to_echo(turn),
        }
    }

    /// The same for a row that another user has changed too: the log has entries of it that are not
    /// of this upload.
    pub(super) fn echo_shared(&mut self, turn: Turn<'_>) {
        self.echo(turn);
        if !self.differs && self.own_entries[turn.position].is_some() {
            self.add_to_echo(turn);
        }
    }

    fn add_to_echo(&mut self, turn: Turn<'_>) {
        self.applied.echo.add_uploaded(&turn.table.published, turn.position, turn.row);
    }

    pub(super) fn reject(&mut self, turn: Turn<'_>, reason: Reason) -> Result<(), Failure> {
        self.applied.rejected += 1;
        self.unusual(turn).rejected[turn.row.change as usize] += 1;
        let message = readable::message(reason.message);
        self.owed.reject(&turn.id(), Reason { message, ..reason })
    }

    /// Owes a row of which a conflict was counted. The remote is told if it has `lost` by `rule`.
    pub(super) fn settle(&mut self, turn: Turn<'_>, lost: bool, rule: &str) -> Result<(), Failure> {
        match lost {
            true => self.owed.lose(&turn.id(), rule),
            false => self.owed.owe(&turn.id()),
        }
    }

    /// Rejects a row of which a conflict was counted.
    pub(super) fn reject_loser(&mut self, turn: Turn<'_>, reason: Reason) -> Result<(), Failure> {
        self.unusual(turn).lost[turn.row.change as usize] += 1;
        self.reject(turn, reason)
    }

    fn unusual(&mut self, turn: Turn<'_>) -> &mut Unusual {
        self.applied.unusual.entry(turn.position).or_default()
    }

    /// Counts a conflict and records it with its rows, so that people can look at them later.
    pub(super) fn conflict(
        &mut self,
        input: &Input<'a>,
        turn: Turn<'_>,
        images: Images<'_>,
    ) -> Result<(), Failure> {
        self.applied.conflicts += 1;
        self.unusual(turn).conflicts[turn.row.change as usize] += 1;
        let noting = failed("note a conflict");
        let conflicts = match &mut self.conflicts {
            Some(conflicts) => conflicts,
            none => {
                let begun = Conflicts::begin(input.connection, input.request.session);
                none.insert(begun.map_err(&noting)?)
            }
        };
        conflicts.add(turn.table, turn.row, images).map_err(&noting)
    }

    /// Settles what need not be sent: whole own entries of the logs, or else row by row.
    fn end_own_entries(&mut self, input: &Input<'_>) -> Result<(), Failure> {
        let mut unsettled = vec![false; input.tables.len()];
        for (position, own) in self.own_entries.iter().enumerate() {
            let Some(own) = own else { continue };
            match own.end(input.connection, &input.tables[position])? {
                Some((first, last)) => self.applied.echo.add_own_entries(position, first, last),
                None => unsettled[position] = true,
            }
        }
        if !unsettled.contains(&true) {
            return Ok(());
        }
        input.each_row(
            |position, _| unsettled[position],
            |turn| {
                self.add_to_echo(turn);
                Ok(())
            },
        )
    }

    /// Owes the rows that no watermark covers, because they came with other claims.
    fn owe_under_other_claims(&mut self, input: &Input<'_>) -> Result<(), Failure> {
        let (request, tables) = (input.request, input.tables);
        let others = tables.iter().map(|table| has_other_claims::<Logs>(&**table, request));
        let others = others.collect::<Result<Vec<bool>, Failure>>()?;
        if !others.contains(&true) {
            return Ok(());
        }
        let wanted = |position: usize, change| others[position] && change != Change::Delete;
        input.each_row(wanted, |turn| self.owed.owe(&turn.id()))
    }

    /// Writes what is to be kept, and answers.
    pub(super) fn finish(mut self, input: &Input<'_>) -> Result<Applied, Failure> {
        match input.request.download_follows {
            true => self.end_own_entries(input)?,
            false => self.applied.echo = Echo::default(),
        }
        if let Some(conflicts) = &mut self.conflicts {
            conflicts.write().map_err(failed("note a conflict"))?;
        }
        // Values for columns that are gone are reported with their rows.
        if let Some(left_out) = input.request.left_out {
            self.applied.rejected += self.owed.tell_left_out(left_out)?;
        }
        self.owe_under_other_claims(input)?;
        if !self.owed.is_empty() {
            owing::write(input, &self.owed)?;
        }
        Ok(self.applied)
    }
}
