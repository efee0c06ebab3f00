//! The session of a link, and what is known of its last flights.

use crate::postgres::errors::{Fault, FaultKind};
use crate::postgres::link::clock;
use crate::postgres::link::receiver::{Receiver, Rows};
use crate::postgres::link::running::Running;
use crate::serving::cancellation::Cancellation;
use postgres_driver::{Call, CallResult, Options, Session};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The session of a link.
pub(in crate::postgres) struct Line {
    pub(in crate::postgres) session: Option<Session>,
    /// How often an answer was awaited.
    pub(in crate::postgres) round_trips: u64,
    /// The last transaction met another one.
    pub(in crate::postgres) collided: bool,
    /// When the database was last asked something.
    pub(in crate::postgres) asked: Instant,
    cancellation: Cancellation,
    running: Arc<Running>,
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
            cancellation: cancellation.clone(),
            running,
        }))
    }

    /// Whether a transaction is open, perhaps one that failed.
    pub(in crate::postgres) fn is_in_transaction(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.is_idle())
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
        let mut receiver = Receiver::new(each);
        let flown = session.prepare(calls).and_then(|asked| {
            self.round_trips += 1 + u64::from(asked);
            session.fly(calls, &mut |call, row| receiver.take(call, row))
        });
        let outcome = flown.map_err(|fault| receiver.fault(fault)).and_then(first_refusal);
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

/// Serialization failures and deadlocks.
pub(in crate::postgres) fn is_collision(state: &str) -> bool {
    matches!(state, "40001" | "40P01")
}

/// A prepared statement is no longer what it was: its table changed, or a pooler took it away.
fn is_stale(state: &str) -> bool {
    matches!(state, "0A000" | "26000")
}
