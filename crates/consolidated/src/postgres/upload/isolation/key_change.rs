//! Key changes of an upload: their order, and what becomes of those that meet something.
//!
//! Each is an `UPDATE` of the key, so that the database's own `ON UPDATE` acts; it happens whole or
//! not at all (trap 21). PostgreSQL checks a key row by row, so the order counts:
//!
//! 1. Deletes that free a key which somebody takes, and those of rows that hold one (`early.rs`).
//! 2. Of each table, parents first, its key changes: first those whose new key is free. Those that
//!    stand in each other's way in a circle go by way of keys that nobody has
//!    (`constraint_cycle.rs`).
//! 3. Its other rows: what refers to a new key finds it, and an insert finds an old one free.
//!
//! Where a key change is refused or loses, both of its keys are owed, and rows that refer to the
//! key that it did not get refer to the one that it has kept (`links.rs`).

use crate::postgres::upload::batch::Reason;
use crate::postgres::upload::isolation::constraint_cycle;
use crate::postgres::upload::isolation::group::Rows;
use crate::postgres::upload::isolation::state::{Isolation, Ran};
use crate::postgres::upload::isolation::waiting::WaitingRow;
use crate::postgres::upload::marks::mark;
use crate::postgres::upload::row_fault::RowFault;
use crate::postgres::upload::stop::{Stop, stopped};
use crate::script::Event;
use crate::synchronization::change::Change;
use crate::upload::rebase::{Rebased, image, values};
use crate::upload::uploaded_row::UploadedRow;
use crate::upload::verdict::{is_outside, leads_outside};
use model::{Code, PublishedTable, ValueRef};
use std::collections::HashMap;

/// Key changes of one table, each after the one that frees its new key.
pub(in crate::postgres) fn in_order(
    isolation: &Isolation<'_, '_>,
    table: usize,
    rows: Rows,
) -> Result<Rows, Stop> {
    let published = &isolation.table(table).deployed.published;
    let (mut owners, mut wanted) = (HashMap::new(), Vec::with_capacity(rows.len()));
    for (at, bytes) in rows.iter().enumerate() {
        let row = isolation.read(table, Change::KeyChange, bytes)?;
        owners.insert(mark(table, &row.key(published, table).1), at);
        wanted.push(mark(table, &row.new_key(published, table).1));
    }
    let mut placed = vec![false; rows.len()];
    let mut order = Vec::with_capacity(rows.len());
    for begin in 0..rows.len() {
        let mut chain = Vec::new();
        let mut next = Some(begin);
        while let Some(at) = next.filter(|at| !placed[*at]) {
            placed[at] = true;
            chain.push(at);
            next = owners.get(&wanted[at]).copied();
        }
        order.extend(chain.into_iter().rev());
    }
    let mut rows: Vec<Option<Vec<u8>>> = rows.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|at| rows[at].take()).collect())
}

/// Tries the key changes of `table` that wait for a key again, alone: rows behind them refer to
/// what they come to.
pub(in crate::postgres) fn settle(
    isolation: &mut Isolation<'_, '_>,
    table: usize,
) -> Result<(), Stop> {
    let waits = |waiting_rows: &WaitingRow| {
        let for_a_key = matches!(waiting_rows.reason.0, Code::RowKeyTaken | Code::RowNotUnique);
        waiting_rows.table == table && waiting_rows.change == Change::KeyChange && for_a_key
    };
    let (mut waiting, others) = isolation.waiting_rows.take().partition(waits)?;
    while !waiting.is_empty() {
        let before = waiting.len();
        let mut rows = waiting.reader();
        while let Some(group) = rows.next_group()? {
            isolation.group(group)?;
        }
        waiting = isolation.waiting_rows.take();
        if waiting.len() >= before {
            break;
        }
    }
    isolation.waiting_rows = waiting;
    if !isolation.waiting_rows.is_empty() {
        constraint_cycle::try_to_untie(isolation)?;
    }
    // The row that still has the key may leave it later. Otherwise it is certain now that no row
    // gets the key, and rows that refer to it must take this into account.
    let goes = |(of, change): (usize, Change)| {
        of == table && matches!(change, Change::KeyChange | Change::Delete)
    };
    if !others.kinds().any(goes) && !isolation.leaves(table) {
        let is_taken = |waiting_rows: &WaitingRow| waiting_rows.reason.0 == Code::RowKeyTaken;
        let (taken, waiting) = isolation.waiting_rows.take().partition(is_taken)?;
        isolation.waiting_rows = taken;
        constraint_cycle::untie(isolation)?;
        isolation.waiting_rows = waiting;
    }
    isolation.waiting_rows.extend(&others)?;
    Ok(())
}

/// Why a row cannot get its key, if another row has it.
pub(in crate::postgres) fn taken(
    isolation: &mut Isolation<'_, '_>,
    table: usize,
    bytes: &[u8],
) -> Result<Option<Reason>, Stop> {
    let new = isolation.read(table, Change::KeyChange, bytes)?.new_image().to_vec();
    let present = isolation.present(table, Change::Insert, &[new])?;
    Ok((!present.is_empty()).then(|| (Code::RowKeyTaken, "another row has the new key".to_owned())))
}

/// Decides about a key change that did not find what it expected.
pub(in crate::postgres) fn resolve(
    isolation: &mut Isolation<'_, '_>,
    table: usize,
    bytes: Vec<u8>,
) -> Result<(), Stop> {
    let change = Change::KeyChange;
    let one = std::slice::from_ref(&bytes);
    let published = &isolation.table(table).deployed.published;
    let row = isolation.read(table, change, &bytes)?;
    let (old, new) = (row.key(published, table).1, row.new_key(published, table).1);
    let mut now = isolation.fetch(table, change, one)?.remove(&old);
    if isolation.returned.contains(&(table, old))? {
        now = None;
    }
    let there = isolation.fetch(table, Change::Insert, &[row.new_image().to_vec()])?.remove(&new);
    if now.is_none() && there.as_deref() == Some(row.new_image()) {
        return Ok(isolation.echo(table, change, one)?);
    }
    match obstacle(isolation, table, &bytes, now.as_deref())? {
        Some(Obstacle::Mends(reason)) => {
            isolation.park(table, change, &bytes, reason)?;
            return Ok(());
        }
        Some(Obstacle::Stays(reason)) => {
            return Ok(isolation.reject(table, change, &bytes, reason)?);
        }
        None => {}
    }
    let ruled = match isolation.table(table).statement(Event::ResolveConflict) {
        None => Ok(None),
        Some(_) => by_the_rule(isolation, table, &row, now.as_deref())?,
    };
    let after = match ruled {
        Ok(after) => after,
        Err(fault) => {
            let reason = match fault {
                RowFault::Refused(reason) => {
                    return Ok(isolation.reject(table, change, &bytes, reason)?);
                }
                RowFault::NotUnique(message) => (Code::RowNotUnique, message),
                RowFault::References(message) => (Code::RowReferences, message),
            };
            isolation.park(table, change, &bytes, reason)?;
            return Ok(());
        }
    };
    let result = after.as_deref().or(now.as_deref());
    isolation.conflict(table, change, &bytes, now.as_deref(), result)?;
    match &after {
        None => isolation.kept(table, change, &bytes)?,
        Some(_) => isolation.moved(table, change, &bytes)?,
    }
    if now.is_none() && after.is_some() {
        isolation.returned.add(&(table, new))?;
    }
    match after.as_deref() == Some(row.new_image()) {
        true => isolation.echo(table, change, one)?,
        false => isolation.owe(table, change, &bytes)?,
    }
    Ok(())
}

/// What blocks a key change.
enum Obstacle {
    /// Other rows may move it.
    Mends(Reason),
    Stays(Reason),
}

fn obstacle(
    isolation: &mut Isolation<'_, '_>,
    table: usize,
    bytes: &Vec<u8>,
    now: Option<&[u8]>,
) -> Result<Option<Obstacle>, Stop> {
    let change = Change::KeyChange;
    let one = std::slice::from_ref(bytes);
    let this = isolation.table(table);
    let details = &this.deployed.details;
    let row = isolation.read(table, change, bytes)?;
    let returned = isolation.returned.contains(&row.key(&this.deployed.published, table))?;
    let fenced = !details.selection.is_empty() && !returned;
    if now.is_none() && fenced && !isolation.present(table, change, one)?.is_empty() {
        return Ok(Some(Obstacle::Stays(is_outside())));
    }
    let writes = this.statement(Event::ResolveConflict).is_some();
    let unchanged = now == Some(image(&row.old).as_slice());
    if !details.may_leave
        && (writes || unchanged)
        && let Some(inside) = isolation.inside(table, change, one)?
        && !inside.contains(&row.new_key(&this.deployed.published, table).1)
    {
        // Its parent may be waiting for another row to move out of its way.
        return Ok(Some(match isolation.waiting_rows.is_empty() {
            true => Obstacle::Stays(leads_outside(change)),
            false => Obstacle::Mends(leads_outside(change)),
        }));
    }
    if let Some(reason) = taken(isolation, table, bytes)? {
        return Ok(Some(Obstacle::Mends(reason)));
    }
    match unchanged {
        true => Ok(Some(Obstacle::Stays(isolation.vetoed(table, Change::KeyChange)?))),
        false => Ok(None),
    }
}

/// Gives the row its new key, and then lets the rule decide as if it had had it all along. Returns
/// the row that results; none where the rule leaves everything as it was, and so the key.
fn by_the_rule(
    isolation: &mut Isolation<'_, '_>,
    table: usize,
    row: &UploadedRow<'_>,
    now: Option<&[u8]>,
) -> Result<Result<Option<Vec<u8>>, RowFault>, Stop> {
    isolation.flush()?;
    isolation.link.batch("SAVEPOINT ruled").map_err(stopped("set a savepoint"))?;
    let decided = decide(isolation, table, row, now)?;
    isolation.flush()?;
    let kept = matches!(decided, Ok(Some(_)));
    let ending = match kept {
        true => "RELEASE SAVEPOINT ruled",
        false => "ROLLBACK TO SAVEPOINT ruled; RELEASE SAVEPOINT ruled",
    };
    isolation.link.batch(ending).map_err(stopped("end a savepoint"))?;
    Ok(decided)
}

fn decide(
    isolation: &mut Isolation<'_, '_>,
    table: usize,
    row: &UploadedRow<'_>,
    now: Option<&[u8]>,
) -> Result<Result<Option<Vec<u8>>, RowFault>, Stop> {
    let published = &isolation.table(table).deployed.published;
    if let Some(now) = now {
        let now = values(now)?;
        let change = Rebased::of(
            Change::KeyChange,
            published,
            &now,
            &with_new_key(published, &now, &row.new),
        );
        match isolation.run(table, change.change, Event::UploadKeyChange, &[change.bytes])? {
            Ran::Affected(1..) => isolation.keep(),
            Ran::Affected(_) => {
                isolation.undo();
                let message = "the row cannot get its new key".to_owned();
                return Ok(Err(RowFault::Refused((Code::RowRefused, message))));
            }
            Ran::Fault(fault) => {
                isolation.undo();
                return Ok(Err(fault));
            }
        }
    }
    let change = Rebased::of(
        Change::Update,
        published,
        &with_new_key(published, &row.old, &row.new),
        &row.new,
    );
    match isolation.run(table, change.change, Event::ResolveConflict, &[change.bytes])? {
        Ran::Affected(1..) => isolation.keep(),
        Ran::Affected(_) => {
            isolation.undo();
            return Ok(Ok(None));
        }
        Ran::Fault(fault) => {
            isolation.undo();
            return Ok(Err(fault));
        }
    }
    let new = row.new_key(published, table).1;
    Ok(Ok(isolation.fetch(table, Change::Insert, &[row.new_image().to_vec()])?.remove(&new)))
}

/// The values of `image` with the key of `new`.
fn with_new_key<'v>(
    table: &PublishedTable,
    image: &[ValueRef<'v>],
    new: &[ValueRef<'v>],
) -> Vec<ValueRef<'v>> {
    let mut placed = image.to_vec();
    for at in table.key.iter().map(|at| usize::from(*at)) {
        placed[at] = new[at];
    }
    placed
}
