//! One connection, its prepared statements, and the flights that run them.
//!
//! Consecutive prepared statements share one Sync: if one fails, the following ones are skipped.
//! Text that is not prepared is separate from them.
//!
//! Invariant A1: after a failure that is not an answer of the server, unread answers may remain.
//! The session cannot be used again.

use crate::call::{Call, CallResult, Rows};
use crate::fault::{Error, Fault};
use crate::host::Host;
use crate::key::Key;
use crate::message::{Message, affected, garbled};
use crate::objection::{Ground, Objection};
use crate::options::Options;
use crate::prepared::{Prepared, Statements};
use crate::refusal::Refusal;
use crate::row::{Column, RowRef};
use crate::startup;
use crate::wire::Wire;
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend::BindError;
use postgres_protocol::message::{backend, frontend};
use postgres_types::{ToSql, Type};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What the server says of a transaction that is neither open nor failed.
const IDLE: u8 = b'I';

/// All values in their binary form.
const BINARY: Option<i16> = Some(1);

/// A live connection.
pub struct Session {
    pub(crate) wire: Wire,
    pub(crate) statements: Statements,
    /// What the server said last about the transaction.
    status: u8,
    /// None where the server, or a pooler, cannot cancel.
    key: Option<Arc<Key>>,
    mark: Arc<str>,
}

impl Session {
    /// Connects to a host. The names of its statements begin with `mark`, which should differ from
    /// those of all others: a pooler may lend one session of the server to several clients.
    pub fn open(host: &Host, options: &Options, mark: &str) -> Result<Session, Error> {
        let (wire, key) = startup::connect(host, options)?;
        Ok(Session {
            wire,
            statements: Statements::of(mark),
            mark: mark.into(),
            status: IDLE,
            key: key.map(Arc::new),
        })
    }

    /// What tells this session from all others.
    pub fn mark(&self) -> Arc<str> {
        self.mark.clone()
    }

    /// How to cancel what it runs.
    pub fn key(&self) -> Option<Arc<Key>> {
        self.key.clone()
    }

    /// What a prepared statement takes and returns; none of one that is not prepared.
    pub fn signature(&self, sql: &str) -> Option<(&[Type], &[Column])> {
        let prepared = self.statements.get(sql)?;
        Some((&prepared.parameters, &prepared.columns))
    }

    /// Forgets prepared statements, whose tables may have changed.
    pub fn forget_statements(&mut self) {
        self.statements.forget();
    }

    /// Whether notices of the server are kept out of the log from now on.
    pub fn silence(&mut self, silent: bool) {
        self.wire.silence(silent);
    }

    /// Whether no transaction is open.
    pub fn is_idle(&self) -> bool {
        self.status == IDLE
    }

    /// Prepares and runs `calls`.
    pub fn run(&mut self, calls: &[Call<'_>], each: Rows<'_>) -> Result<Vec<CallResult>, Fault> {
        self.prepare(calls)?;
        self.fly(calls, each)
    }

    /// Sends `calls`, which are prepared, together, and hands on their rows as they arrive.
    pub fn fly(&mut self, calls: &[Call<'_>], each: Rows<'_>) -> Result<Vec<CallResult>, Fault> {
        self.write(calls)?;
        self.wire.begin_flight();
        self.wire.send();
        let mut outcomes = Vec::with_capacity(calls.len());
        while let Some(call) = calls.get(outcomes.len()) {
            match call {
                Call::Simple("") => outcomes.push(CallResult::Done(0)),
                Call::Simple(_) => {
                    let at = outcomes.len();
                    outcomes.push(self.text().map_err(|error| Fault { call: at, error })?);
                }
                Call::Prepared { .. } => self.together(calls, each, &mut outcomes)?,
            }
        }
        Ok(outcomes)
    }

    /// Writes the messages of `calls`; nothing of them where one cannot be written.
    fn write(&mut self, calls: &[Call<'_>]) -> Result<(), Fault> {
        let mut open = false;
        for (at, call) in calls.iter().enumerate() {
            let written = match call {
                Call::Simple(sql) => {
                    self.sync(std::mem::take(&mut open));
                    match sql.is_empty() {
                        true => Ok(()),
                        false => frontend::query(sql, self.wire.outbox()).map_err(unsendable),
                    }
                }
                Call::Prepared { sql, parameters, keeps_plan, .. } => {
                    open = true;
                    let renewed = if *keeps_plan { Ok(()) } else { self.renew(sql) };
                    renewed.and_then(|()| self.bind(sql, parameters))
                }
            };
            if let Err(objection) = written {
                self.wire.discard();
                // Some count as prepared again that were not.
                self.statements.forget();
                return Err(Fault { call: at, error: objection.into() });
            }
        }
        self.sync(open);
        Ok(())
    }

    fn sync(&mut self, open: bool) {
        if open {
            frontend::sync(self.wire.outbox());
        }
    }

    /// Prepares a statement again before the server could settle for a plan. Not ahead of the
    /// flight: the transaction may have failed, and what the flight begins with undoes that.
    fn renew(&mut self, sql: &str) -> Result<(), Objection> {
        let Some(statement) = self.statements.get_mut(sql) else { return Ok(()) };
        if !statement.is_worn() {
            return Ok(());
        }
        let outbox = self.wire.outbox();
        let types = statement.parameters.iter().map(Type::oid);
        frontend::close(b'S', &statement.name, outbox)
            .and_then(|()| frontend::parse(&statement.name, sql, types, outbox))
            .map_err(unsendable)
    }

    fn bind(&mut self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<(), Objection> {
        let bug = |message: &str| Objection::new(Ground::Misuse, message);
        let statement =
            self.statements.get(sql).ok_or_else(|| bug("a statement is not prepared"))?;
        if values.len() != statement.parameters.len() {
            return Err(bug("a statement is run with other parameters than it has"));
        }
        let bound = frontend::bind(
            "",
            &statement.name,
            BINARY,
            values.iter().zip(&statement.parameters),
            |(value, type_), out| match value.to_sql_checked(type_, out)? {
                postgres_types::IsNull::Yes => Ok(IsNull::Yes),
                postgres_types::IsNull::No => Ok(IsNull::No),
            },
            BINARY,
            self.wire.outbox(),
        );
        match bound {
            Ok(()) => frontend::execute("", 0, self.wire.outbox()).map_err(unsendable),
            Err(BindError::Serialization(error)) => Err(unsendable(error)),
            Err(BindError::Conversion(error)) => {
                Err(bug("a parameter is not of its type").because(io::Error::other(error)))
            }
        }
    }

    /// Reads the answer to text that was sent as it is.
    fn text(&mut self) -> Result<CallResult, Error> {
        let mut refused = None;
        loop {
            let message = self.wire.message()?;
            match message.tag {
                backend::ROW_DESCRIPTION_TAG
                | backend::DATA_ROW_TAG
                | backend::COMMAND_COMPLETE_TAG
                | backend::EMPTY_QUERY_RESPONSE_TAG => {}
                backend::ERROR_RESPONSE_TAG => refused = Some(refusal(&message)?),
                backend::READY_FOR_QUERY_TAG => {
                    self.status = status(&message)?;
                    return Ok(refused.map_or(CallResult::Done(0), CallResult::Refused));
                }
                _ => return Err(unexpected(&message)),
            }
        }
    }

    /// Reads the answers to the prepared calls that come next and share a Sync.
    fn together(
        &mut self,
        calls: &[Call<'_>],
        each: Rows<'_>,
        outcomes: &mut Vec<CallResult>,
    ) -> Result<(), Fault> {
        let mut refused = false;
        while let Some(Call::Prepared { sql, .. }) = calls.get(outcomes.len()) {
            let at = outcomes.len();
            let outcome = match self.statements.get(sql) {
                Some(Prepared { columns, .. }) if !refused => {
                    answer(&mut self.wire, columns, &mut |row| each(at, row))
                }
                _ => Ok(CallResult::Skipped),
            };
            let outcome = outcome.map_err(|error| Fault { call: at, error })?;
            if !matches!(outcome, CallResult::Done(_))
                && let Some(statement) = self.statements.get_mut(sql)
            {
                statement.wear_out();
            }
            refused |= matches!(outcome, CallResult::Refused(_));
            outcomes.push(outcome);
        }
        let last = outcomes.len().saturating_sub(1);
        let failed = self.ready().map_err(|error| Fault { call: last, error })?;
        if let (Some(refusal), Some(outcome)) = (failed, outcomes.last_mut()) {
            // Without a transaction around them they were committed here.
            *outcome = CallResult::Refused(refusal);
        }
        Ok(())
    }

    /// Reads to the end of what shares a Sync.
    pub(crate) fn ready(&mut self) -> Result<Option<Box<Refusal>>, Error> {
        let mut refused = None;
        loop {
            let message = self.wire.message()?;
            match message.tag {
                backend::ERROR_RESPONSE_TAG => refused = Some(refusal(&message)?),
                backend::READY_FOR_QUERY_TAG => {
                    self.status = status(&message)?;
                    return Ok(refused);
                }
                _ => return Err(unexpected(&message)),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.wire.terminate();
    }
}

/// Reads the answer to a prepared call.
fn answer(
    wire: &mut Wire,
    columns: &Arc<[Column]>,
    each: &mut dyn FnMut(RowRef<'_>) -> ControlFlow<()>,
) -> Result<CallResult, Error> {
    loop {
        let message = wire.message()?;
        match message.tag {
            backend::DATA_ROW_TAG => {
                if each(RowRef::new(columns, message.body)?).is_break() {
                    return Err(Error::Stopped);
                }
            }
            backend::CLOSE_COMPLETE_TAG
            | backend::PARSE_COMPLETE_TAG
            | backend::BIND_COMPLETE_TAG => {}
            backend::COMMAND_COMPLETE_TAG => return Ok(CallResult::Done(affected(message.body))),
            backend::EMPTY_QUERY_RESPONSE_TAG => return Ok(CallResult::Done(0)),
            backend::ERROR_RESPONSE_TAG => return refusal(&message).map(CallResult::Refused),
            _ => return Err(unexpected(&message)),
        }
    }
}

/// What the server refused; a fault where the connection ends with it.
pub(crate) fn refusal(message: &Message<'_>) -> Result<Box<Refusal>, Error> {
    let backend::Message::ErrorResponse(body) = message.parse()? else {
        return Err(unexpected(message));
    };
    let refusal = Box::new(Refusal::read(&body)?);
    if refusal.is_fatal() { Err(Error::Refused(refusal)) } else { Ok(refusal) }
}

/// The state of the transaction.
fn status(message: &Message<'_>) -> Result<u8, Error> {
    message.body.first().copied().ok_or_else(|| garbled("a message is cut short").into())
}

pub(crate) fn unexpected(message: &Message<'_>) -> Error {
    match message.tag {
        // The server waits for rows, or is about to send them: neither ends by itself.
        backend::COPY_IN_RESPONSE_TAG | backend::COPY_OUT_RESPONSE_TAG | b'W' => {
            Objection::new(Ground::Copy, "COPY cannot be used").into()
        }
        _ => garbled("the server answered out of turn").into(),
    }
}

pub(crate) fn unsendable(error: io::Error) -> Objection {
    Objection::new(Ground::Unsendable, "a statement cannot be sent").because(error)
}
