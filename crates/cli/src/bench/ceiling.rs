//! What the bare database can do: the best technique we know, without us, without tracking.
//!
//! Measured in the same run, because what a machine gives differs from hour to hour.

pub(super) mod postgres;
pub(super) mod sqlite;

use super::purchase::{CEILING_CLIENT_FIRST, Layout, Purchase};
use crate::args::Operation;
use std::time::Duration;

/// Rows of one measurement: enough for a second's work, and they fit in memory.
const ROWS_MAX: u32 = 200_000;

/// Transactions of one measurement, at least, so that connections have something to do.
const TRANSACTIONS_MIN: u32 = 16;

/// The same work as that of the run, or a part of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) operation: Operation,
    pub(super) rows_per_transaction: u32,
    pub(super) transactions: u32,
}

impl Load {
    pub(super) fn of(layout: &Layout, clients: u32) -> Load {
        let most = (ROWS_MAX / layout.rows).max(TRANSACTIONS_MIN);
        let all = clients.saturating_mul(layout.sets);
        Load {
            operation: layout.operation,
            rows_per_transaction: layout.rows,
            transactions: all.clamp(TRANSACTIONS_MIN, most),
        }
    }

    pub(super) fn rows(&self) -> u64 {
        u64::from(self.rows_per_transaction) * u64::from(self.transactions)
    }

    /// The rows of one transaction, all of one employee.
    pub(super) fn transaction(&self, number: u32) -> Vec<Purchase> {
        let layout = Layout { operation: self.operation, rows: self.rows_per_transaction, sets: 1 };
        layout.set(CEILING_CLIENT_FIRST + number, 0).collect()
    }

    /// Whether the rows must be there before the work begins.
    pub(super) fn needs_rows(&self) -> bool {
        self.operation != Operation::UploadInsert
    }
}

/// What was reached.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ceiling {
    pub(super) technique: &'static str,
    pub(super) connections: u32,
    pub(super) rows_per_second: f64,
    pub(super) cpu_us_per_row: Option<f64>,
}

impl Ceiling {
    pub(super) fn new(
        technique: &'static str,
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
        }
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
            let layout = Layout { operation: Operation::UploadInsert, rows, sets };
            let load = Load::of(&layout, clients);
            (load.transactions, load.rows())
        };
        assert_eq!(check(1, 10, 1), (16, 160));
        assert_eq!(check(10, 100, 5), (50, 5000));
        assert_eq!(check(1000, 1000, 10), (200, 200_000));
        assert_eq!(check(100, 1_000_000, 1), (16, 16_000_000));
    }
}
