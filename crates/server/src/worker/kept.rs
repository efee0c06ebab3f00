//! The connection of a worker, and how it gets another one after a panic.
//!
//! A panic discards the connection with everything under way on it. Another one is opened, with
//! pauses while that fails. Meanwhile the other workers of this kind serve the requests. If there
//! is none, every request is refused with the reason. If no worker of a kind has had a connection
//! for [`GIVE_UP_MS`], the server ends.

use crate::stage::Intake;
use model::{Clock, Code, Failure};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long all workers of a kind may be without a connection before the server ends.
const GIVE_UP_MS: u64 = 60_000;

/// Between two attempts to open a connection.
const PAUSE: Duration = Duration::from_millis(250);

/// What the workers of one kind have in common.
pub(super) struct Kind<C> {
    name: &'static str,
    open: Box<dyn Fn() -> Result<C, Failure> + Send + Sync>,
    clock: Arc<dyn Clock>,
    len: usize,
    without: Mutex<Without>,
    /// Where it is said that the kind is no use any more.
    ended: SyncSender<Failure>,
}

/// Those who have no connection.
#[derive(Default)]
struct Without {
    len: usize,
    /// Since when no worker has one.
    all_since_ms: Option<u64>,
}

/// A worker's connection.
pub(super) struct Kept<C> {
    connection: Option<C>,
    kind: Arc<Kind<C>>,
}

/// The connections of as many workers of a kind, each opened.
pub(super) fn open<C>(
    name: &'static str,
    len: usize,
    open: impl Fn() -> Result<C, Failure> + Send + Sync + 'static,
    clock: &Arc<dyn Clock>,
    ended: &SyncSender<Failure>,
) -> Result<Vec<Kept<C>>, Failure> {
    let kind = Arc::new(Kind {
        name,
        open: Box::new(open),
        clock: clock.clone(),
        len,
        without: Mutex::default(),
        ended: ended.clone(),
    });
    let kept = |_| {
        let connection = Some((kind.open)()?);
        Ok(Kept { connection, kind: kind.clone() })
    };
    (0..len).map(kept).collect()
}

impl<C> Kept<C> {
    /// The connection, before the first request.
    pub(super) fn first(&mut self) -> Option<&mut C> {
        self.connection.as_mut()
    }

    /// Sees to it that there is a connection: after a panic another one is opened. False if there
    /// is none and the stage ends.
    pub(super) fn prepare<T>(&mut self, intake: &Intake<T>, refuse: impl Fn(T, Failure)) -> bool {
        if self.connection.is_none() {
            self.connection = self.kind.open_again(intake, refuse);
        }
        self.connection.is_some()
    }

    /// Lends the connection for some work, which loses it if it panics.
    pub(super) fn lend<T>(&mut self, work: impl FnOnce(&mut C) -> T) -> Option<T> {
        let mut connection = self.connection.take()?;
        let done = work(&mut connection);
        self.connection = Some(connection);
        Some(done)
    }
}

impl<C> Kind<C> {
    fn open_again<T>(&self, intake: &Intake<T>, refuse: impl Fn(T, Failure)) -> Option<C> {
        self.count(|without| without.len += 1);
        let opened = loop {
            // A panic in here would be met by opening again, without a pause.
            let failure = match catch_unwind(AssertUnwindSafe(|| self.attempt())) {
                Ok(Ok(connection)) => break Some(connection),
                Ok(Err(failure)) => failure,
                Err(_) => Failure::new(Code::Bug, "opening a connection panicked"),
            };
            tracing::warn!(worker = self.name, error = %failure.full_message(),
                "cannot open another connection after a panic");
            let all_for_ms = self.nobody_for_ms();
            if all_for_ms.is_some() {
                while let Some(item) = intake.take_waiting(|_| true) {
                    refuse(item, again(&failure));
                }
            }
            if all_for_ms.is_some_and(|ms| ms >= give_up_ms()) {
                // Where it was said before, the server is ending already.
                let _ = self.ended.try_send(self.no_use(&failure));
                break None;
            }
            if intake.is_closed() {
                break None;
            }
            std::thread::sleep(PAUSE);
        };
        if opened.is_some() {
            self.count(|without| without.len -= 1);
        }
        opened
    }

    fn attempt(&self) -> Result<C, Failure> {
        fail::fail_point!("worker-opens-again", |_| Err(Failure::new(
            Code::DatabaseUnavailable,
            "a test refuses"
        )));
        (self.open)()
    }

    fn count(&self, change: impl FnOnce(&mut Without)) {
        let mut without = self.without.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut without);
        let all = without.len == self.len;
        without.all_since_ms = all.then(|| self.clock.monotonic_ms());
    }

    /// For how long no worker of the kind has had a connection; none if one has.
    fn nobody_for_ms(&self) -> Option<u64> {
        let without = self.without.lock().unwrap_or_else(PoisonError::into_inner);
        without.all_since_ms.map(|since| self.clock.monotonic_ms().saturating_sub(since))
    }

    fn no_use(&self, failure: &Failure) -> Failure {
        let message = format!(
            "no {} could open a connection after a panic: {}",
            self.name,
            failure.full_message()
        );
        Failure::new(failure.code(), message).hint(failure.hint_text())
    }
}

fn again(failure: &Failure) -> Failure {
    let again = Failure::new(failure.code(), failure.full_message()).hint(failure.hint_text());
    match failure.retry_after() {
        Some(seconds) => again.retry_after_s(seconds),
        None => again,
    }
}

fn give_up_ms() -> u64 {
    fail::fail_point!("worker-gives-up", |_| 0);
    GIVE_UP_MS
}
