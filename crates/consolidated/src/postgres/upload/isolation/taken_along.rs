//! Rows of an upload that a delete of the same upload removes.
//!
//! A remote may lack a foreign key of the center. It inserts a child, deletes its parent and keeps
//! the child. At the center `ON DELETE CASCADE` removes both, as the owner wants it. But the remote
//! was told that the child was accepted. So this row is rejected afterwards, and reported. The same
//! is done where the foreign key changes the row, if the table is only uploaded: no download shows
//! the remote what the row has become.

use crate::postgres::upload::isolation::group::{Gathering, Group};
use crate::postgres::upload::isolation::state::Isolation;
use crate::postgres::upload::shape::UploadShape;
use crate::postgres::upload::stop::Stop;
use crate::synchronization::change::Change;
use model::Code;

/// Rejects the rows that were applied and are gone again.
pub(in crate::postgres) fn reject(
    isolation: &mut Isolation<'_, '_>,
    outline: &UploadShape,
) -> Result<(), Stop> {
    let endangered = outline.endangered(isolation.upload);
    if endangered.is_empty() {
        return Ok(());
    }
    let (upload, mut gathering) = (isolation.upload, Gathering::default());
    outline.visit(upload, &mut |table, row| {
        let is_own = upload.tables[table].deployed.is_own(row.change);
        if row.change == Change::Delete || is_own || !endangered.contains(&table) {
            return Ok(());
        }
        let published = &upload.tables[table].deployed.published;
        if isolation.record.tells_of(&row.key(published, table))? {
            return Ok(());
        }
        reject_missing(isolation, gathering.add(table, row.change, row.bytes))
    })?;
    reject_missing(isolation, gathering.end())
}

/// The same of rows of one table.
fn reject_missing(isolation: &mut Isolation<'_, '_>, group: Option<Group>) -> Result<(), Stop> {
    let Some(Group { table, change, rows }) = group else { return Ok(()) };
    let published = &isolation.table(table).deployed.published;
    let (mut keys, mut images) = (Vec::new(), Vec::new());
    for bytes in &rows {
        let row = isolation.read(table, change, bytes)?;
        keys.push(row.key(published, table).1);
        images.push(row.new_image().to_vec());
    }
    let present = isolation.as_uploaded(table, &images)?;
    for (key, bytes) in keys.iter().zip(&rows) {
        if !present.contains(key) {
            let message = "a delete of the same upload also removed or changed the row".to_owned();
            isolation.reject(table, change, bytes, (Code::RowTakenAlong, message).into())?;
        }
    }
    Ok(())
}
