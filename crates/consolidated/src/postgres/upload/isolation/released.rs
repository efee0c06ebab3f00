//! Updates that go before the key changes of an upload, because they release a key.
//!
//! A row refers to a key that changes, by a foreign key that does not say what happens then, and
//! the upload moves the row to another parent. While it refers to the key, the key cannot change,
//! and in a ring no other one can either. So the row moves first, unless it also refers to a value
//! that the upload gives to a row or takes from one: such a row has to follow.

use crate::postgres::upload::isolation::state::Isolation;
use crate::postgres::upload::marks::{Marks, mark};
use crate::postgres::upload::shape::UploadShape;
use crate::postgres::upload::stop::Stop;
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::UploadedRow;
use model::Failure;

/// The updates that go first, by their keys.
pub(in crate::postgres) struct ReleasingUpdates(Marks);

impl ReleasingUpdates {
    /// Looks for them.
    pub(in crate::postgres) fn of(
        isolation: &Isolation<'_, '_>,
        outline: &UploadShape,
    ) -> Result<ReleasingUpdates, Stop> {
        let (upload, links) = (isolation.upload, &isolation.links);
        let none = || Marks::within(upload.spills);
        let (mut held, mut changing, mut releasing) = (none(), none(), none());
        if !outline.has_key_changes || outline.updated().next().is_none() {
            return Ok(ReleasingUpdates(releasing));
        }
        outline.visit_written(upload, &mut |table, row| {
            if row.change == Change::KeyChange {
                for (at, value) in links.held_fast(table, &row.old) {
                    held.add(mark(at, &value))?;
                }
            }
            let (old, new) = (links.referred(table, &row.old), links.referred(table, &row.new));
            for ((at, old), (_, new)) in old.into_iter().zip(new) {
                if row.change == Change::Insert || old != new {
                    changing.add(mark(at, &old))?;
                    changing.add(mark(at, &new))?;
                }
            }
            Ok(())
        })?;
        if held.is_empty() {
            return Ok(ReleasingUpdates(releasing));
        }
        outline.visit_written(upload, &mut |table, row| {
            if row.change != Change::Update {
                return Ok(());
            }
            let (old, new) = (links.referring(table, &row.old), links.referring(table, &row.new));
            let (mut releases, mut follows) = (false, false);
            for ((at, old), (_, new)) in old.iter().zip(&new) {
                releases = releases || old != new && held.contains(mark(*at, old))?;
                follows = follows || changing.contains(mark(*at, new))?;
            }
            if releases && !follows {
                let published = &isolation.table(table).deployed.published;
                releasing.add(mark(table, &row.key(published, table).1))?;
            }
            Ok(())
        })?;
        Ok(ReleasingUpdates(releasing))
    }

    pub(in crate::postgres) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a written row is one of them.
    pub(in crate::postgres) fn have(
        &self,
        isolation: &Isolation<'_, '_>,
        table: usize,
        row: &UploadedRow<'_>,
    ) -> Result<bool, Failure> {
        if self.is_empty() || row.change != Change::Update {
            return Ok(false);
        }
        let published = &isolation.table(table).deployed.published;
        self.0.contains(mark(table, &row.key(published, table).1))
    }
}
