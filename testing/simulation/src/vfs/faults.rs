//! Which operations of a disk go wrong.

use model::Random;

/// What is counted until a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// All that SQLite asks for: reads and locks too.
    Operations,
    /// What changes files, names, or what of them is durable.
    Changes,
}

/// What happens to one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Done,
    Failed,
    /// The program is killed before it, or the machine is.
    Dead,
}

/// What goes wrong when. The operations are counted here.
#[derive(Debug)]
pub(super) struct Faults {
    random: Random,
    operations: u64,
    changes: u64,
    death: Option<(Count, u64)>,
    failure: Option<(Count, u64)>,
    failures_one_in: Option<u64>,
    is_dead: bool,
}

impl Faults {
    pub(super) fn new(random: Random) -> Faults {
        Faults {
            random,
            operations: 0,
            changes: 0,
            death: None,
            failure: None,
            failures_one_in: None,
            is_dead: false,
        }
    }

    pub(super) fn count(&self, count: Count) -> u64 {
        match count {
            Count::Operations => self.operations,
            Count::Changes => self.changes,
        }
    }

    pub(super) fn die_at(&mut self, count: Count, nth: u64) {
        self.death = Some((count, self.count(count) + nth));
    }

    pub(super) fn fail_at(&mut self, count: Count, nth: u64) {
        self.failure = Some((count, self.count(count) + nth));
    }

    pub(super) fn fail_one_in(&mut self, operations: u64) {
        self.failures_one_in = Some(operations);
    }

    pub(super) fn heal(&mut self) {
        self.death = None;
        self.failure = None;
        self.failures_one_in = None;
    }

    pub(super) fn kill(&mut self) {
        self.is_dead = true;
    }

    pub(super) fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// The machine starts again: what was still to go wrong does not.
    pub(super) fn restart(&mut self) {
        self.is_dead = false;
        self.death = None;
        self.failure = None;
    }

    /// Decides about the next operation, and counts it.
    pub(super) fn next(&mut self, is_change: bool) -> Fate {
        if self.is_dead {
            return Fate::Dead;
        }
        self.operations += 1;
        self.changes += u64::from(is_change);
        let reached = |at: Option<(Count, u64)>| {
            at.is_some_and(|(count, at)| match count {
                Count::Operations => self.operations == at,
                Count::Changes => is_change && self.changes == at,
            })
        };
        if reached(self.death) {
            self.is_dead = true;
            return Fate::Dead;
        }
        if reached(self.failure) {
            return Fate::Failed;
        }
        match self.failures_one_in {
            Some(one_in) if self.random.next_u64().is_multiple_of(one_in) => Fate::Failed,
            _ => Fate::Done,
        }
    }

    /// A number below `end`, for how far an operation came that failed.
    pub(super) fn draw(&mut self, end: u64) -> u64 {
        self.random.next_u64() % end
    }
}
