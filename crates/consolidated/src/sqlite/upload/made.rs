//! Rows that the center stored differently from what a remote uploaded.
//!
//! A trigger changes an uploaded row. Until its next download the remote has the row as it sent it,
//! and its next change is based on that. Without a record, the change would find a row that differs
//! from its old image and lose: the remote would have a conflict with itself.
//!
//! A record has two digests, of the row at the remote and of the row as stored. Like owed rows, it
//! is removed when the remote presents a later watermark. Rows that lost or were rejected get no
//! record, because the row at the center is not theirs.

use super::attempt::{Attempt, Stop};
use super::input::{Input, Turn};
use crate::sqlite::errors::failed;
use crate::sqlite::query;
use crate::synchronization::change::Change;
use crate::upload::echo::image_digest;
use crate::upload::rebase::{Rebased, both_changed, rebase, values};
use model::{Failure, write_value};
use rusqlite::{OptionalExtension, params};

/// Notes what became of the rows of an upload, where triggers may have changed some.
pub(super) fn write(attempt: &mut Attempt<'_>) -> Result<(), Stop> {
    let (input, noting) = (attempt.input, failed("note what was made of a row"));
    let mut statement = input
        .connection
        .prepare_cached("INSERT OR REPLACE INTO syncline_made VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
        .map_err(&noting)?;
    let remote = input.request.session.remote_id.as_str();
    input.each_row(
        |_, change| change != Change::Delete,
        |turn| {
            let (id, record) = (turn.id(), &attempt.record);
            if record.owed.contains(&id)? && !record.stored_rebased.contains(&id)? {
                return Ok(());
            }
            let made = attempt.read_alone(|attempt| attempt.fetch(turn))?.flatten();
            let uploaded = turn.row.new_image();
            let Some(made) = made.filter(|made| made != uploaded) else { return Ok(()) };
            let (uploaded, made) = (image_digest(uploaded), image_digest(&made));
            let name = &turn.table.published.name;
            statement
                .execute(params![remote, name, id.1, input.counter.0, uploaded, made])
                .map_err(&noting)?;
            Ok(())
        },
    )
}

/// The row over what the center made of the row that the remote uploaded before; none where the
/// row that is there `now` is not that.
pub(super) fn over(
    attempt: &mut Attempt<'_>,
    turn: Turn<'_>,
    now: Option<&[u8]>,
) -> Result<Option<Rebased>, Failure> {
    let (input, Turn { table, row, .. }) = (attempt.input, turn);
    let Some(now) = now.filter(|_| row.change != Change::Insert) else { return Ok(None) };
    let has_made = match attempt.progress.has_made {
        Some(known) => known,
        None => *attempt.progress.has_made.insert(has_any(input)?),
    };
    if !has_made {
        return Ok(None);
    }
    let remote = input.request.session.remote_id.as_str();
    let noted: Option<([u8; 16], [u8; 16])> = input
        .connection
        .prepare_cached(
            "SELECT uploaded, made FROM syncline_made
             WHERE remote_id = ?1 AND table_name = ?2 AND row_key = ?3",
        )
        .and_then(|mut statement| {
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let values = params![remote, table.published.name, turn.id().1];
            statement.query_row(values, read).optional()
        })
        .map_err(failed("look for what was made of a row"))?;
    let mut saw = Vec::new();
    row.old.iter().for_each(|value| write_value(&mut saw, *value));
    if noted != Some((image_digest(&saw), image_digest(now))) {
        return Ok(None);
    }
    let now = values(now)?;
    Ok((!both_changed(row, &now, turn.added())).then(|| rebase(row, &row.old, &now)))
}

/// Whether there is a record of the remote. None is made before the rows are applied.
fn has_any(input: &Input<'_>) -> Result<bool, Failure> {
    let remote = input.request.session.remote_id.as_str();
    let sql = "SELECT EXISTS (SELECT 1 FROM syncline_made WHERE remote_id = ?1)";
    query::value(input.connection, "look for what was made of rows", sql, [remote])
}
