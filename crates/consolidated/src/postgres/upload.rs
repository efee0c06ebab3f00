//! Applies one upload: one transaction, in two flights if nothing unusual happens.
//!
//! First all rows are applied *together*, one statement per batch: inserts and updates as they were
//! sent, parents first, then deletes, children first. They are sent *at once* with the lock on the
//! remote. If they should not have been applied, they are undone without a savepoint, because every
//! upload would pay for a savepoint. Rows that were not applied, and only these, are found and
//! resolved after the others (`shortfall.rs`). Only if a statement fails, everything is undone and
//! done again *carefully* (`careful.rs`), which finds the rows at fault. `conflict.rs` resolves a
//! row that did not find what it expected, and `ledger.rs` writes the records about the upload.
//!
//! Foreign keys and unique constraints are deferred if possible (traps 10 and 11).
//!
//! Invariants:
//! U1. Each uploaded row has exactly one outcome: applied, found already so, conflict resolved, or
//!     rejected. The upload is applied as a whole or not at all (S4).
//! U2. If the row at the centre is not the row of the remote, it is owed (trap 5).

use super::batch::Reason;
use super::careful;
use super::catalog::Table;
use super::errors::{Fault, failed};
use super::held;
use super::identity::{self, Locked, Stored};
use super::incarnation::Life;
use super::ledger::Ledger;
use super::link::{Call, Link};
use super::made::Made;
use super::outline::Outline;
use super::owed;
use super::sending::{BEGIN_AGAIN, Missed, Opening, Sending, Sent};
use super::shapes;
use super::shortfall;
use super::verbatim::{self, Look};
use super::watch;
use super::watermark::{Mark, Place};
use crate::echo::{Echo, Transaction};
use crate::identity::Remembered;
use crate::owed_rows::OwedRows;
use crate::script::Event;
use crate::synchronization::{Applied, Change, UploadRequest};
use crate::uploaded_row::RowId;
use model::{Code, Counter, Failure, Spills};
use postgres_types::ToSql;
use std::sync::Arc;

/// In front of the lock and the first batch. Each is prepared, and so is all that shares their
/// flight: then it is answered as a whole, and who waits is woken once.
const BEGIN: [&str; 2] = ["BEGIN", "SET CONSTRAINTS ALL DEFERRED"];

/// Position of the lock, after [`BEGIN`] and the lock on the deployment.
pub(super) const LOCK_AT: usize = BEGIN.len() + 1;

/// Position of the question for triggers that went, where no download asks it.
pub(super) const WATCH_AT: usize = LOCK_AT + 1;

const UNDO: &str = "ROLLBACK TO SAVEPOINT together; SET CONSTRAINTS ALL DEFERRED";

/// The most times that all rows are applied one by one, while others change keys.
const ATTEMPTS_MAX: u32 = 6;

/// When an upload should be tried again that other transactions always blocked, in seconds.
const RETRY_AFTER_S: u32 = 5;

const SETTLE: &str = "DELETE FROM syncline.syncline_owed 
WHERE remote_id = $1 AND counter <= $2 AND withheld IS NULL AND table_name <> ALL ($3)";

const STILL_OWED: &str = "SELECT 1 FROM syncline.syncline_owed WHERE remote_id = $1 LIMIT 1";

/// Why a transaction cannot go on.
#[derive(Debug)]
pub(super) enum Stop {
    /// It met another one; done again it may succeed.
    Collision(Failure),
    /// Scripts that only read failed for these rows: without them the upload can be applied.
    Refused(Vec<(RowId, Reason)>, Failure),
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}

impl Stop {
    pub(super) fn into_failure(self) -> Failure {
        match self {
            Stop::Collision(failure) | Stop::Refused(_, failure) | Stop::Failed(failure) => failure,
        }
    }
}

/// For `map_err`: what was being done.
pub(super) fn stopped(doing: &str) -> impl Fn(Fault) -> Stop + '_ {
    move |fault| {
        let state = fault.sqlstate().map(str::to_owned);
        let failure = failed(doing)(fault);
        match state.as_deref() {
            Some("40001" | "40P01") => Stop::Collision(failure),
            _ => Stop::Failed(failure),
        }
    }
}

/// What everything that belongs to one upload needs to know.
#[derive(Clone, Copy)]
pub(super) struct Upload<'a> {
    /// In the order of the session's schema: parents first.
    pub(super) tables: &'a [Arc<Table>],
    pub(super) request: &'a UploadRequest<'a>,
    /// Where what is held for remotes lies.
    pub(super) spills: &'a Arc<Spills>,
}

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
pub(super) struct Together {
    ledger: Ledger,
    /// Rows that were not.
    missed: Missed,
    outline: Outline,
}

/// Begins a transaction, locks the remote and applies the rows, all in one flight. Whether they
/// should have been applied is seen afterwards.
pub(super) fn at_once(
    link: &mut Link,
    upload: Upload<'_>,
) -> Result<Result<(Locked, Together), Undone>, Failure> {
    let outline = Outline::of(upload)?;
    if outline.needs_care(upload) {
        return Ok(Err(Undone::RowsFailed));
    }
    let remote_id = upload.request.session.remote_id.as_str();
    let lock: [&(dyn ToSql + Sync); 1] = [&remote_id];
    let [begin, defer] = BEGIN.map(|sql| Call::new(sql, &[]));
    let hold = held::hold(link, upload.tables);
    let mut opening = vec![begin, Call::new(&hold, &[]), defer, Call::new(identity::LOCK, &lock)];
    let (published, relations) = watch::watched(upload.tables);
    let (watched, changed): ([&(dyn ToSql + Sync); 2], _) =
        ([&published, &relations], watch::changed());
    if !upload.request.download_follows {
        opening.push(Call::new(&changed, &watched));
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
    if sending.watched.take().is_some_and(|answer| !watch::found(&answer).is_empty()) {
        return Ok(Err(Undone::Unlucky));
    }
    let locked = sending.locked.take().map(|answer| identity::locked(&answer));
    let locked = locked.transpose()?.flatten();
    let ledger = sending.into_ledger(&outline);
    Ok(match (locked, sent) {
        (Some(locked), Sent::But(missed)) => Ok((locked, Together { ledger, missed, outline })),
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
    remote: &Remembered,
    together: Together,
) -> Result<Result<Ledger, Undone>, Failure> {
    in_sequence(upload.request, remote)?;
    let Together { ledger, missed, outline } = together;
    let settled = match missed.numbers.is_empty() {
        true => Ok(Some(ledger)),
        false => shortfall::settle(link, upload, &outline, &missed, ledger),
    };
    // A failure happens again in the careful attempt and is reported there, or it is gone.
    let Ok(Some(mut ledger)) = settled else { return Ok(Err(Undone::RowsFailed)) };
    outline.count(&mut ledger.applied);
    Ok(Ok(ledger))
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
    mut ledger: Ledger,
    life: &Life,
) -> Result<Applied, Failure> {
    let request = upload.request;
    in_sequence(request, &remote)?;
    ledger.tell_left_out(request)?;
    owed::owe_what_no_log_names(upload, &mut ledger)?;
    remote.nonce = request.identity.nonce_attempt;
    remote.progress = match request.progress != request.previous {
        true => request.progress,
        false => remote.progress,
    };
    if request.download_follows {
        remote.counter.0 += 1;
    }
    if request.progress != request.previous {
        let made = Made::of(link, upload, &ledger).map_err(Stop::into_failure)?;
        made.write(link, upload, next_watermark(request, &remote))?;
    }
    let own = commit(link, upload, &remote, locked.owed, &ledger)?;
    if ledger.undigested && request.download_follows {
        match own {
            Some(_) => ledger.applied.echo.upload = own,
            None => digest(upload, &mut ledger),
        }
    }
    let mut applied = ledger.into_applied(request.download_follows);
    let incarnation = &life.incarnation;
    applied.receipt = Some(incarnation.sign(request.session, remote.secret, remote.epoch)?);
    applied.epoch = remote.epoch;
    applied.progress = remote.progress;
    applied.counter = remote.counter;
    Ok(applied)
}

/// Notes every row as one that need not come back. Where they cannot be read again they do.
fn digest(upload: Upload<'_>, ledger: &mut Ledger) {
    let outline = Outline::of(upload);
    let visited = outline.map_err(Stop::from).and_then(|outline| {
        outline.visit(upload, &mut |position, row| {
            ledger.echo(&upload.tables[position].deployed.published, position, row);
            Ok(())
        })
    });
    if visited.is_err() {
        ledger.applied.echo = Echo::default();
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
    ledger: &Ledger,
) -> Result<Option<Transaction>, Failure> {
    let request = upload.request;
    let remote_id = request.session.remote_id.as_str();
    let Settling { settled, owed } = settle(link, upload, remote, owed, ledger)?;
    let waiting = request.session.waiting_names();
    let settling: [&(dyn ToSql + Sync); 3] = [&remote_id, &settled, &waiting];
    let uploaded = request.progress != request.previous;
    let stored =
        Stored::new(link, request.session, remote.clone(), uploaded, request.download_follows);
    let storing = stored.parameters();
    let counter = next_watermark(request, remote);
    let entries = ledger.entries(link, upload, (counter, !owed))?;
    let writing = entries.statements();
    let looks = looks(upload, ledger);
    let looking: Vec<_> = looks.iter().map(Look::parameters).collect();
    let noted = shapes::HeldNote::of(request.session);
    let held = noted.as_ref().map(shapes::HeldNote::parameters);
    let mut calls = Vec::with_capacity(6 + looks.len());
    if settled.is_some() {
        calls.push(Call::new(SETTLE, &settling));
    }
    calls.extend(writing.iter().map(|(sql, parameters)| Call::new(sql, parameters)));
    calls.push(Stored::call(&storing));
    calls.extend(held.as_ref().map(|parameters| Call::new(shapes::NOTE_HELD, parameters)));
    // After the last write no session can change what fires with it.
    let first = calls.len();
    calls.extend(looking.iter().map(|parameters| Call::new(verbatim::LOOK, parameters)));
    calls.push(Call::new("COMMIT", &[]));
    let answers = link.flight(&calls).map_err(failed("commit the upload"))?;
    let looked = &answers[first..first + looks.len()];
    Ok(verbatim::proven(looked).map(|number| {
        let Place { system, timeline } = link.place();
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
    ledger: &Ledger,
) -> Result<Settling, Failure> {
    let settled = settled(upload, remote).filter(|_| owed).map(|counter| counter.0);
    if settled.is_none() || !ledger.owes_many() {
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
fn looks<'a>(upload: Upload<'a>, ledger: &Ledger) -> Vec<Look<'a>> {
    let told = ledger.is_clear() || ledger.is_settled;
    if !(ledger.undigested && ledger.verbatim && told) {
        return Vec::new();
    }
    let looks = ledger.written.iter().map(|position| {
        let table: &Table = &upload.tables[*position];
        table.verbatim().map(|verbatim| verbatim.look(table))
    });
    looks.collect::<Option<_>>().unwrap_or_default()
}

/// Up to where the remote has received what it was owed: its watermarks were issued after that.
fn settled(upload: Upload<'_>, remote: &Remembered) -> Option<Counter> {
    let marks = upload.request.marks;
    if marks.len() != upload.tables.len() {
        return None;
    }
    // Of a table that waits nothing was received.
    let waits = |position: usize| upload.request.session.waits(position);
    let marks = marks.iter().enumerate().filter(|(position, _)| !waits(*position));
    let counters = marks.map(|(_, mark)| {
        let mark = mark.watermark.as_ref().and_then(Mark::read);
        // What was handed out in another past settles nothing here.
        mark.filter(|mark| remote.counts(mark.counter)).map_or(Counter(0), |mark| mark.counter)
    });
    counters.min()
}

/// Applies the rows inside a transaction that has locked `remote`. Carefully from the start where
/// it is known from a first try, which was `undone`, that rows fail. Where they meet another
/// transaction the whole one is begun again (`writer.rs`): above READ COMMITTED, statements after a
/// savepoint would see the same snapshot again.
pub(super) fn apply(
    link: &mut Link,
    upload: Upload<'_>,
    remote: &Remembered,
    undone: Undone,
) -> Result<Ledger, Failure> {
    in_sequence(upload.request, remote)?;
    if upload.request.progress == upload.request.previous {
        return Ok(Ledger::within(upload.spills));
    }
    let outline = Outline::of(upload)?;
    let mut ledger = match attempt(link, upload, &outline, undone) {
        Ok(ledger) => ledger,
        Err(stop) => return Err(stop.into_failure()),
    };
    outline.count(&mut ledger.applied);
    Ok(ledger)
}

fn attempt(
    link: &mut Link,
    upload: Upload<'_>,
    outline: &Outline,
    undone: Undone,
) -> Result<Ledger, Stop> {
    let together = match undone {
        _ if outline.needs_care(upload) => None,
        Undone::Unlucky => Some(Vec::new()),
        Undone::RowsFailed => None,
        Undone::NotUnique => shortfall::duplicates(link, upload, outline)?,
    };
    if let Some(aside) = together {
        let mut sending = Sending::new(link, upload, outline, Opening::Savepoint, aside);
        let sent = sending.rows(outline)?;
        let ledger = sending.into_ledger(outline);
        let settled = match sent {
            Sent::But(missed) if missed.numbers.is_empty() => Some(ledger),
            Sent::But(missed) => {
                match shortfall::settle(link, upload, outline, &missed, ledger) {
                    // It is met again, one by one.
                    Err(Stop::Refused(..)) => None,
                    settled => settled?,
                }
            }
            Sent::Failed { .. } => None,
        };
        if let Some(ledger) = settled {
            return Ok(ledger);
        }
        link.batch(UNDO).map_err(stopped("undo the upload"))?;
    } else {
        link.batch(BEGIN_AGAIN).map_err(stopped("begin the upload"))?;
    }
    let (mut attempts, mut refused) = (0, OwedRows::within(upload.spills));
    while attempts < ATTEMPTS_MAX {
        match careful::apply(link, upload, outline, &refused) {
            Ok(Some(ledger)) => return Ok(ledger),
            Ok(None) => attempts += 1,
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
            Err(stop) => return Err(stop),
        }
        link.batch(UNDO).map_err(stopped("undo the upload"))?;
    }
    let busy = Failure::new(Code::DatabaseBusy, "keys are changed again and again");
    Err(Stop::Failed(busy.retry_after_s(RETRY_AFTER_S)))
}

/// The event at which rows with a conflict are resolved.
pub(super) fn resolution_of(change: Change) -> Event {
    match change {
        Change::Delete => Event::ResolveDeleteConflict,
        Change::Insert | Change::Update | Change::KeyChange => Event::ResolveConflict,
    }
}
