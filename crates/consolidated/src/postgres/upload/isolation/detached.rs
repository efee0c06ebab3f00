//! Rows that refer to nothing while the value that they refer to passes from one row to another.

use crate::postgres::links;
use crate::postgres::upload::isolation::state::{Isolation, Ran};
use crate::postgres::upload::row_fault::RowFault;
use crate::postgres::upload::stop::Stop;
use crate::script::Event;
use crate::synchronization::change::Change;
use crate::upload::detached::{self, DetachedRows};
use model::PublishedTable;

/// Detaches rows before the deletes, where one that was deleted may be waited for.
pub(in crate::postgres) fn detach(isolation: &mut Isolation<'_, '_>) -> Result<DetachedRows, Stop> {
    let spills = isolation.upload.spills;
    let mut apart = DetachedRows::within(spills);
    if isolation.waiting_rows.is_empty() {
        return Ok(apart);
    }
    let upload = isolation.upload;
    let published: Vec<&PublishedTable> =
        upload.tables.iter().map(|table| &table.deployed.published).collect();
    isolation.flush()?;
    let references = links::references(isolation.link, upload.tables)?;
    let found = detached::find(&references, &published, upload.request.batches, spills)?;
    let mut found = found.reader();
    while let Some(row) = found.next_row()? {
        // One that lost, or cannot refer to nothing, is what the database makes of it.
        if let Ok(1..) = refer(isolation, row.table, &row.away)? {
            apart.push(&row)?;
        }
    }
    Ok(apart)
}

/// Attaches them, now that the value is another row's.
pub(in crate::postgres) fn attach(
    isolation: &mut Isolation<'_, '_>,
    apart: &DetachedRows,
) -> Result<(), Stop> {
    let mut apart = apart.reader();
    while let Some(row) = apart.next_row()? {
        let reason = match refer(isolation, row.table, &row.back)? {
            Ok(_) => continue,
            Err(fault) => fault.into_reason(),
        };
        isolation.reject(row.table, row.change, &row.row, reason)?;
    }
    Ok(())
}

/// Runs an update of references, and says how many rows it changed.
fn refer(
    isolation: &mut Isolation<'_, '_>,
    table: usize,
    row: &[u8],
) -> Result<Result<u64, RowFault>, Stop> {
    let rows = [row.to_vec()];
    Ok(match isolation.run(table, Change::Update, Event::UploadUpdate, &rows)? {
        Ran::Affected(0) => {
            isolation.undo();
            Ok(0)
        }
        Ran::Affected(count) => {
            isolation.keep();
            Ok(count)
        }
        Ran::Fault(fault) => {
            isolation.undo();
            Err(fault)
        }
    })
}
