//! Rows of an upload that a delete of the same upload removes.
//!
//! A remote may lack a foreign key of the center. It inserts a child, deletes its parent and keeps
//! the child. At the center `ON DELETE CASCADE` removes both, as the owner wants it. But the remote
//! was told that the child was accepted. So this row is rejected afterwards, and reported. The same
//! is done where the foreign key changes the row, if the table is only uploaded: no download shows
//! the remote what the row has become.

use crate::postgres::upload::batch::are_enough;
use crate::postgres::upload::isolation::state::Isolation;
use crate::postgres::upload::shape::UploadShape;
use crate::postgres::upload::stop::Stop;
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::UploadedRow;
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
    let mut rows: Vec<(usize, Change, Vec<u8>)> = Vec::new();
    let mut bytes = 0;
    let upload = isolation.upload;
    outline.visit(upload, &mut |table, row| {
        if row.change == Change::Delete || !endangered.contains(&table) {
            return Ok(());
        }
        let published = &upload.tables[table].deployed.published;
        if isolation.record.tells_of(&row.key(published, table))? {
            return Ok(());
        }
        let full = are_enough(rows.len(), bytes)
            || rows.first().is_some_and(|(first, ..)| *first != table);
        if full {
            bytes = 0;
            reject_missing(isolation, std::mem::take(&mut rows))?;
        }
        bytes += row.bytes.len();
        rows.push((table, row.change, row.bytes.to_vec()));
        Ok(())
    })?;
    reject_missing(isolation, rows)
}

/// The same of rows of one table.
fn reject_missing(
    isolation: &mut Isolation<'_, '_>,
    rows: Vec<(usize, Change, Vec<u8>)>,
) -> Result<(), Stop> {
    let Some((table, ..)) = rows.first() else { return Ok(()) };
    let table = *table;
    let published = &isolation.table(table).deployed.published;
    let images = rows.iter().map(|(_, change, bytes)| {
        let mut row = UploadedRow::default();
        row.read(bytes, *change, published.width())?;
        Ok((row.key(published, table).1, row.new_image().to_vec()))
    });
    let images = images.collect::<Result<Vec<_>, model::Failure>>()?;
    let (keys, images): (Vec<_>, Vec<_>) = images.into_iter().unzip();
    let present = isolation.as_uploaded(table, &images)?;
    for (key, (_, change, bytes)) in keys.iter().zip(&rows) {
        if !present.contains(key) {
            let message = "a delete of the same upload also removed or changed the row".to_owned();
            isolation.reject(table, *change, bytes, (Code::RowTakenAlong, message))?;
        }
    }
    Ok(())
}
