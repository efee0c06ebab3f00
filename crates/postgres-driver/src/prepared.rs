//! Statements that were prepared, and what the server said about them.

use crate::call::Call;
use crate::row::Column;
use postgres_types::{Oid, Type};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Most prepared statements kept between flights. A download runs three or four for each table, so
/// those of a thousand tables fit. The database spends some ten thousand bytes on each that is in
/// use; beyond it those that were not used for longest make room.
pub const STATEMENTS_MAX: usize = 4096;

/// How often the server plans a statement for the values at hand; from then on it may keep a plan.
const RUNS_MAX: u32 = 5;

/// A statement that the server knows by name.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The flight that ran it last.
    pub(crate) flight: u64,
    /// Since it was prepared, of one that must not keep its plan.
    pub(crate) runs: u32,
    pub(crate) name: String,
    pub(crate) parameters: Vec<Type>,
    pub(crate) columns: Arc<[Column]>,
}

impl Prepared {
    /// Counts a run of a statement that must not keep its plan. True if the server must discard it
    /// and prepare it again before this run.
    pub(crate) fn is_worn(&mut self) -> bool {
        let worn = self.runs >= RUNS_MAX;
        self.runs = if worn { 1 } else { self.runs + 1 };
        worn
    }

    /// It is not known whether the server has prepared it again.
    pub(crate) fn wear_out(&mut self) {
        self.runs = RUNS_MAX;
    }
}

/// The statements of one session, by their text.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    /// That of the session: no other has statements of the same names.
    mark: String,
    pub(crate) known: HashMap<Box<str>, Prepared>,
    /// Types of the database's own.
    pub(crate) types: HashMap<Oid, Type>,
    /// How many there were, which names the next.
    count: u64,
    /// The server may forget these.
    pub(crate) closing: Vec<String>,
    /// The number of the flight that is being prepared.
    pub(crate) flight: u64,
}

impl Statements {
    /// None yet, of the session with this mark.
    pub(crate) fn of(mark: &str) -> Statements {
        Statements { mark: mark.to_owned(), ..Statements::default() }
    }

    pub(crate) fn get(&self, sql: &str) -> Option<&Prepared> {
        self.known.get(sql)
    }

    pub(crate) fn get_mut(&mut self, sql: &str) -> Option<&mut Prepared> {
        self.known.get_mut(sql)
    }

    /// Forgets all: their tables may have changed.
    pub(crate) fn forget(&mut self) {
        self.closing.extend(self.known.drain().map(|(_, statement)| statement.name));
        self.types.clear();
    }

    /// The calls whose statements are not known, one for each statement. The others are noted as
    /// in use.
    pub(crate) fn missing<'c>(
        &mut self,
        calls: &'c [Call<'_>],
    ) -> Vec<(usize, &'c str, &'c [Type])> {
        self.flight += 1;
        let mut seen = HashSet::new();
        let mut missing = Vec::new();
        for (at, call) in calls.iter().enumerate() {
            let Call::Prepared { sql, types, .. } = call else { continue };
            match self.known.get_mut(*sql) {
                Some(statement) => statement.flight = self.flight,
                None if seen.insert(*sql) => missing.push((at, *sql, *types)),
                None => {}
            }
        }
        missing
    }

    /// Forgets those that were not used for longest, until `count` more have room. None of this
    /// flight, nor of the one before, which may be about to leave while its types are asked for:
    /// a flight that needs more than have room has them all.
    pub(crate) fn make_room(&mut self, count: usize) {
        let excess = (self.known.len() + count).saturating_sub(STATEMENTS_MAX);
        if excess == 0 {
            return;
        }
        let mut others: Vec<(u64, Box<str>)> = self
            .known
            .iter()
            .filter(|(_, statement)| statement.flight + 1 < self.flight)
            .map(|(sql, statement)| (statement.flight, sql.clone()))
            .collect();
        if excess < others.len() {
            others.select_nth_unstable(excess);
            others.truncate(excess);
        }
        for (_, sql) in others {
            self.closing.extend(self.known.remove(&sql).map(|statement| statement.name));
        }
    }

    pub(crate) fn next_name(&mut self) -> String {
        self.count += 1;
        format!("{}_{}", self.mark, self.count)
    }
}
