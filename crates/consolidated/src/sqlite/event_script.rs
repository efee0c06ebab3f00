//! Runs scripts of events that belong to no row.

use super::errors::failed;
use super::query;
use super::values::{bind_session, bind_time};
use crate::catalog::VersionScripts;
use crate::download::time::Time;
use crate::script::around::Calls;
use crate::script::called::Called;
use crate::script::told::ToldValues;
use crate::script::{Event, Mistake, Parameter, Piece, Script};
use crate::synchronization::Session;
use crate::upload::decisions::{Asks, Decisions};
use model::{Code, Failure};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Row, Statement};

/// Runs all statements of a script, and takes the first row that any returns.
pub(super) fn call(
    connection: &Connection,
    script: &Script,
    session: &Session,
    told: &ToldValues,
) -> Result<Called, Mistake> {
    let mut called = Called::default();
    for one in script.statements() {
        let mut run = || -> rusqlite::Result<()> {
            let mut statement = connection.prepare_cached(&one.sql)?;
            bind(&mut statement, one, session, told)?;
            if statement.column_count() == 0 {
                return statement.raw_execute().map(drop);
            }
            let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                if called.row.is_empty() {
                    called.row = read(&names, row)?;
                }
            }
            Ok(())
        };
        run().map_err(|error| mistake(one, &error))?;
    }
    Ok(called)
}

fn bind(
    statement: &mut Statement<'_>,
    script: &Script,
    session: &Session,
    told: &ToldValues,
) -> rusqlite::Result<()> {
    for (index, parameter) in script.parameters.iter().enumerate() {
        match parameter {
            Parameter::Told(of) if of.is_time() => {
                bind_time(statement, index + 1, told.time(*of))?;
            }
            Parameter::Told(of) if of.is_number() => {
                let number = told.get(*of).and_then(|text| text.parse::<i64>().ok());
                statement.raw_bind_parameter(index + 1, number)?;
            }
            Parameter::Told(of) => statement.raw_bind_parameter(index + 1, told.get(*of))?,
            Parameter::LastDownload => bind_time(statement, index + 1, told.times.oldest)?,
            Parameter::LastTableDownload => bind_time(statement, index + 1, told.times.table)?,
            parameter => bind_session(statement, index + 1, parameter, session)?,
        }
    }
    Ok(())
}

fn read(names: &[String], row: &Row<'_>) -> rusqlite::Result<Vec<(String, Option<String>)>> {
    let mut values = Vec::with_capacity(names.len());
    for (at, name) in names.iter().enumerate() {
        let value = match row.get_ref(at)? {
            ValueRef::Null => None,
            ValueRef::Integer(number) => Some(number.to_string()),
            ValueRef::Real(number) => Some(number.to_string()),
            ValueRef::Text(text) | ValueRef::Blob(text) => {
                Some(String::from_utf8_lossy(text).into_owned())
            }
        };
        values.push((name.clone(), value));
    }
    Ok(values)
}

/// What is wrong with a statement, at its place in the text of the user. What fails while it runs
/// is told at its begin.
pub(super) fn mistake(script: &Script, error: &Error) -> Mistake {
    let (begin, message) = match error {
        Error::SqlInputError { msg, offset, .. } => (usize::try_from(*offset).ok(), msg.clone()),
        Error::SqliteFailure(_, Some(message)) => (None, message.clone()),
        error => (None, error.to_string()),
    };
    let first = script.sql.len() - script.sql.trim_start().len();
    Mistake { at: script.place_of(begin.unwrap_or(first), &begins(script)), message }
}

/// Where each piece of the script begins in what SQLite is given.
pub(super) fn begins(script: &Script) -> Vec<usize> {
    let mut end = 0;
    let lengths = script.pieces.iter().map(|piece| match piece {
        Piece::Text(text) => text.len(),
        Piece::Parameter(at) => script.spelled(*at).len(),
        Piece::Relation(_) => 0,
    });
    lengths
        .map(|length| {
            let begin = end;
            end += length;
            begin
        })
        .collect()
}

/// Runs scripts inside of a transaction.
pub(super) struct Running<'a>(pub(super) &'a Connection);

impl Calls for Running<'_> {
    fn call(
        &mut self,
        script: &Script,
        session: &Session,
        told: &ToldValues,
    ) -> Result<Result<Called, Mistake>, Failure> {
        let called = call(self.0, script, session, told);
        match (called, self.0.is_autocommit()) {
            (Ok(_), true) => {
                Err(Failure::new(Code::ScriptFailed, "a script ended the transaction"))
            }
            (called, _) => Ok(called),
        }
    }

    fn moment(&mut self, text: &str) -> Result<Option<Time>, Failure> {
        let doing = "understand the time that a script returned";
        let seconds: Option<i64> = query::value(self.0, doing, "SELECT unixepoch(?1)", [text])?;
        Ok(seconds.and_then(|seconds| seconds.checked_mul(1_000_000)))
    }
}

/// Asks scripts inside of an upload.
pub(super) struct Asking<'a> {
    pub(super) connection: &'a Connection,
    pub(super) session: &'a Session,
}

impl Asks for Asking<'_> {
    fn ask(
        &mut self,
        script: &Script,
        told: &[ToldValues],
    ) -> Result<Vec<Result<Called, Mistake>>, Failure> {
        let run = |sql| self.connection.execute_batch(sql).map_err(failed("set a savepoint"));
        let mut answers = Vec::with_capacity(told.len());
        for values in told {
            run("SAVEPOINT asked")?;
            let called = call(self.connection, script, self.session, values);
            if self.connection.is_autocommit() {
                return Err(Failure::new(Code::ScriptFailed, "a script ended the transaction"));
            }
            run("ROLLBACK TO asked; RELEASE asked")?;
            let fails = called.is_err();
            answers.push(called);
            if fails {
                break;
            }
        }
        Ok(answers)
    }
}

/// Runs `report_error` for every decision that stands, in a transaction of its own. What fails is
/// in the log alone: the upload has ended.
pub(super) fn report(
    connection: &Connection,
    scripts: &VersionScripts,
    session: &Session,
    decisions: &Decisions,
) -> Result<(), Failure> {
    let Some(script) = scripts.script(Event::ReportError) else { return Ok(()) };
    let run = |sql| connection.execute_batch(sql).map_err(failed("report errors to a script"));
    run("BEGIN IMMEDIATE")?;
    for decision in &decisions.reported {
        run("SAVEPOINT reported")?;
        if let Err(why) = call(connection, script, session, &decision.told()) {
            tracing::error!(
                "report_error fails: {}",
                scripts.told(session, (Event::ReportError, None), &why)
            );
            if connection.is_autocommit() {
                return Ok(());
            }
            run("ROLLBACK TO reported")?;
        }
        run("RELEASE reported")?;
    }
    decisions.tell_left_out();
    run("COMMIT")
}
