//! Commits uploads in groups: one durable commit for all that wait.
//!
//! If a database is efficient with many connections, a group is one upload. A download whose
//! scripts may write is fetched in a transaction of its own, between two groups.
//!
//! Each upload has a savepoint, so one that fails does not affect the others. If the database ends
//! the whole transaction (a trigger that rolls back, a full disk at the commit), each upload is
//! tried again alone, so that only the one at fault fails. No answer leaves before the commit (trap
//! 17).

use super::cost::{Answer, Cost, Costed};
use super::kept::Kept;
use super::oversize::Sink;
use super::reader::{Fetch, FetchedDownload, Packing, fetch_download};
use crate::fail_point::fail_point;
use crate::stage::{Intake, Routine};
use crate::upload::ReceivedUpload;
use consolidated::{
    Acknowledgement, Answered, Applied, Begun, EndedSynchronization, Ending, FetchRequest,
    Identity, PasswordChange, Question, Session, TableMark, UploadRequest, WithheldRow,
    Withholding, Writer,
};
use model::{Clock, Code, Counter, Failure, Progress, Receipt};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::oneshot;

/// After how many groups the change logs are cut to their limit again.
const TRIM_EVERY_GROUPS: u64 = 1000;

#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) group_len_max: usize,
    pub(super) log_rows_max: i64,
    pub(super) rejects_kept_s: i64,
}

/// Cuts what is kept of the past to its limits.
pub(super) fn trim(writer: &mut dyn Writer, limits: Limits) -> Result<(), Failure> {
    writer.trim_logs(limits.log_rows_max)?;
    writer.trim_notes(limits.log_rows_max, limits.rejects_kept_s)
}

/// What the writer is asked.
pub(crate) enum Write {
    Authenticate(Authenticate, Answer<Answered>),
    Begin(Begin, Answer<Begun>),
    Apply(Box<Apply>, Answer<Applied>),
    Withhold(Withhold, Answer<()>),
    End(End, Answer<()>),
    Acknowledge(Acknowledgement, Answer<()>),
    ChangePassword(PasswordChange, Answer<()>),
    NoteEnded(Vec<EndedSynchronization>, Answer<()>),
    /// A whole synchronization over one connection: never in a group.
    Whole(Box<Whole>, Answers),
    /// In a transaction of its own: never in a group.
    Fetch(Box<Fetch>, Answer<FetchedDownload>),
}

impl Write {
    fn is_alone(&self) -> bool {
        matches!(self, Write::Whole(..) | Write::Fetch(..))
    }
}

/// Let scripts decide whether a user may synchronize.
pub(crate) struct Authenticate {
    pub(crate) session: Arc<Session>,
    /// None where something else has proven the user.
    pub(crate) password: Option<String>,
    pub(crate) new_password: Option<String>,
}

/// Run the scripts at the end of a synchronization.
pub(crate) struct End {
    pub(crate) session: Arc<Session>,
    /// Whether it has done all that it had to do at the database.
    pub(crate) ok: bool,
}

/// Apply an upload, fetch its download, and run the scripts at the end.
pub(crate) struct Whole {
    pub(crate) apply: Apply,
    /// None where there is no download.
    pub(crate) fetch: Option<Fetch>,
}

/// To whom the parts of a synchronization are told, as they are done.
pub(crate) struct Answers {
    pub(crate) applied: Answer<Applied>,
    pub(crate) fetched: Answer<FetchedDownload>,
    pub(crate) ended: Answer<()>,
}

/// Note what a download does not carry.
pub(crate) struct Withhold {
    pub(crate) session: Arc<Session>,
    pub(crate) epoch: i64,
    pub(crate) counter: Counter,
    pub(crate) withheld: Vec<WithheldRow>,
    pub(crate) released: Vec<(usize, Vec<u8>)>,
}

/// Learn what is committed, and shut out predecessors.
pub(crate) struct Begin {
    pub(crate) session: Arc<Session>,
    pub(crate) identity: Identity,
    pub(crate) receipt: Option<Receipt>,
}

/// Apply an upload.
pub(crate) struct Apply {
    pub(crate) session: Arc<Session>,
    pub(crate) identity: Identity,
    pub(crate) receipt: Option<Receipt>,
    pub(crate) epoch: Option<i64>,
    pub(crate) previous: Progress,
    pub(crate) progress: Progress,
    pub(crate) download_follows: bool,
    pub(crate) marks: Arc<Vec<TableMark>>,
    /// None where there is nothing to upload.
    pub(crate) rows: Option<ReceivedUpload>,
}

/// A worker that writes, and what it has in hand.
pub(super) struct Work {
    kept: Kept<Box<dyn Writer>>,
    limits: Limits,
    packing: Packing,
    clock: Arc<dyn Clock>,
    hand: Hand,
    /// What failed with others and is tried without them.
    alone: VecDeque<Write>,
    /// How many it has committed, or tried to.
    groups: u64,
}

/// What one transaction is for.
#[derive(Default)]
struct Hand {
    group: Vec<Write>,
    /// Whether it may be committed.
    committing: bool,
}

impl Work {
    pub(super) fn new(
        kept: Kept<Box<dyn Writer>>,
        limits: Limits,
        packing: Packing,
        clock: Arc<dyn Clock>,
    ) -> Work {
        let (hand, alone) = (Hand::default(), VecDeque::new());
        Work { kept, limits, packing, clock, hand, alone, groups: 0 }
    }

    /// Of what a panic left in hand, all are tried alone; one that was alone is to blame. An
    /// upload that may be committed is answered with a defect; its remote learns the outcome with
    /// the next Hello.
    fn end_panic(&mut self) {
        let Hand { group, committing } = std::mem::take(&mut self.hand);
        if group.len() > 1 && !committing {
            self.alone.extend(group);
        }
    }

    /// Tries alone what has to be.
    fn commit_alone(&mut self) {
        while let Some(write) = self.alone.pop_front() {
            self.commit(write, None);
        }
    }

    /// Runs a whole synchronization over the connection that its script version has for itself.
    /// What fails in it may have left the connection in any state, so another one is opened then.
    fn whole(&mut self, whole: Whole, answers: Answers) {
        let Work { kept, packing, clock, .. } = self;
        let clock = clock.as_ref();
        kept.lend(|writer| {
            let done = match writer.session(&whole.apply.session) {
                Ok(own) => synchronize(own, whole, answers, (packing, clock)),
                // The session may have ended in the meantime. Then the answer is not needed.
                Err(failure) => answers.applied.send(Err(failure)).is_ok_and(|()| false),
            };
            if !done {
                writer.end_session();
            }
        });
    }

    /// Fetches a download. What a panic meets here is to blame for it, and is not tried again.
    fn fetch(&mut self, fetch: &Fetch, answer: Answer<FetchedDownload>) {
        let Work { kept, packing, clock, .. } = self;
        let begun_us = clock.monotonic_us();
        kept.lend(|writer| {
            let before = writer.round_trips();
            let mut ask = |request: &FetchRequest<'_>, sink: Sink<'_>| writer.fetch(request, sink);
            let result = fetch_download(&mut ask, fetch, packing);
            let round_trips = writer.round_trips() - before;
            let worked_us = clock.monotonic_us() - begun_us;
            let cost = Cost { round_trips, commits: 1.0, worked_us };
            // The session may have ended in the meantime. Then the answer is not needed.
            drop(answer.send(result.map(|value| Costed { value, cost })));
        });
    }

    /// Commits a group that begins with `first` and goes on with what waits at `more`.
    fn commit(&mut self, first: Write, more: Option<&Intake<Write>>) {
        let Work { kept, limits, clock, hand, alone, groups, .. } = self;
        let begun_us = clock.monotonic_us();
        // It stays in hand, for a panic must not cost those that are not to blame.
        *hand = Hand { group: vec![first], committing: false };
        kept.lend(|writer| {
            let writer = writer.as_mut();
            let result = commit_group(writer, hand, more, *limits);
            let mut group = std::mem::take(&mut hand.group);
            let outcomes = match result {
                Ok(outcomes) => outcomes,
                Err(failure) if group.len() == 1 => {
                    vec![(failed(&group[0], failure), Cost::default())]
                }
                Err(failure) => {
                    tracing::warn!(error = %failure.full_message(), synchronizations = group.len(),
                        "a group of uploads failed; each is tried alone");
                    alone.extend(group.drain(..));
                    Vec::new()
                }
            };
            let worked_us = clock.monotonic_us() - begun_us;
            for (write, (outcome, cost)) in group.into_iter().zip(outcomes) {
                alone.extend(answer(write, outcome, Cost { worked_us, ..cost }));
            }
            *groups += 1;
            if groups.is_multiple_of(TRIM_EVERY_GROUPS)
                && let Err(failure) = trim(writer, *limits)
            {
                tracing::warn!(error = %failure.full_message(), "cannot trim the change logs");
            }
        });
    }
}

impl Routine for Work {
    type Item = Write;

    fn begin(&mut self, intake: &Intake<Write>) -> bool {
        self.end_panic();
        let refused = |write: Write, failure| {
            let outcome = failed(&write, failure);
            // What was not begun has no end.
            let _ = answer(write, outcome, Cost::default());
        };
        let ready = self.kept.prepare(intake, refused);
        if ready {
            self.commit_alone();
        }
        ready
    }

    fn work(&mut self, first: Write, intake: &Intake<Write>) {
        match first {
            Write::Whole(whole, answers) => self.whole(*whole, answers),
            Write::Fetch(fetch, answer) => self.fetch(&fetch, answer),
            first => {
                self.commit(first, Some(intake));
                self.commit_alone();
            }
        }
    }
}

/// Runs a whole synchronization over one connection, and tells each part when it is done. Returns
/// whether all of them are.
fn synchronize(
    writer: &mut dyn Writer,
    Whole { apply, mut fetch }: Whole,
    answers: Answers,
    (packing, clock): (&mut Packing, &dyn Clock),
) -> bool {
    let Answers { applied: applied_to, fetched: fetched_to, ended: ended_to } = answers;
    let (mut round_trips, mut begun_us) = (writer.round_trips(), clock.monotonic_us());
    let mut cost = |writer: &dyn Writer| {
        let (before, since_us) = (round_trips, begun_us);
        (round_trips, begun_us) = (writer.round_trips(), clock.monotonic_us());
        Cost { round_trips: round_trips - before, commits: 1.0, worked_us: begun_us - since_us }
    };
    // The session may have ended in the meantime. Then the answers are not needed.
    let mut applied = match alone(writer, |writer| upload(writer, &apply)) {
        Ok(applied) => applied,
        Err(failure) => {
            drop(applied_to.send(Err(failure)));
            return false;
        }
    };
    let mut session = applied.session(&apply.session);
    if let Some(fetch) = &mut fetch {
        fetch.go_on(&session, &mut applied);
    }
    let goes_on = applied.stopped.is_none();
    let is_heard = applied_to.send(Ok(Costed { value: applied, cost: cost(writer) })).is_ok();
    let mut ok = goes_on && is_heard;
    if let Some(fetch) = fetch.filter(|_| ok) {
        let mut ask = |request: &FetchRequest<'_>, sink: Sink<'_>| writer.fetch(request, sink);
        let fetched = fetch_download(&mut ask, &fetch, packing);
        ok = fetched.is_ok();
        if let Ok(fetched) = &fetched {
            session = fetched.session.clone();
        }
        let cost = cost(writer);
        ok &= fetched_to.send(fetched.map(|value| Costed { value, cost })).is_ok();
    }
    let ending = Ending { session: &session, ok };
    let ended = alone(writer, |writer| writer.end(&ending));
    ok &= ended.is_ok();
    tell_ended(ended_to, &session, ended, cost(writer));
    ok
}

/// Tells what became of the scripts at the end of a synchronization; in the log, where nobody hears
/// it.
fn tell_ended(answer: Answer<()>, session: &Session, ended: Result<(), Failure>, cost: Cost) {
    if let Err(Err(failure)) = answer.send(ended.map(|value| Costed { value, cost })) {
        tracing::error!(remote = session.remote_id.as_str(), error = %failure.full_message(),
            "the scripts at the end of a synchronization fail");
    }
}

/// Does `work` in a group of its own, of which what is meant to stay does so although it fails.
fn alone<T>(
    writer: &mut dyn Writer,
    work: impl FnOnce(&mut dyn Writer) -> Result<T, Failure>,
) -> Result<T, Failure> {
    writer.begin()?;
    let outcome = work(writer);
    if writer.transaction_lost() {
        return Err(outcome.err().unwrap_or_else(lost));
    }
    if let Err(failure) = writer.commit() {
        writer.rollback();
        return Err(outcome.err().unwrap_or(failure));
    }
    outcome
}

enum Written {
    Authenticated(Result<Answered, Failure>),
    Begun(Result<Begun, Failure>),
    Applied(Box<Result<Applied, Failure>>),
    Noted(Result<(), Failure>),
    /// Only of one that was not even tried.
    Unfetched(Failure),
}

/// What became of a group, and what each of it cost.
type Finished = Vec<(Written, Cost)>;

/// The session may have ended in the meantime, but the outcome is in the database. What is to be
/// done then is returned.
fn answer(write: Write, outcome: Written, cost: Cost) -> Option<Write> {
    match (write, outcome) {
        (Write::Authenticate(_, answer), Written::Authenticated(result)) => {
            drop(answer.send(result.map(|value| Costed { value, cost })));
        }
        (Write::Begin(_, answer), Written::Begun(result)) => {
            drop(answer.send(result.map(|value| Costed { value, cost })));
        }
        (Write::Apply(apply, answer), Written::Applied(result)) => {
            let sent = answer.send(result.map(|value| Costed { value, cost }));
            if let Err(Ok(Costed { value: applied, .. })) = sent
                && apply.session.ends
            {
                let session = applied.session(&apply.session);
                let (answer, _) = oneshot::channel();
                return Some(Write::End(End { session, ok: false }, answer));
            }
        }
        (Write::End(end, answer), Written::Noted(result)) => {
            tell_ended(answer, &end.session, result, cost);
        }
        (
            Write::Withhold(_, answer)
            | Write::Acknowledge(_, answer)
            | Write::ChangePassword(_, answer)
            | Write::NoteEnded(_, answer),
            Written::Noted(result),
        ) => drop(answer.send(result.map(|value| Costed { value, cost }))),
        (Write::Fetch(_, answer), Written::Unfetched(failure)) => drop(answer.send(Err(failure))),
        (Write::Whole(_, answers), Written::Unfetched(failure)) => {
            drop(answers.applied.send(Err(failure)));
        }
        _ => unreachable!("every request has the outcome of its kind"),
    }
    None
}

/// Runs what is in hand, and what waits at `intake`, in one transaction.
fn commit_group(
    writer: &mut dyn Writer,
    hand: &mut Hand,
    intake: Option<&Intake<Write>>,
    limits: Limits,
) -> Result<Finished, Failure> {
    let group_len_max = limits.group_len_max.min(writer.group_len_max());
    let round_trips = writer.round_trips();
    writer.begin()?;
    let group = &mut hand.group;
    let mut outcomes = Vec::new();
    let mut next = 0;
    while next < group.len() {
        let outcome = execute(writer, &group[next]);
        if writer.transaction_lost() {
            return Err(match outcome {
                Written::Begun(Err(failure))
                | Written::Noted(Err(failure))
                | Written::Authenticated(Err(failure))
                | Written::Unfetched(failure) => failure,
                Written::Applied(result) => match *result {
                    Err(failure) => failure,
                    Ok(_) => lost(),
                },
                Written::Begun(Ok(_)) | Written::Noted(Ok(())) | Written::Authenticated(Ok(_)) => {
                    lost()
                }
            });
        }
        outcomes.push(outcome);
        next += 1;
        if next == group.len() && group.len() < group_len_max {
            group.extend(intake.and_then(|intake| intake.take_waiting(|it| !it.is_alone())));
        }
    }
    fail_point!("server-upload-before-commit");
    hand.committing = true;
    if let Err(failure) = writer.commit() {
        writer.rollback();
        return Err(failure);
    }
    fail_point!("server-upload-committed");
    let together = outcomes.len() as u64;
    let round_trips = (writer.round_trips() - round_trips) / together.max(1);
    let cost = Cost { round_trips, commits: 1.0 / together as f64, worked_us: 0 };
    Ok(outcomes.into_iter().map(|outcome| (outcome, cost)).collect())
}

fn lost() -> Failure {
    Failure::new(Code::ScriptFailed, "the database rolled back the transaction")
}

fn failed(write: &Write, failure: Failure) -> Written {
    match write {
        Write::Authenticate(..) => Written::Authenticated(Err(failure)),
        Write::Begin(..) => Written::Begun(Err(failure)),
        Write::Apply(..) => Written::Applied(Box::new(Err(failure))),
        Write::Withhold(..)
        | Write::End(..)
        | Write::Acknowledge(..)
        | Write::ChangePassword(..)
        | Write::NoteEnded(..) => Written::Noted(Err(failure)),
        Write::Whole(..) | Write::Fetch(..) => Written::Unfetched(failure),
    }
}

fn upload(writer: &mut dyn Writer, apply: &Apply) -> Result<Applied, Failure> {
    writer.upload(&UploadRequest {
        session: &apply.session,
        identity: apply.identity,
        receipt: apply.receipt.as_ref(),
        epoch: apply.epoch,
        previous: apply.previous,
        progress: apply.progress,
        uploads: apply.rows.is_some(),
        download_follows: apply.download_follows,
        marks: &apply.marks,
        batches: &|visit| match &apply.rows {
            Some(rows) => rows.for_each_batch(visit),
            None => Ok(()),
        },
        entered_again: apply.rows.as_ref().map(ReceivedUpload::entered_again),
        left_out: None,
    })
}

fn execute(writer: &mut dyn Writer, write: &Write) -> Written {
    match write {
        Write::Authenticate(asked, _) => Written::Authenticated(writer.authenticate(&Question {
            session: &asked.session,
            password: asked.password.as_deref(),
            new_password: asked.new_password.as_deref(),
        })),
        Write::Begin(begin, _) => {
            let receipt = begin.receipt.as_ref();
            Written::Begun(writer.begin_synchronization(&begin.session, &begin.identity, receipt))
        }
        Write::ChangePassword(change, _) => Written::Noted(writer.change_password(change)),
        Write::NoteEnded(ended, _) => Written::Noted(writer.note_ended(ended)),
        Write::Acknowledge(acknowledged, _) => Written::Noted(writer.acknowledge(acknowledged)),
        Write::End(end, _) => {
            Written::Noted(writer.end(&Ending { session: &end.session, ok: end.ok }))
        }
        Write::Withhold(withhold, _) => Written::Noted(writer.withhold(&Withholding {
            session: &withhold.session,
            epoch: withhold.epoch,
            counter: withhold.counter,
            withheld: &withhold.withheld,
            released: &withhold.released,
        })),
        Write::Apply(apply, _) => Written::Applied(Box::new(upload(writer, apply))),
        Write::Whole(..) | Write::Fetch(..) => {
            Written::Unfetched(Failure::new(Code::Bug, "it is never in a group"))
        }
    }
}

#[cfg(test)]
mod tests;
