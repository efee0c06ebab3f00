//! Deletes of an upload that go first, because they free keys for which other rows of it wait.

use super::aside::put_aside;
use crate::sqlite::download::followers;
use crate::sqlite::upload::WaitingRow;
use crate::sqlite::upload::attempt::{Attempt, RowOutcome, Stop};
use crate::sqlite::upload::waiting::{self, WaitingRows};
use crate::synchronization::change::Change;
use crate::upload::row_map::RowMap;
use crate::upload::uploaded_row::{RowId, UploadedRow, each_row};
use model::{Code, Failure};

/// Deletes of the upload, by the keys that they free.
pub(super) struct Deletes(RowMap);

impl Deletes {
    /// Those of the rows of a table that have one of `keys`. The upload is read once.
    pub(super) fn of(
        attempt: &Attempt<'_>,
        position: usize,
        keys: impl Fn(&[u8]) -> Result<bool, Failure>,
    ) -> Result<Deletes, Failure> {
        let mut found = RowMap::within(attempt.spills);
        let published = |position: usize| &attempt.tables[position].published;
        let goes = |table, change| table == position && change == Change::Delete;
        each_row(attempt.request.batches, &published, goes, |table, row| {
            let id = row.key(published(table), table);
            if keys(&id.1)? && !found.contains(&id)? {
                let (row, of) = (row.bytes.to_vec(), id.clone());
                let delete = WaitingRow { table, change: Change::Delete, row, id: of };
                found.put(&id, &waiting::write(&delete, ""))?;
            }
            Ok(())
        })?;
        Ok(Deletes(found))
    }

    /// The delete that frees a key, which is not found again.
    pub(super) fn take(&mut self, id: &RowId) -> Result<Option<WaitingRow>, Failure> {
        let Some(delete) = self.0.get(id)? else { return Ok(None) };
        self.0.remove(id)?;
        waiting::read(&delete).map(|(delete, _)| Some(delete))
    }
}

/// Applies a delete of the upload. Whether it frees the key.
pub(super) fn delete_first(
    attempt: &mut Attempt<'_>,
    waiting_rows: &WaitingRow,
) -> Result<bool, Stop> {
    let (tables, id) = (attempt.tables, &waiting_rows.id);
    let published = &tables[id.0].published;
    if let Some(reason) = attempt.refused.reason(id)? {
        let mut row = UploadedRow::default();
        row.read(&waiting_rows.row, waiting_rows.change, published.width())?;
        attempt.reject(&tables[id.0], id.0, &row, reason)?;
        return Ok(false);
    }
    let none = (WaitingRows::within(attempt.spills), None);
    let (followers, aside) =
        attempt.each_alone(none, |attempt| put_aside(attempt, waiting_rows))?;
    if aside.is_none() && !followers.is_empty() {
        let mut row = UploadedRow::default();
        row.read(&waiting_rows.row, waiting_rows.change, published.width())?;
        attempt.reject(&tables[id.0], id.0, &row, followers::reason())?;
        return Ok(false);
    }
    if let Some(key) = aside {
        let Some(moving) = &mut attempt.moving else { return Ok(false) };
        // It is deleted with the others.
        moving.done.remove(id)?;
        moving.aside.put(&(id.0, key), &id.1)?;
        moving.following.extend(&followers)?;
        return Ok(true);
    }
    Ok(attempt.retry(waiting_rows)? == RowOutcome::Done)
}

/// Rejects a row that cannot get its key. One that was moved out of the way is left out of a new
/// attempt, so that it has the key that it had.
pub(super) fn refuse(
    attempt: &mut Attempt<'_>,
    waiting_rows: &WaitingRow,
    placed: bool,
) -> Result<(), Failure> {
    let tables = attempt.tables;
    let table = &tables[waiting_rows.table];
    let mut row = UploadedRow::default();
    row.read(&waiting_rows.row, waiting_rows.change, table.published.width())?;
    let reason = (Code::RowKeyTaken, "another row has the new key".to_owned());
    if placed && let Some(moving) = &mut attempt.moving {
        return moving.stuck.reject(&waiting_rows.id, reason);
    }
    attempt.reject(table, waiting_rows.table, &row, reason)
}
