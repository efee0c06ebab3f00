//! Looks for what belongs to new rows that lost their keys.

use crate::postgres::errors::unreadable;
use crate::postgres::link::Link;
use crate::postgres::upload::stop::{Stop, stopped};
use crate::postgres::upload::work::Upload;
use crate::upload::lost_inserts::{self, LostInserts, Untold, UploadedTable};
use crate::upload::owed_rows::OwedRows;
use model::Failure;

const UNTOLD: &str = "SELECT table_name, coalesce(whole_key, row_key), code
FROM syncline.syncline_owed WHERE remote_id = $1 AND code = ANY ($2) AND counter > $3";

/// The rows of the upload that belong to new rows of earlier uploads which lost their keys, and of
/// which the remote may not have heard, or change them or what belonged to them.
pub(in crate::postgres) fn belonging_to_untold(
    link: &mut Link,
    upload: Upload<'_>,
) -> Result<OwedRows, Stop> {
    let remote_id = upload.request.session.remote_id.as_str();
    let codes = Untold::CODES.map(|code| i32::from(code.number())).to_vec();
    let settled = upload.settled.0;
    let found = link
        .query(UNTOLD, &[&remote_id, &codes, &settled])
        .map_err(stopped("look for rows that lost their keys"))?;
    let mut untold = Untold::within(upload.spills);
    for row in found {
        let (name, key): (&str, Vec<u8>) =
            (row.try_get(0).map_err(unreadable)?, row.try_get(1).map_err(unreadable)?);
        let mut tables = upload.tables.iter();
        if let Some(table) = tables.position(|table| table.deployed.published.name == name) {
            let code: i32 = row.try_get(2).map_err(unreadable)?;
            untold.add(&(table, key), u16::try_from(code).unwrap_or_default())?;
        }
    }
    Ok(belonging(upload, &OwedRows::within(upload.spills), &untold)?)
}

/// Those that belong to such rows of this upload.
pub(in crate::postgres) fn belonging_to(
    upload: Upload<'_>,
    rejected: &OwedRows,
) -> Result<OwedRows, Failure> {
    match rejected.has_rejects() {
        true => belonging(upload, rejected, &Untold::within(upload.spills)),
        false => Ok(OwedRows::within(upload.spills)),
    }
}

fn belonging(
    upload: Upload<'_>,
    rejected: &OwedRows,
    untold: &Untold,
) -> Result<OwedRows, Failure> {
    let tables = upload.tables.iter().map(|table| {
        let deployed = &*table.deployed;
        UploadedTable::of(deployed, &deployed.details.references)
    });
    let (tables, batches): (Vec<_>, _) = (tables.collect(), upload.request.batches);
    lost_inserts::belonging(&tables, batches, &LostInserts { rejected, untold }, upload.spills)
}
