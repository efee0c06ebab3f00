//! Key changes of an upload: their order, and what becomes of those that meet something.
//!
//! Each is an `UPDATE` of the key, so that the database's own `ON UPDATE` acts; it happens whole or
//! not at all (trap 21). PostgreSQL checks a key row by row, so the order counts:
//!
//! 1. Deletes that free a key which somebody takes, and those of the rows that refer to them.
//! 2. Of each table, parents first, its key changes: first those whose new key is free. Those that
//!    stand in each other's way in a circle go by way of keys that nobody has (`knot.rs`).
//! 3. Its other rows: what refers to a new key finds it, and an insert finds an old one free.
//!
//! Where a key change is refused or loses, both of its keys are owed, and rows that refer to the
//! key that it did not get refer to the one that it has kept (`links.rs`).

use super::batch::Reason;
use super::careful::{Careful, Ran, Rows};
use super::knot;
use super::outline::Outline;
use super::parked::Parked;
use super::row_fault::RowFault;
use super::upload::{Stop, stopped};
use crate::rebase::{Rebased, values};
use crate::script::Event;
use crate::synchronization::Change;
use crate::uploaded_row::UploadedRow;
use model::{Code, Failure, PublishedTable, ValueRef, write_value};
use siphasher::sip128::{Hasher128, SipHasher13};
use std::collections::{HashMap, HashSet};
use std::hash::Hasher;

/// Rows of the upload, by their table and key, 16 bytes each.
pub(super) type Marks = HashSet<u128>;

pub(super) fn mark(table: usize, key: &[u8]) -> u128 {
    let mut hasher = SipHasher13::new_with_keys(0, table as u64);
    hasher.write(key);
    hasher.finish128().as_u128()
}

/// The deletes that free a key which another row takes, with those of the rows that refer to them.
pub(super) fn freeing(careful: &Careful<'_, '_>, outline: &Outline) -> Result<Marks, Stop> {
    let (mut taken, mut freeing, mut referred) = (Marks::new(), Marks::new(), Marks::new());
    let links = &careful.links;
    outline.visit_keys(careful.upload, &mut |table, row| {
        let published = &careful.table(table).deployed.published;
        if row.change != Change::Delete {
            taken.insert(mark(table, &row.new_key(published, table).1));
            return Ok(());
        }
        let key = mark(table, &row.key(published, table).1);
        let refers = links.referring(table, &row.old);
        if taken.contains(&key) || refers.iter().any(|(at, it)| referred.contains(&mark(*at, it))) {
            freeing.insert(key);
            let below = links.referred(table, &row.old);
            referred.extend(below.iter().map(|(at, it)| mark(*at, it)));
        }
        Ok(())
    })?;
    Ok(freeing)
}

/// Key changes of one table, each after the one that frees its new key.
pub(super) fn in_order(careful: &Careful<'_, '_>, table: usize, rows: Rows) -> Result<Rows, Stop> {
    let published = &careful.table(table).deployed.published;
    let (mut owners, mut wanted) = (HashMap::new(), Vec::with_capacity(rows.len()));
    for (at, bytes) in rows.iter().enumerate() {
        let row = careful.read(table, Change::KeyChange, bytes)?;
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
pub(super) fn settle(careful: &mut Careful<'_, '_>, table: usize) -> Result<(), Stop> {
    let waits = |parked: &Parked| {
        let for_a_key = matches!(parked.reason.0, Code::RowKeyTaken | Code::RowNotUnique);
        parked.table == table && parked.change == Change::KeyChange && for_a_key
    };
    let (mut waiting, others) = careful.parked.take().partition(waits)?;
    while !waiting.is_empty() {
        let before = waiting.len();
        let mut rows = waiting.reader();
        while let Some(group) = rows.next_group()? {
            careful.group(group)?;
        }
        waiting = careful.parked.take();
        if waiting.len() >= before {
            break;
        }
    }
    careful.parked = waiting;
    if !careful.parked.is_empty() {
        knot::try_to_untie(careful)?;
    }
    // The row that still has the key may leave it later. Otherwise it is certain now that no row
    // gets the key, and rows that refer to it must take this into account.
    let goes = |(of, change): (usize, Change)| {
        of == table && matches!(change, Change::KeyChange | Change::Delete)
    };
    if !others.kinds().any(goes) && !careful.leaves(table) {
        let is_taken = |parked: &Parked| parked.reason.0 == Code::RowKeyTaken;
        let (taken, waiting) = careful.parked.take().partition(is_taken)?;
        careful.parked = taken;
        knot::untie(careful)?;
        careful.parked = waiting;
    }
    careful.parked.extend(&others)?;
    Ok(())
}

/// The row as the remote saw it, as if it were deleted: it is looked up by the key that it had.
pub(super) fn as_seen(
    careful: &Careful<'_, '_>,
    table: usize,
    rows: &[Vec<u8>],
) -> Result<Rows, Failure> {
    let seen = |bytes: &Vec<u8>| Ok(image(&careful.read(table, Change::KeyChange, bytes)?.old));
    rows.iter().map(seen).collect()
}

pub(super) fn image(values: &[ValueRef<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    values.iter().for_each(|value| write_value(&mut bytes, *value));
    bytes
}

/// Why a row cannot get its key, if another row has it.
pub(super) fn taken(
    careful: &mut Careful<'_, '_>,
    table: usize,
    bytes: &[u8],
) -> Result<Option<Reason>, Stop> {
    let new = careful.read(table, Change::KeyChange, bytes)?.new_image().to_vec();
    let present = careful.present(table, Change::Insert, &[new])?;
    Ok((!present.is_empty()).then(|| (Code::RowKeyTaken, "another row has the new key".to_owned())))
}

/// Decides about a key change that did not find what it expected.
pub(super) fn resolve(
    careful: &mut Careful<'_, '_>,
    table: usize,
    bytes: Vec<u8>,
) -> Result<(), Stop> {
    let change = Change::KeyChange;
    let one = std::slice::from_ref(&bytes);
    let published = &careful.table(table).deployed.published;
    let row = careful.read(table, change, &bytes)?;
    let (old, new) = (row.key(published, table).1, row.new_key(published, table).1);
    let mut now = careful.fetch(table, change, one)?.remove(&old);
    if careful.returned.contains(&(table, old)) {
        now = None;
    }
    let there = careful.fetch(table, Change::Insert, &[row.new_image().to_vec()])?.remove(&new);
    if now.is_none() && there.as_deref() == Some(row.new_image()) {
        return Ok(careful.echo(table, change, one)?);
    }
    match obstacle(careful, table, &bytes, now.as_deref())? {
        Some(Obstacle::Mends(reason)) => {
            careful.park(table, change, &bytes, reason)?;
            return Ok(());
        }
        Some(Obstacle::Stays(reason)) => return Ok(careful.reject(table, change, &bytes, reason)?),
        None => {}
    }
    let ruled = match careful.table(table).statement(Event::ResolveConflict) {
        None => Ok(None),
        Some(_) => by_the_rule(careful, table, &row, now.as_deref())?,
    };
    let after = match ruled {
        Ok(after) => after,
        Err(fault) => {
            let reason = match fault {
                RowFault::Refused(reason) => {
                    return Ok(careful.reject(table, change, &bytes, reason)?);
                }
                RowFault::NotUnique(message) => (Code::RowNotUnique, message),
                RowFault::References(message) => (Code::RowReferences, message),
            };
            careful.park(table, change, &bytes, reason)?;
            return Ok(());
        }
    };
    let result = after.as_deref().or(now.as_deref());
    careful.conflict(table, change, &bytes, now.as_deref(), result)?;
    match &after {
        None => careful.kept(table, change, &bytes)?,
        Some(_) => careful.moved(table, change, &bytes)?,
    }
    if now.is_none() && after.is_some() {
        careful.returned.insert((table, new));
    }
    match after.as_deref() == Some(row.new_image()) {
        true => careful.echo(table, change, one)?,
        false => careful.owe(table, change, &bytes)?,
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
    careful: &mut Careful<'_, '_>,
    table: usize,
    bytes: &Vec<u8>,
    now: Option<&[u8]>,
) -> Result<Option<Obstacle>, Stop> {
    let change = Change::KeyChange;
    let one = std::slice::from_ref(bytes);
    let this = careful.table(table);
    let details = &this.deployed.details;
    let row = careful.read(table, change, bytes)?;
    let outside = || (Code::RowOutsideSubscription, "the row is outside the partition".to_owned());
    let returned = careful.returned.contains(&row.key(&this.deployed.published, table));
    let fenced = !details.selection.is_empty() && !returned;
    if now.is_none() && fenced && !careful.present(table, change, one)?.is_empty() {
        return Ok(Some(Obstacle::Stays(outside())));
    }
    let writes = this.statement(Event::ResolveConflict).is_some();
    let unchanged = now == Some(image(&row.old).as_slice());
    if !details.may_leave
        && (writes || unchanged)
        && let Some(inside) = careful.inside(table, change, one)?
        && !inside.contains(&row.new_key(&this.deployed.published, table).1)
    {
        // Its parent may be waiting for another row to move out of its way.
        return Ok(Some(match careful.parked.is_empty() {
            true => Obstacle::Stays(outside()),
            false => Obstacle::Mends(outside()),
        }));
    }
    if let Some(reason) = taken(careful, table, bytes)? {
        return Ok(Some(Obstacle::Mends(reason)));
    }
    match unchanged {
        true => Ok(Some(Obstacle::Stays(careful.vetoed(table, Change::KeyChange)?))),
        false => Ok(None),
    }
}

/// Gives the row its new key, and then lets the rule decide as if it had had it all along. Returns
/// the row that results; none where the rule leaves everything as it was, and so the key.
fn by_the_rule(
    careful: &mut Careful<'_, '_>,
    table: usize,
    row: &UploadedRow<'_>,
    now: Option<&[u8]>,
) -> Result<Result<Option<Vec<u8>>, RowFault>, Stop> {
    careful.flush()?;
    careful.link.batch("SAVEPOINT ruled").map_err(stopped("set a savepoint"))?;
    let reached = careful.reached.moment();
    let decided = decide(careful, table, row, now)?;
    careful.flush()?;
    let ending = match decided {
        Ok(Some(_)) => "RELEASE SAVEPOINT ruled",
        _ => {
            careful.reached.back_to(reached);
            "ROLLBACK TO SAVEPOINT ruled; RELEASE SAVEPOINT ruled"
        }
    };
    careful.link.batch(ending).map_err(stopped("end a savepoint"))?;
    Ok(decided)
}

fn decide(
    careful: &mut Careful<'_, '_>,
    table: usize,
    row: &UploadedRow<'_>,
    now: Option<&[u8]>,
) -> Result<Result<Option<Vec<u8>>, RowFault>, Stop> {
    let published = &careful.table(table).deployed.published;
    if let Some(now) = now {
        let now = values(now)?;
        let change = Rebased::of(
            Change::KeyChange,
            published,
            &now,
            &with_new_key(published, &now, &row.new),
        );
        match careful.run(table, change.change, Event::UploadKeyChange, &[change.bytes])? {
            Ran::Affected(1..) => careful.keep(),
            Ran::Affected(_) => {
                careful.undo();
                let message = "the row cannot get its new key".to_owned();
                return Ok(Err(RowFault::Refused((Code::RowRefused, message))));
            }
            Ran::Fault(fault) => {
                careful.undo();
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
    match careful.run(table, change.change, Event::ResolveConflict, &[change.bytes])? {
        Ran::Affected(1..) => careful.keep(),
        Ran::Affected(_) => {
            careful.undo();
            return Ok(Ok(None));
        }
        Ran::Fault(fault) => {
            careful.undo();
            return Ok(Err(fault));
        }
    }
    let new = row.new_key(published, table).1;
    Ok(Ok(careful.fetch(table, Change::Insert, &[row.new_image().to_vec()])?.remove(&new)))
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
