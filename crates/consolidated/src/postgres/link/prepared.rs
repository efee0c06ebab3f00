//! Statements that were prepared, and what the server said about them.

use super::Call;
use super::message::garbled;
use super::row::Column;
use super::session::{Outcome, Session, refusal, unexpected};
use crate::postgres::errors::{Fault, FaultKind};
use fallible_iterator::FallibleIterator;
use model::{Code, Failure};
use postgres_protocol::message::{backend, frontend};
use postgres_types::{Kind, Oid, Type};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Most prepared statements kept between flights. A download runs three or four for each table, so
/// those of a thousand tables fit. The database spends some ten thousand bytes on each that is in
/// use; beyond it those that were not used for longest make room.
pub(super) const STATEMENTS_MAX: usize = 4096;

/// Of types that the library does not know.
const TYPES: &str = "SELECT t.oid, t.typname::text, t.typtype = 'e', n.nspname::text
FROM pg_catalog.pg_type AS t JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
WHERE t.oid = ANY ($1)";

/// How often the server plans a statement for the values at hand; from then on it may keep a plan.
const RUNS_MAX: u32 = 5;

/// A statement that the server knows by name.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The flight that ran it last.
    flight: u64,
    /// Since it was prepared, of one that must not keep its plan.
    runs: u32,
    pub(super) name: String,
    pub(super) parameters: Vec<Type>,
    pub(super) columns: Arc<[Column]>,
}

impl Prepared {
    /// Counts a run of a statement that must not keep its plan. True if the server must discard it
    /// and prepare it again before this run.
    pub(super) fn is_worn(&mut self) -> bool {
        let worn = self.runs >= RUNS_MAX;
        self.runs = if worn { 1 } else { self.runs + 1 };
        worn
    }

    /// It is not known whether the server has prepared it again.
    pub(super) fn wear_out(&mut self) {
        self.runs = RUNS_MAX;
    }
}

/// What the server said, before unknown types are asked for.
struct Described {
    name: String,
    parameters: Vec<Oid>,
    columns: Vec<(String, Oid)>,
}

/// The statements of one session, by their text.
#[derive(Debug, Default)]
pub(super) struct Statements {
    /// That of the session: no other has statements of the same names.
    mark: String,
    known: HashMap<Box<str>, Prepared>,
    /// Types of the database's own.
    types: HashMap<Oid, Type>,
    /// How many there were, which names the next.
    count: u64,
    /// The server may forget these.
    closing: Vec<String>,
    /// The number of the flight that is being prepared.
    flight: u64,
}

impl Statements {
    /// None yet, of the session with this mark.
    pub(super) fn of(mark: &str) -> Statements {
        Statements { mark: mark.to_owned(), ..Statements::default() }
    }

    pub(super) fn get(&self, sql: &str) -> Option<&Prepared> {
        self.known.get(sql)
    }

    pub(super) fn get_mut(&mut self, sql: &str) -> Option<&mut Prepared> {
        self.known.get_mut(sql)
    }

    /// Forgets all: their tables may have changed.
    pub(super) fn forget(&mut self) {
        self.closing.extend(self.known.drain().map(|(_, statement)| statement.name));
        self.types.clear();
    }

    /// The calls whose statements are not known, one for each statement. The others are noted as
    /// in use.
    fn missing<'c>(&mut self, calls: &'c [Call<'_>]) -> Vec<(usize, &'c str, &'c [Type])> {
        self.flight += 1;
        let mut seen = HashSet::new();
        let mut missing = Vec::new();
        for (at, call) in calls.iter().enumerate() {
            let Call::Prepared { sql, types, .. } = call else { continue };
            match self.known.get_mut(*sql) {
                Some(statement) => statement.flight = self.flight,
                None if seen.insert(*sql) => missing.push((at, *sql, *types)),
                None => {}
            }
        }
        missing
    }

    /// Forgets those that were not used for longest, until `count` more have room. None of this
    /// flight, nor of the one before, which may be about to leave while its types are asked for:
    /// a flight that needs more than have room has them all.
    fn make_room(&mut self, count: usize) {
        let excess = (self.known.len() + count).saturating_sub(STATEMENTS_MAX);
        if excess == 0 {
            return;
        }
        let mut others: Vec<(u64, Box<str>)> = self
            .known
            .iter()
            .filter(|(_, statement)| statement.flight + 1 < self.flight)
            .map(|(sql, statement)| (statement.flight, sql.clone()))
            .collect();
        if excess < others.len() {
            others.select_nth_unstable(excess);
            others.truncate(excess);
        }
        for (_, sql) in others {
            self.closing.extend(self.known.remove(&sql).map(|statement| statement.name));
        }
    }

    fn next_name(&mut self) -> String {
        self.count += 1;
        format!("{}_{}", self.mark, self.count)
    }
}

impl Session {
    /// Prepares what `calls` need and was not prepared yet, together. True when it had to ask.
    pub(super) fn prepare(&mut self, calls: &[Call<'_>]) -> Result<bool, Fault> {
        let missing = self.statements.missing(calls);
        if missing.is_empty() {
            return Ok(false);
        }
        self.statements.make_room(missing.len());
        let closed = self.statements.closing.len();
        let names = self.write_parse(&missing)?;
        self.wire.send();
        let mut described = Vec::with_capacity(missing.len());
        let mut fault = None;
        for ((at, sql, _), name) in missing.iter().zip(names) {
            match self.described(name).map_err(|kind| Fault { call: *at, kind }) {
                Ok(statement) => described.push((*at, *sql, statement)),
                Err(refused @ Fault { kind: FaultKind::Refused(_), .. }) if !refused.is_lost() => {
                    // The server skips the others.
                    fault = Some(refused);
                    break;
                }
                Err(lost) => return Err(lost),
            }
        }
        let last = missing.last().map_or(0, |(at, ..)| *at);
        self.ready().map_err(|kind| Fault { call: last, kind })?;
        self.statements.closing.drain(..closed);
        for (at, sql, statement) in described {
            let statement = self.resolve(statement).map_err(|kind| Fault { call: at, kind })?;
            self.statements.known.insert(sql.into(), statement);
        }
        fault.map_or(Ok(true), Err)
    }

    /// Writes what prepares the `missing`, and returns their names.
    fn write_parse(&mut self, missing: &[(usize, &str, &[Type])]) -> Result<Vec<String>, Fault> {
        let mut names = Vec::with_capacity(missing.len());
        let outbox = self.wire.outbox();
        let mut written = Ok(());
        for name in &self.statements.closing {
            written = written.and_then(|()| frontend::close(b'S', name, outbox));
        }
        let mut call = 0;
        for (at, sql, types) in missing {
            let name = self.statements.next_name();
            call = *at;
            written = frontend::parse(&name, sql, types.iter().map(Type::oid), outbox)
                .and_then(|()| frontend::describe(b'S', &name, outbox));
            if written.is_err() {
                break;
            }
            names.push(name);
        }
        frontend::sync(outbox);
        written.map(|()| names).map_err(|error| {
            self.wire.discard();
            let failure = Failure::new(Code::ScriptFailed, "a statement cannot be sent");
            Fault { call, kind: FaultKind::Failure(failure.source(error)) }
        })
    }

    /// Reads what the server says about one statement.
    fn described(&mut self, name: String) -> Result<Described, FaultKind> {
        let mut described = Described { name, parameters: Vec::new(), columns: Vec::new() };
        loop {
            let message = self.wire.message()?;
            match message.tag {
                backend::CLOSE_COMPLETE_TAG | backend::PARSE_COMPLETE_TAG => {}
                backend::NO_DATA_TAG => return Ok(described),
                backend::ERROR_RESPONSE_TAG => {
                    return Err(FaultKind::Refused(refusal(&message)?));
                }
                backend::PARAMETER_DESCRIPTION_TAG | backend::ROW_DESCRIPTION_TAG => {}
                _ => return Err(unexpected(&message)),
            }
            match message.parse()? {
                backend::Message::ParameterDescription(body) => {
                    described.parameters = body.parameters().collect()?;
                }
                backend::Message::RowDescription(body) => {
                    let columns = body.fields();
                    described.columns = columns
                        .map(|field| Ok((field.name().to_owned(), field.type_oid())))
                        .collect()?;
                    return Ok(described);
                }
                _ => {}
            }
        }
    }

    /// Gives the types their names.
    fn resolve(&mut self, described: Described) -> Result<Prepared, FaultKind> {
        let Described { name, parameters, columns } = described;
        let oids = parameters.iter().chain(columns.iter().map(|(_, oid)| oid));
        let is_known =
            |oid: &Oid| Type::from_oid(*oid).is_some() || self.statements.types.contains_key(oid);
        let unknown: Vec<Oid> = oids.copied().filter(|oid| !is_known(oid)).collect();
        if !unknown.is_empty() {
            self.learn(unknown)?;
        }
        let type_of = |oid: Oid| {
            let known = Type::from_oid(oid).or_else(|| self.statements.types.get(&oid).cloned());
            known.ok_or_else(|| FaultKind::from(garbled("the server does not know its own type")))
        };
        let parameters = parameters.into_iter().map(type_of).collect::<Result<_, _>>()?;
        let columns = columns
            .into_iter()
            .map(|(name, oid)| Ok(Column { name, type_: type_of(oid)? }))
            .collect::<Result<_, FaultKind>>()?;
        Ok(Prepared { flight: self.statements.flight, runs: 0, name, parameters, columns })
    }

    /// Asks for types.
    fn learn(&mut self, oids: Vec<Oid>) -> Result<(), FaultKind> {
        let mut rows = Vec::new();
        let outcomes = self
            .run(&[Call::new(TYPES, &[&oids])], &mut |_, row| {
                rows.push(row.to_row());
                Ok(())
            })
            .map_err(|fault| fault.kind)?;
        for outcome in outcomes {
            if let Outcome::Refused(refusal) = outcome {
                return Err(FaultKind::Refused(refusal));
            }
        }
        for row in rows {
            let read = || {
                let kind = if row.try_get(2)? { Kind::Enum(Vec::new()) } else { Kind::Simple };
                let oid: Oid = row.try_get(0)?;
                Ok((oid, Type::new(row.try_get(1)?, oid, kind, row.try_get(3)?)))
            };
            let (oid, type_) = read().map_err(|error: super::row::Unreadable| {
                let failure = Failure::new(Code::Bug, "a type is not described as it was asked");
                FaultKind::Failure(failure.source(error))
            })?;
            self.statements.types.insert(oid, type_);
        }
        Ok(())
    }
}
