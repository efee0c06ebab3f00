//! Rows that refer to nothing while the value that they refer to passes from one row to another.

use super::careful::{Careful, Ran};
use super::row_fault::RowFault;
use super::upload::Stop;
use crate::detached::{self, Detached};
use crate::script::Event;
use crate::synchronization::Change;
use model::PublishedTable;

/// Detaches rows before the deletes, where one that was deleted may be waited for.
pub(super) fn detach(careful: &mut Careful<'_, '_>) -> Result<Vec<Detached>, Stop> {
    let mut apart = Vec::new();
    if careful.parked.is_empty() {
        return Ok(apart);
    }
    let upload = careful.upload;
    let published: Vec<&PublishedTable> =
        upload.tables.iter().map(|table| &table.deployed.published).collect();
    let references = careful.links.references();
    for row in detached::find(&references, &published, upload.request.batches)? {
        // One that lost, or cannot refer to nothing, is what the database makes of it.
        if let Ok(1..) = refer(careful, row.table, &row.away)? {
            apart.push(row);
        }
    }
    Ok(apart)
}

/// Attaches them, now that the value is another row's.
pub(super) fn attach(careful: &mut Careful<'_, '_>, apart: Vec<Detached>) -> Result<(), Stop> {
    for row in apart {
        let reason = match refer(careful, row.table, &row.back)? {
            Ok(_) => continue,
            Err(fault) => fault.into_reason(),
        };
        careful.reject(row.table, row.change, &row.row, reason)?;
    }
    Ok(())
}

/// Runs an update of references, and says how many rows it changed.
fn refer(
    careful: &mut Careful<'_, '_>,
    table: usize,
    row: &[u8],
) -> Result<Result<u64, RowFault>, Stop> {
    let rows = [row.to_vec()];
    Ok(match careful.run(table, Change::Update, Event::UploadUpdate, &rows)? {
        Ran::Affected(0) => {
            careful.undo();
            Ok(0)
        }
        Ran::Affected(count) => {
            careful.keep();
            Ok(count)
        }
        Ran::Fault(fault) => {
            careful.undo();
            Err(fault)
        }
    })
}
