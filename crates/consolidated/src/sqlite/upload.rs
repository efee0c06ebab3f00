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

mod account;
pub(super) mod affinity;
pub(super) mod attempt;
mod attempts;
pub(super) mod conflict;
pub(super) mod constraint;
mod disputes;
mod execute;
pub(super) mod fence;
mod foresight;
pub(super) mod made;
pub(super) mod orphans;
pub(super) mod own_entries;
mod rebased;
pub(super) mod record;
mod records;
pub(super) mod refused;
mod taken_along;

use super::binding::{bind_row, bind_sessions};
use super::details::CatalogTable;
use super::errors::{RowFault, failed, script_failed};
use super::identity;
use crate::download;
use crate::identity::{Incarnation, Remembered};
use crate::script::Script;
use crate::sqlite::deploy::shapes;
use crate::sqlite::download::watermark::Mark;
use crate::sqlite::upload::fence::Standing;
use crate::sqlite::upload::own_entries::OwnEntries;
use crate::synchronization::change::{Change, UploadedRows};
use crate::synchronization::{Applied, Session, UploadRequest};
use crate::upload::uploaded_row::{UploadedRow, each_batch, event_of};
use crate::upload::waiting::WaitingRow;
use attempt::{Around, Attempt, RowOutcome, Stop};
use model::{Counter, Failure};
use rusqlite::{Connection, Statement, params};
use std::sync::Arc;

/// Applies `request` and stores the remote's new state.
pub(super) fn upload(
    connection: &Connection,
    tables: &[Arc<CatalogTable>],
    request: &UploadRequest<'_>,
    incarnation: &Incarnation,
    around: Around<'_>,
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
    let owed_counter = match request.download_follows {
        true => remote.counter,
        false => Counter(remote.counter.0 + 1),
    };
    let has_rows = request.progress != request.previous;
    let mut applied = Applied::default();
    if has_rows {
        if remote.progress != request.previous {
            return Err(remote.out_of_sequence(request.previous));
        }
        applied = attempts::apply(connection, tables, request, owed_counter, around)?;
        remote.progress = request.progress;
    }
    identity::write(connection, session, &remote)?;
    note_time(connection, session, has_rows, request.download_follows)?;
    shapes::note_held(connection, session)?;
    applied.receipt = Some(incarnation.sign(session, remote.secret, remote.epoch)?);
    applied.incarnation = incarnation.number;
    applied.epoch = remote.epoch;
    applied.progress = remote.progress;
    applied.counter = remote.counter;
    Ok(applied)
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
    made::settle(connection, remote_id, settled, &waiting)?;
    connection
        .prepare_cached(
            "DELETE FROM syncline_owed
             WHERE remote_id = ?1 AND counter <= ?2 AND withheld IS NULL
             AND table_name NOT IN (SELECT value FROM json_each(?3))",
        )
        .and_then(|mut s| s.execute(params![remote_id, settled.0, waiting]))
        .map_err(failed("settle what the remote was owed"))?;
    Ok(())
}

fn note_time(
    connection: &Connection,
    session: &Session,
    upload: bool,
    download: bool,
) -> Result<(), Failure> {
    connection
        .prepare_cached(
            "UPDATE syncline_remote SET
                 last_upload_at = CASE WHEN ?2 THEN datetime('now') ELSE last_upload_at END,
                 last_download_at = CASE WHEN ?3 THEN datetime('now') ELSE last_download_at END
             WHERE remote_id = ?1",
        )
        .and_then(|mut s| s.execute(params![session.remote_id.as_str(), upload, download]))
        .map_err(failed("note the time of the synchronization"))?;
    Ok(())
}

impl<'a> Attempt<'a> {
    pub(super) fn rows(&mut self) -> Result<(), Stop> {
        let batches = self.request.batches;
        let mut deleting = vec![false; self.tables.len()];
        each_batch(batches, |batch| {
            let count = u64::from(batch.count);
            match batch.change {
                Change::Insert => self.applied.inserts += count,
                Change::Update => self.applied.updates += count,
                Change::Delete => {
                    self.applied.deletes += count;
                    deleting[batch.table] = true;
                    return Ok(());
                }
            }
            self.batch(batch)
        })?;
        if deleting.contains(&true) {
            self.before_deletes = Some(self.tally()?);
        }
        // Children first, or RESTRICT would stop the parent's delete.
        for table in (0..self.tables.len()).rev().filter(|table| deleting[*table]) {
            each_batch(batches, |batch| {
                match batch.table == table && batch.change == Change::Delete {
                    true => self.batch(batch),
                    false => Ok(()),
                }
            })?;
        }
        for row in self.waits.leaving.take().into_rows() {
            let outcome = self.retry(&row)?;
            self.put_off(row, outcome)?;
        }
        Ok(())
    }

    pub(super) fn batch(&mut self, batch: UploadedRows<'_>) -> Result<(), Stop> {
        let (connection, table) = (self.connection, self.tables[batch.table].clone());
        let width = table.published.width();
        if self.request.download_follows && self.own_entries[batch.table].is_none() {
            self.own_entries[batch.table] = OwnEntries::begin(connection, &table)?;
        }
        let event = event_of(batch.change);
        let script = table.required(event)?;
        let mut statement = connection
            .prepare_cached(&script.sql)
            .map_err(|error| script_failed(error, &table.published.name, event.name()))?;
        bind_sessions(&mut statement, script, self.request.session)
            .map_err(|error| script_failed(error, &table.published.name, event.name()))?;
        let mut row = UploadedRow::default();
        let mut rest = batch.rows;
        for _ in 0..batch.count {
            rest = row.read(rest, batch.change, width)?;
            if self.is_put_off(&table, batch.table, &row)? {
                continue;
            }
            let outcome = self.each_alone(RowOutcome::Done, |attempt| {
                attempt.checked(&table, batch.table, &row, |attempt| {
                    attempt.row(&mut statement, script, &table, batch.table, &row)
                })
            })?;
            if outcome != RowOutcome::Done {
                self.put_off(WaitingRow::of(batch.table, &row), outcome)?;
            }
        }
        Ok(())
    }

    /// Whether the row is not to be applied now: it is impossible, or comes after the others.
    fn is_put_off(
        &mut self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) -> Result<bool, Failure> {
        if let Some(reason) = self.refusal(position, table, row)? {
            self.reject(table, position, row, reason)?;
            return Ok(true);
        }
        if self.known.postponed.is_empty()
            || !self.known.postponed.contains(&row.key(&table.published, position))?
        {
            return Ok(false);
        }
        let (id, row) = (row.key(&table.published, position), WaitingRow::of(position, row));
        self.waits
            .leaving
            .push(row)
            .or_else(|too_many| self.waits.no_room.reject(&id, too_many))?;
        Ok(true)
    }

    /// Tries a waiting row once more.
    pub(super) fn retry(&mut self, waits: &WaitingRow) -> Result<RowOutcome, Stop> {
        let table = self.tables[waits.table].clone();
        let row = waits.read(&table.published)?;
        self.each_alone(RowOutcome::Done, |attempt| {
            attempt.checked(&table, waits.table, &row, |attempt| {
                attempt.apply_one(&table, waits.table, &row)
            })
        })
    }

    /// Applies one row by itself.
    fn apply_one(
        &mut self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) -> Result<RowOutcome, Stop> {
        let event = event_of(row.change);
        let script = table.required(event)?;
        let failing = |error| script_failed(error, &table.published.name, event.name());
        let mut statement = self.connection.prepare_cached(&script.sql).map_err(failing)?;
        bind_sessions(&mut statement, script, self.request.session).map_err(failing)?;
        self.row(&mut statement, script, table, position, row)
    }

    fn row(
        &mut self,
        statement: &mut Statement<'_>,
        script: &Script,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) -> Result<RowOutcome, Stop> {
        let name = &table.published.name;
        let event = event_of(row.change);
        if let Some(now) = self.foresee(script, table, position, row)? {
            return conflict::resolve_found(self, table, position, row, Some(now), String::new());
        }
        bind_row(statement, script, row)
            .map_err(|error| script_failed(error, name, event.name()))?;
        match self.execute(statement, &script.sql, (table, row, event))? {
            Ok(0) if row.change == Change::Insert => conflict::veto(self, table, position, row)?,
            Ok(0) => {
                self.foresight.note(true);
                return conflict::resolve(self, table, position, row, String::new());
            }
            Ok(changes) => {
                self.foresight.note(false);
                self.changed(position, changes);
                self.was_violated |= constraint::foreign_keys_violated(self.connection)?;
                // Scripts write to covered rows and to keys where there is none.
                let before = match row.change {
                    Change::Insert => Standing::Absent,
                    Change::Update | Change::Delete => Standing::Inside,
                };
                fence::check_written(self, table, position, row, before)?;
                self.echo(table, position, row);
            }
            Err((RowFault::Refused(code), message)) => {
                self.reject(table, position, row, (code, message))?;
            }
            Err((fault, message)) => {
                return match self.meets_its_row(table, row, fault)? {
                    true => conflict::resolve(self, table, position, row, message),
                    false => Ok(RowOutcome::InTheWay(message)),
                };
            }
        }
        Ok(RowOutcome::Done)
    }

    /// Whether a row that is not unique meets the one with its key.
    fn meets_its_row(
        &self,
        table: &CatalogTable,
        row: &UploadedRow<'_>,
        fault: RowFault,
    ) -> Result<bool, Failure> {
        match fault {
            RowFault::KeyExists => Ok(true),
            // Which constraint is reported first is SQLite's choice.
            RowFault::NotUnique if row.change == Change::Insert => {
                Ok(fence::standing(self, table, row)? != Standing::Absent)
            }
            RowFault::NotUnique | RowFault::Refused(_) => Ok(false),
        }
    }
}
