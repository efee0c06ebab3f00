//! The rows without a parent, counted by foreign key.

use crate::sqlite::deploy::tables::{self, UserTable};
use crate::sqlite::upload::orphans::{self, foreign_keys};
use model::Failure;
use rusqlite::Connection;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// The most times that one attempt counts: it reads whole tables each time.
const COUNTS_MAX: u32 = 1_000;

/// What is known of the rows without a parent.
pub(in crate::sqlite) struct OrphanCounts {
    pub(super) user_tables: BTreeMap<String, UserTable>,
    /// By foreign key, before the first row.
    at_first: Vec<i64>,
    /// The same behind the last row that left a foreign key broken; none if all were whole since.
    last: RefCell<Option<Vec<i64>>>,
    left: Cell<u32>,
}

impl OrphanCounts {
    pub(in crate::sqlite) fn begin(connection: &Connection) -> Result<OrphanCounts, Failure> {
        let user_tables = tables::read(connection)?;
        let at_first = count(connection, &user_tables)?;
        let (last, left) = (RefCell::new(None), Cell::new(COUNTS_MAX));
        Ok(OrphanCounts { user_tables, at_first, last, left })
    }

    /// All that may be counted in this attempt is counted.
    pub(super) fn are_used_up(&self) -> bool {
        self.left.get() == 0
    }

    pub(super) fn now(&self, connection: &Connection) -> Result<Vec<i64>, Failure> {
        self.left.set(self.left.get().saturating_sub(1));
        count(connection, &self.user_tables)
    }

    /// How many there were of the foreign key at `position`.
    pub(super) fn last(&self, position: usize) -> i64 {
        self.last.borrow().as_ref().unwrap_or(&self.at_first)[position]
    }

    /// Behind a row; none if it left all foreign keys whole.
    pub(super) fn note(&self, counts: Option<Vec<i64>>) {
        *self.last.borrow_mut() = counts;
    }
}

/// The rows without a parent, by foreign key.
fn count(
    connection: &Connection,
    user_tables: &BTreeMap<String, UserTable>,
) -> Result<Vec<i64>, Failure> {
    foreign_keys(user_tables).map(|(child, key)| orphans::count(connection, child, key)).collect()
}
