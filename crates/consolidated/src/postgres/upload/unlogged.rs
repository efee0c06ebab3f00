//! Owes a remote what no log names.

use crate::download::range::has_other_claims;
use crate::postgres::catalog::table::Table;
use crate::postgres::download::watermark::Point;
use crate::postgres::upload::record::UploadRecord;
use crate::postgres::upload::work::Upload;
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::each_row;
use model::Failure;
use std::sync::Arc;

/// Owes the uploaded rows that the departure log may lack.
///
/// It has none of rows that come with other claims than the remote was sent the table with. And a
/// row that leaves with a key change departs under its old key, while the remote has it under the
/// new one.
pub(in crate::postgres) fn owe_what_no_log_names(
    upload: Upload<'_>,
    record: &mut UploadRecord,
) -> Result<(), Failure> {
    let request = upload.request;
    let changes_keys = record.applied.updates > 0;
    let owes = |table: &Arc<Table>| {
        let deployed = &table.deployed;
        let downloads = deployed.published.direction.downloads();
        let moved = changes_keys && deployed.details.may_leave && downloads;
        Ok((has_other_claims::<Point>(&**table, request)?, moved))
    };
    let owes = upload.tables.iter().map(owes).collect::<Result<Vec<(bool, bool)>, Failure>>()?;
    if !owes.iter().any(|(all, moved)| *all || *moved) {
        return Ok(());
    }
    let published = |position: usize| &upload.tables[position].deployed.published;
    let wanted = |position: usize, change| {
        let (all, moved) = owes[position];
        match change {
            Change::Insert | Change::Update => all,
            Change::KeyChange => all || moved,
            Change::Delete => false,
        }
    };
    each_row(request.batches, &published, wanted, |position, row| {
        record.owe(&row.key(published(position), position))?;
        if row.change != Change::Insert {
            record.owe(&row.new_key(published(position), position))?;
        }
        Ok(())
    })
}
