//! The stage that uses the consolidated database: workers with one connection each.
//!
//! In: requests whose rows are complete in the spill. Out: answers, whose rows are also complete in
//! the spill. Bound: `queue_len_max` requests before each kind of worker; when the queue is full,
//! sessions wait. Invariant W1 (S10): no worker ever waits for a remote.
//!
//! A worker that panics answers its request with a code and continues with another connection
//! (`kept.rs`).
//!
//! This is ordinary blocking Rust, because SQLite blocks anyway, and no transaction is open across
//! an await.

mod comparison;
mod cost;
mod cut;
mod kept;
mod oversize;
mod reader;
mod rejects;
mod writer;

pub(crate) use comparison::Comparison;
pub(crate) use cost::{Cost, Costed};
pub(crate) use reader::{Admission, Admitted, Fetch, FetchedDownload, Resume, waiting_table};
pub(crate) use writer::{Apply, Authenticate, Begin, Whole, Withhold, Write};

use crate::config::Config;
use crate::stage::{self, Execution, Queue};
use crate::worker::reader::Packing;
use consolidated::{
    Acknowledgement, Answered, EndedSynchronization, PasswordChange, Serving, Session, Url,
};
use model::{Clock, Code, Failure, Spill, Spills};
use protocol::Compressor;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// An admission is short, so that few connections answer those of many downloads.
pub const READERS_PER_ADMITTER: usize = 4;

const DAY_S: u64 = 24 * 60 * 60;

/// The ways to the database.
pub(crate) struct Worker {
    /// Admissions have readers of their own, so that they never wait for a first download.
    admissions: Queue<reader::Read>,
    reads: Queue<reader::Read>,
    writes: Queue<writer::Write>,
}

/// A started worker stage.
pub(crate) struct Started {
    pub(crate) worker: Worker,
    /// The key of session tokens, which lies in the database.
    pub(crate) token_key: Vec<u8>,
    pub(crate) threads: Vec<JoinHandle<()>>,
}

/// Starts the writers and the readers. `ended` is notified when they cannot work any more.
pub(crate) fn start(
    config: &Config,
    url: &Url,
    spills: &Arc<Spills>,
    clock: &Arc<dyn Clock>,
    serving: &Serving,
    ended: &SyncSender<Failure>,
    execution: &Execution,
) -> Result<Started, Failure> {
    let of_reader = (serving.clone(), url.clone());
    let of_writer = of_reader.clone();
    let open = move || of_reader.0.open_reader(&of_reader.1);
    let readers_len = Config::or_cores(config.workers);
    let readers = kept::open("reader", readers_len, open.clone(), clock, ended)?;
    let admitters_len = readers_len.div_ceil(READERS_PER_ADMITTER);
    let admitters = kept::open("admission", admitters_len, open, clock, ended)?;
    let token_key = serving.open_reader(url)?.token_key()?;
    let open = move || of_writer.0.open_writer(&of_writer.1);
    let mut writers = kept::open("writer", config.upload_appliers_for(url), open, clock, ended)?;
    let limits = writer::Limits {
        group_len_max: config.group_commit_len_max.max(1),
        log_rows_max: config.log_rows_max,
        rejects_kept_s: config.rejects_kept_days.saturating_mul(DAY_S).min(i64::MAX as u64) as i64,
    };
    if let Some(writer) = writers.first_mut().and_then(kept::Kept::first) {
        writer::trim(writer.as_mut(), limits)?;
    }
    let cut = cut::Cut {
        batch_bytes: config.batch_bytes,
        batch_rows: config.batch_rows,
        row_bytes_max: oversize::row_bytes_max(config.frame_bytes_max),
    };
    let packing = || Packing { spills: spills.clone(), cut, compressor: Compressor::default() };
    let read = |kept| reader::Work { kept, packing: packing(), clock: clock.clone() };
    let readers = readers.into_iter().map(read).collect();
    let admitters = admitters.into_iter().map(read).collect();
    let write = |kept| writer::Work::new(kept, limits, packing(), clock.clone());
    let writers = writers.into_iter().map(write).collect();
    let len_max = config.queue_len_max;
    let (admissions, mut threads) = stage::start("admission", len_max, admitters, execution)?;
    let (reads, more) = stage::start("reader", len_max, readers, execution)?;
    threads.extend(more);
    let (writes, more) = stage::start("writer", len_max, writers, execution)?;
    threads.extend(more);
    Ok(Started { worker: Worker { admissions, reads, writes }, token_key, threads })
}

impl Worker {
    /// Discards waiting requests, and accepts no more.
    pub(crate) fn abandon(&self) {
        self.admissions.abandon();
        self.reads.abandon();
        self.writes.abandon();
    }

    /// Who the user is, and what the remote shares.
    pub(crate) async fn admit(&self, admission: Admission) -> Result<Costed<Admitted>, Failure> {
        ask(&self.admissions, |answer| reader::Read::Admit(admission, answer)).await
    }

    /// Lets scripts decide whether a user may synchronize; the answer comes after what they have
    /// written is durable.
    pub(crate) async fn authenticate(
        &self,
        question: Authenticate,
    ) -> Result<Costed<Answered>, Failure> {
        ask(&self.writes, |answer| Write::Authenticate(question, answer)).await
    }

    /// Fetches a download.
    pub(crate) async fn fetch(&self, fetch: Fetch) -> Result<Costed<FetchedDownload>, Failure> {
        match fetch.session.fetched_by_writer {
            true => ask(&self.writes, |answer| Write::Fetch(Box::new(fetch), answer)).await,
            false => ask(&self.reads, |answer| reader::Read::Fetch(fetch, answer)).await,
        }
    }

    /// Answers what rows a remote should have, as digests: frames of Verified.
    pub(crate) async fn compare(&self, comparison: Comparison) -> Result<Costed<Spill>, Failure> {
        ask(&self.reads, |answer| reader::Read::Compare(comparison, answer)).await
    }

    /// Learns what is committed, and shuts out predecessors.
    pub(crate) async fn begin(&self, begin: Begin) -> Result<Costed<consolidated::Begun>, Failure> {
        ask(&self.writes, |answer| Write::Begin(begin, answer)).await
    }

    /// Runs the scripts at the end of a synchronization that has done its work at the database.
    /// They run from the first poll on, whoever still waits for them.
    pub(crate) async fn end(&self, session: Arc<Session>) -> Result<Costed<()>, Failure> {
        let (answer, receiver) = oneshot::channel();
        self.writes.put_at_once(Write::End(writer::End { session, ok: true }, answer));
        hear(receiver).await
    }

    /// The same of one that has failed. Nobody waits for them.
    pub(crate) fn end_failed(&self, session: Arc<Session>) {
        let (answer, _) = oneshot::channel();
        self.writes.put_at_once(Write::End(writer::End { session, ok: false }, answer));
    }

    /// Notes what a download does not carry.
    pub(crate) async fn withhold(&self, withhold: Withhold) -> Result<Costed<()>, Failure> {
        ask(&self.writes, |answer| Write::Withhold(withhold, answer)).await
    }

    /// Notes that a remote has applied a download.
    pub(crate) async fn acknowledge(
        &self,
        acknowledgement: Acknowledgement,
    ) -> Result<Costed<()>, Failure> {
        ask(&self.writes, |answer| Write::Acknowledge(acknowledgement, answer)).await
    }

    /// Notes synchronizations that have ended; the answer comes after that is durable.
    pub(crate) async fn note_ended(
        &self,
        ended: Vec<EndedSynchronization>,
    ) -> Result<Costed<()>, Failure> {
        ask(&self.writes, |answer| Write::NoteEnded(ended, answer)).await
    }

    /// Gives a user another password; the answer comes after it is durable.
    pub(crate) async fn change_password(
        &self,
        change: PasswordChange,
    ) -> Result<Costed<()>, Failure> {
        ask(&self.writes, |answer| Write::ChangePassword(change, answer)).await
    }

    /// Runs a whole synchronization over a connection that its script version has for itself. Its
    /// parts are told as they are done.
    pub(crate) async fn whole(&self, whole: Whole) -> Result<Told, Failure> {
        let (applied, told_applied) = oneshot::channel();
        let (fetched, told_fetched) = oneshot::channel();
        let (ended, told_ended) = oneshot::channel();
        let answers = writer::Answers { applied, fetched, ended };
        self.writes.put(Write::Whole(Box::new(whole), answers)).await?;
        Ok(Told { applied: told_applied, fetched: told_fetched, ended: told_ended })
    }

    /// Applies an upload; the answer comes after it is durable.
    pub(crate) async fn upload(
        &self,
        upload: Apply,
    ) -> Result<Costed<consolidated::Applied>, Failure> {
        ask(&self.writes, |answer| Write::Apply(Box::new(upload), answer)).await
    }
}

/// What is told of a whole synchronization.
pub(crate) struct Told {
    pub(crate) applied: Heard<consolidated::Applied>,
    pub(crate) fetched: Heard<FetchedDownload>,
    pub(crate) ended: Heard<()>,
}

/// An answer that is still to come.
pub(crate) type Heard<T> = oneshot::Receiver<Result<Costed<T>, Failure>>;

/// Waits for an answer.
pub(crate) async fn hear<T>(answer: oneshot::Receiver<Result<T, Failure>>) -> Result<T, Failure> {
    let gone = "a worker ended without an answer; the server's log says why";
    answer.await.map_err(|_| Failure::new(Code::Bug, gone))?
}

/// Puts a request into a queue, and waits for its answer.
async fn ask<R, T>(
    queue: &Queue<R>,
    request: impl FnOnce(oneshot::Sender<Result<T, Failure>>) -> R,
) -> Result<T, Failure> {
    let (answer, receiver) = oneshot::channel();
    queue.put(request(answer)).await?;
    hear(receiver).await
}
