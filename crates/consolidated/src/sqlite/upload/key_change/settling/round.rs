//! One round of giving rows the keys for which they wait.

use super::line::Line;
use crate::sqlite::upload::WaitingRow;
use crate::sqlite::upload::attempt::{Attempt, RowOutcome, Stop};
use crate::sqlite::upload::key_change::aside::place;
use crate::sqlite::upload::key_change::freeing::{Deletes, delete_first, refuse};
use crate::sqlite::upload::key_change::spot::{Spot, spot_of};
use crate::upload::by_values::ByValues;
use crate::upload::uploaded_row::RowId;
use model::{Code, Failure, Hold, SpillList, SpillMap};
use std::ops::ControlFlow;

/// Rows that wait, and whose keys they wait for, as it was when the round began. Rows are numbers
/// of the line; a few bytes of each are in memory, and count.
pub(super) struct Round<'l> {
    line: &'l mut Line,
    spots: SpillList,
    /// By the key that a row has: the first such row.
    owners: Owners,
    /// By the key that rows are to get and another row has.
    waiters: ByValues,
    /// The deletes of the upload that free one of these keys, once they are needed.
    deletes: Option<Deletes>,
    /// What numbers of rows take.
    _held: Hold,
}

/// A number of a row, as rows of a round are called.
type Number = u32;

/// Bytes of numbers that a round has of each row at most: those to be tried next, and the walks in
/// search of rings.
const NUMBERS_BYTES: usize = 3 * size_of::<Number>();

impl<'l> Round<'l> {
    pub(super) fn of(attempt: &Attempt<'_>, line: &'l mut Line) -> Result<Round<'l>, Failure> {
        let mut held = attempt.spills.memory().hold();
        held.grow((line.len() * NUMBERS_BYTES) as u64);
        let mut round = Round {
            spots: SpillList::new(attempt.spills),
            owners: Owners(SpillMap::new(attempt.spills)),
            waiters: ByValues::within(attempt.spills),
            deletes: None,
            _held: held,
            line,
        };
        for number in 0..round.line.len() {
            let Some(row) = round.line.row(number)? else {
                round.spots.append(Spot::nobody().to_bytes())?;
                continue;
            };
            let spot = spot_of(attempt, &row)?;
            let number = number as Number;
            if let Some(own) = &spot.own {
                round.owners.add(own, number)?;
            }
            if let Some(occupant) = spot.taken_by() {
                round.waiters.add(occupant, &number.to_be_bytes())?;
            }
            round.spots.append(spot.to_bytes())?;
        }
        Ok(round)
    }

    fn spot(&self, number: Number) -> Result<Spot, Failure> {
        let chunk = self.spots.get(number as usize)?.ok_or_else(torn)?;
        Spot::read(&chunk).ok_or_else(torn)
    }

    fn row(&self, number: Number) -> Result<Option<WaitingRow>, Failure> {
        self.line.row(number as usize)
    }

    /// Adds those that wait for a key to the rows that are tried next, the first on top.
    fn then_waiters_of(&self, key: Option<&[u8]>, next: &mut Vec<Number>) -> Result<(), Failure> {
        let (Some(key), begin) = (key, next.len()) else { return Ok(()) };
        self.waiters.visit(key, |entry| {
            let number = entry.try_into().map_err(|_| torn())?;
            next.push(Number::from_be_bytes(number));
            Ok::<_, Failure>(ControlFlow::Continue(()))
        })?;
        next[begin..].reverse();
        Ok(())
    }

    /// Tries all rows that wait. Whether any had its turn.
    pub(super) fn move_on_all(&mut self, attempt: &mut Attempt<'_>) -> Result<bool, Stop> {
        let mut any = false;
        for number in 0..self.line.len() {
            any |= self.move_on(attempt, vec![number as Number])?;
        }
        Ok(any)
    }

    /// Tries rows, the last one first, and those that wait for the keys that these had. Whether any
    /// had its turn.
    fn move_on(&mut self, attempt: &mut Attempt<'_>, mut next: Vec<Number>) -> Result<bool, Stop> {
        let mut any = false;
        while let Some(number) = next.pop() {
            let Some(row) = self.row(number)? else { continue };
            if let RowOutcome::InTheWay(_) = attempt.retry(&row)? {
                continue;
            }
            self.line.leave(number as usize);
            any = true;
            self.then_waiters_of(self.spot(number)?.own.as_deref(), &mut next)?;
        }
        Ok(any)
    }

    /// Tries those that wait for a key.
    fn move_on_to(&mut self, attempt: &mut Attempt<'_>, key: &[u8]) -> Result<(), Stop> {
        let mut next = Vec::new();
        self.then_waiters_of(Some(key), &mut next)?;
        self.move_on(attempt, next).map(|_| ())
    }

    /// Applies the deletes that free a key for which a row waits, and refuses the rows that wait
    /// for a row that stays. Whether there were any.
    pub(super) fn free(&mut self, attempt: &mut Attempt<'_>) -> Result<bool, Stop> {
        let mut any = false;
        let mut next: Vec<Number> = (0..self.line.len() as Number).rev().collect();
        while let Some(number) = next.pop() {
            let Some(row) = self.row(number)? else { continue };
            let spot = self.spot(number)?;
            let Some(occupant) = spot.taken_by() else { continue };
            if self.owners.of(occupant)?.is_some() {
                continue;
            }
            any = true;
            let id = (row.table, occupant.to_vec());
            if let Some(delete) = self.delete_of(attempt, &id)?
                && delete_first(attempt, &delete)?
            {
                self.move_on_to(attempt, &id.1)?;
                continue;
            }
            if !self.line.waits(number as usize) {
                continue;
            }
            self.refuse(attempt, number, &row)?;
            // It keeps its key, for which others wait in vain now.
            if let Some(own) = &spot.own {
                self.owners.remove(own)?;
                self.then_waiters_of(Some(own), &mut next)?;
            }
        }
        Ok(any)
    }

    /// The delete of a row that has a key for which others wait, once.
    fn delete_of(
        &mut self,
        attempt: &mut Attempt<'_>,
        id: &RowId,
    ) -> Result<Option<WaitingRow>, Failure> {
        let Some(moving) = &mut attempt.moving else { return Ok(None) };
        if !moving.given_up.contains(id)? || moving.done.contains(id)? {
            return Ok(None);
        }
        moving.done.add(id)?;
        let deletes = match &mut self.deletes {
            Some(deletes) => deletes,
            None => {
                let found = Deletes::of(attempt, id.0, |key| self.waiters.has(key))?;
                self.deletes.insert(found)
            }
        };
        deletes.take(id)
    }

    /// Gives one row of each ring a temporary key, so that the others can move. Whether there are
    /// any rings.
    pub(super) fn open_rings(&mut self, attempt: &mut Attempt<'_>) -> Result<bool, Stop> {
        let rings = self.rings()?;
        for number in &rings {
            let Some(row) = self.row(*number)? else { continue };
            let is_first = !self.line.is_placed(*number as usize);
            self.line.place(*number as usize);
            if is_first && attempt.each_alone(false, |attempt| place(attempt, &row))? {
                if let Some(own) = self.spot(*number)?.own {
                    self.move_on_to(attempt, &own)?;
                }
            } else {
                self.refuse(attempt, *number, &row)?;
            }
        }
        Ok(!rings.is_empty())
    }

    /// A row of each ring: one that waits for itself by way of others.
    fn rings(&self) -> Result<Vec<Number>, Failure> {
        // By which walk each was reached first: one more than where the walk began.
        let mut walks: Vec<Number> = vec![0; self.line.len()];
        let mut rings = Vec::new();
        for begin in 0..self.line.len() as Number {
            let mut here = Some(begin);
            while let Some(at) = here.filter(|at| walks[*at as usize] == 0) {
                walks[at as usize] = begin + 1;
                here = match self.spot(at)?.taken_by() {
                    Some(occupant) => self.owners.of(occupant)?,
                    None => None,
                };
            }
            rings.extend(here.filter(|at| walks[*at as usize] == begin + 1));
        }
        Ok(rings)
    }

    fn refuse(
        &mut self,
        attempt: &mut Attempt<'_>,
        number: Number,
        row: &WaitingRow,
    ) -> Result<(), Failure> {
        refuse(attempt, row, self.line.is_placed(number as usize))?;
        self.line.leave(number as usize);
        Ok(())
    }
}

/// The rows that have keys, by these.
struct Owners(SpillMap);

/// In the place of a number: nobody has the key any more.
const NOBODY: Number = Number::MAX;

impl Owners {
    /// Adds a row, unless there is one.
    fn add(&mut self, key: &[u8], number: Number) -> Result<(), Failure> {
        match self.0.get(key)?.is_some() {
            true => Ok(()),
            false => self.0.add(key.to_vec(), number.to_be_bytes().to_vec()),
        }
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), Failure> {
        self.0.set(key, &NOBODY.to_be_bytes())
    }

    fn of(&self, key: &[u8]) -> Result<Option<Number>, Failure> {
        let Some(number) = self.0.get(key)? else { return Ok(None) };
        let number = number.as_ref().try_into().map_err(|_| torn())?;
        Ok(Some(Number::from_be_bytes(number)).filter(|number| *number != NOBODY))
    }
}

fn torn() -> Failure {
    Failure::new(Code::Bug, "a row that waits for a key does not read")
}
