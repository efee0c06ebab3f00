//! Rows that deletes of an upload reached beyond themselves, by foreign keys and triggers.
//!
//! It is what the owner of the database declared, but it is not silent: the rows are counted, and
//! where one that the same upload brought is among them, it is rejected, so that its remote keeps
//! it and says why. That happens where the remote lacks the foreign key: a child came, and its
//! parent went.

use super::catalog::CatalogTable;
use super::errors::failed;
use super::key_change::Spot;
use super::stretch::end_of_log;
use super::upload::Attempt;
use crate::synchronization::Change;
use crate::uploaded_row::UploadedRow;
use model::{Code, Failure};
use rusqlite::Connection;
use std::sync::Arc;

/// SQLite's count of changes at a moment, with what is not the rows' own taken out.
pub(super) struct Tally {
    changes: u64,
    direct: u64,
}

impl Tally {
    /// Of this moment.
    pub(super) fn now(attempt: &Attempt<'_>) -> Result<Tally, Failure> {
        let ours = our_entries(attempt.connection, attempt.tables)?;
        let changes = attempt.connection.total_changes().saturating_sub(ours);
        Ok(Tally { changes, direct: attempt.direct })
    }

    /// How many rows have changed since that no statement of the upload named.
    pub(super) fn reached(&self, now: &Tally) -> u64 {
        let changes = now.changes.saturating_sub(self.changes);
        changes.saturating_sub(now.direct - self.direct)
    }
}

/// What our triggers and statements have written: entries of logs, and notes about conflicts.
fn our_entries(connection: &Connection, tables: &[Arc<CatalogTable>]) -> Result<u64, Failure> {
    let mut entries = connection
        .prepare_cached("SELECT coalesce(max(conflict_id), 0) FROM syncline_conflict")
        .and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(0)))
        .map_err(failed("count what an upload changes"))?;
    for table in tables.iter().filter(|table| table.published.direction.downloads()) {
        entries += end_of_log(connection, &table.published.name)?;
    }
    Ok(entries.unsigned_abs())
}

/// Rejects the rows of the upload that are gone although the upload does not say so.
pub(super) fn tell_what_was_taken_along(attempt: &mut Attempt<'_>) -> Result<(), Failure> {
    let (batches, tables) = (attempt.request.batches, attempt.tables);
    batches(&mut |batch| {
        let table = &tables[batch.table];
        let (mut row, mut rest) = (UploadedRow::default(), batch.rows);
        let count = if batch.change == Change::Delete { 0 } else { batch.count };
        for _ in 0..count {
            rest = row.read(rest, batch.change, table.published.width())?;
            if Spot::of(attempt, table, &row)?.occupant.is_some() {
                continue;
            }
            let id = row.key(&table.published, batch.table);
            // What was told anew, lost or was rejected is owed already.
            if !attempt.is_owed(&id) {
                let message = "a delete of the same upload took the row along".to_owned();
                attempt.reject(table, batch.table, &row, (Code::RowTakenAlong, message));
            }
        }
        Ok(())
    })
}
