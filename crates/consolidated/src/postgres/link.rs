//! One connection to PostgreSQL, used by one thread that waits.
//!
//! Statements that need no answer of each other travel together, as a *flight*: all are sent
//! before the first answer is awaited, and they run in their order, in one round trip.
//!
//! Invariant L1: a lost connection is made anew only by [`Link::begin`], at the start of a
//! transaction; the rest of a transaction never runs on another connection.

use super::connect::{self, Connected, Options, Role};
use super::errors::{Fault, FaultKind};
use super::watermark::Place;
use crate::url::PostgresUrl;
use futures_util::StreamExt;
use futures_util::future::{MaybeDone, maybe_done};
use model::{Code, Failure};
use std::collections::HashMap;
use std::pin::{Pin, pin};
use tokio::runtime::Runtime;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, RowStream, Statement};

/// Most prepared statements kept between flights; beyond it they are prepared anew.
const STATEMENTS_MAX: usize = 1024;

/// One statement of a flight.
#[derive(Clone, Copy)]
pub(super) enum Call<'a> {
    /// Text as it is, without parameters and without a result: `BEGIN`, `SAVEPOINT` and the like.
    Simple(&'a str),
    /// Prepared once per connection; results are binary.
    Prepared {
        sql: &'a str,
        /// Types of the first parameters; the database infers the others.
        types: &'a [Type],
        parameters: &'a [&'a (dyn ToSql + Sync)],
    },
}

impl<'a> Call<'a> {
    /// A prepared statement whose parameter types the database infers.
    pub(super) fn new(sql: &'a str, parameters: &'a [&'a (dyn ToSql + Sync)]) -> Call<'a> {
        Call::Prepared { sql, types: &[], parameters }
    }
}

/// What a statement of a flight returned.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) rows: Vec<Row>,
    /// Rows returned or changed.
    pub(super) affected: u64,
}

/// Takes the rows of a flight as they arrive, with the position of their statement.
pub(super) type Rows<'a> = &'a mut dyn FnMut(usize, &Row) -> Result<(), Failure>;

/// A connection that makes itself anew after the database was restarted.
pub(super) struct Link {
    // Before the runtime, which its task needs.
    session: Option<Session>,
    runtime: Runtime,
    options: Options,
    role: Role,
    place: Place,
    round_trips: u64,
}

struct Session {
    connected: Connected,
    statements: HashMap<Box<str>, Statement>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Link {
    /// Connects.
    pub(super) fn open(url: &PostgresUrl, role: Role) -> Result<Link, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new(Code::Bug, "cannot start a runtime").source(error))?;
        let (options, place) = (Options::of(url), Place::default());
        let mut link = Link { session: None, runtime, options, role, place, round_trips: 0 };
        link.connect()?;
        Ok(link)
    }

    /// How often an answer was awaited.
    pub(super) fn round_trips(&self) -> u64 {
        self.round_trips
    }

    /// Where the numbers of transactions come from that this connection sees.
    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// Sends the first statements of a transaction, on a new connection if the old one is lost.
    ///
    /// None of `calls` may commit anything: they may run twice.
    pub(super) fn begin(&mut self, calls: &[Call<'_>]) -> Result<Vec<Answer>, Fault> {
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
    /// The first failure is told. Outside a transaction the calls behind it have run.
    pub(super) fn flight(&mut self, calls: &[Call<'_>]) -> Result<Vec<Answer>, Fault> {
        let mut rows: Vec<Vec<Row>> = calls.iter().map(|_| Vec::new()).collect();
        let affected = self.run(calls, &mut |call, row| {
            rows[call].push(row);
            Ok(())
        })?;
        let answers = rows.into_iter().zip(affected);
        Ok(answers.map(|(rows, affected)| Answer { rows, affected }).collect())
    }

    /// Sends `calls` together and counts the rows that each returned or changed.
    pub(super) fn execute(&mut self, calls: &[Call<'_>]) -> Result<Vec<u64>, Fault> {
        self.run(calls, &mut |_, _| Ok(()))
    }

    /// Sends `calls` together and hands on every row as it arrives. Where `each` fails, the
    /// connection is given up: nothing else stops the rows that are still to come.
    pub(super) fn stream(&mut self, calls: &[Call<'_>], each: Rows<'_>) -> Result<(), Fault> {
        let streamed = self.run(calls, &mut |call, row| each(call, &row));
        if let Err(Fault { kind: FaultKind::Failure(_), .. }) = streamed {
            self.session = None;
        }
        streamed.map(|_| ())
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
        if self.session.is_some() && self.batch("ROLLBACK").is_err() {
            self.session = None;
        }
    }

    /// Forgets prepared statements, whose tables may have changed.
    pub(super) fn forget_statements(&mut self) {
        if let Some(session) = &mut self.session {
            session.statements.clear();
            session.connected.client.clear_type_cache();
        }
    }

    fn connect(&mut self) -> Result<(), Failure> {
        self.session = None;
        let connected = self.runtime.block_on(connect::connect(&self.options, self.role))?;
        self.place = connected.place;
        self.session = Some(Session { connected, statements: HashMap::new() });
        Ok(())
    }

    fn run(
        &mut self,
        calls: &[Call<'_>],
        each: &mut dyn FnMut(usize, Row) -> Result<(), Failure>,
    ) -> Result<Vec<u64>, Fault> {
        let Some(session) = &mut self.session else {
            return Err(Fault { call: 0, kind: FaultKind::Disconnected });
        };
        let outcome = self.runtime.block_on(async {
            self.round_trips += u64::from(session.prepare(calls).await?);
            self.round_trips += 1;
            session.fly(calls, each).await
        });
        if let Err(fault) = &outcome {
            if fault.is_lost() || session.connected.client.is_closed() {
                self.session = None;
            } else if fault.sqlstate().is_some_and(|state| is_stale(state.code())) {
                self.forget_statements();
            }
        }
        outcome
    }
}

/// A prepared statement is no longer what it was: its table changed, or a pooler took it away.
fn is_stale(state: &str) -> bool {
    matches!(state, "0A000" | "26000")
}

impl Session {
    /// Prepares what `calls` need and was not prepared yet, together. True when it had to ask.
    async fn prepare(&mut self, calls: &[Call<'_>]) -> Result<bool, Fault> {
        if self.statements.len() + calls.len() > STATEMENTS_MAX {
            self.statements.clear();
        }
        let mut missing: Vec<(usize, &str, &[Type])> = Vec::new();
        for (position, call) in calls.iter().enumerate() {
            let Call::Prepared { sql, types, .. } = call else { continue };
            let known = self.statements.contains_key(*sql);
            if !known && !missing.iter().any(|(_, other, _)| other == sql) {
                missing.push((position, sql, types));
            }
        }
        if missing.is_empty() {
            return Ok(false);
        }
        let client = &self.connected.client;
        let preparing = missing.iter().map(|(_, sql, types)| client.prepare_typed(sql, types));
        let mut together: Vec<_> = preparing.map(|future| Box::pin(maybe_done(future))).collect();
        send_all(&mut together).await;
        for ((call, sql, _), future) in missing.into_iter().zip(&mut together) {
            let statement = finish(future).await.map_err(fault_of(call))?;
            self.statements.insert(sql.into(), statement);
        }
        Ok(true)
    }

    async fn fly(
        &self,
        calls: &[Call<'_>],
        each: &mut dyn FnMut(usize, Row) -> Result<(), Failure>,
    ) -> Result<Vec<u64>, Fault> {
        let starting = calls.iter().map(|call| self.start(call));
        let mut together: Vec<_> = starting.map(|future| Box::pin(maybe_done(future))).collect();
        send_all(&mut together).await;
        let mut affected = Vec::with_capacity(calls.len());
        for (call, future) in together.iter_mut().enumerate() {
            let Some(rows) = finish(future).await.map_err(fault_of(call))? else {
                affected.push(0);
                continue;
            };
            let mut rows = pin!(rows);
            while let Some(row) = rows.next().await {
                let row = row.map_err(fault_of(call))?;
                each(call, row)
                    .map_err(|failure| Fault { call, kind: FaultKind::Failure(failure) })?;
            }
            affected.push(rows.rows_affected().unwrap_or(0));
        }
        Ok(affected)
    }

    async fn start(&self, call: &Call<'_>) -> Result<Option<RowStream>, Error> {
        let client: &Client = &self.connected.client;
        match call {
            Call::Simple(sql) => client.batch_execute(sql).await.map(|()| None),
            Call::Prepared { sql, parameters, .. } => {
                let statement = &self.statements[*sql];
                client.query_raw(statement, parameters.iter().copied()).await.map(Some)
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.connected.task.abort();
    }
}

fn fault_of(call: usize) -> impl Fn(Error) -> Fault {
    move |error| Fault { call, kind: FaultKind::Database(error) }
}

/// Polls each future once, in order, which is when it sends its statement.
async fn send_all<F: Future>(futures: &mut [Pin<Box<MaybeDone<F>>>]) {
    std::future::poll_fn(|context| {
        for future in futures.iter_mut() {
            let _ = future.as_mut().poll(context);
        }
        std::task::Poll::Ready(())
    })
    .await;
}

/// The output of a future that was polled before.
async fn finish<F: Future<Output = Result<T, Error>>, T>(
    future: &mut Pin<Box<MaybeDone<F>>>,
) -> Result<T, Error> {
    future.as_mut().await;
    match future.as_mut().take_output() {
        Some(output) => output,
        None => Err(Error::__private_api_timeout()),
    }
}

#[cfg(test)]
mod tests;
