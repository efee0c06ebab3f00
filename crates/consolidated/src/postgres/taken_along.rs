//! Rows of an upload that a delete of the same upload removes.
//!
//! A remote may lack a foreign key of the centre. It inserts a child, deletes its parent and keeps
//! the child. At the centre `ON DELETE CASCADE` removes both, as the owner wants it. But the remote
//! was told that the child was accepted. So this row is rejected afterwards, and reported.

use super::careful::Careful;
use super::outline::Outline;
use super::tables::UserTable;
use super::upload::Stop;
use crate::rebase::Rebased;
use crate::synchronization::Change;
use crate::uploaded_row::UploadedRow;
use model::Code;
use std::collections::{BTreeMap, BTreeSet};

/// Most bytes of rows that are asked about together.
const GROUP_BYTES: usize = super::batch::BATCH_BYTES;

/// The tables, by their published names, whose deletes take rows of `table` along, whatever is
/// between them.
pub(super) fn takers(tables: &BTreeMap<String, UserTable>, table: &UserTable) -> Vec<String> {
    let mut takers = BTreeSet::new();
    let mut open = vec![table];
    while let Some(child) = open.pop() {
        for key in child.foreign_keys.iter().filter(|key| key.on_delete() == "CASCADE") {
            if takers.insert(key.parent.clone()) {
                open.extend(tables.get(&key.parent));
            }
        }
    }
    takers.into_iter().collect()
}

/// Rejects the rows that were applied and are gone again.
pub(super) fn reject(careful: &mut Careful<'_, '_>, outline: &Outline) -> Result<(), Stop> {
    let endangered = outline.endangered(careful.upload);
    if endangered.is_empty() {
        return Ok(());
    }
    let mut rows: Vec<(usize, Change, Vec<u8>)> = Vec::new();
    let mut bytes = 0;
    let upload = careful.upload;
    outline.visit(upload, &mut |table, row| {
        if row.change == Change::Delete || !endangered.contains(&table) {
            return Ok(());
        }
        let published = &upload.tables[table].deployed.published;
        for key in [row.key(published, table), row.new_key(published, table)] {
            if careful.ledger.tells_of(&key)? {
                return Ok(());
            }
        }
        let full = bytes >= GROUP_BYTES || rows.first().is_some_and(|(first, ..)| *first != table);
        if full {
            bytes = 0;
            reject_missing(careful, std::mem::take(&mut rows))?;
        }
        bytes += row.bytes.len();
        rows.push((table, row.change, row.bytes.to_vec()));
        Ok(())
    })?;
    reject_missing(careful, rows)
}

/// The same of rows of one table.
fn reject_missing(
    careful: &mut Careful<'_, '_>,
    rows: Vec<(usize, Change, Vec<u8>)>,
) -> Result<(), Stop> {
    let Some((table, ..)) = rows.first() else { return Ok(()) };
    let table = *table;
    let published = &careful.table(table).deployed.published;
    let mut told = Vec::with_capacity(rows.len());
    for (_, change, bytes) in rows {
        told.push(careful.tell(table, change, bytes)?);
    }
    let images = told.iter().map(|Rebased { change, bytes }| {
        let mut row = UploadedRow::default();
        row.read(bytes, *change, published.width())?;
        Ok((row.new_key(published, table).1, row.new_image().to_vec()))
    });
    let images = images.collect::<Result<Vec<_>, model::Failure>>()?;
    let (keys, images): (Vec<_>, Vec<_>) = images.into_iter().unzip();
    let present = careful.present(table, Change::Insert, &images)?;
    for (key, row) in keys.iter().zip(&told) {
        if !present.contains(key) {
            let message = "a delete of the same upload also removed or changed the row".to_owned();
            careful.reject(table, row.change, &row.bytes, (Code::RowTakenAlong, message))?;
        }
    }
    Ok(())
}
