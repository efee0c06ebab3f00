//! Applies rows by a user's script: all at once, or else in halves, down to single rows.
//!
//! The rows are decided in the order in which they were sent, whatever becomes of the others: the
//! script may look at what it did before. So none of them waits to be tried again later.

use crate::postgres::link::Answer;
use crate::postgres::upload::batch::{self, Batch, Part};
use crate::postgres::upload::fence::{self, Breach, Fence, Seen};
use crate::postgres::upload::isolation::conflict;
use crate::postgres::upload::isolation::group::{Group, halve};
use crate::postgres::upload::isolation::state::Isolation;
use crate::postgres::upload::row_fault::RowFault;
use crate::postgres::upload::stop::Stop;
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::event_of;
use crate::upload::verdict::{is_outside, leads_outside};
use model::Failure;

/// What became of rows.
enum OwnRan {
    Applied,
    /// Some changed nothing.
    Short,
    Breach(Breach),
    Fault(RowFault),
}

impl Isolation<'_, '_> {
    /// Applies the rows of a group for which a user wrote the script.
    pub(super) fn own(&mut self, group: Group) -> Result<(), Stop> {
        let Group { table, change, rows } = group;
        let mut stack = vec![rows];
        while let Some(rows) = stack.pop() {
            if rows.is_empty() {
                continue;
            }
            let outcome = self.run_own(table, change, &rows)?;
            if matches!(outcome, OwnRan::Applied) {
                self.keep();
                self.echo(table, change, &rows)?;
                continue;
            }
            self.undo();
            if rows.len() > 1 {
                halve(rows, &mut stack);
                continue;
            }
            let reason = match outcome {
                OwnRan::Applied => continue,
                OwnRan::Short => {
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
        Ok(())
    }

    /// Runs the script inside a savepoint, with a look before and after it where there is a fence.
    fn run_own(&mut self, table: usize, change: Change, rows: &[Vec<u8>]) -> Result<OwnRan, Stop> {
        let (this, event) = (self.table(table), event_of(change));
        let batches = |statement| batch::batches(this, statement, self.upload, change, rows);
        let looks = match &this.fence {
            Some(Fence(look)) => batches(look)?,
            None => Vec::new(),
        };
        let batches = batches(this.required(event)?)?;
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
        let mut firsts = batches.iter().zip(applied.iter().step_by(each.max(1)));
        Ok(match firsts.any(|(batch, answer)| batch.is_short_by(answer.affected)) {
            true => OwnRan::Short,
            false => OwnRan::Applied,
        })
    }
}

/// What the looks at all rows have found.
fn seen(answers: &[Answer]) -> Result<Seen, Failure> {
    answers.iter().try_fold(Seen::default(), |all, answer| Ok(all.and(Seen::of(answer)?)))
}
