//! Resolves rows that did not find what they expected by the rule of the table (S5).
//!
//! A script implements the rule. This file decides when it runs, what is counted, and what the
//! remote is owed afterwards. A row outside the partition is not a conflict: it is neither sent nor
//! changed (S7).

use super::careful::{Careful, Group, Images, Ran, Rows, halve};
use super::catalog::Table;
use super::image::old_image;
use super::key_change;
use super::made;
use super::row_fault::RowFault;
use super::statement::Statement;
use super::upload::{Stop, resolution_of};
use crate::quote::{ident, join};
use crate::rebase;
use crate::script::Script;
use crate::synchronization::Change;
use crate::uploaded_row::UploadedRow;
use model::{Code, Failure};
use std::collections::HashSet;

/// Resolves `group`. Two sides that did the same are no conflict.
pub(super) fn resolve(careful: &mut Careful<'_, '_>, group: Group) -> Result<(), Stop> {
    let Group { table, change, rows } = made::over(careful, group)?;
    if rows.is_empty() {
        return Ok(());
    }
    if change == Change::KeyChange {
        return match careful.moves.are_forgotten(careful.upload, table) {
            true => rows
                .iter()
                .try_for_each(|row| Ok(careful.reject(table, change, row, rebase::forgotten())?)),
            false => rows.into_iter().try_for_each(|row| key_change::resolve(careful, table, row)),
        };
    }
    let now = careful.fetch(table, change, &rows)?;
    decide(careful, Group { table, change, rows }, now)
}

/// Resolves rows that a statement for many has left out. Those that find what they expect after all
/// are tried once more.
pub(super) fn resolve_missed(careful: &mut Careful<'_, '_>, group: Group) -> Result<(), Stop> {
    let Group { table, change, rows } = group;
    let (likely, rows, now) = careful.look(table, change, rows)?;
    if !likely.is_empty() {
        careful.group(Group { table, change, rows: likely })?;
    }
    let group = made::over(careful, Group { table, change, rows })?;
    decide(careful, group, now)
}

/// Resolves rows of which it is known what is there `now`.
fn decide(careful: &mut Careful<'_, '_>, group: Group, now: Images) -> Result<(), Stop> {
    let Group { table, change, rows } = group;
    let published = &careful.table(table).deployed.published;
    let ground = Ground::look(careful, table, change, &rows, now)?;
    let mut conflicts = Vec::new();
    let forgotten = change != Change::Insert && careful.moves.are_forgotten(careful.upload, table);
    for bytes in rows {
        let row = careful.read(table, change, &bytes)?;
        let key = row.key(published, table).1;
        let verdict = ground.verdict(&row, &key);
        let elsewhere = match verdict {
            Verdict::Conflict => forgotten,
            // It is not there any more, or not under this key.
            Verdict::Same => forgotten && change == Change::Delete,
            _ => false,
        };
        match verdict {
            _ if elsewhere => careful.reject(table, change, &bytes, rebase::forgotten())?,
            Verdict::Same => careful.echo(table, change, &[bytes])?,
            Verdict::Conflict => conflicts.push(bytes),
            // Its parent may be waiting for another row to move out of its way.
            Verdict::Leads if !careful.parked.is_empty() => {
                careful.park(table, change, &bytes, outside())?;
            }
            Verdict::Leads | Verdict::Touches => {
                careful.reject(table, change, &bytes, outside())?
            }
            Verdict::Vetoed => {
                let reason = careful.vetoed(table, change)?;
                careful.reject(table, change, &bytes, reason)?;
            }
        }
    }
    settle(careful, Group { table, change, rows: conflicts }, &ground.now)
}

/// What some rows found.
struct Ground {
    /// The rows at the centre, as far as the partition covers them.
    now: Images,
    /// Keys of rows that the centre has beside these.
    beyond: HashSet<Vec<u8>>,
    /// Keys of new rows that will be covered, as far as it matters; none without a fence.
    inside: Option<HashSet<Vec<u8>>>,
    may_leave: bool,
    /// The rule may write what the remote sent.
    writes: bool,
}

enum Verdict {
    /// Both sides did the same.
    Same,
    Conflict,
    /// The row is outside the fence.
    Touches,
    /// The row would be outside the fence.
    Leads,
    /// Nothing stood in its way, and yet it was not taken.
    Vetoed,
}

impl Ground {
    fn look(
        careful: &mut Careful<'_, '_>,
        table: usize,
        change: Change,
        rows: &[Vec<u8>],
        now: Images,
    ) -> Result<Ground, Stop> {
        let this = careful.table(table);
        let published = &this.deployed.published;
        let mut keys = Vec::with_capacity(rows.len());
        for bytes in rows {
            keys.push(careful.read(table, change, bytes)?.key(published, table).1);
        }
        let fenced = !this.deployed.details.selection.is_empty();
        let unseen = rows.iter().zip(&keys).filter(|(_, key)| fenced && !now.contains_key(*key));
        let unseen: Vec<Vec<u8>> = unseen.map(|(bytes, _)| bytes.clone()).collect();
        let beyond = match unseen.is_empty() {
            true => HashSet::new(),
            false => careful.present(table, change, &unseen)?,
        };
        let may_leave = this.deployed.details.may_leave;
        let writes = this.statement(resolution_of(change)).is_some();
        let mut ground = Ground { now, beyond, inside: None, may_leave, writes };
        let mut asked = Vec::new();
        for (bytes, key) in rows.iter().zip(&keys) {
            if ground.asks_for_fence(&careful.read(table, change, bytes)?, key) {
                asked.push(bytes.clone());
            }
        }
        if !asked.is_empty() {
            ground.inside = careful.inside(table, change, &asked)?;
        }
        Ok(ground)
    }

    /// Whether it matters for the verdict if the row will be covered.
    fn asks_for_fence(&self, row: &UploadedRow<'_>, key: &[u8]) -> bool {
        match (row.change, self.now.get(key)) {
            (Change::Delete, _) => false,
            (_, None) if self.beyond.contains(key) => false,
            (change, None) => change == Change::Insert || self.writes,
            (_, Some(now)) if now == row.new_image() => false,
            (Change::Insert, Some(_)) => self.writes && !self.may_leave,
            (_, Some(now)) => *now == old_image(row) || self.writes && !self.may_leave,
        }
    }

    fn verdict(&self, row: &UploadedRow<'_>, key: &[u8]) -> Verdict {
        let leads = self.inside.as_ref().is_some_and(|inside| !inside.contains(key));
        let Some(now) = self.now.get(key) else {
            return match row.change {
                _ if self.beyond.contains(key) => Verdict::Touches,
                Change::Delete => Verdict::Same,
                Change::Insert if leads => Verdict::Leads,
                Change::Insert => Verdict::Vetoed,
                Change::Update if leads && self.writes => Verdict::Leads,
                Change::Update | Change::KeyChange => Verdict::Conflict,
            };
        };
        if row.change != Change::Delete && now == row.new_image() {
            return Verdict::Same;
        }
        if row.change != Change::Insert && *now == old_image(row) {
            return if leads && !self.may_leave { Verdict::Leads } else { Verdict::Vetoed };
        }
        match leads && self.writes && !self.may_leave {
            true => Verdict::Leads,
            false => Verdict::Conflict,
        }
    }
}

fn outside() -> (Code, String) {
    (Code::RowOutsideSubscription, "the row is outside the partition".to_owned())
}

/// Lets the rule decide, then counts, notes and owes.
fn settle(careful: &mut Careful<'_, '_>, group: Group, now: &Images) -> Result<(), Stop> {
    let Group { table, change, rows } = group;
    let published = &careful.table(table).deployed.published;
    let (rows, after) = match careful.table(table).statement(resolution_of(change)) {
        Some(_) => {
            let rows = run(careful, Group { table, change, rows })?;
            let after = match rows.is_empty() {
                true => Images::new(),
                false => careful.fetch(table, change, &rows)?,
            };
            (rows, Some(after))
        }
        // All stays as it is.
        None => (rows, None),
    };
    let after = after.as_ref().unwrap_or(now);
    for bytes in &rows {
        let row = careful.read(table, change, bytes)?;
        let key = row.key(published, table).1;
        let (now, result) = (now.get(&key), after.get(&key));
        careful.conflict(
            table,
            change,
            bytes,
            now.map(Vec::as_slice),
            result.map(Vec::as_slice),
        )?;
        let agrees = match change {
            Change::Delete => !after.contains_key(&key),
            Change::Insert | Change::Update | Change::KeyChange => {
                after.get(&key).is_some_and(|image| image == row.new_image())
            }
        };
        match agrees {
            true => careful.echo(table, change, std::slice::from_ref(bytes))?,
            false => careful.owe(table, change, bytes)?,
        }
    }
    Ok(())
}

/// Runs the rule's script, in halves where it fails. Returns the rows that it could be run for.
fn run(careful: &mut Careful<'_, '_>, group: Group) -> Result<Rows, Stop> {
    let Group { table, change, rows } = group;
    let event = resolution_of(change);
    let mut resolved = Vec::new();
    let mut stack = vec![rows];
    while let Some(mut rows) = stack.pop() {
        if rows.is_empty() {
            continue;
        }
        match careful.run(table, change, event, &rows)? {
            // Only rows that are gone have reached others.
            Ran::Affected(count) if count < rows.len() as u64 && careful.is_reaching() => {
                careful.undo();
                match rows.len() {
                    1 => resolved.append(&mut rows),
                    _ => halve(rows, &mut stack),
                }
            }
            Ran::Affected(_) => {
                careful.keep();
                resolved.append(&mut rows);
            }
            Ran::Fault(fault) => {
                careful.undo();
                if rows.len() > 1 {
                    let second = rows.split_off(rows.len().div_ceil(2));
                    stack.extend([second, rows]);
                    continue;
                }
                let reason = match fault {
                    RowFault::Refused(reason) => {
                        careful.reject(table, change, &rows[0], reason)?;
                        continue;
                    }
                    RowFault::NotUnique(message) => (Code::RowNotUnique, message),
                    RowFault::References(message) => (Code::RowReferences, message),
                };
                for row in &rows {
                    careful.park(table, change, row, reason.clone())?;
                }
            }
        }
    }
    Ok(resolved)
}

/// Asks which of some keys exist, covered or not.
pub(super) fn presence(table: &Table) -> Result<Statement, Failure> {
    let (published, details) = (&table.deployed.published, &table.deployed.details);
    let key: Vec<(&str, bool)> = published
        .key
        .iter()
        .map(|at| usize::from(*at))
        .map(|at| (published.columns[at].as_str(), details.columns[at].read_as_text()))
        .collect();
    let selected: Vec<String> = key
        .iter()
        .map(|(name, as_text)| format!("k.{}{}", ident(name), if *as_text { "::text" } else { "" }))
        .collect();
    let names: Vec<&str> = key.iter().map(|(name, _)| *name).collect();
    let text = format!(
        "SELECT {} FROM {{keys}} AS k WHERE EXISTS (SELECT FROM {}.{} AS t WHERE {})",
        selected.join(", "),
        ident(&details.schema),
        ident(&details.name),
        join(&names, " AND ", |name| format!("t.{0} = k.{0}", ident(name))),
    );
    let script = Script::parse(&text, published)?;
    Ok(Statement::of(&script, published, &details.columns))
}
