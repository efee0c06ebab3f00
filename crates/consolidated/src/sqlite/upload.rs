//! Applies one upload, row by row with prepared statements, which is what SQLite is best at.
//!
//! Order: inserts and updates as they were sent, parents first; then deletes, children first; then
//! rows that leave the subscription, if others must not lose their parent before; then the rows
//! that were in each other's way. Foreign keys are deferred, and looked at before the
//! savepoint is released.
//!
//! Invariants:
//! U1. Every uploaded row ends in exactly one of: applied, found already so, conflict resolved,
//!     rejected. The upload as a whole is applied or nothing of it (S4).
//! U2. Where the row at the centre is not what the remote holds, the row is owed (trap 5).

use super::catalog::CatalogTable;
use super::conflict;
use super::constraint;
use super::errors::{RowFault, failed, row_fault, script_failed};
use super::fence::{self, Standing};
use super::identity;
use super::ledger::{self, Owed};
use super::stretch::Stretch;
use super::values::{Bind, write_row};
use super::watermark::Mark;
use crate::echo::Echo;
use crate::script::{Event, Parameter, Script};
use crate::synchronization::{Applied, Batch, Change, Session, UploadRequest};
use crate::told;
use crate::uploaded_row::{RowId, UploadedRow, event_of};
use model::{Code, Counter, Failure, RowReader, ValueRef, write_value};
use rusqlite::{Connection, Statement, params};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The most times that an upload is applied anew without the rows that stand in its way.
const ATTEMPTS_MAX: usize = 100;

/// Rows that are left out, and why.
pub(super) type Refused = HashMap<RowId, (Code, String)>;

/// Applies `request` and stores the remote's new state.
pub(super) fn upload(
    connection: &Connection,
    tables: &[Arc<CatalogTable>],
    request: &UploadRequest<'_>,
) -> Result<Applied, Failure> {
    let session = request.session;
    let mut remote = match request.epoch {
        Some(epoch) => identity::resume(connection, session, epoch)?,
        None => identity::begin(connection, session, &request.identity)?,
    };
    remote.nonce = request.identity.nonce_attempt;
    if request.download_follows {
        remote.counter.0 += 1;
    }
    settle_owed(connection, tables, request)?;
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
        applied = apply(connection, tables, request, owed_counter)?;
        remote.progress = request.progress;
    }
    identity::write(connection, session, &remote)?;
    note_time(connection, session, has_rows, request.download_follows)?;
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
) -> Result<(), Failure> {
    if request.marks.len() != tables.len() {
        return Ok(());
    }
    let marks = request.marks.iter().map(|m| m.watermark.as_ref().and_then(Mark::read));
    let counters = marks.map(|mark| mark.map_or(Counter(0), |mark| mark.counter));
    let Some(settled) = counters.min() else { return Ok(()) };
    connection
        .prepare_cached("DELETE FROM syncline_owed WHERE remote_id = ?1 AND counter <= ?2")
        .and_then(|mut s| s.execute(params![request.session.remote_id.as_str(), settled.0]))
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

/// Applies the rows; where foreign keys or unique values make some of them impossible, everything
/// is undone and applied again without these.
fn apply(
    connection: &Connection,
    tables: &[Arc<CatalogTable>],
    request: &UploadRequest<'_>,
    counter: Counter,
) -> Result<Applied, Failure> {
    let (mut refused, mut postponed) = (Refused::new(), HashSet::new());
    for _ in 0..ATTEMPTS_MAX {
        connection.execute_batch("SAVEPOINT rows").map_err(failed("set a savepoint"))?;
        let mut attempt = Attempt::new(connection, tables, request, counter, &refused, &postponed);
        attempt.rows()?;
        let mut impossible = constraint::settle_parked(&mut attempt)?;
        impossible.extend(fence::written_outside(&mut attempt)?);
        attempt.fence_was_met |= !impossible.is_empty();
        let leaving = std::mem::take(&mut attempt.leaving);
        let again = attempt.fence_was_met && leaving.iter().any(|row| !postponed.contains(row));
        if !again && impossible.is_empty() && constraint::foreign_keys_violated(connection)? {
            impossible = constraint::violators(&attempt)?;
            if impossible.is_empty() {
                return Err(Failure::new(
                    Code::ConstraintViolated,
                    "a foreign key is violated and no uploaded row can be blamed",
                ));
            }
        }
        if impossible.is_empty() && !again {
            let applied = attempt.finish()?;
            connection.execute_batch("RELEASE rows").map_err(failed("release a savepoint"))?;
            return Ok(applied);
        }
        drop(attempt);
        connection
            .execute_batch("ROLLBACK TO rows; RELEASE rows")
            .map_err(failed("undo the attempt"))?;
        // What met a fence because its parent had left is tried once more before it is refused.
        match again {
            true => postponed.extend(leaving),
            false => refused.extend(impossible),
        }
    }
    Err(Failure::new(Code::ConstraintViolated, "too many rows stand in each other's way"))
}

/// One try at applying an upload.
pub(super) struct Attempt<'a> {
    pub(super) connection: &'a Connection,
    pub(super) tables: &'a [Arc<CatalogTable>],
    pub(super) request: &'a UploadRequest<'a>,
    counter: Counter,
    /// Found impossible by earlier attempts.
    pub(super) refused: &'a Refused,
    /// Rows that met a unique value of another row: tried again when all others are applied.
    pub(super) parked: Vec<Parked>,
    /// Rows that were outside the subscription after they were written.
    pub(super) outside: Vec<Parked>,
    /// Rows that left the subscription, as they may.
    pub(super) leaving: HashSet<RowId>,
    /// A row met a fence, and one that left may have been its parent.
    pub(super) fence_was_met: bool,
    /// Rows to be applied after the others, because they leave.
    postponed: &'a HashSet<RowId>,
    leaving_last: Vec<Parked>,
    pub(super) applied: Applied,
    /// What the remote is owed: a code where the row was rejected.
    owed: Vec<Owed>,
    /// What goes to the logs, by table.
    stretches: Vec<Option<Stretch>>,
    /// A table, and a value of its deciding column with which its rows are inside.
    inside: Option<(usize, Vec<u8>)>,
}

/// A row that waits for others to move out of its way.
#[derive(Debug, Clone)]
pub(super) struct Parked {
    pub(super) table: usize,
    pub(super) change: Change,
    pub(super) row: Vec<u8>,
}

/// What became of one row.
#[derive(Debug, PartialEq)]
pub(super) enum RowOutcome {
    Done,
    /// Another row has one of its unique values, in the database's words.
    InTheWay(String),
}

impl<'a> Attempt<'a> {
    fn new(
        connection: &'a Connection,
        tables: &'a [Arc<CatalogTable>],
        request: &'a UploadRequest<'a>,
        counter: Counter,
        refused: &'a Refused,
        postponed: &'a HashSet<RowId>,
    ) -> Attempt<'a> {
        Attempt {
            connection,
            tables,
            request,
            counter,
            refused,
            parked: Vec::new(),
            outside: Vec::new(),
            leaving: HashSet::new(),
            fence_was_met: false,
            postponed,
            leaving_last: Vec::new(),
            applied: Applied::default(),
            owed: Vec::new(),
            stretches: Vec::new(),
            inside: None,
        }
    }

    fn rows(&mut self) -> Result<(), Failure> {
        let batches = self.request.batches;
        let mut deleting = vec![false; self.tables.len()];
        self.stretches.resize_with(self.tables.len(), || None);
        batches(&mut |batch| {
            let count = u64::from(batch.count);
            match batch.change {
                Change::Insert => self.applied.inserts += count,
                Change::Update | Change::KeyChange => self.applied.updates += count,
                Change::Delete => {
                    self.applied.deletes += count;
                    deleting[batch.table] = true;
                    return Ok(());
                }
            }
            self.batch(batch)
        })?;
        // Children first, or RESTRICT would stop the parent's delete.
        for table in (0..self.tables.len()).rev().filter(|table| deleting[*table]) {
            batches(&mut |batch| match batch.table == table && batch.change == Change::Delete {
                true => self.batch(batch),
                false => Ok(()),
            })?;
        }
        for row in std::mem::take(&mut self.leaving_last) {
            if let RowOutcome::InTheWay(_) = self.retry(&row)? {
                self.parked.push(row);
            }
        }
        Ok(())
    }

    fn batch(&mut self, batch: Batch<'_>) -> Result<(), Failure> {
        let (connection, table) = (self.connection, self.tables[batch.table].clone());
        let event = event_of(batch.change);
        let script = table.required(event)?;
        let mut statement = connection
            .prepare_cached(&script.sql)
            .map_err(|error| script_failed(error, &table.published.name, event.name()))?;
        let width = table.published.width();
        if self.request.download_follows && self.stretches[batch.table].is_none() {
            self.stretches[batch.table] = Stretch::begin(connection, &table)?;
        }
        bind_sessions(&mut statement, script, self.request.session)
            .map_err(|error| script_failed(error, &table.published.name, event.name()))?;
        let mut row = UploadedRow::default();
        let mut rest = batch.rows;
        for _ in 0..batch.count {
            rest = row.read(rest, batch.change, width)?;
            if let Some(reason) = self.refusal(batch.table, &table, &row) {
                self.reject(row.key(&table.published, batch.table), reason);
                continue;
            }
            let parked =
                || Parked { table: batch.table, change: batch.change, row: row.bytes.to_vec() };
            if !self.postponed.is_empty()
                && self.postponed.contains(&row.key(&table.published, batch.table))
            {
                self.leaving_last.push(parked());
                continue;
            }
            match self.row(&mut statement, script, &table, batch.table, &row)? {
                RowOutcome::Done => {}
                RowOutcome::InTheWay(_) => self.parked.push(parked()),
            }
        }
        Ok(())
    }

    /// Tries a parked row once more.
    pub(super) fn retry(&mut self, parked: &Parked) -> Result<RowOutcome, Failure> {
        let (connection, table) = (self.connection, self.tables[parked.table].clone());
        let event = event_of(parked.change);
        let script = table.required(event)?;
        let mut statement = connection
            .prepare_cached(&script.sql)
            .map_err(|error| script_failed(error, &table.published.name, event.name()))?;
        bind_sessions(&mut statement, script, self.request.session)
            .map_err(|error| script_failed(error, &table.published.name, event.name()))?;
        let mut row = UploadedRow::default();
        row.read(&parked.row, parked.change, table.published.width())?;
        self.row(&mut statement, script, &table, parked.table, &row)
    }

    fn refusal(
        &self,
        position: usize,
        table: &CatalogTable,
        row: &UploadedRow<'_>,
    ) -> Option<(Code, String)> {
        if self.refused.is_empty() {
            return None;
        }
        self.refused.get(&row.key(&table.published, position)).cloned()
    }

    fn row(
        &mut self,
        statement: &mut Statement<'_>,
        script: &Script,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) -> Result<RowOutcome, Failure> {
        let name = &table.published.name;
        let event = event_of(row.change);
        bind_row(statement, script, row)
            .map_err(|error| script_failed(error, name, event.name()))?;
        match statement.raw_execute() {
            Ok(0) if row.change == Change::Insert => {
                // Only a trigger's RAISE(IGNORE) does this.
                let reason = (Code::RowVetoed, "a trigger ignored the row".to_owned());
                self.reject(row.key(&table.published, position), reason);
            }
            Ok(0) => return conflict::resolve(self, table, position, row),
            Ok(changes) => {
                self.changed(position, changes);
                // Scripts write to covered rows and to keys where there is none.
                let before = match row.change {
                    Change::Insert => Standing::Absent,
                    Change::Update | Change::KeyChange | Change::Delete => Standing::Inside,
                };
                fence::check_written(self, table, position, row, before)?;
                self.echo(table, position, row);
            }
            Err(error) => {
                let (fault, message) = row_fault(error, name, event.name())?;
                match fault {
                    RowFault::KeyExists => return conflict::resolve(self, table, position, row),
                    RowFault::NotUnique if row.change == Change::Insert => {
                        // Which constraint is reported first is SQLite's choice.
                        if fence::standing(self, table, row)? != Standing::Absent {
                            return conflict::resolve(self, table, position, row);
                        }
                        return Ok(RowOutcome::InTheWay(message));
                    }
                    RowFault::NotUnique => return Ok(RowOutcome::InTheWay(message)),
                    RowFault::Refused(code) => {
                        self.reject(row.key(&table.published, position), (code, message));
                    }
                }
            }
        }
        Ok(RowOutcome::Done)
    }

    /// The row as it is at the centre now.
    pub(super) fn fetch(
        &self,
        table: &CatalogTable,
        row: &UploadedRow<'_>,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let script = table.required(Event::UploadFetch)?;
        let name = &table.published.name;
        let fetching = |error| script_failed(error, name, Event::UploadFetch.name());
        let mut statement = self.connection.prepare_cached(&script.sql).map_err(fetching)?;
        bind(&mut statement, script, self.request.session, row).map_err(fetching)?;
        let mut rows = statement.raw_query();
        let Some(found) = rows.next().map_err(fetching)? else { return Ok(None) };
        let mut image = Vec::new();
        write_row(&mut image, found, table.published.width()).map_err(fetching)?;
        Ok(Some(image))
    }

    /// Notes that a statement has changed so many rows of a table.
    pub(super) fn changed(&mut self, position: usize, changes: usize) {
        if let Some(stretch) = &mut self.stretches[position] {
            stretch.add(changes);
        }
    }

    /// Whether rows of a table with this value in the deciding column are known to be inside.
    pub(super) fn is_inside(&self, position: usize, value: ValueRef<'_>) -> bool {
        let known = self.inside.as_ref().filter(|(table, _)| *table == position);
        known.is_some_and(|(_, known)| {
            RowReader::new(known).value().is_ok_and(|known| known == value)
        })
    }

    pub(super) fn note_inside(&mut self, position: usize, value: ValueRef<'_>) {
        let mut known = Vec::new();
        write_value(&mut known, value);
        self.inside = Some((position, known));
    }

    /// Notes that the remote need not be sent this row.
    pub(super) fn echo(&mut self, table: &CatalogTable, position: usize, row: &UploadedRow<'_>) {
        match &mut self.stretches[position] {
            Some(stretch) => stretch.stored(table, row),
            None => self.applied.echo.add_uploaded(&table.published, position, row),
        }
    }

    /// The same of a row that somebody else has changed as well: the log tells of it not only
    /// where this upload does.
    pub(super) fn echo_shared(
        &mut self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) {
        if let Some(stretch) = &mut self.stretches[position] {
            stretch.stored(table, row);
        }
        self.applied.echo.add_uploaded(&table.published, position, row);
    }

    /// Notes that the remote must be sent this row, whatever it will be then.
    pub(super) fn owe(&mut self, row: RowId) {
        self.owed.push((row, None));
    }

    pub(super) fn reject(&mut self, row: RowId, reason: (Code, String)) {
        self.applied.rejected += 1;
        let (code, message) = reason;
        self.owed.push((row, Some((code, told::message(message)))));
    }

    /// Settles what need not be sent: whole stretches of the logs, or else row by row.
    fn end_stretches(&mut self) -> Result<(), Failure> {
        let mut unsettled = vec![false; self.tables.len()];
        for (position, stretch) in self.stretches.iter().enumerate() {
            let Some(stretch) = stretch else { continue };
            match stretch.end(self.connection, &self.tables[position])? {
                Some((first, last)) => self.applied.echo.add_stretch(position, first, last),
                None => unsettled[position] = true,
            }
        }
        if !unsettled.contains(&true) {
            return Ok(());
        }
        let (batches, echo) = (self.request.batches, &mut self.applied.echo);
        batches(&mut |batch| {
            let table = &self.tables[batch.table];
            let (mut row, mut rest) = (UploadedRow::default(), batch.rows);
            let count = if unsettled[batch.table] { batch.count } else { 0 };
            for _ in 0..count {
                rest = row.read(rest, batch.change, table.published.width())?;
                echo.add_uploaded(&table.published, batch.table, &row);
            }
            Ok(())
        })
    }

    fn finish(mut self) -> Result<Applied, Failure> {
        if self.request.download_follows {
            self.end_stretches()?;
        }
        ledger::write(self.connection, self.tables, self.request, self.counter, &self.owed)?;
        let mut applied = self.applied;
        if !self.request.download_follows {
            applied.echo = Echo::default();
        }
        Ok(applied)
    }
}

/// Binds every parameter of `script`.
pub(super) fn bind(
    statement: &mut Statement<'_>,
    script: &Script,
    session: &Session,
    row: &UploadedRow<'_>,
) -> rusqlite::Result<()> {
    bind_sessions(statement, script, session)?;
    bind_row(statement, script, row)
}

/// Binds what is the same for all rows: it stays bound from row to row.
fn bind_sessions(
    statement: &mut Statement<'_>,
    script: &Script,
    session: &Session,
) -> rusqlite::Result<()> {
    for (index, parameter) in script.parameters.iter().enumerate() {
        if !matches!(parameter, Parameter::New(_) | Parameter::Old(_)) {
            bind_session(statement, index + 1, parameter, session)?;
        }
    }
    Ok(())
}

/// Binds what differs from row to row.
fn bind_row(
    statement: &mut Statement<'_>,
    script: &Script,
    row: &UploadedRow<'_>,
) -> rusqlite::Result<()> {
    for (index, parameter) in script.parameters.iter().enumerate() {
        match parameter {
            Parameter::New(column) => {
                statement.raw_bind_parameter(index + 1, Bind(row.new[*column]))?
            }
            Parameter::Old(column) => {
                statement.raw_bind_parameter(index + 1, Bind(row.old[*column]))?
            }
            _ => {}
        }
    }
    Ok(())
}

/// Binds a parameter that is the same for all rows.
pub(super) fn bind_session(
    statement: &mut Statement<'_>,
    index: usize,
    parameter: &Parameter,
    session: &Session,
) -> rusqlite::Result<()> {
    match parameter {
        Parameter::RemoteId => statement.raw_bind_parameter(index, session.remote_id.as_str()),
        Parameter::Username => statement.raw_bind_parameter(index, session.user.as_str()),
        Parameter::ScriptVersion => {
            statement.raw_bind_parameter(index, session.script_version.as_str())
        }
        Parameter::Claim(name) => {
            statement.raw_bind_parameter(index, session.claims.get(name).map(String::as_str))
        }
        Parameter::LastDownload
        | Parameter::LastDownloadOf(_)
        | Parameter::LastUpload
        | Parameter::UploadedFirst
        | Parameter::UploadedLast
        | Parameter::New(_)
        | Parameter::Old(_) => statement.raw_bind_parameter(index, None::<i64>),
    }
}
