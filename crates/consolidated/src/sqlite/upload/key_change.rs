//! Key changes of an upload: an `UPDATE` of the key, so that the database's own `ON UPDATE` acts.
//!
//! They are applied before the rest of the upload, parents first, because the other rows use the
//! new keys. A row whose new key is taken waits. Deletes of the same upload that free a key go
//! first. If rows wait for each other in a ring, one of them gets a temporary key. Then every other
//! row of the upload is rebased onto the effects (`effects.rs`).
//!
//! Invariant: a key change happens as a whole or not at all. If it is not possible, rows of the
//! upload under its new key belong to the row that kept the old one.

mod aside;
mod columns;
mod following;
mod freeing;
pub(super) mod moving;
pub(in crate::sqlite) mod passing;
mod rebasing;
mod renaming;
mod settling;
mod spares;
mod spot;
mod staying;

use super::attempt::{Attempt, RowOutcome, Stop};
use crate::sqlite::details::CatalogTable;
use crate::sqlite::upload::effects::Effects;
use crate::sqlite::upload::own_entries::end_of_log;
use crate::sqlite::upload::waiting::WaitingRows;
use crate::synchronization::change::Change;
use crate::upload::owed_rows::OwedRows;
use crate::upload::row_map::RowMap;
use crate::upload::uploaded_row::{UploadedRow, each_batch, each_row, key_of};
pub(in crate::sqlite) use aside::refuse_what_is_aside;
use moving::Moving;
pub(in crate::sqlite) use passing::Passing;
pub(in crate::sqlite) use rebasing::{Rebasing, rebase_over_key_changes};
pub(in crate::sqlite) use renaming::rename;
pub(in crate::sqlite) use spot::Spot;

use model::Failure;
use settling::settle;
use spares::Spares;

/// Applies the key changes of the upload, and whatever must go before them.
pub(in crate::sqlite) fn apply_first(attempt: &mut Attempt<'_>) -> Result<(), Stop> {
    let with_key_changes = count(attempt)?;
    let given_up = given_up(attempt, &with_key_changes)?;
    let taken = staying::taken(attempt, &with_key_changes)?;
    let named = named(attempt)?;
    let mut begins = Vec::new();
    for table in attempt.tables {
        begins.push(match table.published.direction.downloads() {
            true => end_of_log(attempt.connection, &table.published.name)?,
            false => 0,
        });
    }
    attempt.passing = Some(attempt.find_passing()?);
    let rows = || RowMap::within(attempt.spills);
    attempt.moving = Some(Moving {
        begins,
        effects: Effects::begin(attempt.connection, attempt.tables)?,
        given_up,
        taken,
        named,
        done: rows(),
        kept: rows(),
        aside: rows(),
        spares: Spares::default(),
        following: WaitingRows::within(attempt.spills),
        stuck: OwedRows::within(attempt.spills),
        settling: false,
    });
    for position in with_key_changes {
        each_batch(attempt.request.batches, |batch| {
            match batch.table == position && batch.change == Change::KeyChange {
                true => attempt.batch(batch),
                false => Ok(()),
            }
        })?;
        let waiting = attempt.waiting_rows.take(attempt.spills);
        let later = settle(attempt, &waiting)?;
        attempt.put_off.extend(&later)?;
    }
    attempt.waiting_rows = attempt.put_off.take(attempt.spills);
    let (connection, tables) = (attempt.connection, attempt.tables);
    let Some(moving) = &mut attempt.moving else { return Ok(()) };
    moving.effects.end(connection, tables)?;
    let following = moving.following.take(attempt.spills);
    let mut following = following.reader();
    while let Some((waiting_rows, _)) = following.next_row()? {
        if let RowOutcome::InTheWay(_) = attempt.retry(&waiting_rows)? {
            attempt.waiting_rows.push(&waiting_rows)?;
        }
    }
    Ok(())
}

/// The tables with key changes, parents first.
fn count(attempt: &Attempt<'_>) -> Result<Vec<usize>, Failure> {
    let mut found = vec![false; attempt.tables.len()];
    (attempt.request.batches)(&mut |batch| {
        found[batch.table] |= batch.change == Change::KeyChange;
        Ok(())
    })?;
    Ok((0..found.len()).filter(|position| found[*position]).collect())
}

/// The rows that the upload changes or deletes.
fn named(attempt: &Attempt<'_>) -> Result<RowMap, Failure> {
    let mut named = RowMap::within(attempt.spills);
    let published = |position: usize| &attempt.tables[position].published;
    let wanted = |_, change| change != Change::Insert;
    each_row(attempt.request.batches, &published, wanted, |position, row| {
        named.add(&row.key(published(position), position))
    })?;
    Ok(named)
}

fn given_up(attempt: &Attempt<'_>, wanted: &[usize]) -> Result<RowMap, Failure> {
    let mut keys = RowMap::within(attempt.spills);
    let published = |position: usize| &attempt.tables[position].published;
    let goes = |position: usize, change| {
        matches!(change, Change::KeyChange | Change::Delete) && wanted.contains(&position)
    };
    each_row(attempt.request.batches, &published, goes, |position, row| {
        keys.add(&row.key(published(position), position))
    })?;
    Ok(keys)
}

/// Whether the key that `row` takes is one that another row of the upload has yet to give up.
pub(in crate::sqlite) fn waits(
    attempt: &Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
) -> Result<bool, Failure> {
    let Some(moving) = &attempt.moving else { return Ok(false) };
    match row.change {
        Change::KeyChange => Ok(true),
        Change::Insert if moving.settling => Ok(false),
        Change::Insert => is_given_up(attempt, table, position, row),
        Change::Update | Change::Delete => Ok(false),
    }
}

/// Whether another row of the upload gives up the key that `row` takes.
pub(in crate::sqlite) fn is_given_up(
    attempt: &Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
) -> Result<bool, Failure> {
    let Some(moving) = &attempt.moving else { return Ok(false) };
    moving.given_up.contains(&row.new_key(&table.published, position))
}

/// Takes note that a row keeps its key.
pub(in crate::sqlite) fn failed(
    attempt: &mut Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
) -> Result<(), Failure> {
    if row.change == Change::KeyChange
        && let Some(moving) = &mut attempt.moving
    {
        let new = row.new_key(&table.published, position);
        moving.kept.put(&new, &key_of(&table.published, &row.old))?;
    }
    Ok(())
}

impl Attempt<'_> {
    /// Where the log of a table ended before the upload.
    pub(in crate::sqlite) fn log_end_before(&self, position: usize) -> i64 {
        self.moving.as_ref().map_or(0, |moving| moving.begins[position])
    }
}
