//! What is recorded about an upload: owed rows and rejected rows.

use super::catalog::CatalogTable;
use super::errors::failed;
use crate::owed_rows::OwedRows;
use crate::reject;
use crate::synchronization::UploadRequest;
use model::{Counter, Failure};
use rusqlite::{Connection, params};
use std::sync::Arc;

/// Writes `owed`; with the watermark `counter` the remote has it.
pub(super) fn write(
    connection: &Connection,
    tables: &[Arc<CatalogTable>],
    request: &UploadRequest<'_>,
    counter: Counter,
    owed: &OwedRows,
) -> Result<(), Failure> {
    write_rejects(connection, tables, request, counter, owed)?;
    let owing = failed("note what the remote is owed");
    let mut statement = connection
        .prepare_cached(
            "INSERT OR REPLACE INTO syncline_owed
                 (remote_id, table_name, row_key, counter, code, message)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )
        .map_err(&owing)?;
    owed.visit(|table, key, reason| {
        let (code, message) = match &reason {
            Some((code, message)) => (Some(code.number()), Some(message.as_str())),
            None => (None, None),
        };
        statement
            .execute(params![
                request.session.remote_id.as_str(),
                tables[table].published.name,
                key,
                counter.0,
                code,
                message,
            ])
            .map(|_| ())
            .map_err(&owing)
    })
}

/// Keeps the rejected rows with their content, for the operator.
fn write_rejects(
    connection: &Connection,
    tables: &[Arc<CatalogTable>],
    request: &UploadRequest<'_>,
    counter: Counter,
    owed: &OwedRows,
) -> Result<(), Failure> {
    if !owed.has_rejects() {
        return Ok(());
    }
    let published = |at: usize| &tables[at].published;
    let noting = failed("note what was rejected");
    let mut statement = connection
        .prepare_cached(
            "INSERT INTO syncline_reject (rejected_at, remote_id, user_name, counter,
                 table_name, operation, row_key, row_content, code, message)
             VALUES (datetime('now'), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )
        .map_err(&noting)?;
    let upload = (request.batches, request.left_out);
    reject::visit_rejected(upload, &published, owed, &mut |reject| {
        statement
            .execute(params![
                request.session.remote_id.as_str(),
                request.session.user.as_str(),
                counter.0,
                published(reject.table).name,
                reject.operation,
                reject.key,
                reject.row,
                reject.code.number(),
                reject.message,
            ])
            .map(|_| ())
            .map_err(&noting)
    })
}
