//! Applies one upload: one transaction, in two flights where nothing unusual happens.
//!
//! First all rows *together*, one statement for each batch: inserts and updates as they were sent,
//! parents first, then deletes, children first. They travel *at once* with the lock on the remote,
//! and are undone where it turns out that they should not have: without a savepoint, which every
//! upload would have to pay for. Only if something fails or falls short everything is undone, and
//! done again *carefully* (`careful.rs`), which finds the rows to blame. What a row that did not
//! find what it expected becomes is in `conflict.rs`, what is written about the upload itself in
//! `ledger.rs`.
//!
//! Foreign keys and unique constraints that can be deferred are (traps 10 and 11).
//!
//! Invariants:
//! U1. Every uploaded row ends in exactly one of: applied, found already so, conflict resolved,
//!     rejected. The upload as a whole is applied or nothing of it (S4).
//! U2. Where the row at the centre is not what the remote holds, the row is owed (trap 5).

use super::batch::{self, Batch};
use super::careful;
use super::catalog::Table;
use super::errors::{Fault, failed};
use super::held;
use super::identity::{self, Locked, Stored};
use super::incarnation::Life;
use super::key_log;
use super::ledger::Ledger;
use super::link::{Answer, Call, Link};
use super::made::Made;
use super::moved::Question;
use super::outline::Outline;
use super::owed;
use super::reached;
use super::row_fault;
use super::shapes;
use super::verbatim::{self, Look};
use super::watch;
use super::watermark::{Mark, Place};
use crate::echo::{Echo, Transaction};
use crate::identity::Remembered;
use crate::reach::{By, Reached};
use crate::script::Event;
use crate::synchronization::{Applied, Change, UploadRequest};
use crate::uploaded_row::{UploadedRow, event_of};
use model::{Code, Counter, Failure, Memory};
use postgres_types::ToSql;
use std::sync::Arc;

/// Bytes of parameters that are sent before their answers are awaited. They are held twice, as
/// parameters and as messages; more of them save one wait for each of the largest batches.
const FLIGHT_BYTES: usize = 2 << 20;

/// In front of the lock and the first batch. Each is prepared, and so is all that shares their
/// flight: then it is answered as a whole, and who waits is woken once.
const BEGIN: [&str; 2] = ["BEGIN", "SET CONSTRAINTS ALL DEFERRED"];

/// The same in a transaction that has locked the remote.
const BEGIN_AGAIN: &str = "SET CONSTRAINTS ALL DEFERRED; SAVEPOINT together";

/// Position of the lock behind [`BEGIN`] and what holds the deployment.
const LOCK_AT: usize = BEGIN.len() + 1;

/// Position of the question for triggers that went, where no download asks it.
const WATCH_AT: usize = LOCK_AT + 1;

const UNDO: &str = "ROLLBACK TO SAVEPOINT together; SET CONSTRAINTS ALL DEFERRED";

/// The most times that all rows are applied one by one, while others change keys.
const ATTEMPTS_MAX: u32 = 6;

/// When an upload should come back that others were always in the way of, in seconds.
const RETRY_AFTER_S: u32 = 5;

/// Behind the last batch: what remains is to be noticed here, where it can still be undone, and
/// not at the commit.
const END: &str = "SET CONSTRAINTS ALL IMMEDIATE";

const SETTLE: &str = "DELETE FROM syncline.syncline_owed 
WHERE remote_id = $1 AND counter <= $2 AND withheld IS NULL";

/// Why a transaction cannot go on.
#[derive(Debug)]
pub(super) enum Stop {
    /// It met another one; done again it may succeed.
    Collision(Failure),
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}

impl Stop {
    fn into_failure(self) -> Failure {
        match self {
            Stop::Collision(failure) | Stop::Failed(failure) => failure,
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
    /// What may be held for remotes.
    pub(super) memory: &'a Arc<Memory>,
}

/// An upload that was tried at once and is to be undone, or was.
pub(super) struct Undone {
    /// Whether it was for its rows, which will fail again.
    pub(super) rows_failed: bool,
}

/// Begins a transaction, locks the remote and applies the rows, all in one flight. Whether they
/// should have been applied is seen afterwards.
pub(super) fn at_once(
    link: &mut Link,
    upload: Upload<'_>,
) -> Result<Result<(Locked, Ledger), Undone>, Failure> {
    let outline = Outline::of(upload)?;
    if outline.needs_care(upload) {
        return Ok(Err(Undone { rows_failed: true }));
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
    let mut sending = Sending::new(link, upload, &outline, Opening::Transaction(&opening));
    let rows_failed = match sending.rows(&outline) {
        Ok(all) => !all,
        // Somebody else is at it, and was waited for.
        Err(Stop::Failed(failure)) if failure.code() == Code::AlreadySynchronizing => {
            return Err(failure);
        }
        // Whatever it is, done step by step it will be met again and reported, or be gone.
        Err(Stop::Collision(_) | Stop::Failed(_)) => {
            return Ok(Err(Undone { rows_failed: false }));
        }
    };
    if sending.watched.take().is_some_and(|answer| !watch::found(&answer).is_empty()) {
        return Ok(Err(Undone { rows_failed: false }));
    }
    let locked = sending.locked.take().map(|answer| identity::locked(&answer));
    let locked = locked.transpose()?.flatten();
    let mut ledger = sending.into_ledger(&outline);
    outline.count(&mut ledger.applied);
    Ok(match locked {
        Some(locked) if !rows_failed => Ok((locked, ledger)),
        // A new remote is not there to be locked.
        _ => Err(Undone { rows_failed }),
    })
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
    ledger.tell_left_out(request);
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
    let settled = settled(upload, remote).filter(|_| owed).map(|counter| counter.0);
    let settling: [&(dyn ToSql + Sync); 2] = [&remote_id, &settled];
    let uploaded = request.progress != request.previous;
    let stored =
        Stored::new(link, request.session, remote.clone(), uploaded, request.download_follows);
    let storing = stored.parameters();
    let counter = next_watermark(request, remote);
    let rejected = ledger.rejected(upload)?;
    let entries = ledger.entries(upload, &rejected, counter);
    let mut writing = entries.statements();
    if entries.are_many() {
        for (sql, parameters) in std::mem::take(&mut writing) {
            link.query(sql, &parameters).map_err(failed("note what became of the upload"))?;
        }
    }
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
    // Behind the last write: nobody can change now what fires with it.
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

/// What is to be asked of every table that was written, where it may prove something.
fn looks<'a>(upload: Upload<'a>, ledger: &Ledger) -> Vec<Look<'a>> {
    if !(ledger.undigested && ledger.verbatim && ledger.is_clear()) {
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
    let counters = marks.iter().map(|mark| {
        let mark = mark.watermark.as_ref().and_then(Mark::read);
        // What was handed out in another past settles nothing here.
        mark.filter(|mark| remote.counts(mark.counter)).map_or(Counter(0), |mark| mark.counter)
    });
    counters.min()
}

/// Applies the rows inside a transaction that has locked `remote`. Carefully from the start where
/// it is known that rows fail. Where they meet another transaction the whole one is begun again
/// (`writer.rs`): above READ COMMITTED what is behind a savepoint would see the same again.
pub(super) fn apply(
    link: &mut Link,
    upload: Upload<'_>,
    remote: &Remembered,
    rows_failed: bool,
) -> Result<Ledger, Failure> {
    in_sequence(upload.request, remote)?;
    if upload.request.progress == upload.request.previous {
        return Ok(Ledger::within(upload.memory));
    }
    let outline = Outline::of(upload)?;
    let mut ledger = match attempt(link, upload, &outline, rows_failed) {
        Ok(ledger) => ledger,
        Err(Stop::Collision(failure) | Stop::Failed(failure)) => return Err(failure),
    };
    outline.count(&mut ledger.applied);
    Ok(ledger)
}

fn attempt(
    link: &mut Link,
    upload: Upload<'_>,
    outline: &Outline,
    rows_failed: bool,
) -> Result<Ledger, Stop> {
    if rows_failed || outline.needs_care(upload) {
        link.batch(BEGIN_AGAIN).map_err(stopped("begin the upload"))?;
    } else {
        let mut sending = Sending::new(link, upload, outline, Opening::Savepoint);
        if sending.rows(outline)? {
            return Ok(sending.into_ledger(outline));
        }
        link.batch(UNDO).map_err(stopped("undo the upload"))?;
    }
    for _ in 0..ATTEMPTS_MAX {
        if let Some(ledger) = careful::apply(link, upload, outline)? {
            return Ok(ledger);
        }
        link.batch(UNDO).map_err(stopped("undo the upload"))?;
    }
    let busy = Failure::new(Code::DatabaseBusy, "keys are changed again and again");
    Err(Stop::Failed(busy.retry_after_s(RETRY_AFTER_S)))
}

/// What is sent in front of the first batch.
#[derive(Clone, Copy)]
enum Opening<'o> {
    /// Begins a transaction and locks the remote.
    Transaction(&'o [Call<'o>]),
    /// A savepoint of a transaction that is open.
    Savepoint,
    /// It was sent.
    Sent,
}

/// One try at applying all rows with one statement for each batch.
struct Sending<'l, 'a> {
    link: &'l mut Link,
    upload: Upload<'a>,
    opening: Opening<'l>,
    /// What the lock found, where it was part of the opening.
    locked: Option<Answer>,
    /// Triggers that are not as they were deployed, where that was asked.
    watched: Option<Answer>,
    /// Complete batches on their way, and the one that is being filled.
    ready: Vec<Batch<'a>>,
    filling: Option<(usize, Change, Batch<'a>)>,
    /// Beside each of them, where its rows may reach others: what asks for those.
    asking: Vec<Option<Batch<'a>>>,
    asked: Option<Batch<'a>>,
    reached: Reached<i64>,
    ledger: Ledger,
    fell_short: bool,
    /// Whether others have changed keys (`moved.rs`).
    question: Option<Question<'a>>,
    /// Every row so far was applied as it was sent.
    verbatim: bool,
}

impl<'l, 'a> Sending<'l, 'a> {
    fn new(
        link: &'l mut Link,
        upload: Upload<'a>,
        outline: &Outline,
        opening: Opening<'l>,
    ) -> Sending<'l, 'a> {
        let verbatim = upload.request.download_follows;
        let mut ledger = Ledger::within(upload.memory);
        ledger.undigested = !verbatim || outline.rows() >= verbatim::ROWS_MIN;
        let question = Question::known(link.place(), upload, outline);
        Sending {
            link,
            upload,
            opening,
            locked: None,
            watched: None,
            ready: Vec::new(),
            filling: None,
            asking: Vec::new(),
            asked: None,
            reached: Reached::default(),
            ledger,
            fell_short: false,
            question,
            verbatim,
        }
    }

    fn into_ledger(mut self, outline: &Outline) -> Ledger {
        (self.ledger.verbatim, self.ledger.written) = (self.verbatim, outline.tables());
        self.ledger.applied.reached = self.reached.count();
        self.ledger
    }

    /// True if every row was applied, or rejected before it was sent.
    fn rows(&mut self, outline: &Outline) -> Result<bool, Stop> {
        let upload = self.upload;
        let mut gave_up = false;
        let visited = outline.visit(upload, &mut |table, row| {
            self.row(table, row)?;
            if self.fell_short {
                gave_up = true;
                return Err(Failure::new(Code::Bug, "stopped on purpose").into());
            }
            Ok(())
        });
        if gave_up {
            return Ok(false);
        }
        visited?;
        self.flush();
        self.send(true)?;
        Ok(!self.fell_short)
    }

    fn row(&mut self, position: usize, row: &UploadedRow<'_>) -> Result<(), Stop> {
        let fits = self.filling.as_ref().is_some_and(|(table, change, batch)| {
            (*table, *change) == (position, row.change) && !batch.is_full()
        });
        if !fits {
            self.flush();
            if self.ready.iter().map(Batch::bytes).sum::<usize>() > FLIGHT_BYTES {
                self.send(false)?;
            }
            let table = &self.upload.tables[position];
            let statement = table.required(event_of(row.change))?;
            let batch = Batch::new(table, statement, self.upload.request.session);
            self.filling = Some((position, row.change, batch));
            let query = table.reach.by_delete.as_ref().filter(|_| row.change == Change::Delete);
            let session = self.upload.request.session;
            self.asked = query.map(|query| Batch::new(table, query, session));
        }
        let Some((_, _, batch)) = &mut self.filling else { return Ok(()) };
        let table = &self.upload.tables[position].deployed.published;
        let added = match batch::misspelled_key(&self.upload.tables[position], row) {
            Some(reason) => Err(reason),
            None => batch.add(row),
        };
        if let (Ok(()), Some(asked)) = (&added, &mut self.asked) {
            // What the batch has taken this takes too; row by row it would be reported.
            self.fell_short |= asked.add(row).is_err();
        }
        match added {
            Ok(()) if self.ledger.undigested => {}
            Ok(()) => self.ledger.echo(table, position, row),
            Err(reason) => self.ledger.reject(row.key(table, position), reason),
        }
        Ok(())
    }

    fn flush(&mut self) {
        if let Some((position, change, mut batch)) = self.filling.take() {
            // A row that leaves the partition comes back as a delete.
            let leaves =
                change == Change::Update && self.upload.tables[position].deployed.details.may_leave;
            self.verbatim &= batch.verbatim.is_some() && !leaves;
            batch.finish();
            let mut asked = self.asked.take();
            asked.iter_mut().for_each(Batch::finish);
            if batch.rows > 0 {
                self.ready.push(batch);
                self.asking.push(asked);
            }
        }
    }

    /// Sends what is ready and looks whether every row of it was applied.
    fn send(&mut self, last: bool) -> Result<(), Stop> {
        let ready = std::mem::take(&mut self.ready);
        let values: Vec<_> = ready.iter().map(Batch::values).collect();
        let parameters: Vec<_> = values.iter().map(|values| batch::as_parameters(values)).collect();
        let asking = std::mem::take(&mut self.asking);
        let asked: Vec<_> = asking.iter().map(|a| a.as_ref().map(Batch::values)).collect();
        let asked: Vec<_> =
            asked.iter().map(|values| values.as_ref().map(|v| batch::as_parameters(v))).collect();
        let opening = std::mem::replace(&mut self.opening, Opening::Sent);
        let mut calls = match opening {
            Opening::Transaction(calls) => calls.to_vec(),
            Opening::Savepoint => vec![Call::Simple(BEGIN_AGAIN)],
            Opening::Sent => Vec::new(),
        };
        let first = calls.len();
        let mut places = Vec::with_capacity(ready.len());
        for (at, (batch, p)) in ready.iter().zip(&parameters).enumerate() {
            let before = calls.len();
            let question = asking[at].as_ref().zip(asked[at].as_ref());
            reached::ask(&mut calls, question.map(|(b, p)| batch::query(b, p)).into_iter());
            places.push(before..calls.len());
            calls.push(batch::call(batch, p));
        }
        if last {
            calls.push(Call::new(END, &[]));
        }
        let question = self.question.as_ref().filter(|_| last);
        let asked_last = question.map(Question::parameters);
        calls.extend(asked_last.as_ref().map(|parameters| Call::new(key_log::ANY, parameters)));
        let begins = matches!(opening, Opening::Transaction(_));
        let flown = if begins { self.link.begin(&calls) } else { self.link.flight(&calls) };
        match flown {
            Ok(mut answers) => {
                for (batch, asked) in ready.iter().zip(places) {
                    let answer = &answers[asked.end];
                    self.reached.extend(By::Delete, reached::found_by(&answers[asked])?);
                    self.fell_short |= answer.affected < u64::from(batch.rows);
                    self.verbatim &= answer.affected == u64::from(batch.rows);
                }
                let answer = answers.last().filter(|_| asked_last.is_some());
                self.fell_short |= answer.is_some_and(|answer| !answer.rows.is_empty());
                if begins {
                    self.watched = (first > WATCH_AT).then(|| answers.swap_remove(WATCH_AT));
                    self.locked = Some(answers.swap_remove(LOCK_AT));
                }
                Ok(())
            }
            Err(fault) if begins && fault.call < first => {
                Err(identity::lock_failed(LOCK_AT)(fault).into())
            }
            Err(fault) if row_fault::may_be_a_row(&fault) => {
                self.fell_short = true;
                Ok(())
            }
            Err(fault) => Err(stopped("apply the upload")(fault)),
        }
    }
}

/// The event at which rows that met somebody else's change are resolved.
pub(super) fn resolution_of(change: Change) -> Event {
    match change {
        Change::Delete => Event::ResolveDeleteConflict,
        Change::Insert | Change::Update | Change::KeyChange => Event::ResolveConflict,
    }
}
