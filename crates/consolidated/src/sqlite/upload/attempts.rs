//! Applies the rows of an upload, if necessary again without the rows that made it fail.

use super::attempt::{Attempt, Known, Stop};
use super::constraint::{self, ForeignKeys, Found};
use super::input::Input;
use super::{fence, lost, made, taken_along};
use crate::script::around::Around;
use crate::sqlite::errors::breaks_reference;
use crate::sqlite::event_script::{Asking, Running};
use crate::synchronization::Applied;
use crate::upload::decisions::{Decider, Deciding};
use crate::upload::lost_inserts::Untold;
use crate::upload::owed_rows::OwedRows;
use crate::upload::reason::Reason;
use model::{Code, Failure};

/// After so many attempts, rows in each other's way are refused together.
const PATIENT_ATTEMPTS: usize = 20;

/// The most times that an upload is applied again without the rows that stand in its way. Then all
/// its rows are refused.
const ATTEMPTS_MAX: usize = 100;

/// The result of one attempt.
enum Ending {
    /// All rows are applied, or reported.
    Done(Applied),
    /// A foreign key is broken, or may be where SQLite does not count it.
    Broken {
        counted: bool,
    },
    /// The attempt was a search for the rows that break foreign keys.
    Searched(Found),
    /// What met a fence because its parent had left is tried once more before it is refused.
    Last(OwedRows),
    Without(OwedRows),
}

/// Applies the rows; where foreign keys or unique values make some of them impossible, everything
/// is undone and applied again without these. At the rows in `ended` the owner's database has ended
/// the whole transaction before.
pub(super) fn apply(
    input: &Input<'_>,
    ended: &mut OwedRows,
    deciding: Deciding<'_>,
    around: Option<&mut Around>,
) -> Result<Applied, Failure> {
    let none = || OwedRows::within(input.spills);
    let known = Known {
        refused: none(),
        postponed: none(),
        careful: false,
        foreign_keys: None,
        acquitted: false,
        hurried: false,
    };
    let mut attempts = Attempts { input, known, made: 0, counted: false, ended, deciding, around };
    attempts.known.refused.extend(attempts.ended)?;
    let untold = lost::untold(input)?;
    if !untold.is_empty() {
        attempts.known.refused.extend(&lost::belonging(input, &none(), &untold)?)?;
    }
    while attempts.made < ATTEMPTS_MAX {
        if let Some(applied) = attempts.next()? {
            return Ok(applied);
        }
    }
    let why = "the rows of the upload stand in each other's way";
    attempts.refuse_all((Code::RowRefused, why.to_owned()).into())?;
    let left = || Failure::new(Code::Bug, "an upload of which all is refused is not applied");
    attempts.next()?.ok_or_else(left)
}

/// The attempts at an upload.
struct Attempts<'a> {
    input: &'a Input<'a>,
    known: Known,
    made: usize,
    /// SQLite has counted a broken foreign key, so there is one.
    counted: bool,
    ended: &'a mut OwedRows,
    deciding: Deciding<'a>,
    around: Option<&'a mut Around>,
}

impl Attempts<'_> {
    /// Makes one, and keeps what it has found. None if there must be another one.
    fn next(&mut self) -> Result<Option<Applied>, Failure> {
        let ending = self.attempt();
        match &ending {
            Ok(Ending::Done(_)) | Err(Stop::Failed(_) | Stop::Ended(..)) => {}
            Ok(_) | Err(Stop::LeftTraces | Stop::Unreadable(..)) => {
                self.input.run("ROLLBACK TO rows; RELEASE rows")?;
            }
        }
        self.made += 1;
        let known = &mut self.known;
        known.hurried = self.made >= PATIENT_ATTEMPTS;
        match ending {
            Ok(Ending::Done(applied)) => return Ok(Some(applied)),
            Ok(Ending::Broken { counted }) => {
                self.counted = counted;
                let (connection, tables) = (self.input.connection, self.input.tables);
                known.foreign_keys = Some(ForeignKeys::of(connection, tables)?);
            }
            Ok(Ending::Searched(found)) => self.conclude(&found)?,
            Ok(Ending::Last(leaving)) => known.postponed.extend(&leaving)?,
            Ok(Ending::Without(impossible)) => known.refused.extend(&impossible)?,
            Err(Stop::LeftTraces) => known.careful = true,
            Err(Stop::Unreadable(row, reason)) => {
                known.careful = true;
                known.refused.reject(&row, reason)?;
            }
            Err(Stop::Ended(row, reason)) => {
                let failure = format!("a transaction was ended: {}", reason.message);
                let table = self.input.tables[row.0].published.name.as_str();
                self.ended.reject(&row, reason)?;
                return Err(Failure::new(Code::ScriptFailed, failure).table(table));
            }
            Err(Stop::Failed(failure)) => return Err(failure),
        }
        Ok(None)
    }

    fn attempt(&mut self) -> Result<Ending, Stop> {
        let Attempts { input, known, deciding, around, .. } = self;
        let input: &Input<'_> = input;
        input.run("SAVEPOINT rows")?;
        let mut attempt = Attempt::new(input, known, deciding.scripts);
        let trouble = match known.foreign_keys {
            Some(_) => Some(Ending::Searched(constraint::search(&mut attempt)?)),
            None => judge(&mut attempt, around.as_deref_mut())?,
        };
        // The rest may be the fault of these.
        if !attempt.progress.unreadable.is_empty() {
            return Ok(Ending::Without(attempt.progress.unreadable));
        }
        if let Some(trouble) = trouble {
            return Ok(trouble);
        }
        decide(input, &mut attempt.record.owed, deciding)?;
        let applied = attempt.record.finish(input)?;
        input.run("RELEASE rows")?;
        Ok(Ending::Done(applied))
    }

    /// Refuses the rows that a search has found.
    fn conclude(&mut self, found: &Found) -> Result<(), Failure> {
        let known = &mut self.known;
        known.foreign_keys = None;
        if !found.refused.is_empty() {
            return known.refused.extend(&found.refused);
        }
        if !self.counted {
            // It looked so because of orphans from long ago.
            known.acquitted = true;
            return Ok(());
        }
        // In the order of the upload the rows break one, and in the order of the search they do
        // not. Without the rows that waited, both orders are the same.
        if !found.waited.is_empty() {
            return known.refused.extend(&found.waited);
        }
        let why = "a foreign key is broken after the upload, and it is not known by which row";
        self.refuse_all(breaks_reference(why.to_owned()))
    }

    /// Refuses all rows that were not refused before.
    fn refuse_all(&mut self, reason: Reason) -> Result<(), Failure> {
        let refused = &mut self.known.refused;
        self.input.each_row(
            |_, _| true,
            |turn| match refused.contains(&turn.id())? {
                true => Ok(()),
                false => refused.reject(&turn.id(), reason.clone()),
            },
        )
    }
}

/// Lets scripts decide about the rows that the database refuses.
fn decide(
    input: &Input<'_>,
    owed: &mut OwedRows,
    deciding: &mut Deciding<'_>,
) -> Result<(), Failure> {
    let session = input.request.session;
    let decider = Decider {
        session,
        scripts: deciding.scripts,
        may_drain: deciding.may_drain,
        batches: input.request.batches,
        table: &|at| &input.tables[at].published,
        spills: input.spills,
    };
    let mut asking = Asking { connection: input.connection, session };
    decider.decide(&mut asking, owed, deciding.decisions)
}

/// Applies the rows once, and says what is to be done about those that could not be; none if all
/// are applied, or reported.
fn judge(attempt: &mut Attempt<'_>, around: Option<&mut Around>) -> Result<Option<Ending>, Stop> {
    let input = attempt.input;
    attempt.rows()?;
    let mut impossible = constraint::settle_waiting(attempt)?;
    impossible.extend(&attempt.waits.no_room)?;
    if !attempt.waits.outside.is_empty() {
        fence::written_outside(attempt, &mut impossible)?;
    }
    let fence_was_met = attempt.progress.fence_was_met || !impossible.is_empty();
    if fence_was_met && attempt.progress.leaves_anew {
        let none = OwedRows::within(input.spills);
        let leaving = std::mem::replace(&mut attempt.progress.leaving, none);
        return Ok(Some(Ending::Last(leaving)));
    }
    if !impossible.is_empty() {
        return Ok(Some(Ending::Without(impossible)));
    }
    let counted = constraint::foreign_keys_violated(input.connection)?;
    if counted || constraint::hides_violations(attempt)? {
        return Ok(Some(Ending::Broken { counted }));
    }
    if let Some(before) = attempt.progress.before_deletes.take()
        && before.differs(&attempt.record.tally(input)?)
    {
        taken_along::reject(input, &mut attempt.record)?;
    }
    if attempt.record.owed.has_rejects() {
        let none = Untold::within(input.spills);
        let belonging = lost::belonging(input, &attempt.record.owed, &none)?;
        if !belonging.is_empty() {
            return Ok(Some(Ending::Without(belonging)));
        }
    }
    if let Some(around) = around {
        let unusual = &attempt.record.applied.unusual;
        let end = || around.end_upload(&mut Running(input.connection), unusual);
        constraint::with_references(input.connection, end)?;
    }
    // Elsewhere rows are stored as they were sent.
    if input.tables.iter().any(|table| table.details.affinities.is_empty()) {
        made::write(attempt)?;
    }
    Ok(None)
}
