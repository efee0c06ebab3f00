//! One connection to PostgreSQL, used by one blocking thread.
//!
//! Statements that do not need each other's answers are sent together, as a *flight*: all are sent
//! before the first answer is awaited, and they run in their order, in one round trip.
//!
//! A transaction in which the database hears nothing for long looks as if this server hung, and is
//! ended (25P03). So what works on its own while a transaction is open, for a time that grows with
//! an upload, has a [`Pulse`].
//!
//! Invariant L1: a lost connection is created again only by [`Link::begin`], at the start of a
//! transaction. The rest of a transaction never runs on another connection.

pub(super) use postgres_driver::{Call, Column, Row, RowRef, Unreadable};

use super::connect::{self, Destination, Facts, Role, mark};
use super::encoding::Encoding;
use super::errors::{Fault, FaultKind};
use super::statement::POSITION;
use crate::postgres::download::watermark::NumberSpace;
use crate::postgres::link::line::{Line, Rows, Signature};
use crate::postgres::link::pulse::Pulse;
use crate::script::secrets::Secrets;
use crate::serving::Serving;
use crate::serving::cancellation::Cancellation;
use crate::url::PostgresUrl;
use model::Failure;
use postgres_driver::Session;
use postgres_types::ToSql;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a statement of a flight returned.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) rows: Vec<Row>,
    /// Rows returned or changed.
    pub(super) affected: u64,
    /// Rows of the batch that a script says it has changed.
    pub(super) positions: Vec<i32>,
}

/// A connection that opens itself again after the database was restarted.
pub(super) struct Link {
    line: Arc<Mutex<Line>>,
    pulse: Pulse,
    destination: Destination,
    role: Role,
    facts: Facts,
    cancellation: Cancellation,
    /// Whether it is of no use without what its session has.
    is_kept: bool,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("destination", &self.destination).finish_non_exhaustive()
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
        let destination = Destination::of(url, role, serving.timeouts);
        let cancellation = serving.cancellation.clone();
        let line = Line::new(&destination.options, &cancellation);
        let pulse = Pulse::of(&line, role.idle_in_transaction(&destination.timeouts));
        let facts = Facts::default();
        let is_kept = false;
        let mut link = Link { line, pulse, destination, role, facts, cancellation, is_kept };
        link.connect()?;
        Ok(link)
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on it does not connect again: another session would lack what scripts have made in
    /// this one.
    pub(super) fn keep(&mut self) {
        self.is_kept = true;
    }

    /// From now on the database is given these, and must not repeat them: not in a failure, and not
    /// in the log.
    pub(super) fn hide(&mut self, secrets: Secrets) {
        self.line().secrets = secrets;
    }

    /// For what works on its own while a transaction is open.
    pub(super) fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    /// How often an answer was awaited.
    pub(super) fn round_trips(&self) -> u64 {
        self.line().round_trips
    }

    /// Where the numbers of transactions come from that this connection sees.
    pub(super) fn number_space(&self) -> NumberSpace {
        self.facts.space
    }

    /// After so long a wait for a lock the server looks for a deadlock, in milliseconds.
    pub(super) fn deadlock_timeout_ms(&self) -> u64 {
        self.facts.deadlock_timeout_ms
    }

    /// The limit of one statement.
    pub(super) fn statement_timeout_ms(&self) -> u128 {
        self.destination.timeouts.statement.as_millis()
    }

    /// Whether a transaction keeps the snapshot that it took first.
    pub(super) fn keeps_snapshots(&self) -> bool {
        self.facts.keeps_snapshots
    }

    /// What the database can store.
    pub(super) fn encoding(&self) -> Encoding {
        self.facts.encoding
    }

    /// Whether the last transaction met another one: repeated, it may succeed.
    pub(super) fn has_collided(&self) -> bool {
        self.line().collided
    }

    /// Sends the first statements of a transaction, on a new connection if the old one is lost.
    /// A transaction that is still open is undone.
    ///
    /// None of `calls` may commit anything: they may run twice.
    pub(super) fn begin(&mut self, calls: &[Call<'_>]) -> Result<Vec<Answer>, Fault> {
        self.roll_back();
        self.line().collided = false;
        if self.is_kept || self.line().session.is_some() {
            match self.flight(calls) {
                Err(fault) if fault.is_lost() && !self.is_kept => {}
                outcome => return outcome,
            }
        }
        self.connect().map_err(|failure| Fault { call: 0, kind: FaultKind::Failure(failure) })?;
        self.flight(calls)
    }

    /// Sends `calls` together and collects what they return.
    ///
    /// Rows of a call that is counted are not handed on, but for their positions in the batch: what
    /// they look like would be asked only once.
    ///
    /// The first failure is reported. Of the later calls, prepared ones were skipped up to the next
    /// [`Call::Simple`]; from there on they have run, or failed with the transaction.
    pub(super) fn flight(&mut self, calls: &[Call<'_>]) -> Result<Vec<Answer>, Fault> {
        let mut answers: Vec<Answer> = calls.iter().map(|_| Answer::default()).collect();
        let affected = self.run(calls, &mut |call, row| {
            match calls[call] {
                Call::Prepared { counted: true, .. } => {
                    answers[call].positions.extend(position(row));
                }
                _ => answers[call].rows.push(row.to_row()),
            }
            Ok(())
        })?;
        answers.iter_mut().zip(affected).for_each(|(answer, affected)| answer.affected = affected);
        Ok(answers)
    }

    /// Sends `calls` together and hands on every row as it arrives. Where `each` fails, the
    /// connection is given up: nothing else stops the rows that are still to come.
    pub(super) fn stream(&mut self, calls: &[Call<'_>], each: Rows<'_>) -> Result<(), Fault> {
        self.run(calls, each).map(|_| ())
    }

    /// Lets the database understand a statement that is not run, and says what it takes
    /// and returns.
    pub(super) fn understand(&mut self, sql: &str) -> Result<Signature, Fault> {
        self.line().understand(sql)
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
        let open = self.line().is_in_transaction();
        if open && self.batch("ROLLBACK").is_err() {
            self.line().session = None;
        }
    }

    /// Forgets prepared statements, whose tables may have changed.
    pub(super) fn forget_statements(&mut self) {
        if let Some(session) = &mut self.line().session {
            session.forget_statements();
        }
    }

    /// Whether a transaction is open.
    pub(super) fn is_in_transaction(&self) -> bool {
        self.line().is_in_transaction()
    }

    /// Whether the connection is lost, and with it what was done in a transaction.
    pub(super) fn is_lost(&self) -> bool {
        self.line().session.is_none()
    }

    fn connect(&mut self) -> Result<(), Failure> {
        self.line().session = None;
        if self.cancellation.is_canceled() {
            return Err(FaultKind::Disconnected.failure("the server is stopping".to_owned()));
        }
        let (session, facts) = connect::connect(&self.destination, self.role)?;
        (self.line().session, self.facts) = (Some(session), facts);
        Ok(())
    }

    /// Runs `calls`, and reads the mark of the session back where they are the first of a
    /// transaction: within it, and before anything that was prepared.
    fn run(&mut self, calls: &[Call<'_>], each: Rows<'_>) -> Result<Vec<u64>, Fault> {
        let mut line = self.line();
        let session = line.session.as_ref().filter(|session| session.is_idle());
        let Some(mark) = session.map(Session::mark).filter(|_| !calls.is_empty()) else {
            return line.run(calls, each);
        };
        let at = usize::from(matches!(calls[0], Call::Simple(_)));
        let mut marked = Vec::with_capacity(calls.len() + 1);
        marked.extend_from_slice(&calls[..at]);
        marked.push(Call::new(mark::READ, &[]));
        marked.extend_from_slice(&calls[at..]);
        let outcome = line.run(&marked, &mut |call, row| match call {
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
                    line.session = None;
                }
                let call = call - usize::from(call > at);
                Err(Fault { call: call.min(calls.len() - 1), kind })
            }
        }
    }
}

/// The position in a batch that a row tells, and nothing else.
fn position(row: RowRef<'_>) -> Option<i32> {
    let [column] = row.columns() else { return None };
    if column.name == POSITION { row.try_get(0).ok() } else { None }
}

pub(super) mod line;
pub(super) mod pulse;
#[cfg(test)]
mod tests;
