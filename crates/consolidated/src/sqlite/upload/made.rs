//! Rows that the center stored differently from what a remote uploaded.
//!
//! A trigger changes an uploaded row. Until its next download the remote has the row as it sent it,
//! and its next change is based on that. Without a record, the change would find a row that differs
//! from its old image and lose: the remote would have a conflict with itself.
//!
//! A record has two digests, of the row at the remote and of the row as stored. Like owed rows, it
//! is removed when the remote presents a later watermark. Rows that lost or were rejected get no
//! record, because the row at the center is not theirs.

use super::attempt::Attempt;
use crate::sqlite::details::CatalogTable;
use crate::sqlite::errors::failed;
use crate::synchronization::change::Change;
use crate::upload::echo::image_digest;
use crate::upload::owed_rows::OwedRows;
use crate::upload::rebase::{Rebased, rebase, values};
use crate::upload::uploaded_row::{UploadedRow, each_row};
use model::{Counter, Failure, write_value};
use rusqlite::{Connection, OptionalExtension, params};

/// Notes what became of the rows of an upload, where triggers may have changed some; with the
/// watermark `counter` the remote has them.
pub(in crate::sqlite) fn write(
    attempt: &Attempt<'_>,
    counter: Counter,
    owed: &OwedRows,
) -> Result<(), Failure> {
    // Elsewhere rows are stored as they were sent.
    if attempt.tables.iter().all(|table| !table.details.affinities.is_empty()) {
        return Ok(());
    }
    let noting = failed("note what was made of a row");
    let mut statement = attempt
        .connection
        .prepare_cached("INSERT OR REPLACE INTO syncline_made VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
        .map_err(&noting)?;
    let published = |position: usize| &attempt.tables[position].published;
    let wanted = |_, change| change != Change::Delete;
    each_row(attempt.request.batches, &published, wanted, |position, row| {
        let table = &attempt.tables[position];
        let id = row.key(&table.published, position);
        if owed.contains(&id)? && !attempt.stored_rebased.contains(&id)? {
            return Ok(());
        }
        let made = attempt.read_alone(None, |attempt| attempt.fetch(table, row))?;
        let Some(made) = made else { return Ok(()) };
        if made == row.new_image() {
            return Ok(());
        }
        let (uploaded, made) = (image_digest(row.new_image()), image_digest(&made));
        let remote = attempt.request.session.remote_id.as_str();
        let name = &table.published.name;
        statement
            .execute(params![remote, name, id.1, counter.0, uploaded, made])
            .map_err(&noting)?;
        Ok(())
    })?;
    attempt.end_search()
}

/// `row` over what the center made of the row that the remote uploaded before; none where the row
/// that is there `now` is not that.
pub(in crate::sqlite) fn over(
    attempt: &Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
    now: Option<&[u8]>,
) -> Result<Option<Rebased>, Failure> {
    let Some(now) = now.filter(|_| row.change != Change::Insert) else { return Ok(None) };
    if !has_any(attempt)? {
        return Ok(None);
    }
    let remote = attempt.request.session.remote_id.as_str();
    let (_, key) = row.key(&table.published, position);
    let noted: Option<([u8; 16], [u8; 16])> = attempt
        .connection
        .prepare_cached(
            "SELECT uploaded, made FROM syncline_made
             WHERE remote_id = ?1 AND table_name = ?2 AND row_key = ?3",
        )
        .and_then(|mut statement| {
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            statement.query_row(params![remote, table.published.name, key], read).optional()
        })
        .map_err(failed("look for what was made of a row"))?;
    let mut saw = Vec::new();
    row.old.iter().for_each(|value| write_value(&mut saw, *value));
    if noted != Some((image_digest(&saw), image_digest(now))) {
        return Ok(None);
    }
    Ok(Some(rebase(row, &row.old, &values(now)?)))
}

/// Whether there is a record of the remote. None is made before the rows are applied.
fn has_any(attempt: &Attempt<'_>) -> Result<bool, Failure> {
    if let Some(known) = attempt.has_made.get() {
        return Ok(*known);
    }
    let remote = attempt.request.session.remote_id.as_str();
    let found = attempt
        .connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM syncline_made WHERE remote_id = ?1)")
        .and_then(|mut statement| statement.query_row([remote], |row| row.get(0)))
        .map_err(failed("look for what was made of rows"))?;
    Ok(*attempt.has_made.get_or_init(|| found))
}

/// Forgets what the remote has received, but for the tables of the array `waiting`.
pub(in crate::sqlite) fn settle(
    connection: &Connection,
    remote: &str,
    settled: Counter,
    waiting: &str,
) -> Result<(), Failure> {
    connection
        .prepare_cached(
            "DELETE FROM syncline_made WHERE remote_id = ?1 AND counter <= ?2
             AND table_name NOT IN (SELECT value FROM json_each(?3))",
        )
        .and_then(|mut statement| statement.execute(params![remote, settled.0, waiting]))
        .map(|_| ())
        .map_err(failed("forget what was made of rows"))
}
