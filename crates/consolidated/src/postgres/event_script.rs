//! Runs scripts of events that belong to no row.

use crate::catalog::VersionScripts;
use crate::download::time::Time;
use crate::postgres::errors::{Fault, failed, unreadable};
use crate::postgres::link::{Answer, Call, Link};
use crate::postgres::statement::{Slot, Statement, Value, as_parameters};
use crate::postgres::values::datetime::{self, Times};
use crate::script::around::Calls;
use crate::script::called::Called;
use crate::script::own::no_table;
use crate::script::told::ToldValues;
use crate::script::{Event, Mistake, Parameter, Script};
use crate::synchronization::Session;
use crate::upload::decisions::{Asks, Decisions};
use model::Failure;
use postgres_driver::Refusal;
use postgres_types::{FromSql, ToSql, Type};
use std::error::Error;

/// Decisions that `report_error` hears of in one transaction.
const TOGETHER: usize = 100;

/// The statements of a script.
struct Statements<'s>(Vec<(&'s Script, Statement, Vec<usize>)>);

impl<'s> Statements<'s> {
    /// Its times are local times of `zone`, where there is one.
    fn of(script: &'s Script, zone: Option<&str>) -> Statements<'s> {
        let rendered = script.statements().map(|one| {
            let (statement, begins) = Statement::rendered(one, &no_table(), &[], zone);
            (one, statement, begins)
        });
        Statements(rendered.collect())
    }

    /// The values of each statement.
    fn values<'v>(&self, session: &'v Session, told: &'v ToldValues) -> Vec<Vec<Value<'v>>> {
        let value = |slot: &Slot| -> Value<'v> {
            match slot {
                Slot::Session(Parameter::Told(of)) if of.is_time() => Box::new(told.time(*of)),
                Slot::Session(Parameter::Told(of)) => Box::new(told.get(*of)),
                Slot::Session(Parameter::LastDownload) => Box::new(told.times.oldest),
                Slot::Session(Parameter::LastTableDownload) => Box::new(told.times.table),
                Slot::Session(parameter) => Box::new(session.value_of(parameter)),
                _ => Box::new(None::<&str>),
            }
        };
        self.0.iter().map(|(_, it, _)| it.slots.iter().map(value).collect()).collect()
    }

    /// What is wrong with the statement that failed, in the text of the user.
    fn mistake(&self, at: usize, fault: &Fault) -> Option<Mistake> {
        let (script, statement, begins) = self.0.get(at)?;
        let refusal = fault.db()?;
        let at = script.place_of(place_in(&statement.sql, refusal), begins);
        Some(Mistake { at, message: refusal.message().to_owned() })
    }
}

/// The position of a refusal in the statement, in bytes; its first word where the database names
/// none.
pub(in crate::postgres) fn place_in(sql: &str, refusal: &Refusal) -> usize {
    match refusal.position() {
        Some(position) => {
            let found = sql.char_indices().nth(position.saturating_sub(1));
            found.map_or(sql.len(), |(at, _)| at)
        }
        None => first_word(sql),
    }
}

pub(in crate::postgres) fn first_word(sql: &str) -> usize {
    sql.len() - sql.trim_start().len()
}

/// The parameters of statements, as calls want them.
fn parameters<'p>(values: &'p [Vec<Value<'_>>]) -> Vec<Vec<&'p (dyn ToSql + Sync)>> {
    values.iter().map(|values| as_parameters(values)).collect()
}

/// A date and time as the database sends it, in microseconds since 2000.
struct Moment(i64);

impl<'a> FromSql<'a> for Moment {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Moment, Box<dyn Error + Sync + Send>> {
        Ok(Moment(i64::from_be_bytes(raw.try_into()?)))
    }

    fn accepts(type_: &Type) -> bool {
        matches!(*type_, Type::TIMESTAMPTZ | Type::TIMESTAMP)
    }
}

/// Whether a value of this type can be set, also one that is a `moment`.
pub(in crate::postgres) fn sets(type_: &Type, moment: bool) -> bool {
    let is_number = matches!(*type_, Type::INT2 | Type::INT4 | Type::INT8);
    (if moment { Moment::accepts(type_) } else { is_number })
        || *type_ == Type::UNKNOWN
        || <String as FromSql>::accepts(type_)
}

/// The first row of these answers.
fn called(answers: &[Answer]) -> Result<Called, Failure> {
    let mut row = Vec::new();
    let Some(found) = answers.iter().find_map(|answer| answer.rows.first()) else {
        return Ok(Called { row });
    };
    for (at, column) in found.columns().iter().enumerate() {
        let value = match column.type_ {
            Type::INT2 => found.try_get::<Option<i16>>(at).map(|it| it.map(|n| n.to_string())),
            Type::INT4 => found.try_get::<Option<i32>>(at).map(|it| it.map(|n| n.to_string())),
            Type::INT8 => found.try_get::<Option<i64>>(at).map(|it| it.map(|n| n.to_string())),
            Type::TIMESTAMPTZ | Type::TIMESTAMP => {
                let utc = column.type_ == Type::TIMESTAMPTZ;
                let moment = found.try_get::<Option<Moment>>(at);
                moment.map(|it| {
                    it.map(|Moment(micros)| datetime::timestamp(micros, utc, Times::Full))
                })
            }
            // Where it is no text, it sets nothing.
            _ => Ok(found.try_get::<Option<String>>(at).unwrap_or_default()),
        };
        row.push((column.name.clone(), value.map_err(unreadable)?));
    }
    Ok(Called { row })
}

/// Runs scripts inside of a transaction.
pub(in crate::postgres) struct Running<'a> {
    pub(in crate::postgres) link: &'a mut Link,
    /// Of the times of the script version, if it has one.
    pub(in crate::postgres) zone: Option<&'a str>,
}

impl Calls for Running<'_> {
    fn call(
        &mut self,
        script: &Script,
        session: &Session,
        told: &ToldValues,
    ) -> Result<Result<Called, Mistake>, Failure> {
        let statements = Statements::of(script, self.zone);
        let values = statements.values(session, told);
        let bound = parameters(&values);
        let mut answers = Vec::with_capacity(bound.len());
        // One by one: a flight would prepare all before the first has made what the next one names.
        for (at, ((_, statement, _), values)) in statements.0.iter().zip(&bound).enumerate() {
            match self.link.flight(&[Call::new(&statement.sql, values)]) {
                Ok(answered) => answers.extend(answered),
                Err(fault) => match statements.mistake(at, &fault) {
                    Some(mistake) => return Ok(Err(mistake)),
                    None => return Err(failed("run a script")(fault)),
                },
            }
        }
        called(&answers).map(Ok)
    }

    // What has no offset from UTC is UTC. But a script version may have another time zone.
    fn moment(&mut self, text: &str) -> Result<Option<Time>, Failure> {
        let has_offset = text.get(10..).is_some_and(|it| it.contains(['Z', '+', '-']));
        let read = datetime::read_timestamp(text.as_bytes(), true).ok();
        let read = read.filter(|_| has_offset || self.zone.is_none());
        Ok(read.map(datetime::since_1970))
    }
}

/// Asks scripts inside of an upload.
pub(in crate::postgres) struct Asking<'a> {
    pub(in crate::postgres) link: &'a mut Link,
    pub(in crate::postgres) session: &'a Session,
}

/// Around all questions, and around each.
const BEGIN: &str = "SAVEPOINT asking";
const BEGIN_AGAIN: &str = "ROLLBACK TO SAVEPOINT asking";
const END: &str = "RELEASE SAVEPOINT asking";
const UNDO: &str = "ROLLBACK TO SAVEPOINT asked; RELEASE SAVEPOINT asked";

const ASKING: &str = "ask a script about an error";

impl Asking<'_> {
    /// Asks with all of these values in one flight; or says which one failed.
    fn fly(
        &mut self,
        statements: &Statements<'_>,
        told: &[ToldValues],
    ) -> Result<Result<Vec<Called>, Mistake>, Failure> {
        let values: Vec<_> = told.iter().map(|it| statements.values(self.session, it)).collect();
        let bound: Vec<_> = values.iter().map(|values| parameters(values)).collect();
        let mut calls = Vec::new();
        for parameters in &bound {
            calls.push(Call::Simple("SAVEPOINT asked"));
            let each = statements.0.iter().zip(parameters);
            calls.extend(each.map(|((_, statement, _), values)| Call::new(&statement.sql, values)));
            calls.push(Call::Simple(UNDO));
        }
        let length = statements.0.len() + 2;
        match self.link.flight(&calls) {
            Ok(answers) => answers.chunks(length).map(called).collect::<Result<_, _>>().map(Ok),
            Err(fault) => match statements.mistake((fault.call % length).saturating_sub(1), &fault)
            {
                Some(mistake) => Ok(Err(mistake)),
                None => Err(failed(ASKING)(fault)),
            },
        }
    }
}

impl Asks for Asking<'_> {
    fn ask(
        &mut self,
        script: &Script,
        told: &[ToldValues],
    ) -> Result<Vec<Result<Called, Mistake>>, Failure> {
        let statements = Statements::of(script, None);
        self.link.batch(BEGIN).map_err(failed(ASKING))?;
        if let Ok(answers) = self.fly(&statements, told)? {
            self.link.batch(END).map_err(failed(ASKING))?;
            return Ok(answers.into_iter().map(Ok).collect());
        }
        // Which row it failed for, and what was said before, is found one by one. One that cannot
        // even be prepared has ended the transaction as far as the savepoint.
        self.link.batch(BEGIN_AGAIN).map_err(failed(ASKING))?;
        let mut answers = Vec::new();
        for values in told {
            let answer = self.fly(&statements, std::slice::from_ref(values))?;
            let answer = answer.map(|mut called| called.pop().unwrap_or_default());
            let fails = answer.is_err();
            answers.push(answer);
            if fails {
                break;
            }
        }
        self.link.batch(BEGIN_AGAIN).and_then(|()| self.link.batch(END)).map_err(failed(ASKING))?;
        Ok(answers)
    }
}

/// Runs `report_error` for every decision that stands, in transactions of its own. What fails is
/// in the log alone: the upload has ended.
pub(in crate::postgres) fn report(
    link: &mut Link,
    scripts: &VersionScripts,
    session: &Session,
    decisions: &Decisions,
) {
    let Some(script) = scripts.script(Event::ReportError) else { return };
    let statements = Statements::of(script, None);
    let told: Vec<ToldValues> = decisions.reported.iter().map(|it| it.told()).collect();
    for together in told.chunks(TOGETHER) {
        let Err((fault, _)) = transact(link, &statements, session, together) else { continue };
        if fault.is_lost() {
            // Whether it was committed is not known, and it must not run twice.
            tracing::error!("the database is gone: report_error did not run, or not to its end");
            return;
        }
        for one in together {
            let Err((fault, at)) = transact(link, &statements, session, std::slice::from_ref(one))
            else {
                continue;
            };
            let mistake = at.and_then(|at| statements.mistake(at, &fault));
            let told = match mistake {
                Some(mistake) => scripts.told(session, (Event::ReportError, None), &mistake),
                None => fault.failure("report an error to a script").full_message(),
            };
            tracing::error!("report_error fails: {told}");
        }
    }
    decisions.tell_left_out();
}

/// Runs the script with each of these values, and commits. Where it fails, nothing of it remains,
/// and it is said which statement failed.
fn transact(
    link: &mut Link,
    statements: &Statements<'_>,
    session: &Session,
    told: &[ToldValues],
) -> Result<(), (Fault, Option<usize>)> {
    let values: Vec<_> = told.iter().map(|it| statements.values(session, it)).collect();
    let bound: Vec<_> = values.iter().map(|values| parameters(values)).collect();
    let mut calls = vec![Call::Simple("BEGIN")];
    for parameters in &bound {
        let each = statements.0.iter().zip(parameters);
        calls.extend(each.map(|((_, statement, _), values)| Call::new(&statement.sql, values)));
    }
    calls.push(Call::Simple("COMMIT"));
    link.flight(&calls).map(drop).map_err(|fault| {
        link.roll_back();
        let at = fault.call.checked_sub(1).map(|at| at % statements.0.len().max(1));
        (fault, at)
    })
}
