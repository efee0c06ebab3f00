//! Finds the rows that break foreign keys.
//!
//! SQLite only says whether any foreign key is broken. So all rows are applied once more, each in a
//! savepoint of its own. A row after which one is broken is taken back and waits. The rows that
//! wait are tried again one by one, because their parents may have come, or their children may have
//! gone. The direction changes from round to round, so that a chain in either order needs one
//! round. What still waits is tried together, because rows may refer to each other in a circle. Of
//! these, the rows that refer to nothing even so, or that others refer to, are left out, and the
//! others are tried again.
//!
//! What remains is rejected. All that the search did is undone, and the upload is applied without
//! these rows. So a circle of rows is rejected too where a trigger or a cascade breaks a foreign
//! key at no uploaded row at the same time.
//!
//! Bounds: [`ROUNDS_MAX`] rounds of each kind.

use super::hidden::{End, ForeignKeys};
use super::{foreign_keys_violated, settle_waiting};
use crate::sqlite::deploy::tables::has_user_triggers;
use crate::sqlite::errors::failed;
use crate::sqlite::errors::{breaks_reference, not_unique};
use crate::sqlite::upload::attempt::{Attempt, Broken, RowOutcome, Stop};
use crate::sqlite::upload::input::{Input, Turn};
use crate::synchronization::change::Change;
use crate::upload::owed_rows::OwedRows;
use crate::upload::waiting::WaitingRow;
use model::{Code, Failure};

/// The most rounds over the rows that wait. A tree of as many levels whose rows are in no order is
/// resolved certainly, and what is deeper comes through with the rest.
const ROUNDS_MAX: usize = 20;

/// What a search has found.
pub(in crate::sqlite::upload) struct Found {
    /// The rows that cannot stay.
    pub(in crate::sqlite::upload) refused: OwedRows,
    /// All rows that broke a foreign key at their turn.
    pub(in crate::sqlite::upload) waited: OwedRows,
}

/// Applies the rows one by one to find those that break foreign keys. The attempt is of no other
/// use afterwards.
pub(in crate::sqlite::upload) fn search(attempt: &mut Attempt<'_>) -> Result<Found, Stop> {
    let (input, none) = (attempt.input, || OwedRows::within(attempt.input.spills));
    let (mut refused, mut waited) = (none(), none());
    attempt.rows()?;
    let mut waiting = attempt.waits.broken.take().into_rows();
    refuse(input, &waiting, &mut waited)?;
    waiting.extend(attempt.waits.in_the_way.take().into_rows());
    let waiting = one_by_one(attempt, waiting, &mut refused)?;
    let waiting = together(attempt, waiting, &mut refused)?;
    refuse(input, &waiting, &mut refused)?;
    refused.extend(&attempt.waits.no_room)?;
    Ok(Found { refused, waited })
}

/// Refuses the rows that break a foreign key. A row that is only in the way of another one is
/// judged when the broken ones are left out.
fn refuse(
    input: &Input<'_>,
    waiting: &[WaitingRow],
    refused: &mut OwedRows,
) -> Result<(), Failure> {
    waiting
        .iter()
        .filter(|row| row.reason.code == Code::RowReferences)
        .try_for_each(|row| refused.reject(&input.id_of(row)?, row.reason.clone()))
}

/// Tries the rows that wait, each alone, as long as this brings one through. Returns those of the
/// others whose own references are broken, or those to them. The rest is refused.
fn one_by_one(
    attempt: &mut Attempt<'_>,
    mut waiting: Vec<WaitingRow>,
    refused: &mut OwedRows,
) -> Result<Vec<WaitingRow>, Stop> {
    let mut elsewhere = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let before = waiting.len() + elsewhere.len();
        let mut still = Vec::new();
        for mut row in std::mem::take(&mut elsewhere).into_iter().chain(waiting).rev() {
            match attempt.retry(&row)? {
                RowOutcome::Done => {}
                RowOutcome::InTheWay(why) => {
                    row.reason = not_unique(why);
                    still.push(row);
                }
                RowOutcome::Broken(broken) => {
                    row.reason = breaks_reference(broken.why);
                    if broken.elsewhere { &mut elsewhere } else { &mut still }.push(row);
                }
            }
        }
        waiting = still;
        if waiting.len() + elsewhere.len() == before {
            break;
        }
    }
    refuse(attempt.input, &elsewhere, refused)?;
    Ok(waiting)
}

/// Tries the rows together, again without those that cannot stay. Returns the rows that break a
/// foreign key together, and of which none can be named; none if all others stay.
fn together(
    attempt: &mut Attempt<'_>,
    mut waiting: Vec<WaitingRow>,
    refused: &mut OwedRows,
) -> Result<Vec<WaitingRow>, Stop> {
    for _ in 0..ROUNDS_MAX {
        let Some(out) = apply_together(attempt, &waiting)? else { return Ok(Vec::new()) };
        if out.is_empty() {
            break;
        }
        let mut rest = Vec::new();
        for row in waiting {
            let id = attempt.input.id_of(&row)?;
            if !out.contains(&id)? {
                rest.push(row);
            } else if let Some(reason) = out.reason(&id)? {
                refused.reject(&id, reason)?;
            }
        }
        waiting = rest;
    }
    Ok(waiting)
}

/// Applies rows of those that wait, which may refer to each other. None if they stay. Otherwise
/// nothing of them remains, and the result are the rows at which a foreign key is broken, with the
/// reasons, and the rows that are in the way of others; it is empty if there are no such rows.
fn apply_together(
    attempt: &mut Attempt<'_>,
    waiting: &[WaitingRow],
) -> Result<Option<OwedRows>, Stop> {
    let input = attempt.input;
    let Some(foreign_keys) = &attempt.known.foreign_keys else { return Ok(None) };
    input.run("SAVEPOINT together")?;
    // Foreign keys may be broken between the rows.
    attempt.progress.together = true;
    for row in waiting {
        let outcome = attempt.retry(row)?;
        if outcome != RowOutcome::Done {
            attempt.put_off(row.clone(), outcome)?;
        }
    }
    let mut out = OwedRows::within(input.spills);
    settle_waiting(attempt)?.visit(|table, key, _| out.owe(&(table, key.to_vec())))?;
    attempt.progress.together = false;
    for row in waiting {
        let broken = input.waiting(row, |turn| foreign_keys.broken_at(input.connection, turn))?;
        if let Some(end) = broken.first() {
            out.reject(&input.id_of(row)?, breaks_reference(foreign_keys.reason(*end)))?;
        }
    }
    let stay = out.is_empty() && !foreign_keys_violated(input.connection)?;
    if !stay {
        input.run("ROLLBACK TO together")?;
    }
    input.run("RELEASE together")?;
    Ok((!stay).then_some(out))
}

/// Does `work` for one row, which is taken back if a foreign key is broken then. Inside of the
/// savepoint of the row.
pub(in crate::sqlite::upload) fn checked<'a>(
    attempt: &mut Attempt<'a>,
    foreign_keys: &ForeignKeys,
    turn: Turn<'_>,
    work: impl FnOnce(&mut Attempt<'a>) -> Result<RowOutcome, Stop>,
) -> Result<RowOutcome, Stop> {
    let input = attempt.input;
    let mut before = foreign_keys.broken_at(input.connection, turn)?;
    if turn.row.change == Change::Update {
        // It refers to something else now, which must be there whatever it referred to before.
        before.retain(|end| matches!(end, End::Parent(_)));
    }
    let outcome = work(attempt)?;
    if outcome != RowOutcome::Done {
        return Ok(outcome);
    }
    let Some(broken) = look_behind(input, foreign_keys, turn, &before)? else {
        return Ok(outcome);
    };
    input.run("ROLLBACK TO one_row")?;
    Ok(RowOutcome::Broken(broken))
}

/// What is wrong with a row that was just applied; none if it can stay. What was `before` is the
/// fault of orphans from long ago.
fn look_behind(
    input: &Input<'_>,
    foreign_keys: &ForeignKeys,
    turn: Turn<'_>,
    before: &[End],
) -> Result<Option<Broken>, Failure> {
    let ends = foreign_keys.broken_at(input.connection, turn)?;
    if let Some(end) = ends.into_iter().find(|end| !before.contains(end)) {
        return Ok(Some(Broken { why: foreign_keys.reason(end), elsewhere: false }));
    }
    if !foreign_keys_violated(input.connection)? {
        return Ok(None);
    }
    let name = &turn.table.published.name;
    let triggers = has_user_triggers(input.connection, name);
    let why = match turn.row.change {
        _ if triggers.map_err(failed("look for triggers"))? => {
            format!("a trigger of {name} leaves a row that refers to a missing row")
        }
        Change::Delete => {
            "rows of others refer to the row, or to a row that is deleted with it".to_owned()
        }
        Change::Insert | Change::Update => {
            "it leaves a row that refers to a missing row".to_owned()
        }
    };
    Ok(Some(Broken { why, elsewhere: true }))
}
