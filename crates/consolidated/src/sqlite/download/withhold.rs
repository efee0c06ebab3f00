//! Notes rows that cannot be sent.

use crate::administration::readable;
use crate::sqlite::details::CatalogTable;
use crate::sqlite::errors::failed;
use crate::sqlite::identity;
use crate::synchronization::withheld::Withholding;
use model::Failure;
use rusqlite::{Connection, params};
use std::sync::Arc;

/// If the row is owed for another reason, this is still reported, so its code and message stay.
const OWE: &str = "INSERT INTO syncline_owed
    (remote_id, table_name, row_key, counter, code, message, withheld)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (remote_id, table_name, row_key) DO UPDATE SET
    counter = CASE WHEN withheld IS NULL THEN excluded.counter ELSE counter END,
    code = coalesce(code, excluded.code), message = coalesce(message, excluded.message),
    withheld = excluded.withheld
RETURNING counter = ?4";

const TELL: &str = "INSERT INTO syncline_reject (rejected_at, remote_id, user_name, counter,
    table_name, operation, row_key, code, message)
VALUES (datetime('now'), ?1, ?2, ?3, ?4, 'download', ?5, ?6, ?7)";

/// With the watermark of this download the remote has what it was withheld before.
const RELEASE: &str = "UPDATE syncline_owed
SET withheld = NULL, code = NULL, message = NULL, counter = ?4
WHERE remote_id = ?1 AND table_name = ?2 AND row_key = ?3 AND withheld IS NOT NULL";

pub(in crate::sqlite) fn withhold(
    connection: &Connection,
    tables: &[Arc<CatalogTable>],
    withholding: &Withholding<'_>,
) -> Result<(), Failure> {
    let Withholding { session, epoch, counter, withheld, released } = withholding;
    identity::resume(connection, session, *epoch)?;
    let noting = failed("note what cannot be sent");
    let remote_id = session.remote_id.as_str();
    for row in *withheld {
        let code = row.code.number();
        let published = &tables[row.table].published;
        let bytes = i64::try_from(row.bytes).unwrap_or(i64::MAX);
        let name = published.name.as_str();
        let owed = params![remote_id, name, row.key, counter.0, code, row.message, bytes];
        let news: bool =
            connection.query_row(OWE, owed, |returned| returned.get(0)).map_err(&noting)?;
        if news {
            let key = readable::key(published, &row.key);
            let note =
                params![remote_id, session.user.as_str(), counter.0, name, key, code, row.message];
            connection.execute(TELL, note).map_err(&noting)?;
        }
    }
    for (table, key) in *released {
        let name = tables[*table].published.name.as_str();
        connection.execute(RELEASE, params![remote_id, name, key, counter.0]).map_err(&noting)?;
    }
    Ok(())
}
