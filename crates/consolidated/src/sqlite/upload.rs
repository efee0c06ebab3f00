//! Applies one upload row by row with prepared statements, which is the fastest way on SQLite.
//!
//! The order is: inserts and updates as they were sent, parents first; deletes, children first;
//! rows that leave the partition, if other rows need them before; rows that blocked each other.
//! Foreign keys are deferred, and checked before the savepoint is released.
//!
//! Invariants:
//! U1. Each uploaded row has exactly one outcome: applied, found already so, conflict resolved, or
//!     rejected. The upload is applied as a whole or not at all (S4).
//! U2. If the row at the center is not the row of the remote, it is owed (trap 5).

pub(super) mod affinity;
mod attempt;
mod attempts;
mod conflict;
mod conflicts;
pub(super) mod constraint;
mod fence;
mod foresight;
mod input;
mod lost;
mod made;
pub(super) mod orphans;
mod owing;
pub(super) mod own_entries;
mod record;
mod taken_along;

use super::details::CatalogTable;
use super::{identity, query};
use crate::download;
use crate::download::time::Time;
use crate::identity::{Incarnation, Remembered};
use crate::script::around::Around;
use crate::sqlite::download::watermark::Mark;
use crate::sqlite::event_script::Running;
use crate::synchronization::{Applied, Held, TableMark, UploadRequest};
use crate::upload::decisions::Deciding;
use crate::upload::owed_rows::OwedRows;
use input::Input;
use model::{Counter, Failure, Spills};
use rusqlite::{Connection, params};
use std::sync::Arc;

/// Applies `request` and stores the remote's new state. Adds rows at which the transaction is ended
/// to `ended`.
pub(super) fn upload(
    (connection, spills): (&Connection, &Arc<Spills>),
    tables: &[Arc<CatalogTable>],
    request: &UploadRequest<'_>,
    incarnation: &Incarnation,
    (ended, deciding): (&mut OwedRows, Deciding<'_>),
    around: Option<&mut Around>,
) -> Result<Applied, Failure> {
    let session = request.session;
    let mut remote = match request.epoch {
        Some(epoch) => identity::resume(connection, session, epoch)?,
        None => {
            let (identity, receipt) = (&request.identity, request.receipt);
            identity::begin(connection, session, identity, receipt, incarnation)?
        }
    };
    remote.nonce = request.identity.nonce_attempt;
    if request.download_follows {
        remote.counter.0 += 1;
    }
    settle_owed(connection, tables, request, &remote)?;
    // What is owed is settled by the first watermark issued after it, so without a download it
    // belongs to the next one.
    let counter = match request.download_follows {
        true => remote.counter,
        false => Counter(remote.counter.0 + 1),
    };
    let mut applied = Applied::default();
    if request.progress != request.previous {
        if remote.progress != request.previous {
            return Err(remote.out_of_sequence(request.previous));
        }
        let input = Input { connection, tables, request, counter, spills };
        applied = attempts::apply(&input, ended, deciding, around)?;
        remote.progress = request.progress;
    } else if let Some(around) = around {
        around.end_upload(&mut Running(connection), &applied.unusual)?;
    }
    identity::write(connection, session, &remote)?;
    // Nobody else writes meanwhile, so what is stamped later has this time or a later one (DT1).
    let now_s = note(connection, request)?;
    applied.receipt = Some(incarnation.sign(session, remote.secret, remote.epoch)?);
    applied.incarnation = incarnation.number;
    applied.time_us = now_s.map(|now_s| now_s * 1_000_000);
    applied.epoch = remote.epoch;
    applied.progress = remote.progress;
    applied.counter = remote.counter;
    Ok(applied)
}

/// Since when the remote lacks what was stamped in a table.
pub(super) fn time_of(mark: &TableMark) -> Option<Time> {
    Mark::held(mark)?.time
}

/// Forgets what the remote has received: its watermarks were issued after it was owed.
fn settle_owed(
    connection: &Connection,
    tables: &[Arc<CatalogTable>],
    request: &UploadRequest<'_>,
    remote: &Remembered,
) -> Result<(), Failure> {
    let session = request.session;
    let settled = download::owed::settled_before(request, tables.len(), remote, Mark::counter_of);
    let Some(settled) = settled else { return Ok(()) };
    let (remote_id, waiting) = (session.remote_id.as_str(), session.waiting_names());
    let waiting = serde_json::json!(waiting).to_string();
    // A row that is withheld is owed until it can be sent.
    for rows in ["syncline_made WHERE", "syncline_owed WHERE withheld IS NULL AND"] {
        let sql = format!(
            "DELETE FROM {rows} remote_id = ?1 AND counter <= ?2
             AND table_name NOT IN (SELECT value FROM json_each(?3))"
        );
        let values = params![remote_id, settled.0, waiting];
        query::run(connection, "settle what the remote was owed", &sql, values)?;
    }
    Ok(())
}

/// Notes the time, and returns it, in seconds since 1970. Notes that the remote holds the tables of
/// today, for as long as older ones are kept for it.
fn note(connection: &Connection, request: &UploadRequest<'_>) -> Result<Option<i64>, Failure> {
    let (session, upload) = (request.session, request.progress != request.previous);
    let held = matches!(session.held, Held::Same { note: true }).then_some(session.deployment);
    let remote_id = session.remote_id.as_str();
    let sql = "UPDATE syncline_remote SET
            last_upload_at = CASE WHEN ?2 THEN datetime('now') ELSE last_upload_at END,
            last_download_at = CASE WHEN ?3 THEN datetime('now') ELSE last_download_at END,
            held_deployment = coalesce(?4, held_deployment)
        WHERE remote_id = ?1
        RETURNING unixepoch('now')";
    let values = params![remote_id, upload, request.download_follows, held];
    query::maybe(connection, "note the time of the synchronization", sql, values)
}
