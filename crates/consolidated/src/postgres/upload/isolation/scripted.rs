//! Finds conflicts by scripts that a user wrote, and lets such scripts resolve them.
//!
//! The rows of a group are read together. Those that are as the remote saw them are applied, then
//! all others are given to the scripts for conflicts: each of the three is one flight, however many
//! rows there are.

use crate::postgres::upload::batch;
use crate::postgres::upload::isolation::group::{Group, Images, Rows, halve};
use crate::postgres::upload::isolation::lookup::key_of;
use crate::postgres::upload::isolation::state::Isolation;
use crate::postgres::upload::row_fault::RowFault;
use crate::postgres::upload::stop::Stop;
use crate::postgres::values::row_decoder::Decoder;
use crate::script::{Detection, Event};
use crate::synchronization::change::Change;
use crate::upload::detected::{Detected, detected};
use crate::upload::loser::has_lost;

/// What scripts have read, and what is wrong with the row where they cannot read it.
type Read = Result<Images, RowFault>;

impl Isolation<'_, '_> {
    /// Applies the rows of a group of which the scripts of a user resolve the conflicts.
    pub(super) fn compared(&mut self, group: Group, detection: Detection) -> Result<(), Stop> {
        let Group { table, change, .. } = group;
        let own = detection.fetching().filter(|event| {
            let script = self.table(table).deployed.own(*event);
            script.is_some_and(|script| !script.is_ignored())
        });
        match (detection, own) {
            (Detection::Forced, _) => {
                let now = self.fetch(table, change, &group.rows)?;
                settle(self, group, &now)
            }
            (_, None) => self.own(group),
            (_, Some(event)) => self.detect(group, detection, event),
        }
    }

    /// Parts the rows that have a conflict from those that have none.
    fn detect(&mut self, group: Group, detection: Detection, event: Event) -> Result<(), Stop> {
        let Group { table, change, rows } = group;
        self.cues.ran(event, rows.len() as u64);
        let published = &self.table(table).deployed.published;
        let (mut clean, mut conflicts, mut now) = (Vec::new(), Vec::new(), Images::new());
        let mut stack = vec![rows];
        while let Some(rows) = stack.pop() {
            let found = match self.read_own((table, change), event, &rows)? {
                Ok(found) => found,
                Err(_) if rows.len() > 1 => {
                    halve(rows, &mut stack);
                    continue;
                }
                Err(fault) => {
                    for row in rows {
                        self.reject(table, change, &row, fault.clone().into_reason())?;
                    }
                    continue;
                }
            };
            for bytes in rows {
                let row = self.read(table, change, &bytes)?;
                let key = row.key(published, table).1;
                match detected(detection, &row, found.get(&key).map(Vec::as_slice))? {
                    Detected::AsSeen => clean.push(bytes),
                    Detected::Aside(anew) => {
                        self.note_told(table, change, &bytes, &anew)?;
                        self.owe(table, change, &anew.bytes)?;
                        clean.push(anew.bytes);
                    }
                    Detected::Conflict => conflicts.push(bytes),
                }
            }
            now.extend(found);
        }
        if !clean.is_empty() {
            self.own(Group { table, change, rows: clean })?;
        }
        settle(self, Group { table, change, rows: conflicts }, &now)
    }

    /// The rows as the script of an event returns them, by key, as far as remotes know them.
    fn read_own(
        &mut self,
        (table, change): (usize, Change),
        event: Event,
        rows: &[Vec<u8>],
    ) -> Result<Read, Stop> {
        let this = self.table(table);
        let mut wide = Vec::new();
        let (of, rows) = match (&this.wide, &this.deployed.whole) {
            (Some(of), Some(whole)) => {
                for bytes in rows {
                    wide.push(whole.widen(&self.read(table, change, bytes)?, None)?.bytes);
                }
                (&of.table, wide.as_slice())
            }
            _ => (this, rows),
        };
        let (published, columns) = (&this.deployed.published, &of.deployed.details.columns);
        let batches = batch::batches(of, of.required(event)?, self.upload, change, rows)?;
        let mut images = Images::new();
        let fault = self.select_unless(&batches, &mut |_, row| {
            let mut image = Vec::new();
            Decoder::new(row, columns.iter())?.write(row, &mut image)?;
            if let Some(whole) = &this.deployed.whole {
                image = whole.narrow(&image)?;
            }
            images.insert(key_of(&image, published.width(), &published.key)?, image);
            Ok(())
        })?;
        Ok(fault.map_or(Ok(images), |(fault, _)| Err(fault)))
    }
}

/// Lets the scripts of the user decide, then counts, notes and owes.
pub(super) fn settle(
    isolation: &mut Isolation<'_, '_>,
    group: Group,
    now: &Images,
) -> Result<(), Stop> {
    let Group { table, change, .. } = group;
    let this = isolation.table(table);
    let event = this.deployed.settling(change);
    let runs = this.deployed.own(event).is_some_and(|script| !script.is_ignored());
    let conflicts = group.rows.len() as u64;
    if conflicts > 0 {
        this.deployed.resolving().for_each(|event| isolation.cues.ran(event, conflicts));
    }
    let rows: Rows = if runs { isolation.through(group, event)? } else { group.rows };
    if rows.is_empty() {
        return Ok(());
    }
    let after = isolation.fetch(table, change, &rows)?;
    for bytes in &rows {
        let row = isolation.read(table, change, bytes)?;
        let key = row.key(&this.deployed.published, table).1;
        let now = now.get(&key).map(Vec::as_slice);
        let result = after.get(&key).map(Vec::as_slice);
        isolation.conflict(table, change, bytes, now, result)?;
        let lost = has_lost(&row, (now, result), this.deployed.decides(change), true)?;
        isolation.owe_settled((table, change), bytes, lost)?;
    }
    isolation.write_conflicts()
}
