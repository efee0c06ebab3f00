//! Resolves rows that did not find what they expected by the rule of the table (S5).
//!
//! A script implements the rule. This file decides when it runs, what is counted, and what the
//! remote is owed afterwards. A row outside the partition is not a conflict: it is neither sent nor
//! changed (S7).

use crate::postgres::upload::batch::batches;
use crate::postgres::upload::isolation::group::{Group, Images, Rows};
use crate::postgres::upload::isolation::state::{Isolation, Ran};
use crate::postgres::upload::isolation::{hidden, scripted};
use crate::postgres::upload::made;
use crate::postgres::upload::row_fault::RowFault;
use crate::postgres::upload::stop::Stop;
use crate::script::{Detection, Event};
use crate::synchronization::change::Change;
use crate::upload::halving;
use crate::upload::loser::{has_lost, loser, not_kept};
use crate::upload::uploaded_row::{event_of, resolution_of};
use crate::upload::verdict::{Found, Instead, Verdict, agrees, is_outside, leads_outside, loses};
use std::collections::HashSet;

/// Resolves `group`. Two sides that did the same are no conflict.
pub(in crate::postgres) fn resolve(
    isolation: &mut Isolation<'_, '_>,
    group: Group,
) -> Result<(), Stop> {
    let Group { table, change, rows } = made::over(isolation, group)?;
    if rows.is_empty() {
        return Ok(());
    }
    let now = isolation.fetch(table, change, &rows)?;
    decide(isolation, Group { table, change, rows }, now)
}

/// Resolves rows that a statement for many has left out. Those that find what they expect after all
/// are tried once more.
pub(in crate::postgres) fn resolve_missed(
    isolation: &mut Isolation<'_, '_>,
    group: Group,
) -> Result<(), Stop> {
    let Group { table, change, rows } = group;
    let (likely, rows, now) = isolation.look(table, change, rows)?;
    if !likely.is_empty() {
        isolation.group(Group { table, change, rows: likely })?;
    }
    let group = made::over(isolation, Group { table, change, rows })?;
    decide(isolation, group, now)
}

/// Resolves rows of which it is known what is there `now`.
fn decide(isolation: &mut Isolation<'_, '_>, group: Group, now: Images) -> Result<(), Stop> {
    let Group { table, change, rows } = group;
    let published = &isolation.table(table).deployed.published;
    let ground = Ground::look(isolation, table, change, &rows, now)?;
    let is_missing = |key: &[u8]| !ground.now.contains_key(key) && !ground.beyond.contains(key);
    let hidden = hidden::among(isolation, (table, change), &rows, &is_missing)?;
    let by_scripts = isolation.table(table).deployed.detection(change).is_some();
    let (mut conflicts, mut vetoed) = (Vec::new(), Vec::new());
    for bytes in rows {
        let row = isolation.read(table, change, &bytes)?;
        let key = row.key(published, table).1;
        if let Some(reason) = hidden.get(&key) {
            isolation.reject(table, change, &bytes, reason.clone())?;
            continue;
        }
        match ground.found(&key).verdict(&row)? {
            Verdict::Same => isolation.echo(table, change, &[bytes])?,
            Verdict::Conflict | Verdict::Leads if by_scripts => conflicts.push(bytes),
            Verdict::Conflict => conflicts.push(bytes),
            // Its parent may be waiting for another row to move out of its way.
            Verdict::Leads if !isolation.waiting_rows.is_empty() => {
                isolation.park(table, change, &bytes, leads_outside(change))?;
            }
            Verdict::Leads => isolation.reject(table, change, &bytes, leads_outside(change))?,
            Verdict::Touches => isolation.reject(table, change, &bytes, is_outside())?,
            Verdict::Vetoed => vetoed.push(bytes),
        }
    }
    leave(isolation, Group { table, change, rows: vetoed })?;
    if by_scripts {
        return scripted::settle(isolation, Group { table, change, rows: conflicts }, &ground.now);
    }
    settle(isolation, Group { table, change, rows: conflicts }, &ground.now)
}

/// Leaves rows to the trigger of the owner that keeps them from being written, and tells the remote
/// what became of each. What the trigger does instead stays. It was undone when these rows were
/// looked for, so they are given to it once more. Rows of a user's script are only rejected: a
/// script that changes nothing is undone.
fn leave(isolation: &mut Isolation<'_, '_>, group: Group) -> Result<(), Stop> {
    let (table, change) = (group.table, group.change);
    let deployed = &isolation.table(table).deployed;
    let rows = match deployed.is_own(change) {
        true => group.rows,
        false => run(isolation, group, event_of(change))?,
    };
    if rows.is_empty() {
        return Ok(());
    }
    let now = isolation.fetch(table, change, &rows)?;
    for bytes in &rows {
        let row = isolation.read(table, change, bytes)?;
        let key = row.key(&deployed.published, table).1;
        match Instead::of(&row, now.get(&key).map(Vec::as_slice))? {
            Instead::Same => isolation.echo(table, change, std::slice::from_ref(bytes))?,
            Instead::Kept => isolation.owe(table, change, bytes)?,
            Instead::Ignored => {
                let reason = isolation.vetoed(table, change)?;
                isolation.reject(table, change, bytes, reason)?;
            }
        }
    }
    Ok(())
}

/// What some rows found.
struct Ground<'a> {
    /// The rows at the center, as far as the partition covers them.
    now: Images,
    /// Keys of rows that the center has beside these.
    beyond: HashSet<Vec<u8>>,
    /// Keys of new rows that will be covered, as far as it matters; none without a fence.
    inside: Option<HashSet<Vec<u8>>>,
    may_leave: bool,
    /// The rule may write what the remote sent.
    writes: bool,
    /// The scripts of the user say that a row that is not applied has a conflict.
    is_counted: bool,
    /// The columns in which the changes of both sides count.
    added: &'a [u16],
}

impl<'a> Ground<'a> {
    fn look(
        isolation: &mut Isolation<'_, 'a>,
        table: usize,
        change: Change,
        rows: &[Vec<u8>],
        now: Images,
    ) -> Result<Ground<'a>, Stop> {
        let this = isolation.table(table);
        let published = &this.deployed.published;
        let mut keys = Vec::with_capacity(rows.len());
        for bytes in rows {
            keys.push(isolation.read(table, change, bytes)?.key(published, table).1);
        }
        let fenced = !this.deployed.details.selection.is_empty();
        let unseen = rows.iter().zip(&keys).filter(|(_, key)| fenced && !now.contains_key(*key));
        let unseen: Vec<Vec<u8>> = unseen.map(|(bytes, _)| bytes.clone()).collect();
        let beyond = match unseen.is_empty() {
            true => HashSet::new(),
            false => isolation.present(table, change, &unseen)?,
        };
        let may_leave = this.deployed.details.may_leave;
        let writes = this.statement(resolution_of(change)).is_some();
        let is_counted = this.deployed.detection(change) == Some(Detection::Count);
        let added = this.added(change);
        let inside = None;
        let mut ground = Ground { now, beyond, inside, may_leave, writes, is_counted, added };
        let mut asked = Vec::new();
        for (bytes, key) in rows.iter().zip(&keys) {
            if ground.found(key).asks_where_it_leads(&isolation.read(table, change, bytes)?)? {
                asked.push(bytes.clone());
            }
        }
        if !asked.is_empty() {
            ground.inside = isolation.inside(table, change, &asked)?;
        }
        Ok(ground)
    }

    /// What there is under one key.
    fn found(&self, key: &[u8]) -> Found<'_> {
        Found {
            now: self.now.get(key).map(Vec::as_slice),
            is_outside: self.beyond.contains(key),
            leads: self.inside.as_ref().is_some_and(|inside| !inside.contains(key)),
            may_leave: self.may_leave,
            writes: self.writes,
            is_counted: self.is_counted,
            added: self.added,
        }
    }
}

/// Lets the rule decide, then counts, notes and owes.
fn settle(isolation: &mut Isolation<'_, '_>, group: Group, now: &Images) -> Result<(), Stop> {
    let Group { table, change, rows } = group;
    let published = &isolation.table(table).deployed.published;
    let (rows, after) = match isolation.table(table).statement(resolution_of(change)) {
        Some(_) => {
            let rows = run(isolation, Group { table, change, rows }, resolution_of(change))?;
            let after = match rows.is_empty() {
                true => Images::new(),
                false => isolation.fetch(table, change, &rows)?,
            };
            (rows, Some(after))
        }
        // All stays as it is.
        None => (rows, None),
    };
    let after = after.as_ref().unwrap_or(now);
    let mut losers = Vec::new();
    for bytes in &rows {
        let row = isolation.read(table, change, bytes)?;
        let key = row.key(published, table).1;
        let now = now.get(&key).map(Vec::as_slice);
        let result = after.get(&key).map(Vec::as_slice);
        isolation.conflict(table, change, bytes, now, result)?;
        let rule = &isolation.table(table).deployed.conflict_rule;
        if isolation.table(table).losers.is_some() {
            losers.extend(loser(&row, (now, result), rule)?.map(<[u8]>::to_vec));
        }
        let (again, id) =
            (isolation.upload.request.entered_again, isolation.sent_id(table, change, bytes)?);
        let lost = loses(&row, (again, &id), (now, result), rule)?;
        match (agrees(&row, result), lost) {
            (true, _) => isolation.echo(table, change, std::slice::from_ref(bytes))?,
            (false, Some(reason)) => {
                isolation.record.unusual(table).lost[change as usize] += 1;
                isolation.reject(table, change, bytes, reason)?;
            }
            (false, None) => {
                let lost = has_lost(&row, (now, result), rule, false)?;
                isolation.owe_settled((table, change), bytes, lost)?;
            }
        }
    }
    keep(isolation, table, &losers)
}

/// Keeps rows that lost where the model wants them. A table that does not take one of them is a
/// mistake of its owner, so the whole upload fails rather than that a row is lost.
fn keep(isolation: &mut Isolation<'_, '_>, table: usize, losers: &[Vec<u8>]) -> Result<(), Stop> {
    let this = isolation.table(table);
    let Some(statement) = this.losers.as_ref().filter(|_| !losers.is_empty()) else {
        return Ok(());
    };
    let batches = batches(this, statement, isolation.upload, Change::Insert, losers)?;
    match isolation.send((table, Event::ConflictRule), &batches, false)? {
        Ran::Affected(_) => isolation.keep(),
        Ran::Fault(fault) => {
            let why = fault.into_reason().message;
            return Err(not_kept(&this.deployed.published.name, &why).into());
        }
    }
    Ok(())
}

/// Runs the script of an event, in halves where it fails. Returns the rows that it could be run
/// for.
fn run(isolation: &mut Isolation<'_, '_>, group: Group, event: Event) -> Result<Rows, Stop> {
    let Group { table, change, rows } = group;
    let mut resolved = Vec::new();
    let failing = halving::failing(&rows, |some| {
        Ok::<_, Stop>(match isolation.run(table, change, event, some)? {
            Ran::Affected(_) => {
                isolation.keep();
                resolved.extend_from_slice(some);
                None
            }
            Ran::Fault(fault) => {
                isolation.undo();
                Some(fault)
            }
        })
    })?;
    for (row, fault) in failing {
        match fault {
            RowFault::Refused(reason) => isolation.reject(table, change, row, reason)?,
            blocked => isolation.park(table, change, row, blocked.into_reason())?,
        }
    }
    Ok(resolved)
}
