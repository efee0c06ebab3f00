//! One connection to PostgreSQL, used by one blocking thread.
//!
//! Statements that do not need each other's answers are sent together, as a *flight*: all are sent
//! before the first answer is awaited, and they run in their order, in one round trip.
//!
//! Invariant L1: a lost connection is created again only by [`Link::begin`], at the start of a
//! transaction. The rest of a transaction never runs on another connection.

mod authentication;
mod cancel;
pub(super) mod mark;
mod message;
mod notice;
mod prepared;
mod row;
mod session;
mod socket;
mod startup;
mod wire;

pub(super) use row::{Column, Row, RowRef, Unreadable};
pub(super) use session::{Outcome, Session};

use super::connect::{self, Facts, Options, Role};
use super::errors::{Fault, FaultKind};
use super::statement::POSITION;
use super::watermark::Place;
use crate::cancellation::Cancellation;
use crate::serving::Serving;
use crate::url::PostgresUrl;
use cancel::Running;
use model::Failure;
use postgres_types::{ToSql, Type};
use std::sync::Arc;

/// One statement of a flight.
#[derive(Clone, Copy)]
pub(super) enum Call<'a> {
    /// Plain text, without parameters or result: `BEGIN`, `SAVEPOINT` and the like.
    Simple(&'a str),
    /// Prepared once per connection; results are binary.
    Prepared {
        sql: &'a str,
        /// Types of the first parameters; the database infers the others.
        types: &'a [Type],
        parameters: &'a [&'a (dyn ToSql + Sync)],
        /// Its plan is right whatever the tables hold, so the database may keep it.
        keeps_plan: bool,
    },
}

impl<'a> Call<'a> {
    /// A prepared statement whose parameter types the database infers, and whose plan it may keep.
    pub(super) fn new(sql: &'a str, parameters: &'a [&'a (dyn ToSql + Sync)]) -> Call<'a> {
        Call::Prepared { sql, types: &[], parameters, keeps_plan: true }
    }

    /// The same, but planned each time, for the tables as they are then. Rows that it returns are
    /// counted and not handed on, but for their positions in the batch: what they look like would
    /// be asked only once.
    pub(super) fn script(sql: &'a str, parameters: &'a [&'a (dyn ToSql + Sync)]) -> Call<'a> {
        Call::Prepared { sql, types: &[], parameters, keeps_plan: false }
    }
}

/// What a statement of a flight returned.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) rows: Vec<Row>,
    /// Rows returned or changed.
    pub(super) affected: u64,
    /// Rows of the batch that a script says it has changed.
    pub(super) positions: Vec<i32>,
}

/// Takes the rows of a flight as they arrive, with the position of their statement.
pub(super) type Rows<'a> = &'a mut dyn FnMut(usize, RowRef<'_>) -> Result<(), Failure>;

/// A connection that opens itself again after the database was restarted.
pub(super) struct Link {
    session: Option<Session>,
    options: Options,
    role: Role,
    facts: Facts,
    round_trips: u64,
    collided: bool,
    cancellation: Cancellation,
    running: Arc<Running>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Link {
    /// Connects. No other thread cancels its statements.
    pub(super) fn open(url: &PostgresUrl, role: Role) -> Result<Link, Failure> {
        Link::open_for(url, role, &Serving::default())
    }

    /// Connects for a server.
    pub(super) fn open_for(
        url: &PostgresUrl,
        role: Role,
        serving: &Serving,
    ) -> Result<Link, Failure> {
        let (options, facts) = (Options::of(url, role, serving.timeouts), Facts::default());
        let running = Arc::new(Running::new(&options));
        let cancellation = serving.cancellation.clone();
        cancellation.add(&running);
        let mut link = Link {
            session: None,
            options,
            role,
            facts,
            round_trips: 0,
            collided: false,
            cancellation,
            running,
        };
        link.connect()?;
        Ok(link)
    }

    /// How often an answer was awaited.
    pub(super) fn round_trips(&self) -> u64 {
        self.round_trips
    }

    /// Where the numbers of transactions come from that this connection sees.
    pub(super) fn place(&self) -> Place {
        self.facts.place
    }

    /// After so long a wait for a lock the server looks for a deadlock, in milliseconds.
    pub(super) fn deadlock_timeout_ms(&self) -> u64 {
        self.facts.deadlock_timeout_ms
    }

    /// The limit of one statement.
    pub(super) fn statement_timeout_ms(&self) -> u128 {
        self.options.timeouts.statement.as_millis()
    }

    /// Whether a transaction keeps the snapshot that it took first.
    pub(super) fn keeps_snapshots(&self) -> bool {
        self.facts.keeps_snapshots
    }

    /// Whether the last transaction met another one: repeated, it may succeed.
    pub(super) fn has_collided(&self) -> bool {
        self.collided
    }

    /// Sends the first statements of a transaction, on a new connection if the old one is lost.
    /// A transaction that is still open is undone.
    ///
    /// None of `calls` may commit anything: they may run twice.
    pub(super) fn begin(&mut self, calls: &[Call<'_>]) -> Result<Vec<Answer>, Fault> {
        self.roll_back();
        self.collided = false;
        if self.session.is_some() {
            match self.flight(calls) {
                Err(fault) if fault.is_lost() => {}
                outcome => return outcome,
            }
        }
        self.connect().map_err(|failure| Fault { call: 0, kind: FaultKind::Failure(failure) })?;
        self.flight(calls)
    }

    /// Sends `calls` together and collects what they return.
    ///
    /// The first failure is reported. Of the later calls, prepared ones were skipped up to the next
    /// [`Call::Simple`]; from there on they have run, or failed with the transaction.
    pub(super) fn flight(&mut self, calls: &[Call<'_>]) -> Result<Vec<Answer>, Fault> {
        let mut answers: Vec<Answer> = calls.iter().map(|_| Answer::default()).collect();
        let affected = self.run(calls, &mut |call, row| {
            match calls[call] {
                Call::Prepared { keeps_plan: false, .. } => {
                    answers[call].positions.extend(position(row));
                }
                _ => answers[call].rows.push(row.to_row()),
            }
            Ok(())
        })?;
        answers.iter_mut().zip(affected).for_each(|(answer, affected)| answer.affected = affected);
        Ok(answers)
    }

    /// Sends `calls` together and counts the rows that each returned or changed.
    pub(super) fn execute(&mut self, calls: &[Call<'_>]) -> Result<Vec<u64>, Fault> {
        self.run(calls, &mut |_, _| Ok(()))
    }

    /// Sends `calls` together and hands on every row as it arrives. Where `each` fails, the
    /// connection is given up: nothing else stops the rows that are still to come.
    pub(super) fn stream(&mut self, calls: &[Call<'_>], each: Rows<'_>) -> Result<(), Fault> {
        self.run(calls, each).map(|_| ())
    }

    /// Runs text of one or more statements on its own.
    pub(super) fn batch(&mut self, sql: &str) -> Result<(), Fault> {
        self.flight(&[Call::Simple(sql)]).map(|_| ())
    }

    /// Runs one statement on its own.
    pub(super) fn query(
        &mut self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Fault> {
        let answers = self.flight(&[Call::new(sql, parameters)])?;
        Ok(answers.into_iter().next().map(|answer| answer.rows).unwrap_or_default())
    }

    /// Ends a transaction that failed. When even this fails the connection is given up, which
    /// ends it too.
    pub(super) fn roll_back(&mut self) {
        let open = self.session.as_ref().is_some_and(|session| !session.is_idle());
        if open && self.batch("ROLLBACK").is_err() {
            self.session = None;
        }
    }

    /// Forgets prepared statements, whose tables may have changed.
    pub(super) fn forget_statements(&mut self) {
        if let Some(session) = &mut self.session {
            session.statements.forget();
        }
    }

    fn connect(&mut self) -> Result<(), Failure> {
        self.session = None;
        if self.cancellation.is_cancelled() {
            return Err(FaultKind::Disconnected.failure("the server is stopping".to_owned()));
        }
        let (session, facts) = connect::connect(&self.options, self.role)?;
        (self.session, self.facts) = (Some(session), facts);
        Ok(())
    }

    /// Runs `calls`, and reads the mark of the session back where they are the first of a
    /// transaction: within it, and before anything that was prepared.
    fn run(&mut self, calls: &[Call<'_>], each: Rows<'_>) -> Result<Vec<u64>, Fault> {
        let session = self.session.as_ref().filter(|session| session.is_idle());
        let Some(mark) = session.map(Session::mark).filter(|_| !calls.is_empty()) else {
            return self.run_unmarked(calls, each);
        };
        let at = usize::from(matches!(calls[0], Call::Simple(_)));
        let mut marked = Vec::with_capacity(calls.len() + 1);
        marked.extend_from_slice(&calls[..at]);
        marked.push(Call::new(mark::READ, &[]));
        marked.extend_from_slice(&calls[at..]);
        let outcome = self.run_unmarked(&marked, &mut |call, row| match call {
            call if call == at => mark::compare(row, &mark),
            call => each(call - usize::from(call > at), row),
        });
        match outcome.map_err(|fault| mark::judge(fault, at)) {
            Ok(mut affected) => {
                affected.remove(at);
                Ok(affected)
            }
            Err(Fault { call, kind }) => {
                if call == at && matches!(kind, FaultKind::Failure(_)) {
                    self.session = None;
                }
                let call = call - usize::from(call > at);
                Err(Fault { call: call.min(calls.len() - 1), kind })
            }
        }
    }

    fn run_unmarked(&mut self, calls: &[Call<'_>], each: Rows<'_>) -> Result<Vec<u64>, Fault> {
        let Some(session) = &mut self.session else {
            return Err(Fault { call: 0, kind: FaultKind::Disconnected });
        };
        self.running.set(session.key());
        if self.cancellation.is_cancelled() {
            // The database ends what was begun with the connection (C1).
            self.session = None;
            return Err(Fault { call: 0, kind: FaultKind::Disconnected });
        }
        let outcome = session.prepare(calls).and_then(|asked| {
            self.round_trips += 1 + u64::from(asked);
            first_refusal(session.fly(calls, each)?)
        });
        self.running.set(None);
        match &outcome {
            Ok(_) => {}
            Err(fault @ Fault { kind: FaultKind::Refused(refusal), .. }) if !fault.is_lost() => {
                self.collided |= is_collision(refusal.state());
                if is_stale(refusal.state()) {
                    session.statements.forget();
                }
            }
            // There may be unread answers (L2).
            Err(_) => self.session = None,
        }
        outcome
    }
}

/// The rows that each call returned or changed, or the first refusal.
fn first_refusal(outcomes: Vec<Outcome>) -> Result<Vec<u64>, Fault> {
    let mut affected = Vec::with_capacity(outcomes.len());
    for (call, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Outcome::Done(count) => affected.push(count),
            Outcome::Refused(refusal) => {
                return Err(Fault { call, kind: FaultKind::Refused(refusal) });
            }
            // Never before what was refused.
            Outcome::Skipped => return Err(Fault { call, kind: FaultKind::Disconnected }),
        }
    }
    Ok(affected)
}

/// The position in a batch that a row tells, and nothing else.
fn position(row: RowRef<'_>) -> Option<i32> {
    let [column] = row.columns() else { return None };
    if column.name == POSITION { row.try_get(0).ok() } else { None }
}

/// Serialization failures and deadlocks.
pub(super) fn is_collision(state: &str) -> bool {
    matches!(state, "40001" | "40P01")
}

/// A prepared statement is no longer what it was: its table changed, or a pooler took it away.
fn is_stale(state: &str) -> bool {
    matches!(state, "0A000" | "26000")
}

#[cfg(test)]
mod tests;
