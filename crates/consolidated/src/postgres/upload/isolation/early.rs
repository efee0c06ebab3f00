//! Deletes that go before the other rows of an upload, because key changes need them to.
//!
//! PostgreSQL checks a key and what refers to it with each statement. So there are two kinds:
//!
//! 1. A delete frees a key that another row takes, and so do those of the rows that refer to it.
//! 2. A row refers to a key that changes, by a foreign key that does not say what happens then.
//!    While the row is there the key cannot change, and in a ring no other one can either.
//!
//! A delete of the first kind that takes rows along is refused (`followers.rs`). One of the second
//! kind waits until these rows have had their own changes, as all others do.

use crate::postgres::upload::isolation::followers;
use crate::postgres::upload::isolation::state::Isolation;
use crate::postgres::upload::marks::{Marks, mark};
use crate::postgres::upload::shape::UploadShape;
use crate::postgres::upload::stop::Stop;
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::UploadedRow;
use model::Failure;

/// The deletes that go first.
pub(in crate::postgres) struct EarlyDeletes {
    /// Those that free a key.
    freeing: Marks,
    /// Those of rows that hold a key fast.
    holding: Marks,
    /// Those among both with which rows would go that the upload does not delete.
    taking: Marks,
}

/// When a delete is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::postgres) enum When {
    First,
    /// In its place, behind the rows that are written.
    Last,
    Never,
}

impl EarlyDeletes {
    /// Looks for them.
    pub(in crate::postgres) fn of(
        isolation: &mut Isolation<'_, '_>,
        outline: &UploadShape,
    ) -> Result<EarlyDeletes, Stop> {
        let none = || Marks::within(isolation.upload.spills);
        let (freeing, holding, taking) = (none(), none(), none());
        let mut early = EarlyDeletes { freeing, holding, taking };
        if !outline.has_key_changes {
            return Ok(early);
        }
        early.look(isolation, outline)?;
        if !early.is_empty() {
            early.taking = followers::taking(isolation, outline, &early.holding)?;
        }
        Ok(early)
    }

    fn look(&mut self, isolation: &Isolation<'_, '_>, outline: &UploadShape) -> Result<(), Stop> {
        let none = || Marks::within(isolation.upload.spills);
        let (mut taken, mut freed, mut held) = (none(), none(), none());
        let links = &isolation.links;
        outline.visit_keys(isolation.upload, &mut |table, row| {
            let published = &isolation.table(table).deployed.published;
            if row.change == Change::KeyChange {
                for (at, value) in links.held_fast(table, &row.old) {
                    held.add(mark(at, &value))?;
                }
            }
            if row.change != Change::Delete {
                return Ok(taken.add(mark(table, &row.new_key(published, table).1))?);
            }
            let key = mark(table, &row.key(published, table).1);
            let (mut frees, mut holds) = (taken.contains(key)?, false);
            for (at, value) in links.referring(table, &row.old) {
                let value = mark(at, &value);
                frees = frees || freed.contains(value)?;
                holds = holds || held.contains(value)?;
            }
            // Rows that refer to this one go before it.
            let (deletes, referred) = match (frees, holds) {
                (true, _) => (&mut self.freeing, &mut freed),
                (false, true) => (&mut self.holding, &mut held),
                (false, false) => return Ok(()),
            };
            deletes.add(key)?;
            for (at, value) in links.referred(table, &row.old) {
                referred.add(mark(at, &value))?;
            }
            Ok(())
        })
    }

    pub(in crate::postgres) fn is_empty(&self) -> bool {
        self.freeing.is_empty() && self.holding.is_empty()
    }

    /// When the delete `row` is applied.
    pub(in crate::postgres) fn when(
        &self,
        isolation: &Isolation<'_, '_>,
        table: usize,
        row: &UploadedRow<'_>,
    ) -> Result<When, Failure> {
        if self.is_empty() {
            return Ok(When::Last);
        }
        let published = &isolation.table(table).deployed.published;
        let key = mark(table, &row.key(published, table).1);
        let (frees, holds) = (self.freeing.contains(key)?, self.holding.contains(key)?);
        Ok(match self.taking.contains(key)? {
            false if frees || holds => When::First,
            true if frees => When::Never,
            true | false => When::Last,
        })
    }
}
