//! The session of a link, and what is known of its last flights.

use crate::postgres::errors::{Fault, FaultKind};
use crate::script::secrets::Secrets;
use crate::serving::cancellation::{Cancel, Cancellation};
use crate::serving::clock;
use model::Failure;
use postgres_driver::{Call, CallResult, Column, Key, Options, RowRef, Session, cancel};
use postgres_types::Type;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The session of a link.
pub(in crate::postgres) struct Line {
    pub(in crate::postgres) session: Option<Session>,
    /// How often an answer was awaited.
    pub(in crate::postgres) round_trips: u64,
    /// The last transaction met another one.
    pub(in crate::postgres) collided: bool,
    /// When the database was last asked something.
    pub(in crate::postgres) asked: Instant,
    /// What it must not repeat of what it is given. As long as there is something, its notices are
    /// not in the log.
    pub(in crate::postgres) secrets: Secrets,
    cancellation: Cancellation,
    running: Arc<Running>,
}

/// What a statement takes and returns.
#[derive(Debug, Default)]
pub(in crate::postgres) struct Signature {
    pub(in crate::postgres) parameters: Vec<Type>,
    pub(in crate::postgres) columns: Vec<Column>,
}

impl Line {
    /// One without a session, whose flights are canceled with all others.
    pub(in crate::postgres) fn new(
        options: &Options,
        cancellation: &Cancellation,
    ) -> Arc<Mutex<Line>> {
        let running = Arc::new(Running::new(options));
        cancellation.add(&running);
        Arc::new(Mutex::new(Line {
            session: None,
            round_trips: 0,
            collided: false,
            asked: clock::now(),
            secrets: Secrets::default(),
            cancellation: cancellation.clone(),
            running,
        }))
    }

    /// Whether a transaction is open, perhaps one that failed.
    pub(in crate::postgres) fn is_in_transaction(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.is_idle())
    }

    /// Lets the database understand a statement that is not run, and forget it again. Says what it
    /// takes and returns.
    pub(in crate::postgres) fn understand(&mut self, sql: &str) -> Result<Signature, Fault> {
        let Some(session) = &mut self.session else {
            return Err(Fault { call: 0, kind: FaultKind::Disconnected });
        };
        let understood = session.prepare(&[Call::new(sql, &[])]).map_err(Fault::from);
        let signature = session.signature(sql).map(|(parameters, columns)| Signature {
            parameters: parameters.to_vec(),
            columns: columns.to_vec(),
        });
        session.forget_statements();
        self.round_trips += 1;
        if understood.as_ref().is_err_and(|fault| fault.db().is_none() || fault.is_lost()) {
            // There may be unread answers (A1).
            self.session = None;
        }
        understood.map(|_| signature.unwrap_or_default())
    }

    /// Sends `calls` together, hands on every row, and counts the rows of each.
    pub(in crate::postgres) fn run(
        &mut self,
        calls: &[Call<'_>],
        each: Rows<'_>,
    ) -> Result<Vec<u64>, Fault> {
        let Some(session) = &mut self.session else {
            return Err(Fault { call: 0, kind: FaultKind::Disconnected });
        };
        self.running.set(session.key());
        if self.cancellation.is_canceled() {
            // The database ends what was begun with the connection (X1).
            self.session = None;
            return Err(Fault { call: 0, kind: FaultKind::Disconnected });
        }
        session.silence(!self.secrets.is_empty());
        let mut receiver = Receiver::new(each);
        let flown = session.prepare(calls).and_then(|asked| {
            self.round_trips += 1 + u64::from(asked);
            session.fly(calls, &mut |call, row| receiver.take(call, row))
        });
        let outcome = flown.map_err(|fault| receiver.fault(fault)).and_then(first_refusal);
        let outcome = outcome.map_err(|fault| hiding(&self.secrets, fault));
        self.running.set(None);
        self.asked = clock::now();
        match &outcome {
            Ok(_) => {}
            Err(fault @ Fault { kind: FaultKind::Refused(refusal), .. }) if !fault.is_lost() => {
                self.collided |= is_collision(refusal.state());
                if is_stale(refusal.state()) {
                    session.forget_statements();
                }
            }
            // There may be unread answers (A1).
            Err(_) => self.session = None,
        }
        outcome
    }
}

/// The rows that each call returned or changed, or the first refusal.
fn first_refusal(outcomes: Vec<CallResult>) -> Result<Vec<u64>, Fault> {
    let mut affected = Vec::with_capacity(outcomes.len());
    for (call, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            CallResult::Done(count) => affected.push(count),
            CallResult::Refused(refusal) => {
                return Err(Fault { call, kind: FaultKind::Refused(refusal) });
            }
            // Never before what was refused.
            CallResult::Skipped => return Err(Fault { call, kind: FaultKind::Disconnected }),
        }
    }
    Ok(affected)
}

/// The fault without what the database must not repeat.
fn hiding(secrets: &Secrets, fault: Fault) -> Fault {
    let kind = match fault.kind {
        FaultKind::Refused(refusal) if !secrets.is_empty() => {
            let words = secrets.told(refusal.message(), Some(refusal.state()));
            FaultKind::Refused(Box::new(refusal.in_words(words)))
        }
        kind => kind,
    };
    Fault { kind, ..fault }
}

/// Serialization failures and deadlocks.
pub(in crate::postgres) fn is_collision(state: &str) -> bool {
    matches!(state, "40001" | "40P01")
}

/// A prepared statement is no longer what it was: its table changed, or a pooler took it away.
fn is_stale(state: &str) -> bool {
    matches!(state, "0A000" | "26000")
}

/// Takes the rows of a flight as they arrive, with the position of their statement.
pub(in crate::postgres) type Rows<'a> = &'a mut dyn FnMut(usize, RowRef<'_>) -> Result<(), Failure>;

/// Hands rows on until that fails. The driver learns only that it has to stop.
pub(in crate::postgres) struct Receiver<'a> {
    each: Rows<'a>,
    failure: Option<Failure>,
}

impl<'a> Receiver<'a> {
    /// Hands them to `each`.
    pub(in crate::postgres) fn new(each: Rows<'a>) -> Receiver<'a> {
        Receiver { each, failure: None }
    }

    /// Takes a row.
    pub(in crate::postgres) fn take(&mut self, call: usize, row: RowRef<'_>) -> ControlFlow<()> {
        match (self.each)(call, row) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                self.failure = Some(failure);
                ControlFlow::Break(())
            }
        }
    }

    /// Why the flight ended: the failure of the one who takes the rows, if it was that.
    pub(in crate::postgres) fn fault(self, fault: postgres_driver::Fault) -> Fault {
        match self.failure {
            Some(failure) => Fault { call: fault.call, kind: FaultKind::Failure(failure) },
            None => fault.into(),
        }
    }
}

/// How long each step of asking may take.
const STEP_MAX: Duration = Duration::from_secs(1);

/// The flight that a link waits for.
#[derive(Debug)]
struct Running {
    options: Options,
    /// None: nothing runs.
    key: Mutex<Option<Arc<Key>>>,
}

impl Running {
    fn new(options: &Options) -> Running {
        let mut options = options.clone();
        options.connect_timeout = options.connect_timeout.min(STEP_MAX);
        Running { options, key: Mutex::new(None) }
    }

    /// Notes of which session a flight begins, or that it has ended.
    fn set(&self, key: Option<Arc<Key>>) {
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) = key;
    }
}

impl Cancel for Running {
    fn cancel(&self) {
        let key = self.key.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(key) = key else { return };
        if let Err(error) = cancel(&key, &self.options) {
            let fault = FaultKind::from(error);
            let failure = fault.failure("cannot cancel a statement of PostgreSQL".to_owned());
            tracing::warn!(error = %failure.full_message(), "a statement may still run");
        }
    }
}
