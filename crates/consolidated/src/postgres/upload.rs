//! Applies one upload: one transaction, in two flights if nothing unusual happens.
//!
//! First all rows take the *fast path*, one statement per batch: inserts and updates as they were
//! sent, parents first, then deletes, children first. They are sent *at once* with the lock on the
//! remote. If they should not have been applied, they are undone without a savepoint, because every
//! upload would pay for a savepoint. Rows that were not applied, and only these, are found and
//! resolved after the others (`shortfall.rs`). Only if a statement fails, everything is undone and
//! done again with *isolation of faults* (`isolation.rs`), which finds the rows at fault.
//! Rows of a script that a user wrote take the same two roads (`fence.rs`, `isolation/own.rs`).
//! `isolation/conflict.rs` resolves a row that did not find what it expected, and `record.rs` notes
//! what became of the upload.
//!
//! Foreign keys and unique constraints are deferred if possible (traps 10 and 11).
//!
//! Invariants:
//! U1. Each uploaded row has exactly one outcome: applied, found already so, conflict resolved, or
//!     rejected. The upload is applied as a whole or not at all (S4).
//! U2. If the row at the center is not the row of the remote, it is owed (trap 5).

pub(super) mod batch;
#[cfg(any(test, feature = "bind"))]
pub(super) mod binding;
pub(super) mod fence;
pub(super) mod held;
pub(super) mod isolation;
pub(super) mod key_range;
pub(super) mod lost;
pub(super) mod made;
pub(super) mod record;
pub(super) mod row_fault;
pub(super) mod sending;
pub(super) mod shape;
pub(super) mod shortfall;
pub(super) mod stop;
pub(super) mod work;

use crate::download;
use crate::download::time::Time;
use crate::identity::Remembered;
use crate::postgres::catalog::table::Table;
use crate::postgres::download::watermark::{Mark, NumberSpace};
use crate::postgres::errors::failed;
use crate::postgres::event_script::Asking;
use crate::postgres::identity::{self, Locked};
use crate::postgres::incarnation::Life;
use crate::postgres::link::{Call, Link};
use crate::postgres::optimize::round_trip_proof;
use crate::postgres::statement::{Value, as_parameters};
use crate::postgres::tracking::watch;
use crate::postgres::upload::record::UploadRecord;
use crate::postgres::upload::record::entries::Entries;
use crate::postgres::upload::sending::{BEGIN, Opening, Sending, Sent};
use crate::postgres::upload::shape::UploadShape;
use crate::postgres::upload::shortfall::missed::Missed;
use crate::postgres::upload::stop::{Stop, stopped};
use crate::postgres::upload::work::Upload;
use crate::synchronization::{Applied, Held, TableMark, UploadRequest};
use crate::upload::decisions::{Decider, Deciding};
use crate::upload::echo::{Echo, Transaction};
use crate::upload::owed_rows::OwedRows;
use model::{Code, Counter, Failure};
use postgres_types::ToSql;

/// Begins with rows that are not tried together first.
const BEGIN_ALONE: &str =
    "SET CONSTRAINTS ALL DEFERRED; SAVEPOINT fast_path; SET CONSTRAINTS ALL IMMEDIATE;";

const UNDO: &str = "ROLLBACK TO SAVEPOINT fast_path; SET CONSTRAINTS ALL DEFERRED";

const SETTLE: &str = "DELETE FROM syncline.syncline_owed 
WHERE remote_id = $1 AND counter <= $2 AND withheld IS NULL AND table_name <> ALL ($3)";

/// Notes that a remote holds the tables of this deployment.
const NOTE_HELD: &str = "UPDATE syncline.syncline_remote SET held_deployment = $2
WHERE remote_id = $1 AND held_deployment IS DISTINCT FROM $2";

const STILL_OWED: &str = "SELECT 1 FROM syncline.syncline_owed WHERE remote_id = $1 LIMIT 1";

/// Why an upload that was tried at once is to be undone, or was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undone {
    /// For nothing that its rows can do anything about.
    Unlucky,
    /// For rows that will fail again.
    RowsFailed,
    /// For a value that must be unique and is there already, perhaps a key.
    NotUnique,
}

/// What was applied at once, in a transaction that is open.
pub(super) struct FastPath {
    record: UploadRecord,
    /// Rows that were not.
    missed: Missed,
    outline: UploadShape,
}

/// Begins a transaction, locks the remote and applies the rows, all in one flight. Whether they
/// should have been applied is seen afterwards.
pub(super) fn at_once(
    link: &mut Link,
    upload: Upload<'_>,
) -> Result<Result<(Locked, FastPath), Undone>, Failure> {
    let outline = UploadShape::of(upload)?;
    if outline.needs_care(upload) {
        return Ok(Err(Undone::RowsFailed));
    }
    let remote_id = upload.request.session.remote_id.as_str();
    let lock: [&(dyn ToSql + Sync); 1] = [&remote_id];
    let [begin, defer] = BEGIN.map(|sql| Call::new(sql, &[]));
    let hold = held::hold(link, upload.tables);
    let mut opening = vec![begin, Call::new(&hold, &[]), defer, Call::new(identity::LOCK, &lock)];
    // A download looks at triggers itself.
    let watches = !upload.request.download_follows;
    let watched = watches.then(|| watch::watched(upload.tables));
    let asked: [&(dyn ToSql + Sync); 1] = [&watched];
    if watches {
        opening.push(Call::new(&watch::CHANGED, &asked));
    }
    let opening = Opening::Transaction(&opening);
    let mut sending = Sending::new(link, upload, &outline, opening, Vec::new());
    let sent = match sending.rows(&outline) {
        Ok(sent) => sent,
        // Another session is doing it, and the wait was too long.
        Err(Stop::Failed(failure)) if failure.code() == Code::AlreadySynchronizing => {
            return Err(failure);
        }
        // Whatever it is, done step by step it will be met again and reported, or be gone.
        Err(_) => return Ok(Err(Undone::Unlucky)),
    };
    if let (Some(watched), Some(answer)) = (&watched, sending.watched.take())
        && !watched.found(&answer).is_empty()
    {
        return Ok(Err(Undone::Unlucky));
    }
    let locked = sending.locked.take().map(|answer| identity::locked(&answer));
    let locked = locked.transpose()?.flatten();
    let record = sending.into_record(&outline);
    Ok(match (locked, sent) {
        (Some(locked), Sent::But(missed)) => Ok((locked, FastPath { record, missed, outline })),
        (_, Sent::Failed { not_unique: true }) => Err(Undone::NotUnique),
        (_, Sent::Failed { not_unique: false }) => Err(Undone::RowsFailed),
        // A new remote is not there to be locked.
        (None, Sent::But(_)) => Err(Undone::Unlucky),
    })
}

/// Resolves the rows that were not applied at once.
pub(super) fn resolve(
    link: &mut Link,
    upload: Upload<'_>,
    (remote, locked): (&Remembered, &Locked),
    fast: FastPath,
) -> Result<Result<UploadRecord, Undone>, Failure> {
    in_sequence(upload.request, remote)?;
    let upload = upload.of(remote);
    if locked.has_lost_inserts {
        let belonging = lost::belonging_to_untold(link, upload).map_err(Stop::into_failure)?;
        if !belonging.is_empty() {
            return Ok(Err(Undone::RowsFailed));
        }
    }
    let FastPath { record, missed, outline } = fast;
    let settled = match missed.numbers.is_empty() {
        true => Ok(Some(record)),
        false => shortfall::settle(link, upload, &outline, &missed, record),
    };
    // A failure happens again in the attempt that follows and is reported there, or it is gone. No
    // row is to blame for a lost connection.
    let Ok(Some(mut record)) = settled else {
        let undone = if link.is_lost() { Undone::Unlucky } else { Undone::RowsFailed };
        return Ok(Err(undone));
    };
    // Rows that were entered again lose here.
    if !lost::belonging_to(upload, record.owed())?.is_empty() {
        return Ok(Err(Undone::RowsFailed));
    }
    outline.count(&mut record.applied);
    Ok(Ok(record))
}

fn in_sequence(request: &UploadRequest<'_>, remote: &Remembered) -> Result<(), Failure> {
    let has_rows = request.progress != request.previous;
    match has_rows && remote.progress != request.previous {
        true => Err(remote.out_of_sequence(request.previous)),
        false => Ok(()),
    }
}

/// Stores the remote's new state and what is to be known of the upload, and commits.
pub(super) fn finish(
    link: &mut Link,
    upload: Upload<'_>,
    mut remote: Remembered,
    locked: &Locked,
    mut record: UploadRecord,
    (life, deciding): (&Life, Deciding<'_>),
) -> Result<Applied, Failure> {
    let request = upload.request;
    in_sequence(request, &remote)?;
    decide(link, upload, &mut record, deciding)?;
    record.tell_left_out(request)?;
    record.owe_what_no_log_names(upload)?;
    remote.nonce = request.identity.nonce_attempt;
    remote.progress = match request.progress != request.previous {
        true => request.progress,
        false => remote.progress,
    };
    if request.download_follows {
        remote.counter.0 += 1;
    }
    let remade = upload.tables.iter().any(|table| table.deployed.details.remade);
    if remade && request.progress != request.previous {
        let counter = next_watermark(request, &remote);
        made::note(link, upload.of(&remote), &mut record, counter).map_err(Stop::into_failure)?;
    }
    let own = commit(link, upload, &remote, locked.owed, &record)?;
    if record.undigested && request.download_follows {
        match own {
            Some(_) => record.applied.echo.upload = own,
            None => digest(upload, &mut record),
        }
    }
    let mut applied = record.into_applied(request.download_follows);
    let incarnation = &life.incarnation;
    applied.receipt = Some(incarnation.sign(request.session, remote.secret, remote.epoch)?);
    applied.incarnation = incarnation.number;
    applied.epoch = remote.epoch;
    applied.progress = remote.progress;
    applied.counter = remote.counter;
    Ok(applied)
}

/// Lets scripts decide about the rows that the database refuses.
fn decide(
    link: &mut Link,
    upload: Upload<'_>,
    record: &mut UploadRecord,
    deciding: Deciding<'_>,
) -> Result<(), Failure> {
    let session = upload.request.session;
    let decider = Decider {
        session,
        scripts: deciding.scripts,
        may_drain: deciding.may_drain,
        batches: upload.request.batches,
        table: &|at| &upload.tables[at].deployed.published,
        spills: upload.spills,
    };
    let mut asking = Asking { link, session };
    decider.decide(&mut asking, record.owed_mut(), deciding.decisions)
}

/// Notes every row as one that need not come back. Where they cannot be read again they do.
fn digest(upload: Upload<'_>, record: &mut UploadRecord) {
    let outline = UploadShape::of(upload);
    let visited = outline.map_err(Stop::from).and_then(|outline| {
        outline.visit(upload, &mut |position, row| {
            record.echo(&upload.tables[position].deployed.published, position, row);
            Ok(())
        })
    });
    if visited.is_err() {
        record.applied.echo = Echo::default();
    }
}

/// What is owed is settled by the first watermark issued after it, so without a download it belongs
/// to the next one.
fn next_watermark(request: &UploadRequest<'_>, remote: &Remembered) -> Counter {
    match request.download_follows {
        true => remote.counter,
        false => Counter(remote.counter.0 + 1),
    }
}

/// Writes what is to be known of the upload, and commits, in one flight. Returns the transaction
/// if nothing that it wrote has to come back.
fn commit(
    link: &mut Link,
    upload: Upload<'_>,
    remote: &Remembered,
    owed: bool,
    record: &UploadRecord,
) -> Result<Option<Transaction>, Failure> {
    let request = upload.request;
    let remote_id = request.session.remote_id.as_str();
    let Settling { settled, owed } = settle(link, upload, remote, owed, record)?;
    let waiting = request.session.waiting_names();
    let settling: [&(dyn ToSql + Sync); 3] = [&remote_id, &settled, &waiting];
    let uploaded = request.progress != request.previous;
    let stored =
        identity::stored(link, request.session, remote, uploaded, request.download_follows);
    let storing = as_parameters(&stored);
    let counter = next_watermark(request, remote);
    let entries = match record.is_clear() {
        true => None,
        false => Some(record.entries(link, upload, (counter, !owed))?),
    };
    let writing = entries.as_ref().map(Entries::statements).unwrap_or_default();
    let written: Vec<_> = writing.iter().map(|(_, values)| as_parameters(values)).collect();
    let looks = looks(upload, record);
    let looking: Vec<_> = looks.iter().map(|values| as_parameters(values)).collect();
    let held: [&(dyn ToSql + Sync); 2] = [&remote_id, &request.session.deployment];
    let mut calls = Vec::with_capacity(6 + looks.len());
    if settled.is_some() {
        calls.push(Call::new(SETTLE, &settling));
    }
    calls.extend(writing.iter().zip(&written).map(|((sql, _), p)| Call::new(sql, p)));
    calls.push(Call::new(identity::STORE, &storing));
    if matches!(request.session.held, Held::Same { note: true }) {
        calls.push(Call::new(NOTE_HELD, &held));
    }
    // After the last write no session can change what fires with it.
    let first = calls.len();
    calls.extend(looking.iter().map(|parameters| Call::new(round_trip_proof::LOOK, parameters)));
    calls.push(Call::new("COMMIT", &[]));
    let answers = link.flight(&calls).map_err(failed("commit the upload"))?;
    if looks.is_empty() {
        return Ok(None);
    }
    let looked = &answers[first..first + looks.len()];
    Ok(round_trip_proof::proven(looked).map(|number| {
        let NumberSpace { system, timeline } = link.number_space();
        Transaction { system, timeline, number }
    }))
}

/// What is left to be done about what the remote was owed.
struct Settling {
    /// Up to where it has received it.
    settled: Option<i64>,
    /// Whether it may still be owed something.
    owed: bool,
}

/// Forgets what the remote has received where it is about to be owed a lot: whether there is
/// something else then decides what that costs.
fn settle(
    link: &mut Link,
    upload: Upload<'_>,
    remote: &Remembered,
    owed: bool,
    record: &UploadRecord,
) -> Result<Settling, Failure> {
    let (request, tables) = (upload.request, upload.tables.len());
    let settled = download::owed::settled_before(request, tables, remote, Mark::counter_of);
    let settled = settled.filter(|_| owed).map(|counter| counter.0);
    if settled.is_none() || !record.owes_many() {
        return Ok(Settling { settled, owed });
    }
    let remote_id = upload.request.session.remote_id.as_str();
    let waiting = upload.request.session.waiting_names();
    let settling: [&(dyn ToSql + Sync); 3] = [&remote_id, &settled, &waiting];
    let calls = [Call::new(SETTLE, &settling), Call::new(STILL_OWED, &settling[..1])];
    let answers = link.flight(&calls).map_err(failed("settle what the remote was owed"))?;
    let owed = answers.last().is_none_or(|answer| !answer.rows.is_empty());
    Ok(Settling { settled: None, owed })
}

/// What is to be asked of every table that was written, where it may prove something.
fn looks<'a>(upload: Upload<'a>, record: &UploadRecord) -> Vec<Vec<Value<'a>>> {
    let told = record.is_clear() || record.is_settled;
    if !(record.undigested && record.verbatim && told) {
        return Vec::new();
    }
    let looks = record.written.iter().map(|position| {
        let table: &Table = &upload.tables[*position];
        let (published, name) = (&table.deployed.published, table.deployed.details.sql_name());
        table.verbatim().map(|verbatim| verbatim.look(published, name))
    });
    looks.collect::<Option<_>>().unwrap_or_default()
}

/// Since when the remote lacks what was stamped in a table.
pub(super) fn time_of(mark: &TableMark) -> Option<Time> {
    Mark::held(mark)?.time
}

/// Applies the rows inside a transaction that has locked `remote`. Faults are isolated from the
/// start where it is known from a first try, which was `undone`, that rows fail. Where they meet
/// another transaction the whole one is begun again (`writer.rs`): above READ COMMITTED, statements
/// after a savepoint would see the same snapshot again.
pub(super) fn apply(
    link: &mut Link,
    upload: Upload<'_>,
    (remote, locked): (&Remembered, &Locked),
    undone: Undone,
) -> Result<UploadRecord, Failure> {
    in_sequence(upload.request, remote)?;
    if upload.request.progress == upload.request.previous {
        return Ok(UploadRecord::within(upload.spills));
    }
    let upload = upload.of(remote);
    let outline = UploadShape::of(upload)?;
    let mut record = match attempt(link, upload, &outline, (undone, locked.has_lost_inserts)) {
        Ok(record) => record,
        Err(stop) => return Err(stop.into_failure()),
    };
    outline.count(&mut record.applied);
    Ok(record)
}

fn attempt(
    link: &mut Link,
    upload: Upload<'_>,
    outline: &UploadShape,
    (undone, has_lost_inserts): (Undone, bool),
) -> Result<UploadRecord, Stop> {
    let mut refused = match has_lost_inserts {
        true => lost::belonging_to_untold(link, upload)?,
        false => OwedRows::within(upload.spills),
    };
    let mut before = isolation::BEGIN;
    let together = match undone {
        _ if !refused.is_empty() => None,
        _ if outline.needs_care(upload) => None,
        Undone::Unlucky => Some(Vec::new()),
        Undone::RowsFailed => None,
        Undone::NotUnique => shortfall::duplicates(link, upload, outline)?,
    };
    if let Some(aside) = together {
        let mut sending = Sending::new(link, upload, outline, Opening::Savepoint, aside);
        let sent = sending.rows(outline)?;
        let record = sending.into_record(outline);
        let settled = match sent {
            Sent::But(missed) if missed.numbers.is_empty() => Some(record),
            Sent::But(missed) => {
                match shortfall::settle(link, upload, outline, &missed, record) {
                    // It is met again, one by one.
                    Err(Stop::Refused(..)) => None,
                    settled => settled?,
                }
            }
            Sent::Failed { .. } => None,
        };
        if let Some(record) = settled {
            refused = lost::belonging_to(upload, record.owed())?;
            if refused.is_empty() {
                return Ok(record);
            }
        }
        link.batch(UNDO).map_err(stopped("undo the upload"))?;
    } else {
        before = BEGIN_ALONE;
    }
    loop {
        match isolation::apply(link, upload, outline, (&refused, before)) {
            // Each time more rows are refused than before.
            Err(Stop::Refused(rows, failure)) => {
                let before = refused.added();
                for (row, reason) in rows {
                    if !refused.contains(&row)? {
                        refused.reject(&row, reason)?;
                    }
                }
                if refused.added() == before {
                    return Err(failure.into());
                }
            }
            applied => {
                let record = applied?;
                let belonging = lost::belonging_to(upload, record.owed())?;
                if belonging.is_empty() {
                    return Ok(record);
                }
                refused.extend(&belonging)?;
            }
        }
        link.batch(UNDO).map_err(stopped("undo the upload"))?;
        before = isolation::BEGIN;
    }
}
