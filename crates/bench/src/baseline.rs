//! The speed of the bare database: the best known technique, without Syncline and without tracking.
//!
//! It is measured in the same run, because the speed of a machine changes from hour to hour.

pub(crate) mod postgres;
pub(crate) mod sqlite;

use crate::clock::Stopwatch;
use crate::layout::Layout;
use crate::options::{Model, Operation};
use crate::purchase::{BASELINE_EMPLOYEE_FIRST, Purchase, employee_id};
use std::time::Duration;

/// What a measurement is made of, at least: about half a second, or the processor time of the
/// operating system, counted in hundredths, says nothing. In rows, see [`ROWS_OF_A_TRANSACTION`].
const WORK_MIN: u32 = 400_000;

/// But not more than so many times the work of the whole run: a run of a few rows, whose figures
/// mean nothing, should not wait for this.
const RUNS_MAX: u32 = 10;

/// And at most, whatever the run is made of.
const WORK_MAX: u32 = 1_000_000;

/// What a choice between techniques is measured with.
const WORK_OF_A_TRIAL: u32 = 100_000;

/// Rows that take about as long as a transaction by itself: what one of a single row costs.
const ROWS_OF_A_TRANSACTION: u32 = 40;

/// Transactions of one measurement, at least, so that two connections have something to do.
const TRANSACTIONS_MIN: u32 = 2;

/// How long a load is read, again and again if need be: reading 1,000 times 1,000 rows once takes
/// less than half a second.
const READING_MIN: Duration = Duration::from_millis(500);

/// Rows whose values are worked out and kept, whatever the size of the load: the others differ
/// from them by their keys alone, for which a bare database does nothing less.
const ROWS_KEPT: u32 = 10_000;

/// The work of one timed set of the run, or more or less of it, on one table: rows of several
/// remotes and conflicts are what a bare database does not have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    layout: Layout,
    /// The rows are purchases and lines of them, whose foreign key the database checks.
    has_lines: bool,
    pub(crate) transactions: u32,
}

impl Load {
    /// None where there is nothing to carry.
    pub(crate) fn of(layout: &Layout) -> Option<Load> {
        if layout.rows == 0 {
            return None;
        }
        let model = match layout.model {
            Model::Merge => Model::Merge,
            Model::Purchase | Model::OrderLines | Model::Overlapping => Model::Purchase,
        };
        let load = Load {
            layout: Layout { model, sets: 1, conflicts_percent: 0, ..*layout },
            has_lines: layout.model == Model::OrderLines
                && layout.operation == Operation::UploadInsert,
            transactions: layout.clients,
        };
        let run = layout.clients.saturating_mul(layout.sets).saturating_mul(load.work_each());
        let least = run.saturating_mul(RUNS_MAX).clamp(WORK_OF_A_TRIAL / 5, WORK_MIN);
        Some(load.within(least, WORK_MAX))
    }

    /// A small load of the same kind: its transactions are of the same size, unless two of that
    /// size are too much.
    pub(crate) fn trial(self) -> Load {
        let rows = self.layout.rows.min(WORK_OF_A_TRIAL / TRANSACTIONS_MIN);
        Load { layout: Layout { rows, ..self.layout }, ..self }.within(0, WORK_OF_A_TRIAL)
    }

    /// As many transactions as make up so much work.
    fn within(self, least: u32, most: u32) -> Load {
        let each = self.work_each();
        let most = (most / each).max(TRANSACTIONS_MIN);
        let least = (least / each).max(TRANSACTIONS_MIN);
        Load { transactions: self.transactions.clamp(least, most), ..self }
    }

    fn work_each(&self) -> u32 {
        self.layout.rows.saturating_add(ROWS_OF_A_TRANSACTION)
    }

    pub(crate) fn operation(&self) -> Operation {
        self.layout.operation
    }

    pub(crate) fn model(&self) -> Model {
        self.layout.model
    }

    pub(crate) fn has_lines(&self) -> bool {
        self.has_lines
    }

    /// Rows of one transaction.
    pub(crate) fn rows_each(&self) -> u32 {
        self.layout.rows
    }

    pub(crate) fn rows(&self) -> u64 {
        u64::from(self.layout.rows) * u64::from(self.transactions)
    }

    /// How many rows of a transaction, at its beginning, are written; the others are read.
    pub(crate) fn rows_written(&self) -> u32 {
        self.layout.rows_at_remote()
    }

    /// All rows of a transaction are of one employee.
    pub(crate) fn employee(&self, transaction: u32) -> i64 {
        employee_id(BASELINE_EMPLOYEE_FIRST + transaction)
    }

    /// Rows whose values all others have as well, in turn. Their keys begin with those of the
    /// first transaction, and follow each other.
    pub(crate) fn kept_rows(&self) -> Vec<Purchase> {
        let rows = self.layout.set(BASELINE_EMPLOYEE_FIRST, 0);
        rows.take(ROWS_KEPT as usize).collect()
    }

    /// Whether the rows must be there before the work begins.
    pub(crate) fn needs_rows(&self) -> bool {
        self.operation() != Operation::UploadInsert
    }

    /// Whether this transaction is to be carried out, in a measurement that runs for so long. A
    /// load that only reads begins again until its time is over.
    pub(crate) fn includes(&self, transaction: u32, running: &Stopwatch) -> bool {
        let reads = self.operation() == Operation::Download;
        transaction < self.transactions || (reads && running.elapsed() < READING_MIN)
    }
}

/// How to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deletes {
    /// The row is deleted without a record.
    Bare,
    /// The same statement also writes what we write, so that remotes learn of it.
    Tracked,
}

/// What was reached.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Baseline {
    pub(crate) technique: String,
    pub(crate) connections: u32,
    pub(crate) rows_per_second: f64,
    pub(crate) cpu_us_per_row: Option<f64>,
    /// Of a run of deletes: the result with tracking like that of Syncline.
    pub(crate) tracked_delete: Option<Box<Baseline>>,
}

impl Baseline {
    pub(crate) fn new(
        technique: String,
        connections: u32,
        rows: u64,
        took: Duration,
        cpu: Option<Duration>,
    ) -> Baseline {
        // A clock too coarse for a tiny load must not make a division by zero of it.
        let seconds = took.as_secs_f64().max(1e-6);
        Baseline {
            technique,
            connections,
            rows_per_second: rows as f64 / seconds,
            cpu_us_per_row: cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / rows as f64),
            tracked_delete: None,
        }
    }

    /// This, and the same work with its deletes tracked.
    pub(crate) fn with_tracked_delete(self, tracked: Option<Baseline>) -> Baseline {
        Baseline { tracked_delete: tracked.map(Box::new), ..self }
    }

    /// The faster one.
    pub(crate) fn best(self, other: Baseline) -> Baseline {
        if other.rows_per_second > self.rows_per_second { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Notes;

    fn load(operation: Operation, clients: u32, rows: u32) -> Option<Load> {
        Load::of(&Layout {
            operation,
            model: Model::OrderLines,
            tables: 2,
            clients,
            rows,
            sets: 7,
            conflicts_percent: 10,
            notes: Notes::Random,
        })
    }

    #[test]
    fn the_load_is_a_set_of_the_run_within_bounds() {
        let check = |clients, rows| {
            let load = load(Operation::UploadInsert, clients, rows)?;
            Some((load.transactions, load.rows()))
        };
        assert_eq!(check(1000, 0), None);
        // As large as the set: the transactions themselves are part of what is bounded.
        assert_eq!(check(1000, 900), Some((1000, 900_000)));
        assert_eq!(check(50, 10_000), Some((50, 500_000)));
        // Enough to measure, unless the run itself is a small thing.
        assert_eq!(check(1000, 1), Some((9756, 9756)));
        assert_eq!(check(100, 100), Some((2857, 285_700)));
        assert_eq!(check(100, 1000), Some((384, 384_000)));
        assert_eq!(check(4, 100), Some((280, 28_000)));
        assert_eq!(check(1, 1), Some((487, 487)));
        // Not more than needed.
        assert_eq!(check(10_000, 1000), Some((961, 961_000)));
        assert_eq!(check(100, 1_000_000), Some((2, 2_000_000)));
        assert_eq!(check(1, 1_000_000), Some((2, 2_000_000)));
        assert_eq!(check(u32::MAX, u32::MAX).map(|(transactions, _)| transactions), Some(2));
    }

    #[test]
    fn a_trial_is_small_and_of_the_same_kind() {
        let check = |clients, rows| {
            let trial = load(Operation::UploadDelete, clients, rows).unwrap().trial();
            assert_eq!(trial.operation(), Operation::UploadDelete);
            (trial.transactions, trial.rows())
        };
        assert_eq!(check(1000, 1000), (96, 96_000));
        assert_eq!(check(1000, 1), (2439, 2439));
        assert_eq!(check(1, 1_000_000), (2, 100_000));
    }

    #[test]
    fn what_is_kept_does_not_grow_with_the_load() {
        let kept = |rows| load(Operation::UploadUpdate, 3, rows).unwrap().kept_rows();
        assert_eq!(kept(50).len(), 50);
        let rows = kept(1_000_000);
        assert_eq!(rows.len(), ROWS_KEPT as usize);
        assert!(rows.windows(2).all(|pair| pair[0].id() + 1 == pair[1].id()));
    }

    #[test]
    fn an_exchange_writes_half_and_reads_half() {
        let written = |operation| load(operation, 3, 5).unwrap().rows_written();
        assert_eq!(written(Operation::Exchange), 3);
        assert_eq!(written(Operation::Download), 0);
        assert_eq!(written(Operation::UploadDelete), 5);
    }
}
