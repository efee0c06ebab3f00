//! Applies an upload in which a statement falls short, and finds the rows at fault.
//!
//! A batch that fails is undone and halved until one row is left. Rows that may only block each
//! other wait until all others are applied (`constraint_cycle.rs`). Rows that did not find what
//! they expected are resolved together (`conflict.rs`).

pub(super) mod conflict;
pub(in crate::postgres) mod constraint_cycle;
pub(in crate::postgres) mod group;
mod halves;
mod hidden;
pub(super) mod lookup;
pub(super) mod misspelled;
mod own;
pub(super) mod report;
mod scripted;
pub(in crate::postgres) mod state;
pub(in crate::postgres) mod taken_along;

use crate::postgres::event_script::Running;
use crate::postgres::link::Link;
use crate::postgres::upload::isolation::group::{Gathering, Group, groups, turn};
use crate::postgres::upload::isolation::state::Isolation;
use crate::postgres::upload::record::UploadRecord;
use crate::postgres::upload::shape::UploadShape;
use crate::postgres::upload::stop::Stop;
use crate::postgres::upload::work::Upload;
use crate::synchronization::change::Change;
use crate::upload::owed_rows::OwedRows;
use crate::upload::uploaded_row::{UploadedRow, event_of};
use crate::upload::verdict::leads_outside;
use crate::upload::waiting::WaitingRow;
use model::Failure;

/// Before the first statement. Errors are to be met by the statement that makes them, so that a row
/// can be blamed.
pub(in crate::postgres) const BEGIN: &str = "SET CONSTRAINTS ALL IMMEDIATE;";

/// Applies all rows and returns the records about them. The rows of `refused` are left out. What
/// is in `before` is sent with the first statement.
pub(in crate::postgres) fn apply(
    link: &mut Link,
    upload: Upload<'_>,
    outline: &UploadShape,
    (refused, before): (&OwedRows, &'static str),
) -> Result<UploadRecord, Stop> {
    let mut isolation = Isolation::new(link, upload);
    isolation.before = before;
    let refusal = |table: usize, row: &UploadedRow<'_>| match refused.is_empty() {
        true => Ok(None),
        false => refused.reason(&row.key(&upload.tables[table].deployed.published, table)),
    };
    let mut gathering = Gathering::default();
    outline.visit(upload, &mut |table, row| {
        let refusal = match refusal(table, row)? {
            None => isolation.misfit(table, row)?,
            refusal => refusal,
        };
        match refusal {
            Some(reason) => Ok(isolation.reject(table, row.change, row.bytes, reason)?),
            None => {
                isolation.unless_it_leaves(gathering.add(table, row.change, row.bytes))?;
                isolation.turn(table, row.change)
            }
        }
    })?;
    isolation.unless_it_leaves(gathering.end())?;
    isolation.end_turns()?;
    for group in groups(isolation.leaving.take().rows()) {
        isolation.group(group)?;
    }
    isolation.settle_waiting()?;
    taken_along::reject(&mut isolation, outline)?;
    isolation.flush()?;
    Ok(isolation.record)
}

impl Isolation<'_, '_> {
    /// Runs the scripts between rows of one table and of the next, when a row of this one comes.
    fn turn(&mut self, table: usize, change: Change) -> Result<(), Stop> {
        let published = &self.table(table).deployed.published;
        let turn = (published.name.as_str(), change);
        if self.cues.is_turn_of(turn) {
            self.cues.ran(event_of(change), 1);
            return Ok(());
        }
        self.flush()?;
        let calls = &mut Running { link: &mut *self.link, zone: None };
        Ok(self.cues.turn(calls, turn, 1)?)
    }

    fn end_turns(&mut self) -> Result<(), Stop> {
        self.flush()?;
        let calls = &mut Running { link: &mut *self.link, zone: None };
        Ok(self.cues.end(calls)?)
    }

    /// Applies a group, where there is one, and keeps the rows that leave for later.
    fn unless_it_leaves(&mut self, group: Option<Group>) -> Result<(), Stop> {
        let Some(group) = group else { return Ok(()) };
        let mut group = misspelled::refuse_misspelled(self, group)?;
        let (table, change) = (group.table, group.change);
        if change == Change::Update
            && !self.table(table).deployed.is_own(change)
            && self.table(table).deployed.details.may_leave
            && let Some(inside) = self.inside(table, change, &group.rows)?
        {
            let published = &self.table(table).deployed.published;
            let mut staying = Vec::new();
            for bytes in group.rows {
                let key = self.read(table, change, &bytes)?.key(published, table).1;
                match inside.contains(&key) {
                    true => staying.push(bytes),
                    false => self.leave_last(table, &bytes)?,
                }
            }
            group.rows = staying;
        }
        self.group(group)?;
        self.write_conflicts()
    }

    /// Keeps an update by which a row leaves until all others are applied.
    fn leave_last(&mut self, table: usize, bytes: &[u8]) -> Result<(), Failure> {
        let (change, row) = (Change::Update, bytes.to_vec());
        match self.leaving.push(WaitingRow { table, change, row, reason: leads_outside(change) }) {
            Ok(()) => Ok(()),
            Err(too_many) => self.reject(table, change, bytes, too_many),
        }
    }

    /// Tries the waiting rows again for as long as that helps.
    fn settle_waiting(&mut self) -> Result<(), Stop> {
        loop {
            let mut waiting = self.waiting_rows.take();
            let before = waiting.len();
            if before == 0 {
                return Ok(());
            }
            waiting.sort_by_key(turn);
            for group in groups(waiting.rows()) {
                self.group(group)?;
                self.write_conflicts()?;
            }
            if self.waiting_rows.len() >= before {
                break;
            }
        }
        constraint_cycle::untie(self)
    }
}
