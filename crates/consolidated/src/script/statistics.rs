//! What scripts hear of an upload, of a download and of a whole synchronization.
//!
//! It is how many rows there were, what became of them, and how long scripts took.

use super::event::Event;
use super::told::{Told, ToldValues};
use crate::synchronization::change::{Change, UploadedRows};
use crate::synchronization::counted::{ByChange, Counts, Ran, Unusual, UnusualRows};
use crate::synchronization::sent::Sent;
use std::collections::BTreeMap;

/// What the rows of an upload are, of one table or of several.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Uploaded {
    rows: ByChange,
    /// Those of them that met a script which ignores them.
    ignored: ByChange,
    bytes: u64,
    unusual: Unusual,
}

/// The tables of an upload that have rows.
#[derive(Debug, Clone, Default)]
pub(super) struct UploadedTables {
    /// By name: the position in the upload, and what there is.
    tables: BTreeMap<String, (usize, Uploaded)>,
}

impl UploadedTables {
    /// Adds a batch of the table with this name.
    pub(super) fn add(&mut self, batch: &UploadedRows<'_>, (name, is_ignored): (&str, bool)) {
        let (at, count) = (batch.change as usize, u64::from(batch.count));
        if count == 0 {
            return;
        }
        let (_, table) = match self.tables.get_mut(name) {
            Some(table) => table,
            None => {
                self.tables.entry(name.to_owned()).or_insert((batch.table, Uploaded::default()))
            }
        };
        table.rows[at] += count;
        table.ignored[at] += if is_ignored { count } else { 0 };
        table.bytes += batch.rows.len() as u64;
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.tables.contains_key(name)
    }

    /// Takes note of what became of the rows.
    pub(super) fn settle(&mut self, unusual: &UnusualRows) {
        for (position, table) in self.tables.values_mut() {
            table.unusual = unusual.get(position).copied().unwrap_or_default();
        }
    }

    /// Of one table.
    pub(super) fn of(&self, name: &str) -> Uploaded {
        self.tables.get(name).map(|(_, table)| *table).unwrap_or_default()
    }

    /// Of all tables.
    pub(super) fn all(&self) -> Uploaded {
        self.tables.values().fold(Uploaded::default(), |all, (_, table)| all.and(table))
    }
}

impl Uploaded {
    fn and(self, more: &Uploaded) -> Uploaded {
        let sum = |one: ByChange, other: ByChange| [0, 1, 2].map(|at| one[at] + other[at]);
        Uploaded {
            rows: sum(self.rows, more.rows),
            ignored: sum(self.ignored, more.ignored),
            bytes: self.bytes + more.bytes,
            unusual: Unusual {
                conflicts: sum(self.unusual.conflicts, more.unusual.conflicts),
                rejected: sum(self.unusual.rejected, more.unusual.rejected),
                lost: sum(self.unusual.lost, more.unusual.lost),
            },
        }
    }

    /// Rows with this change that were applied as they are.
    fn applied(&self, change: Change) -> u64 {
        let at = change as usize;
        self.rows[at].saturating_sub(self.ignored[at] + self.unusual.with(change))
    }

    /// What a script hears of it. The upload was begun so often again.
    pub(super) fn told(&self, begun_again: u64) -> ToldValues {
        numbers(&[
            (Told::Warnings, 0),
            (Told::Errors, self.unusual.rejected()),
            (Told::InsertedRows, self.applied(Change::Insert)),
            (Told::DeletedRows, self.applied(Change::Delete)),
            (Told::UpdatedRows, self.applied(Change::Update)),
            (Told::ConflictedInserts, 0),
            (Told::ConflictedDeletes, 0),
            (Told::ConflictedUpdates, self.unusual.conflicts()),
            (Told::IgnoredInserts, self.ignored[Change::Insert as usize]),
            (Told::IgnoredDeletes, self.ignored[Change::Delete as usize]),
            (Told::IgnoredUpdates, self.ignored[Change::Update as usize]),
            (Told::Bytes, self.bytes),
            (Told::Deadlocks, begun_again),
        ])
    }
}

/// What a script hears of what was sent.
pub(super) fn of_download(sent: Sent) -> ToldValues {
    numbers(&[
        (Told::Warnings, 0),
        (Told::Errors, 0),
        (Told::FetchedRows, sent.rows),
        (Told::DeletedRows, sent.deleted),
        (Told::FilteredRows, sent.filtered),
        (Told::Bytes, sent.bytes),
    ])
}

/// What the script of the table at a position hears of a synchronization.
pub(super) fn of_table(counts: &Counts, position: usize) -> ToldValues {
    let of = |counted: &BTreeMap<usize, u64>| counted.get(&position).copied().unwrap_or_default();
    numbers(&[(Told::Warnings, of(&counts.warnings)), (Told::Errors, of(&counts.errors))])
}

/// What the script of the version hears of a synchronization of so many tables.
pub(super) fn of_synchronization(counts: &Counts, tables: u64) -> ToldValues {
    numbers(&[
        (Told::Warnings, counts.warnings.values().sum()),
        (Told::Errors, counts.errors.values().sum()),
        (Told::Deadlocks, counts.upload_deadlocks + counts.download_deadlocks),
        (Told::SynchronizedTables, tables),
        // Connections are replaced between transactions, and nobody counts that.
        (Told::ConnectionRetries, 0),
    ])
}

/// What a script hears of how long those of an event took.
pub(super) fn of_event(event: Event, ran: &Ran) -> ToldValues {
    numbers(&[
        (Told::NumberOfCalls, ran.calls),
        (Told::MinimumTime, ran.least.as_millis() as u64),
        (Told::MaximumTime, ran.most.as_millis() as u64),
        (Told::TotalTime, ran.total.as_millis() as u64),
    ])
    .with(Told::EventName, Some(event.name().to_owned()))
}

fn numbers(numbers: &[(Told, u64)]) -> ToldValues {
    let with =
        |told: ToldValues, (of, number): &(Told, u64)| told.with(*of, Some(number.to_string()));
    numbers.iter().fold(ToldValues::default(), with)
}
