//! Prepares the statements of a flight that the server does not know yet.

use crate::call::{Call, CallResult};
use crate::fault::{Error, Fault};
use crate::message::garbled;
use crate::objection::{Ground, Objection};
use crate::prepared::Prepared;
use crate::row::{Column, Unreadable};
use crate::session::{Session, refusal, unexpected, unsendable};
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::{backend, frontend};
use postgres_types::{Kind, Oid, Type};
use std::ops::ControlFlow;

/// Of types that the library does not know.
const TYPES: &str = "SELECT t.oid, t.typname::text, t.typtype = 'e', n.nspname::text
FROM pg_catalog.pg_type AS t JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
WHERE t.oid = ANY ($1)";

/// What the server said, before unknown types are asked for.
struct Described {
    name: String,
    parameters: Vec<Oid>,
    columns: Vec<(String, Oid)>,
}

impl Session {
    /// Prepares what `calls` need and was not prepared yet, together. True when it had to ask.
    pub fn prepare(&mut self, calls: &[Call<'_>]) -> Result<bool, Fault> {
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
            match self.described(name).map_err(|error| Fault { call: *at, error }) {
                Ok(statement) => described.push((*at, *sql, statement)),
                Err(refused @ Fault { error: Error::Refused(_), .. }) if !refused.is_lost() => {
                    // The server skips the others.
                    fault = Some(refused);
                    break;
                }
                Err(lost) => return Err(lost),
            }
        }
        let last = missing.last().map_or(0, |(at, ..)| *at);
        self.ready().map_err(|error| Fault { call: last, error })?;
        self.statements.closing.drain(..closed);
        for (at, sql, statement) in described {
            let statement = self.resolve(statement).map_err(|error| Fault { call: at, error })?;
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
            Fault { call, error: unsendable(error).into() }
        })
    }

    /// Reads what the server says about one statement.
    fn described(&mut self, name: String) -> Result<Described, Error> {
        let mut described = Described { name, parameters: Vec::new(), columns: Vec::new() };
        loop {
            let message = self.wire.message()?;
            match message.tag {
                backend::CLOSE_COMPLETE_TAG | backend::PARSE_COMPLETE_TAG => {}
                backend::NO_DATA_TAG => return Ok(described),
                backend::ERROR_RESPONSE_TAG => {
                    return Err(Error::Refused(refusal(&message)?));
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
    fn resolve(&mut self, described: Described) -> Result<Prepared, Error> {
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
            known.ok_or_else(|| Error::from(garbled("the server does not know its own type")))
        };
        let parameters = parameters.into_iter().map(type_of).collect::<Result<_, _>>()?;
        let columns = columns
            .into_iter()
            .map(|(name, oid)| Ok(Column { name, type_: type_of(oid)? }))
            .collect::<Result<_, Error>>()?;
        Ok(Prepared { flight: self.statements.flight, runs: 0, name, parameters, columns })
    }

    /// Asks for types.
    fn learn(&mut self, oids: Vec<Oid>) -> Result<(), Error> {
        let mut rows = Vec::new();
        let outcomes = self
            .run(&[Call::new(TYPES, &[&oids])], &mut |_, row| {
                rows.push(row.to_row());
                ControlFlow::Continue(())
            })
            .map_err(|fault| fault.error)?;
        for outcome in outcomes {
            if let CallResult::Refused(refusal) = outcome {
                return Err(Error::Refused(refusal));
            }
        }
        for row in rows {
            let read = || {
                let kind = if row.try_get(2)? { Kind::Enum(Vec::new()) } else { Kind::Simple };
                let oid: Oid = row.try_get(0)?;
                Ok((oid, Type::new(row.try_get(1)?, oid, kind, row.try_get(3)?)))
            };
            let (oid, type_) = read().map_err(|error: Unreadable| {
                let message = "a type is not described as it was asked";
                Objection::new(Ground::Misuse, message).because(error)
            })?;
            self.statements.types.insert(oid, type_);
        }
        Ok(())
    }
}
