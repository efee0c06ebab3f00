//! Applies rows by a user's script: all at once, or else in halves, down to single rows.
//!
//! The rows are decided in the order in which they were sent, whatever becomes of the others: the
//! script may look at what it did before. So none of them waits to be tried again later.

use crate::postgres::catalog::table::Table;
use crate::postgres::link::Answer;
use crate::postgres::upload::batch::{self, Batch, Part, Reason};
use crate::postgres::upload::fence::{self, Breach, Fence, Seen};
use crate::postgres::upload::isolation::conflict;
use crate::postgres::upload::isolation::group::{Group, Images, Rows, halve};
use crate::postgres::upload::isolation::state::Isolation;
use crate::postgres::upload::row_fault::RowFault;
use crate::postgres::upload::stop::Stop;
use crate::script::{Detection, Event};
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::event_of;
use crate::upload::verdict::{is_outside, leads_outside};
use model::Failure;
use std::borrow::Cow;

/// Rows, and the table whose script takes them.
type Taken<'a, 'r> = (&'a Table, Cow<'r, [Vec<u8>]>);

/// What became of rows.
enum OwnRan {
    Applied,
    /// Some changed nothing: their positions, where each row has a count of its own.
    Short(Vec<usize>),
    Breach(Breach),
    Fault(RowFault),
}

impl<'a> Isolation<'_, 'a> {
    /// Applies the rows of a group for which a user wrote the script.
    pub(super) fn own(&mut self, group: Group) -> Result<(), Stop> {
        let Group { table, change, .. } = group;
        let event = event_of(change);
        let applied = self.through(group, event)?;
        Ok(self.echo(table, change, &applied)?)
    }

    /// Runs the script of an event for the rows of a group. Returns those for which it has run;
    /// what is to be done about the others is done.
    pub(super) fn through(&mut self, group: Group, event: Event) -> Result<Rows, Stop> {
        let Group { table, change, rows } = group;
        let whole = self.table(table).deployed.whole.as_ref();
        let asks = whole.is_some_and(|whole| whole.asks(change));
        let counted = self.table(table).deployed.detection(change) == Some(Detection::Count);
        let (mut stack, mut is_again, mut done) = (vec![rows], false, Vec::new());
        while let Some(rows) = stack.pop() {
            if rows.is_empty() {
                continue;
            }
            let outcome = self.run_own((table, change), event, &rows)?;
            match &outcome {
                OwnRan::Applied => {
                    self.keep();
                    done.extend(rows);
                    continue;
                }
                // What changed nothing is a conflict: there is nothing to undo.
                OwnRan::Short(positions) if counted && !positions.is_empty() => {
                    self.keep();
                    let (short, applied) = parted(rows, positions);
                    done.extend(applied);
                    conflict::resolve(self, Group { table, change, rows: short })?;
                    continue;
                }
                _ => self.undo(),
            }
            if rows.len() > 1 {
                halve(rows, &mut stack);
                continue;
            }
            // Another session may have changed what was looked up for it.
            is_again = asks && !is_again && matches!(outcome, OwnRan::Short(_));
            if is_again {
                stack.push(rows);
                continue;
            }
            let reason = match outcome {
                OwnRan::Applied => continue,
                OwnRan::Short(_) => {
                    conflict::resolve(self, Group { table, change, rows })?;
                    self.write_conflicts()?;
                    continue;
                }
                OwnRan::Breach(Breach::Touches) => is_outside(),
                OwnRan::Breach(Breach::Leads) => leads_outside(change),
                OwnRan::Fault(fault) => fault.into_reason(),
            };
            self.reject(table, change, &rows[0], reason)?;
        }
        Ok(done)
    }

    /// Runs the script inside a savepoint, with a look before and after it where there is a fence.
    fn run_own(
        &mut self,
        (table, change): (usize, Change),
        event: Event,
        rows: &[Vec<u8>],
    ) -> Result<OwnRan, Stop> {
        let (this, upload) = (self.table(table), self.upload);
        let looks = match &this.fence {
            Some(Fence(look)) => batch::batches(this, look, upload, change, rows)?,
            None => Vec::new(),
        };
        let taken = match this.deployed.own(event) {
            Some(_) => self.widened(table, change, rows)?,
            None => Ok((this, rows.into())),
        };
        let (whole, taken) = match taken {
            Ok(taken) => taken,
            Err(reason) => return Ok(OwnRan::Fault(RowFault::Refused(reason))),
        };
        let batches = batch::batches(whole, whole.required(event)?, upload, change, &taken)?;
        let looking: Vec<_> = looks.iter().flat_map(Batch::parts).collect();
        let parts: Vec<_> = batches.iter().flat_map(Batch::parts).collect();
        let look = || looking.iter().map(Part::asked);
        let calls: Vec<_> = look().chain(parts.iter().map(Part::call)).chain(look()).collect();
        let answers = match self.fly((table, event), &calls, rows.len() == 1)? {
            Ok(answers) => answers,
            Err(fault) => return Ok(OwnRan::Fault(fault)),
        };
        let (before, answers) = answers.split_at(looking.len());
        let (applied, after) = answers.split_at(parts.len());
        if this.fence.is_some() {
            let seen = (seen(before)?, seen(after)?);
            let may_leave = change == Change::Update && this.deployed.details.may_leave;
            if let Some(breach) = fence::breach(may_leave, rows.len() as u64, seen) {
                return Ok(OwnRan::Breach(breach));
            }
        }
        let each = parts.len() / batches.len().max(1);
        let firsts = batches.iter().zip(applied.iter().step_by(each.max(1))).enumerate();
        let short = firsts.filter(|(_, (batch, answer))| batch.is_short_by(answer.affected));
        let short: Vec<usize> = short.map(|(at, _)| at).collect();
        Ok(match short.is_empty() {
            true => OwnRan::Applied,
            false if batches.len() == rows.len() => OwnRan::Short(short),
            false => OwnRan::Short(Vec::new()),
        })
    }

    /// Rows as the user's script takes them, or why it cannot take one of them. Those of an older
    /// shape get all columns.
    ///
    /// What they lack is looked up right before the script, for all of them. Where another session,
    /// or the script for an earlier one of them, changes it in between, a script that compares it
    /// changes nothing, and runs again for the row alone; one that only sets it wins.
    fn widened<'r>(
        &mut self,
        table: usize,
        change: Change,
        rows: &'r [Vec<u8>],
    ) -> Result<Result<Taken<'a, 'r>, Reason>, Stop> {
        let this = self.table(table);
        let (Some(wide), Some(whole)) = (&this.wide, &this.deployed.whole) else {
            return Ok(Ok((this, rows.into())));
        };
        let now = match whole.asks(change) {
            true => self.images(table, change, (wide.fetch()?, &wide.table), rows)?,
            false => Images::new(),
        };
        let mut widened = Vec::with_capacity(rows.len());
        for bytes in rows {
            let row = self.read(table, change, bytes)?;
            let key = row.key(&this.deployed.published, table).1;
            let row = whole.widen(&row, now.get(&key).map(Vec::as_slice))?;
            if let Some(reason) = self.misfit_of(&wide.table, &whole.read(&row)?)? {
                return Ok(Err(reason));
            }
            widened.push(row.bytes);
        }
        Ok(Ok((&wide.table, widened.into())))
    }
}

/// Parts the rows at `positions`, which come first, from the others.
fn parted(rows: Rows, positions: &[usize]) -> (Rows, Rows) {
    let (mut those, mut others) = (Vec::new(), Vec::new());
    for (at, row) in rows.into_iter().enumerate() {
        if positions.binary_search(&at).is_ok() { those.push(row) } else { others.push(row) }
    }
    (those, others)
}

/// What the looks at all rows have found.
fn seen(answers: &[Answer]) -> Result<Seen, Failure> {
    answers.iter().try_fold(Seen::default(), |all, answer| Ok(all.and(Seen::of(answer)?)))
}
