//! Gives the rows of one table the keys for which they wait.
//!
//! A row that gets another key frees the one that it had, so the row that waits for this one is
//! tried next. Then a chain of any length takes each of its rows twice, in whatever order they were
//! sent. What one row alone allows, a delete that goes first or a temporary key in a ring, is done
//! for all rows of a round.

use super::aside::place;
use super::freeing::{Deletes, delete_first, refuse};
use super::spot::{Spot, spot_of};
use crate::sqlite::upload::WaitingRow;
use crate::sqlite::upload::attempt::{Attempt, RowOutcome};
use crate::upload::uploaded_row::RowId;
use model::Failure;
use std::collections::{HashMap, HashSet};

/// Gives rows the keys for which they wait, as far as possible. Returns those that wait for
/// another unique value.
pub(super) fn settle(
    attempt: &mut Attempt<'_>,
    mut waiting: Vec<WaitingRow>,
) -> Result<Vec<WaitingRow>, Failure> {
    let mut placed = HashSet::new();
    while !waiting.is_empty() {
        let mut round = Round::of(attempt, waiting)?;
        let on = round.move_on(attempt, (0..round.rows.len()).collect())?
            || round.free(attempt, &placed)?
            || round.open_rings(attempt, &mut placed)?;
        waiting = round.rows.into_iter().flatten().collect();
        if !on {
            break;
        }
    }
    Ok(waiting)
}

/// Rows that wait, and whose keys they wait for, as it was when the round began.
struct Round {
    /// None where a row waits no longer.
    rows: Vec<Option<WaitingRow>>,
    spots: Vec<Spot>,
    /// By the key that a row has.
    owners: HashMap<Vec<u8>, usize>,
    /// By the key that rows are to get and another row has.
    waiters: HashMap<Vec<u8>, Vec<usize>>,
    /// By table: the deletes of the upload that free one of these keys, once they are needed.
    deletes: HashMap<usize, Deletes>,
}

impl Round {
    fn of(attempt: &Attempt<'_>, waiting: Vec<WaitingRow>) -> Result<Round, Failure> {
        let (mut owners, mut waiters) = (HashMap::new(), HashMap::<Vec<u8>, Vec<usize>>::new());
        let mut spots = Vec::with_capacity(waiting.len());
        for (at, row) in waiting.iter().enumerate() {
            let spot = spot_of(attempt, row)?;
            if let Some(own) = &spot.own {
                owners.entry(own.clone()).or_insert(at);
            }
            if let Some(occupant) = spot.taken_by() {
                waiters.entry(occupant.to_vec()).or_default().push(at);
            }
            spots.push(spot);
        }
        let (rows, deletes) = (waiting.into_iter().map(Some).collect(), HashMap::new());
        Ok(Round { rows, spots, owners, waiters, deletes })
    }

    /// The delete of a row that has a key for which others wait.
    fn delete_of(
        &mut self,
        attempt: &Attempt<'_>,
        id: &RowId,
    ) -> Result<Option<WaitingRow>, Failure> {
        if let Some(deletes) = self.deletes.get_mut(&id.0) {
            return Ok(deletes.take(id));
        }
        let mut deletes = Deletes::of(attempt, id.0, |key| self.waiters.contains_key(key))?;
        let delete = deletes.take(id);
        self.deletes.insert(id.0, deletes);
        Ok(delete)
    }

    /// Those that wait for a key.
    fn waiters_of(&self, key: Option<&Vec<u8>>) -> Vec<usize> {
        key.and_then(|key| self.waiters.get(key)).cloned().unwrap_or_default()
    }

    /// Tries rows, and those that wait for the keys that these had. Whether any had its turn.
    fn move_on(&mut self, attempt: &mut Attempt<'_>, first: Vec<usize>) -> Result<bool, Failure> {
        let mut any = false;
        for begin in first {
            let mut next = vec![begin];
            while let Some(at) = next.pop() {
                let Some(row) = &self.rows[at] else { continue };
                if let RowOutcome::InTheWay(_) = attempt.retry(row)? {
                    continue;
                }
                self.rows[at] = None;
                any = true;
                next.extend(self.waiters_of(self.spots[at].own.as_ref()).into_iter().rev());
            }
        }
        Ok(any)
    }

    /// Applies the deletes that free a key for which a row waits, and refuses the rows that wait
    /// for a row that stays. Whether there were any.
    fn free(
        &mut self,
        attempt: &mut Attempt<'_>,
        placed: &HashSet<RowId>,
    ) -> Result<bool, Failure> {
        let mut any = false;
        let mut next: Vec<usize> = (0..self.rows.len()).rev().collect();
        while let Some(at) = next.pop() {
            let Some(row) = &self.rows[at] else { continue };
            let Some(occupant) = self.spots[at].taken_by() else { continue };
            let Some(moving) = &mut attempt.moving else { continue };
            if self.owners.contains_key(occupant) {
                continue;
            }
            any = true;
            let id = (row.table, occupant.to_vec());
            let goes = moving.given_up.contains(&id) && moving.done.insert(id.clone());
            let delete = if goes { self.delete_of(attempt, &id)? } else { None };
            if let Some(delete) = delete
                && delete_first(attempt, &delete)?
            {
                self.move_on(attempt, self.waiters_of(Some(&id.1)))?;
                continue;
            }
            let Some(row) = &self.rows[at] else { continue };
            refuse(attempt, row, placed.contains(&row.id))?;
            self.rows[at] = None;
            // It keeps its key, for which others wait in vain now.
            if let Some(own) = &self.spots[at].own {
                self.owners.remove(own);
                next.extend(self.waiters_of(Some(own)).into_iter().rev());
            }
        }
        Ok(any)
    }

    /// Gives one row of each ring a temporary key, so that the others can move. Whether there are
    /// any rings.
    fn open_rings(
        &mut self,
        attempt: &mut Attempt<'_>,
        placed: &mut HashSet<RowId>,
    ) -> Result<bool, Failure> {
        let rings = self.rings();
        for one in &rings {
            let Some(row) = &self.rows[*one] else { continue };
            let id = row.id.clone();
            let is_first = placed.insert(id.clone());
            if is_first && attempt.each_alone(false, |attempt| place(attempt, row))? {
                self.move_on(attempt, self.waiters_of(self.spots[*one].own.as_ref()))?;
            } else {
                refuse(attempt, row, placed.contains(&id))?;
                self.rows[*one] = None;
            }
        }
        Ok(!rings.is_empty())
    }

    /// A row of each ring: one that waits for itself by way of others.
    fn rings(&self) -> Vec<usize> {
        let next = |at: usize| self.owners.get(self.spots[at].taken_by()?).copied();
        // By which walk each was reached first.
        let mut walks: Vec<Option<usize>> = vec![None; self.spots.len()];
        let mut rings = Vec::new();
        for begin in 0..self.spots.len() {
            let mut here = Some(begin);
            while let Some(at) = here.filter(|at| walks[*at].is_none()) {
                walks[at] = Some(begin);
                here = next(at);
            }
            rings.extend(here.filter(|at| walks[*at] == Some(begin)));
        }
        rings
    }
}
