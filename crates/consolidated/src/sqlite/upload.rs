//! Applies one upload row by row with prepared statements, which is the fastest way on SQLite.
//!
//! The order is: inserts and updates as they were sent, parents first; deletes, children first;
//! rows that leave the partition, if other rows need them before; rows that blocked each other.
//! Foreign keys are deferred, and checked before the savepoint is released.
//!
//! Invariants:
//! U1. Each uploaded row has exactly one outcome: applied, found already so, conflict resolved, or
//!     rejected. The upload is applied as a whole or not at all (S4).
//! U2. If the row at the centre is not the row of the remote, it is owed (trap 5).

mod account;
mod attempts;
mod detached;
mod execute;
mod parked;
mod rebased;

use super::binding::{bind, bind_row, bind_sessions};
use super::catalog::CatalogTable;
use super::conflict;
use super::constraint;
use super::errors::{RowFault, failed, script_failed};
use super::fence::{self, Standing};
use super::identity;
use super::key_change::{self, Moving, Passing};
use super::links::Links;
use super::made;
use super::moves::Moves;
use super::reached::{KnownReach, Reach, Tally};
use super::shapes;
use super::stretch::Stretch;
use super::tables::has_user_triggers;
use super::values::write_row;
use super::watermark::Mark;
use crate::detached::Detached;
use crate::echo::Echo;
use crate::identity::{Incarnation, Remembered};
use crate::owed_rows::OwedRows;
use crate::reach::Reached;
use crate::script::{Event, Script};
use crate::synchronization::{Applied, Batch, Change, Session, UploadRequest};
use crate::uploaded_row::{RowId, UploadedRow, event_of};
use model::{Code, Counter, Failure, Hold, RowReader, Spills, ValueRef, write_value};
pub(super) use parked::{Parked, ParkedRows};
use rebased::Original;
use rusqlite::{Connection, Statement, params};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Rows that are left out, and why.
pub(super) type Refused = HashMap<RowId, (Code, String)>;

/// Rows at which the owner's database has ended the whole transaction; each attempt may find one.
pub(super) type Ended = RefCell<Refused>;

/// What an upload meets beside its rows.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) known_reach: &'a KnownReach,
    pub(super) ended: &'a Ended,
    /// Where what is held for remotes lies.
    pub(super) spills: &'a Arc<Spills>,
}

/// Rows that are not applied with the others, as earlier attempts have found.
#[derive(Clone, Copy)]
pub(super) struct LeftOut<'a> {
    refused: &'a OwedRows,
    /// Applied after the others.
    postponed: &'a OwedRows,
    /// Found by this attempt: rows for which a script failed that only reads.
    unanswered: &'a Ended,
}

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
    if request.marks.len() != tables.len() {
        return Ok(());
    }
    let session = request.session;
    // Of a table that waits nothing was received.
    let waits = |position: usize| session.waits(position);
    let marks = request.marks.iter().enumerate().filter(|(position, _)| !waits(*position));
    let marks = marks.map(|(_, mark)| mark.watermark.as_ref().and_then(Mark::read));
    let counters = marks.map(|mark| {
        // What was handed out in another past settles nothing here.
        mark.filter(|mark| remote.counts(mark.counter)).map_or(Counter(0), |mark| mark.counter)
    });
    let Some(settled) = counters.min() else { return Ok(()) };
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

/// One try at applying an upload.
pub(super) struct Attempt<'a> {
    pub(super) connection: &'a Connection,
    pub(super) tables: &'a [Arc<CatalogTable>],
    pub(super) request: &'a UploadRequest<'a>,
    counter: Counter,
    /// Found impossible by earlier attempts.
    pub(super) refused: &'a OwedRows,
    /// Rows that met a unique value of another row: tried again when all others are applied.
    pub(super) parked: ParkedRows,
    /// Rows that were outside the partition after they were written.
    pub(super) outside: ParkedRows,
    /// Rows that left the partition, as they may.
    pub(super) leaving: OwedRows,
    /// Some of them were not known to leave.
    pub(super) leaves_anew: bool,
    /// A foreign key was broken after one of the rows, perhaps for a moment.
    pub(super) was_violated: bool,
    /// A row met a fence, and one that left may have been its parent.
    pub(super) fence_was_met: bool,
    /// Rows to be applied after the others, because they leave.
    pub(super) postponed: &'a OwedRows,
    leaving_last: ParkedRows,
    pub(super) applied: Applied,
    /// What the remote is owed, and what was rejected.
    owed: OwedRows,
    pub(super) spills: &'a Arc<Spills>,
    /// What waits for keys takes so much of the memory.
    held: RefCell<Hold>,
    /// What goes to the logs, by table.
    stretches: Vec<Option<Stretch>>,
    /// A table, and a value of its deciding column with which its rows are inside.
    inside: Option<(usize, Vec<u8>)>,
    /// Where the upload has key changes, what must be known of them.
    pub(super) moving: Option<Moving>,
    /// Where others have changed keys since the remote was here.
    pub(super) moves: Option<&'a Moves>,
    /// Where keys have changed, how the tables refer to each other.
    pub(super) links: Option<&'a Links>,
    /// Rows that statements of the upload have changed.
    pub(super) direct: u64,
    /// Rows that foreign keys have reached; what these do is read where the upload may set it off.
    pub(super) known_reach: &'a KnownReach,
    pub(super) reach: Option<Arc<Reach>>,
    pub(super) reached: Reached<u128>,
    /// Deletes may have changed rows that the upload does not name.
    was_disturbed: bool,
    /// Rows that are stored as they were rebased, so that the remote has others.
    pub(super) stored_rebased: HashSet<RowId>,
    /// The upload has key changes, which were not applied first.
    pub(super) met_key_change: bool,
    /// The row that is being applied was rebased: what the remote knows it by.
    original: Option<Original>,
    /// Key changes that wait for another unique value than the key.
    pub(super) put_off: Vec<Parked>,
    /// Values that the upload passes on, where that was looked at.
    pub(super) passing: Option<Vec<Passing>>,
    /// Rows that refer to nothing until the others are applied.
    detached: Vec<Detached>,
    /// The last script that resolved a conflict changed something.
    pub(super) resolved: bool,
    /// Each statement has a savepoint of its own.
    apart: bool,
    /// A statement that failed may have left behind what it had done.
    left_traces: Cell<bool>,
    ended: &'a Ended,
    /// Rows for which a script failed that only reads: the upload goes on without them.
    unanswered: &'a Ended,
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
        LeftOut { refused, postponed, unanswered }: LeftOut<'a>,
        Around { known_reach, ended, spills }: Around<'a>,
    ) -> Attempt<'a> {
        Attempt {
            connection,
            tables,
            request,
            counter,
            refused,
            parked: ParkedRows::within(spills),
            outside: ParkedRows::within(spills),
            leaving: OwedRows::within(spills),
            leaves_anew: false,
            was_violated: false,
            fence_was_met: false,
            postponed,
            leaving_last: ParkedRows::within(spills),
            applied: Applied { echo: Echo::within(spills.memory()), ..Applied::default() },
            held: RefCell::new(spills.memory().hold()),
            owed: OwedRows::within(spills),
            spills,
            stretches: tables.iter().map(|_| None).collect(),
            inside: None,
            moving: None,
            moves: None,
            direct: 0,
            known_reach,
            reach: None,
            reached: Reached::default(),
            was_disturbed: false,
            stored_rebased: HashSet::new(),
            links: None,
            met_key_change: false,
            original: None,
            put_off: Vec::new(),
            passing: None,
            detached: Vec::new(),
            resolved: false,
            apart: false,
            left_traces: Cell::new(false),
            ended,
            unanswered,
        }
    }

    fn rows(&mut self) -> Result<(), Failure> {
        let batches = self.request.batches;
        let mut deleting = vec![false; self.tables.len()];
        batches(&mut |batch| {
            let count = u64::from(batch.count);
            match batch.change {
                Change::Insert => self.applied.inserts += count,
                Change::Update => self.applied.updates += count,
                Change::KeyChange => {
                    self.applied.updates += count;
                    self.met_key_change |= self.moving.is_none();
                    return Ok(());
                }
                Change::Delete => {
                    self.applied.deletes += count;
                    deleting[batch.table] = true;
                    return Ok(());
                }
            }
            match self.met_key_change {
                true => Ok(()),
                false => self.batch(batch),
            }
        })?;
        if self.met_key_change {
            return Ok(());
        }
        self.note_no_effects()?;
        let before = match deleting.contains(&true) {
            true => {
                self.detach()?;
                if self.reach.is_none() {
                    self.name_rows(false)?;
                }
                Some(Tally::now(self)?)
            }
            false => None,
        };
        // Children first, or RESTRICT would stop the parent's delete.
        for table in (0..self.tables.len()).rev().filter(|table| deleting[*table]) {
            batches(&mut |batch| match batch.table == table && batch.change == Change::Delete {
                true => self.batch(batch),
                false => Ok(()),
            })?;
        }
        if let Some(before) = before {
            self.was_disturbed = before.differs(&Tally::now(self)?);
        }
        let leaving = self.leaving_last.take(self.spills);
        let mut leaving = leaving.reader();
        while let Some((row, _)) = leaving.next_row()? {
            if let RowOutcome::InTheWay(_) = self.retry(&row)? {
                self.parked.push(&row)?;
            }
        }
        Ok(())
    }

    pub(super) fn batch(&mut self, batch: Batch<'_>) -> Result<(), Failure> {
        let (connection, table) = (self.connection, self.tables[batch.table].clone());
        let width = table.published.width();
        if self.request.download_follows && self.stretches[batch.table].is_none() {
            self.stretches[batch.table] = Stretch::begin(connection, &table)?;
        }
        if self.links.is_some() {
            return self.batch_rebased(batch, &table);
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
            match self.row(&mut statement, script, &table, batch.table, &row)? {
                RowOutcome::Done => {}
                RowOutcome::InTheWay(_) => {
                    self.parked.push(&self.park(&table, batch.table, &row))?;
                }
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
        if self.postponed.is_empty()
            || !self.postponed.contains(&row.key(&table.published, position))?
        {
            return Ok(false);
        }
        self.leaving_last.push(&self.park(table, position, row))?;
        Ok(true)
    }

    /// A row that waits.
    pub(super) fn park(
        &self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) -> Parked {
        let id = self.id(table, position, row);
        Parked { table: position, change: row.change, row: row.bytes.to_vec(), id }
    }

    /// Tries a parked row once more.
    pub(super) fn retry(&mut self, parked: &Parked) -> Result<RowOutcome, Failure> {
        let table = self.tables[parked.table].clone();
        let mut row = UploadedRow::default();
        row.read(&parked.row, parked.change, table.published.width())?;
        match self.links {
            Some(_) => self.rebase_and_apply(&table, parked.table, &row),
            None => self.apply_one(&table, parked.table, &row),
        }
    }

    /// Applies one row by itself.
    fn apply_one(
        &mut self,
        table: &CatalogTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) -> Result<RowOutcome, Failure> {
        let event = event_of(row.change);
        if row.change == Change::KeyChange && table.script(event).is_none() {
            let reason = format!("the table has no script for {event}");
            self.reject(table, position, row, (Code::RowKeyFixed, reason))?;
            return Ok(RowOutcome::Done);
        }
        if row.change == Change::KeyChange && !self.request.key_changes {
            key_change::require_one_key(self, table, row)?;
        }
        let script = table.required(event)?;
        let failing = |error| script_failed(error, &table.published.name, event.name());
        let mut statement = self.connection.prepare_cached(&script.sql).map_err(failing)?;
        bind_sessions(&mut statement, script, self.request.session).map_err(failing)?;
        self.row(&mut statement, script, table, position, row)
    }

    fn refusal(
        &self,
        position: usize,
        table: &CatalogTable,
        row: &UploadedRow<'_>,
    ) -> Result<Option<(Code, String)>, Failure> {
        if self.refused.is_empty() {
            return Ok(None);
        }
        self.refused.reason(&row.key(&table.published, position))
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
        let reaching = self.reaching(table, row)?;
        match self.execute(statement, &script.sql, (table, row, event))? {
            Ok(0) if row.change == Change::Insert => {
                // A trigger's RAISE(IGNORE) does this, or a script that a user wrote.
                let triggers = has_user_triggers(self.connection, name)
                    .map_err(|error| script_failed(error, name, event.name()))?;
                let why = match triggers {
                    true => "a trigger ignored the row",
                    false => "the script upload_insert did not insert the row",
                };
                self.reject(table, position, row, (Code::RowVetoed, why.to_owned()))?;
            }
            Ok(0) => return conflict::resolve(self, table, position, row),
            Ok(changes) => {
                self.changed(position, changes);
                self.has_reached(reaching);
                self.was_violated |= constraint::foreign_keys_violated(self.connection)?;
                // Scripts write to covered rows and to keys where there is none.
                let before = match row.change {
                    Change::Insert => Standing::Absent,
                    Change::Update | Change::KeyChange | Change::Delete => Standing::Inside,
                };
                fence::check_written(self, table, position, row, before)?;
                self.echo(table, position, row);
            }
            Err((fault, message)) => match fault {
                RowFault::KeyExists if key_change::waits(self, table, position, row) => {
                    return Ok(RowOutcome::InTheWay(message));
                }
                RowFault::KeyExists => return conflict::resolve(self, table, position, row),
                RowFault::NotUnique
                    if row.change == Change::Insert
                        && !key_change::waits(self, table, position, row) =>
                {
                    // Which constraint is reported first is SQLite's choice.
                    if fence::standing(self, table, row)? != Standing::Absent {
                        return conflict::resolve(self, table, position, row);
                    }
                    return Ok(RowOutcome::InTheWay(message));
                }
                RowFault::NotUnique => return Ok(RowOutcome::InTheWay(message)),
                RowFault::Refused(code) => self.reject(table, position, row, (code, message))?,
            },
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
        let of = (table, row, Event::UploadFetch);
        let found = rows.next().map_err(|error| self.unanswered(error, &script.sql, of))?;
        let Some(found) = found else { return Ok(None) };
        let mut image = Vec::new();
        write_row(&mut image, found, table.published.width()).map_err(fetching)?;
        Ok(Some(image))
    }

    /// Notes that a statement has changed so many rows of a table.
    pub(super) fn changed(&mut self, position: usize, changes: usize) {
        self.direct += changes as u64;
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
}
