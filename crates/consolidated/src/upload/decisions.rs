//! What scripts say about rows that the database refused.
//!
//! They are asked when it is certain which rows are refused, for each of them in the order of the
//! upload: until then an upload may be applied several times. What a script writes while it is
//! asked is undone. `report_error` hears of a decision when it stands, in a transaction of its own.

use crate::administration::readable;
use crate::catalog::VersionScripts;
use crate::script::called::Called;
use crate::script::told::{Told, ToldValues};
use crate::script::{Event, Mistake, Script};
use crate::synchronization::Session;
use crate::synchronization::change::RowSource;
use crate::upload::owed_rows::OwedRows;
use crate::upload::reason::Reason;
use crate::upload::uploaded_row::{RowId, each_row};
use model::{Code, Failure, PublishedTable, Spills};
use std::sync::Arc;

/// Most decisions of one upload that `report_error` hears of: they are in memory.
const REPORTED_MAX: usize = 10_000;

/// Rows that a script is asked about together, where the database is far away.
const TOGETHER: usize = 500;

/// What becomes of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// The row is rejected, and the upload goes on.
    Reject,
    /// Nothing of the upload is applied.
    Cancel,
    /// The same, and this server ends.
    Drain,
}

impl Action {
    fn number(self) -> i64 {
        match self {
            Action::Reject => 1000,
            Action::Cancel => 3000,
            Action::Drain => 4000,
        }
    }

    /// What a script has said. What nobody defined cancels.
    fn of(said: Option<&str>) -> Action {
        match said {
            Some("1000") => Action::Reject,
            Some("4000") => Action::Drain,
            _ => Action::Cancel,
        }
    }
}

/// What was decided about one row.
#[derive(Debug)]
pub(crate) struct Decision {
    table: String,
    reason: Reason,
    action: Action,
}

impl Decision {
    /// What the scripts of the user learn of it.
    pub(crate) fn told(&self) -> ToldValues {
        let fault = self.reason.fault;
        let state = fault.map(|fault| fault.state().to_owned());
        let number = fault.and_then(|fault| fault.number).map(|number| number.to_string());
        ToldValues::default()
            .with(Told::ActionCode, Some(self.action.number().to_string()))
            .with(Told::ErrorCode, number)
            .with(Told::SqlState, state)
            .with(Told::ErrorMessage, Some(self.reason.message.clone()))
            .with(Told::Table, Some(self.table.clone()))
    }
}

/// What was decided about the rows of an upload.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    pub(crate) reported: Vec<Decision>,
    /// How many more there are.
    left_out: u64,
}

impl Decisions {
    fn add(&mut self, decision: Decision) {
        match self.reported.len() < REPORTED_MAX {
            true => self.reported.push(decision),
            false => self.left_out += 1,
        }
    }

    /// Whether they stand, with this outcome of the upload.
    pub(crate) fn stand<T>(&self, outcome: &Result<T, Failure>) -> bool {
        let codes = [Code::UploadCanceled, Code::ServerDrained];
        let stand = outcome.as_ref().map_or_else(|it| codes.contains(&it.code()), |_| true);
        stand && !self.reported.is_empty()
    }

    /// Says in the log that not all are reported, if so.
    pub(crate) fn tell_left_out(&self) {
        if self.left_out > 0 {
            tracing::warn!(rows = self.left_out, "report_error hears of {REPORTED_MAX} rows only");
        }
    }
}

/// What decides about the rows of an upload, and what is decided.
pub(crate) struct Deciding<'d> {
    pub(crate) scripts: &'d VersionScripts,
    /// Whether a script may end this server.
    pub(crate) may_drain: bool,
    pub(crate) decisions: &'d mut Decisions,
}

/// How a backend asks a script.
pub(crate) trait Asks {
    /// Runs the script with each of these values, and undoes what it wrote. Stops behind the first
    /// for which it fails: that one says why.
    fn ask(
        &mut self,
        script: &Script,
        told: &[ToldValues],
    ) -> Result<Vec<Result<Called, Mistake>>, Failure>;
}

/// An upload whose rows were applied, as far as the database takes them.
pub(crate) struct Decider<'a> {
    pub(crate) session: &'a Session,
    pub(crate) scripts: &'a VersionScripts,
    /// Whether a script may end this server.
    pub(crate) may_drain: bool,
    pub(crate) batches: RowSource<'a>,
    pub(crate) table: &'a dyn Fn(usize) -> &'a PublishedTable,
    pub(crate) spills: &'a Arc<Spills>,
}

impl Decider<'_> {
    /// Whether a script, or the model, decides about the rows that are refused.
    fn is_needed(&self, owed: &OwedRows) -> bool {
        let events = [Event::HandleError, Event::ModifyErrorMessage, Event::ReportError];
        let has_any = || events.iter().any(|event| self.scripts.script(*event).is_some());
        owed.has_rejects() && (self.scripts.cancels || has_any())
    }

    /// Decides about every row that the database refused. Fails where that is to cancel the upload.
    pub(crate) fn decide(
        &self,
        asks: &mut dyn Asks,
        owed: &mut OwedRows,
        decisions: &mut Decisions,
    ) -> Result<(), Failure> {
        owed.hide(&self.scripts.secrets(self.session), self.spills)?;
        if !self.is_needed(owed) {
            return Ok(());
        }
        let mut reworded = OwedRows::within(self.spills);
        let mut waiting = Vec::new();
        each_row(
            self.batches,
            self.table,
            |_, _| true,
            |position, row| {
                let id = row.key((self.table)(position), position);
                let Some(reason) = owed.reason(&id)?.filter(|reason| reason.fault.is_some()) else {
                    return Ok(());
                };
                waiting.push((id, reason));
                match waiting.len() < TOGETHER {
                    true => Ok(()),
                    false => {
                        self.settle(asks, std::mem::take(&mut waiting), &mut reworded, decisions)
                    }
                }
            },
        )?;
        self.settle(asks, waiting, &mut reworded, decisions)?;
        owed.extend(&reworded)
    }

    fn settle(
        &self,
        asks: &mut dyn Asks,
        rows: Vec<(RowId, Reason)>,
        reworded: &mut OwedRows,
        decisions: &mut Decisions,
    ) -> Result<(), Failure> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut undecided = Vec::with_capacity(rows.len());
        let mut ids = Vec::with_capacity(rows.len());
        for (id, reason) in rows {
            let table = (self.table)(id.0).name.clone();
            undecided.push(Decision { table, reason, action: Action::Cancel });
            ids.push(id);
        }
        let mut decided = self.actions(asks, undecided)?;
        let words = self.words(asks, &decided)?;
        for ((decision, id), words) in decided.iter_mut().zip(ids).zip(words) {
            let Some(words) = words else { continue };
            decision.reason = decision.reason.clone().in_words(readable::message(words));
            if decision.action == Action::Reject {
                reworded.reject(&id, decision.reason.clone())?;
            }
        }
        let failure = decided.last().and_then(canceled);
        decided.into_iter().for_each(|decision| decisions.add(decision));
        failure.map_or(Ok(()), Err)
    }

    /// What becomes of the rows, up to the first that cancels the upload.
    fn actions(
        &self,
        asks: &mut dyn Asks,
        mut rows: Vec<Decision>,
    ) -> Result<Vec<Decision>, Failure> {
        let Some(script) = self.scripts.script(Event::HandleError) else {
            if self.scripts.cancels {
                rows.truncate(1);
            } else {
                rows.iter_mut().for_each(|row| row.action = Action::Reject);
            }
            return Ok(rows);
        };
        let told: Vec<ToldValues> = rows.iter().map(Decision::told).collect();
        let answers = asks.ask(script, &told)?;
        for (row, answer) in rows.iter_mut().zip(&answers) {
            row.action = match answer {
                Ok(called) => Action::of(called.out(script, Told::ActionCode)),
                Err(why) => {
                    let told = self.scripts.told(self.session, (Event::HandleError, None), why);
                    tracing::error!("handle_error fails, so the upload is canceled: {told}");
                    Action::Cancel
                }
            };
            if row.action == Action::Drain && !self.may_drain {
                tracing::warn!(
                    "handle_error says 4000, but allow_drain is not set: the upload is canceled"
                );
                row.action = Action::Cancel;
            }
        }
        let last = rows.iter().position(|row| row.action != Action::Reject);
        rows.truncate(last.map_or(answers.len(), |last| last + 1));
        Ok(rows)
    }

    /// What remotes are told of the rows, where a script words it.
    fn words(
        &self,
        asks: &mut dyn Asks,
        rows: &[Decision],
    ) -> Result<Vec<Option<String>>, Failure> {
        let Some(script) = self.scripts.script(Event::ModifyErrorMessage) else {
            return Ok(vec![None; rows.len()]);
        };
        let told: Vec<ToldValues> = rows.iter().map(Decision::told).collect();
        let mut words = Vec::with_capacity(rows.len());
        for answer in asks.ask(script, &told)? {
            words.push(match answer {
                Ok(called) => called.out(script, Told::ErrorMessage).map(str::to_owned),
                Err(why) => {
                    let told =
                        self.scripts.told(self.session, (Event::ModifyErrorMessage, None), &why);
                    tracing::error!("modify_error_message fails: {told}");
                    None
                }
            });
        }
        words.resize(rows.len(), None);
        Ok(words)
    }
}

/// The failure of an upload that was canceled because of this row.
fn canceled(decision: &Decision) -> Option<Failure> {
    let Decision { table, reason, action } = decision;
    let code = match action {
        Action::Reject => return None,
        Action::Cancel => Code::UploadCanceled,
        Action::Drain => Code::ServerDrained,
    };
    let message = format!("a row of table {table}: {}", reason.message);
    Some(Failure::new(code, message).table(table.as_str()))
}
