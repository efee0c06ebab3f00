//! Owes a remote what no log names.

use crate::download::range::has_other_claims;
use crate::postgres::catalog::table::Table;
use crate::postgres::download::watermark::Point;
use crate::postgres::upload::Upload;
use crate::postgres::upload::record::UploadRecord;
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::each_row;
use model::Failure;
use std::sync::Arc;

/// Owes the uploaded rows that come with other claims than the remote was sent the table with: the
/// departure log may lack them.
pub(in crate::postgres) fn owe_what_no_log_names(
    upload: Upload<'_>,
    record: &mut UploadRecord,
) -> Result<(), Failure> {
    let request = upload.request;
    let owes = |table: &Arc<Table>| has_other_claims::<Point>(&**table, request);
    let owes = upload.tables.iter().map(owes).collect::<Result<Vec<bool>, Failure>>()?;
    if !owes.contains(&true) {
        return Ok(());
    }
    let published = |position: usize| &upload.tables[position].deployed.published;
    let wanted = |position: usize, change| owes[position] && change != Change::Delete;
    each_row(request.batches, &published, wanted, |position, row| {
        record.owe(&row.key(published(position), position))
    })
}
