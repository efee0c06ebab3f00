//! What the bare database can do: the best technique we know, without us, without tracking.
//!
//! Measured in the same run, because what a machine gives differs from hour to hour.

pub(super) mod postgres;
pub(super) mod sqlite;

use super::layout::Layout;
use super::purchase::{CEILING_EMPLOYEE_FIRST, Purchase};
use crate::args::{Model, Operation};
use std::time::Duration;

/// Rows of one measurement: enough for a second's work, and they fit in memory.
const ROWS_MAX: u32 = 200_000;

/// Transactions of one measurement, at least, so that connections have something to do.
const TRANSACTIONS_MIN: u32 = 16;

/// The same work as that of the run, or a part of it, on one table: lines that follow a purchase,
/// rows of several remotes and conflicts are what a bare database does not have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    layout: Layout,
    pub(super) transactions: u32,
}

impl Load {
    /// None where there is nothing to carry.
    pub(super) fn of(layout: &Layout) -> Option<Load> {
        let most = ROWS_MAX.checked_div(layout.rows)?.max(TRANSACTIONS_MIN);
        let all = layout.clients.saturating_mul(layout.sets);
        let model = match layout.model {
            Model::Merge => Model::Merge,
            Model::Purchase | Model::OrderLines | Model::Overlapping => Model::Purchase,
        };
        Some(Load {
            layout: Layout { model, sets: 1, conflicts_percent: 0, ..*layout },
            transactions: all.clamp(TRANSACTIONS_MIN, most),
        })
    }

    pub(super) fn operation(&self) -> Operation {
        self.layout.operation
    }

    pub(super) fn model(&self) -> Model {
        self.layout.model
    }

    pub(super) fn rows(&self) -> u64 {
        u64::from(self.layout.rows) * u64::from(self.transactions)
    }

    /// The rows of one transaction, all of one employee, and how many of them, at the beginning,
    /// are written; the others are read.
    pub(super) fn transaction(&self, number: u32) -> (Vec<Purchase>, usize) {
        let employee = CEILING_EMPLOYEE_FIRST + number;
        let written = self.layout.changed_at_remote(employee, 0).count();
        (self.layout.set(employee, 0).collect(), written)
    }

    /// Whether the rows must be there before the work begins.
    pub(super) fn needs_rows(&self) -> bool {
        self.operation() != Operation::UploadInsert
    }
}

/// How to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deletes {
    /// The row goes, and nobody learns of it.
    Bare,
    /// The same statement also writes what we write, so that remotes learn of it.
    Tracked,
}

/// What was reached.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ceiling {
    pub(super) technique: String,
    pub(super) connections: u32,
    pub(super) rows_per_second: f64,
    pub(super) cpu_us_per_row: Option<f64>,
    /// Of a run of deletes: what they come to if they are tracked as ours are.
    pub(super) tracked_delete: Option<Box<Ceiling>>,
}

impl Ceiling {
    pub(super) fn new(
        technique: String,
        connections: u32,
        rows: u64,
        took: Duration,
        cpu: Option<Duration>,
    ) -> Ceiling {
        // A clock too coarse for a tiny load must not make a division by zero of it.
        let seconds = took.as_secs_f64().max(1e-6);
        Ceiling {
            technique,
            connections,
            rows_per_second: rows as f64 / seconds,
            cpu_us_per_row: cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / rows as f64),
            tracked_delete: None,
        }
    }

    /// This, and the same work with its deletes tracked.
    pub(super) fn with_tracked_delete(self, tracked: Option<Ceiling>) -> Ceiling {
        Ceiling { tracked_delete: tracked.map(Box::new), ..self }
    }

    /// The faster one.
    pub(super) fn best(self, other: Ceiling) -> Ceiling {
        if other.rows_per_second > self.rows_per_second { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_that_of_the_run_within_bounds() {
        let check = |clients, rows, sets| {
            let layout = Layout {
                operation: Operation::UploadInsert,
                model: Model::OrderLines,
                clients,
                rows,
                sets,
                conflicts_percent: 0,
            };
            let load = Load::of(&layout)?;
            Some((load.transactions, load.rows()))
        };
        assert_eq!(check(1, 0, 1), None);
        assert_eq!(check(1, 10, 1), Some((16, 160)));
        assert_eq!(check(10, 100, 5), Some((50, 5000)));
        assert_eq!(check(1000, 1000, 10), Some((200, 200_000)));
        assert_eq!(check(100, 1_000_000, 1), Some((16, 16_000_000)));
    }
}
