//! Finds the rows that break foreign keys.
//!
//! SQLite only says whether any foreign key is broken. So all rows are applied once more, each in a
//! savepoint of its own. A row after which one is broken is taken back and waits. The rows that
//! wait are tried again one by one, because their parents may have come, or their children may have
//! gone. The direction changes from round to round, so that a chain in either order needs one
//! round. What still waits is tried together, because rows may refer to each other in a circle. Of
//! these, the rows that refer to nothing even so, or that others refer to, are left out.
//!
//! A trigger or a cascade may break a foreign key at no uploaded row. Then the rows are applied in
//! their order as far as they stay, and the others in halves. A row is left out if it breaks one
//! although all that concerns the row itself is there.
//!
//! What remains is rejected. All that the search did is undone, and the upload is applied without
//! these rows.
//!
//! Bounds: [`ROUNDS_MAX`] rounds of each kind. In each of them, halving tries each row once per
//! halving at most. A row that waits after them is rejected, although it may be in a circle that
//! could stay.

use super::hidden::{End, Links};
use super::{foreign_keys_violated, settle_waiting};
use crate::sqlite::deploy::tables::has_user_triggers;
use crate::sqlite::details::CatalogTable;
use crate::sqlite::errors::failed;
use crate::sqlite::upload::attempt::{Attempt, Broken, RowOutcome, Stop};
use crate::sqlite::upload::{WaitingRow, WaitingRows};
use crate::synchronization::change::Change;
use crate::upload::owed_rows::OwedRows;
use crate::upload::uploaded_row::UploadedRow;
use model::{Code, Failure};
use std::ops::Range;

/// The most rounds over the rows that wait. A tree of as many levels whose rows are in no order is
/// resolved certainly, and what is deeper comes through with the rest.
const ROUNDS_MAX: usize = 20;

/// What a search has found.
pub(in crate::sqlite) struct Found {
    /// The rows that cannot stay.
    pub(in crate::sqlite) refused: OwedRows,
    /// All rows that broke a foreign key at their turn.
    pub(in crate::sqlite) waited: OwedRows,
}

/// Applies the rows one by one to find those that break foreign keys. The attempt is of no other
/// use afterwards.
pub(in crate::sqlite) fn search(attempt: &mut Attempt<'_>) -> Result<Found, Stop> {
    let none = || OwedRows::within(attempt.spills);
    let (mut refused, mut waited) = (none(), none());
    attempt.rows()?;
    let mut waiting = attempt.broken.take(attempt.spills);
    refuse(&waiting, &mut waited)?;
    let in_the_way = attempt.waiting_rows.take(attempt.spills);
    let mut rows = in_the_way.reader();
    while let Some((row, _)) = rows.next_row()? {
        waiting.push(&row)?;
    }
    let mut waiting = one_by_one(attempt, waiting)?;
    for _ in 0..ROUNDS_MAX {
        waiting = together(attempt, waiting, &mut refused)?;
        let mut left = WaitingRows::within(attempt.spills);
        halves(attempt, &waiting, 0..waiting.len(), &mut left)?;
        let left = one_by_one(attempt, left)?;
        waiting = without_culprits(attempt, &left, &mut refused)?;
        if waiting.len() == left.len() {
            break;
        }
    }
    refuse(&waiting, &mut refused)?;
    refuse(&attempt.broken, &mut refused)?;
    attempt.end_search()?;
    Ok(Found { refused, waited })
}

/// Refuses the rows that wait with a reason. A row without one is only in the way of another row,
/// and is judged when the broken ones are left out.
fn refuse(waiting: &WaitingRows, refused: &mut OwedRows) -> Result<(), Failure> {
    let mut rows = waiting.reader();
    while let Some((row, why)) = rows.next_row()? {
        if !why.is_empty() {
            refused.reject(&row.id, (Code::RowReferences, why))?;
        }
    }
    Ok(())
}

/// Tries the rows that wait, each alone, as long as this brings one through. Returns the others.
fn one_by_one(attempt: &mut Attempt<'_>, mut waiting: WaitingRows) -> Result<WaitingRows, Stop> {
    for _ in 0..ROUNDS_MAX {
        let mut still = WaitingRows::within(attempt.spills);
        for number in (0..waiting.len()).rev() {
            try_alone(attempt, &waiting.row(number)?, &mut still)?;
        }
        if still.len() == waiting.len() {
            break;
        }
        waiting = still;
    }
    Ok(waiting)
}

fn try_alone(
    attempt: &mut Attempt<'_>,
    row: &WaitingRow,
    still: &mut WaitingRows,
) -> Result<(), Stop> {
    match attempt.retry(row)? {
        RowOutcome::Done => Ok(()),
        RowOutcome::InTheWay(_) => Ok(still.push(row)?),
        RowOutcome::Broken(broken) => Ok(still.push_with(row, &broken.why)?),
    }
}

/// Tries the rows together, again without those that cannot stay. Returns the rows that break a
/// foreign key together, and of which none can be named; none if all others stay.
fn together(
    attempt: &mut Attempt<'_>,
    mut waiting: WaitingRows,
    refused: &mut OwedRows,
) -> Result<WaitingRows, Stop> {
    for _ in 0..ROUNDS_MAX {
        let Some(out) = apply_together(attempt, &waiting)? else {
            return Ok(WaitingRows::within(attempt.spills));
        };
        if out.is_empty() {
            break;
        }
        let mut rest = WaitingRows::within(attempt.spills);
        let mut rows = waiting.reader();
        while let Some((row, why)) = rows.next_row()? {
            if !out.contains(&row.id)? {
                rest.push_with(&row, &why)?;
            } else if let Some(reason) = out.reason(&row.id)? {
                refused.reject(&row.id, reason)?;
            }
        }
        waiting = rest;
    }
    Ok(waiting)
}

/// Refuses the rows that break a foreign key elsewhere although all that concerns themselves is
/// there. Returns the others: some may wait only because these were tried with them.
fn without_culprits(
    attempt: &mut Attempt<'_>,
    left: &WaitingRows,
    refused: &mut OwedRows,
) -> Result<WaitingRows, Stop> {
    let mut others = WaitingRows::within(attempt.spills);
    for number in 0..left.len() {
        let row = left.row(number)?;
        match attempt.retry(&row)? {
            RowOutcome::Done => {}
            RowOutcome::InTheWay(_) => others.push(&row)?,
            RowOutcome::Broken(Broken { why, elsewhere: true }) => {
                refused.reject(&row.id, (Code::RowReferences, why))?;
            }
            RowOutcome::Broken(broken) => others.push_with(&row, &broken.why)?,
        }
    }
    Ok(others)
}

/// Applies the rows in their order as far as they stay, then each half of the others.
fn halves(
    attempt: &mut Attempt<'_>,
    waiting: &WaitingRows,
    range: Range<usize>,
    left: &mut WaitingRows,
) -> Result<(), Stop> {
    let rest = apply_first(attempt, waiting, range.clone())?..range.end;
    match rest.len() {
        0 => Ok(()),
        1 => try_alone(attempt, &waiting.row(rest.start)?, left),
        len => {
            let middle = rest.start + len / 2;
            halves(attempt, waiting, rest.start..middle, left)?;
            halves(attempt, waiting, middle..rest.end, left)
        }
    }
}

/// Applies the first rows of those that wait, up to the last one after which no foreign key is
/// broken. Returns the position of the next one.
fn apply_first(
    attempt: &mut Attempt<'_>,
    waiting: &WaitingRows,
    range: Range<usize>,
) -> Result<usize, Stop> {
    // Foreign keys may be broken between the rows.
    let Some(links) = attempt.links.take() else { return Ok(range.end) };
    let mut next = range.start;
    attempt.savepoint("SAVEPOINT together")?;
    for number in range {
        if attempt.retry(&waiting.row(number)?)? != RowOutcome::Done {
            break;
        }
        if foreign_keys_violated(attempt.connection)? {
            continue;
        }
        let mut breaks = false;
        for number in next..=number {
            breaks = end_of(attempt, &links, &waiting.row(number)?)?.is_some();
            if breaks {
                break;
            }
        }
        if !breaks {
            attempt.savepoint("RELEASE together")?;
            attempt.savepoint("SAVEPOINT together")?;
            next = number + 1;
        }
    }
    attempt.savepoint("ROLLBACK TO together")?;
    attempt.savepoint("RELEASE together")?;
    attempt.links = Some(links);
    Ok(next)
}

/// An end at which a row that was applied breaks a foreign key.
fn end_of(
    attempt: &Attempt<'_>,
    links: &Links,
    waits: &WaitingRow,
) -> Result<Option<End>, Failure> {
    let mut row = UploadedRow::default();
    let width = attempt.tables[waits.table].published.width();
    row.read(&waits.row, waits.change, width)?;
    Ok(links.broken_at(attempt.connection, waits.table, &row)?.first().copied())
}

/// Applies rows of those that wait, which may refer to each other. None if they stay. Otherwise
/// nothing of them remains, and the result are the rows at which a foreign key is broken, with the
/// reasons, and the rows that are in the way of others; it is empty if there are no such rows.
fn apply_together(
    attempt: &mut Attempt<'_>,
    waiting: &WaitingRows,
) -> Result<Option<OwedRows>, Stop> {
    // Foreign keys may be broken between the rows.
    let Some(links) = attempt.links.take() else { return Ok(None) };
    attempt.savepoint("SAVEPOINT together")?;
    for number in 0..waiting.len() {
        let row = waiting.row(number)?;
        if let RowOutcome::InTheWay(_) = attempt.retry(&row)? {
            attempt.waiting_rows.push(&row)?;
        }
    }
    let mut out = OwedRows::within(attempt.spills);
    settle_waiting(attempt)?.visit(|table, key, _| out.owe(&(table, key.to_vec())))?;
    for number in 0..waiting.len() {
        let row = waiting.row(number)?;
        if let Some(end) = end_of(attempt, &links, &row)? {
            out.reject(&row.id, (Code::RowReferences, links.reason(end)))?;
        }
    }
    let stay = out.is_empty() && !foreign_keys_violated(attempt.connection)?;
    if !stay {
        attempt.savepoint("ROLLBACK TO together")?;
    }
    attempt.savepoint("RELEASE together")?;
    attempt.links = Some(links);
    Ok((!stay).then_some(out))
}

impl Attempt<'_> {
    /// Does `work` for one row. In a search, the row is taken back if a foreign key is broken then.
    pub(in crate::sqlite::upload) fn checked(
        &mut self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
        work: impl FnOnce(&mut Self) -> Result<RowOutcome, Stop>,
    ) -> Result<RowOutcome, Stop> {
        let Some(links) = self.links.clone() else { return work(self) };
        let mut before = links.broken_at(self.connection, position, row)?;
        if row.change == Change::Update {
            // It refers to something else now, which must be there whatever it referred to before.
            before.retain(|end| matches!(end, End::Parent(_)));
        }
        self.savepoint("SAVEPOINT checked")?;
        let mut outcome = work(self)?;
        if outcome == RowOutcome::Done
            && let Some(broken) = self.look_behind(&links, table, (position, row), &before)?
        {
            self.savepoint("ROLLBACK TO checked")?;
            outcome = RowOutcome::Broken(broken);
        }
        self.savepoint("RELEASE checked")?;
        Ok(outcome)
    }

    /// What is wrong with a row that was just applied; none if it can stay. What was `before` is
    /// the fault of orphans from long ago.
    fn look_behind(
        &self,
        links: &Links,
        table: &CatalogTable,
        (position, row): (usize, &UploadedRow<'_>),
        before: &[End],
    ) -> Result<Option<Broken>, Failure> {
        let ends = links.broken_at(self.connection, position, row)?;
        if let Some(end) = ends.into_iter().find(|end| !before.contains(end)) {
            return Ok(Some(Broken { why: links.reason(end), elsewhere: false }));
        }
        if !foreign_keys_violated(self.connection)? {
            return Ok(None);
        }
        let name = &table.published.name;
        let triggers = has_user_triggers(self.connection, name);
        let why = match row.change {
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
}
