//! What is counted of a synchronization, for the scripts that hear of it.

use super::change::Change;
use crate::script::Event;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Rows that were inserted, updated and deleted at the remote.
pub(crate) type ByChange = [u64; 3];

/// Rows of one table that an upload did not simply apply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unusual {
    /// Rows with a conflict.
    pub(crate) conflicts: ByChange,
    /// Rows that were refused.
    pub(crate) rejected: ByChange,
    /// Those of both: new rows that had to give way to another one with their key.
    pub(crate) lost: ByChange,
}

impl Unusual {
    /// Rows with a conflict.
    pub fn conflicts(&self) -> u64 {
        self.conflicts.iter().sum()
    }

    /// Rows that were refused.
    pub(crate) fn rejected(&self) -> u64 {
        self.rejected.iter().sum()
    }

    /// Rows with this change that were not simply applied.
    pub(crate) fn with(&self, change: Change) -> u64 {
        let at = change as usize;
        (self.conflicts[at] + self.rejected[at]).saturating_sub(self.lost[at])
    }
}

/// Rows that were not simply applied, by the position of their table.
pub(crate) type UnusualRows = BTreeMap<usize, Unusual>;

/// What scripts at the end of a synchronization hear of it. All that work for the synchronization
/// share it.
#[derive(Debug, Default)]
pub struct Counted {
    /// How long each script takes is wanted too.
    times_scripts: bool,
    counts: Mutex<Counts>,
}

/// What was counted so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    /// Rows that were refused, by the position of their table.
    pub(crate) errors: BTreeMap<usize, u64>,
    /// Rows that were withheld, likewise.
    pub(crate) warnings: BTreeMap<usize, u64>,
    /// How often other transactions were in the way of the upload, and of the download.
    pub(crate) upload_deadlocks: u64,
    pub(crate) download_deadlocks: u64,
    /// Scripts that have run, of a table or of the version.
    pub(crate) ran: BTreeMap<(Option<String>, Event), Ran>,
}

/// How often a script has run, and how long that took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) calls: u64,
    pub(crate) least: Duration,
    pub(crate) most: Duration,
    pub(crate) total: Duration,
}

impl Counted {
    pub(crate) fn new(times_scripts: bool) -> Counted {
        Counted { times_scripts, counts: Mutex::default() }
    }

    pub(crate) fn times_scripts(&self) -> bool {
        self.times_scripts
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was counted so far.
    pub(crate) fn so_far(&self) -> Counts {
        self.counts().clone()
    }

    /// An upload was tried. What was counted of an earlier try does not count.
    pub(crate) fn uploaded(&self, unusual: &UnusualRows, deadlocks: u64) {
        let mut counts = self.counts();
        counts.errors = unusual.iter().map(|(at, rows)| (*at, rows.rejected())).collect();
        counts.upload_deadlocks = deadlocks;
    }

    /// A download was fetched.
    pub(crate) fn fetched(&self, deadlocks: u64) {
        self.counts().download_deadlocks = deadlocks;
    }

    /// A download lacks these rows, which are named by the positions of their tables.
    pub fn withheld(&self, tables: impl Iterator<Item = usize>) {
        let mut warnings = BTreeMap::new();
        tables.for_each(|table| *warnings.entry(table).or_default() += 1);
        self.counts().warnings = warnings;
    }

    /// A script of a table, or of the version, has run.
    pub(crate) fn ran(&self, event: Event, table: Option<&str>, took: Duration) {
        if !self.times_scripts {
            return;
        }
        let none = Ran { calls: 0, least: took, most: took, total: Duration::ZERO };
        let mut counts = self.counts();
        let ran = counts.ran.entry((table.map(str::to_owned), event)).or_insert(none);
        ran.calls += 1;
        (ran.least, ran.most) = (ran.least.min(took), ran.most.max(took));
        ran.total += took;
    }
}
