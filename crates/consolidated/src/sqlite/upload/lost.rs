//! Looks for what belongs to new rows that lost their keys.

use super::input::Input;
use crate::sqlite::errors::failed;
use crate::upload::lost_inserts::{self, LostInserts, Untold, UploadedTable};
use crate::upload::owed_rows::OwedRows;
use model::{Code, Failure};
use rusqlite::params;

/// New rows of earlier uploads that lost their keys, and what belonged to them. What the remote has
/// heard of was forgotten before.
pub(super) fn untold(input: &Input<'_>) -> Result<Untold, Failure> {
    let (looking, mut untold) =
        (failed("look for rows that lost their keys"), Untold::within(input.spills));
    let sql = "SELECT table_name, row_key, code FROM syncline_owed
        WHERE remote_id = ?1 AND code IN (?2, ?3)";
    let mut statement = input.connection.prepare_cached(sql).map_err(&looking)?;
    let remote_id = input.request.session.remote_id.as_str();
    let [taken, belonging] = Untold::CODES.map(Code::number);
    let mut rows = statement.query(params![remote_id, taken, belonging]).map_err(&looking)?;
    while let Some(row) = rows.next().map_err(&looking)? {
        let name: String = row.get(0).map_err(&looking)?;
        let table = input.tables.iter().position(|table| table.published.name == name);
        if let Some(table) = table {
            let key = row.get(1).map_err(&looking)?;
            untold.add(&(table, key), row.get(2).map_err(&looking)?)?;
        }
    }
    Ok(untold)
}

/// The rows of the upload that belong to those, and to those that were `rejected` in this upload.
pub(super) fn belonging(
    input: &Input<'_>,
    rejected: &OwedRows,
    untold: &Untold,
) -> Result<OwedRows, Failure> {
    let tables = input.tables.iter();
    let tables = tables.map(|table| UploadedTable::of(table, &table.details.references));
    let (tables, batches): (Vec<_>, _) = (tables.collect(), input.request.batches);
    lost_inserts::belonging(&tables, batches, &LostInserts { rejected, untold }, input.spills)
}
