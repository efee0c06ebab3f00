//! Lets the database understand the scripts that users wrote.
//!
//! What it does not understand is a mistake in a file, with its line and column. All of them are
//! told at once, before anything is changed.

use crate::deploy::VersionPlan;
use crate::deploy::own::{TableScript, refused, returned, sets_nothing, wrong_width};
use crate::postgres::connect::NO_SEARCH_PATH;
use crate::postgres::deploy::details::TableDetails;
use crate::postgres::deploy::own_times::wrong_times;
use crate::postgres::deploy::plan::{Plan, PostgresSchema};
use crate::postgres::download::own_cursor;
use crate::postgres::errors::{Fault, code, failed};
use crate::postgres::event_script::{first_word, place_in, sets};
use crate::postgres::link::line::Signature;
use crate::postgres::link::{Call, Column, Link};
use crate::postgres::statement::Statement;
use crate::postgres::values::ColumnType;
use crate::script::own::no_table;
use crate::script::{Event, Mistake, Parameter, Piece, Script};
use model::{Code, Failure, PublishedTable};
use postgres_driver::Refusal;
use postgres_types::ToSql;

/// When the scripts are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::postgres) enum Moment {
    /// Before anything is changed: what this deployment makes may be missing.
    Before,
    /// When all is there but the new model.
    Behind,
}

/// Refuses a plan in which a user's script is wrong.
pub(in crate::postgres) fn understand(
    link: &mut Link,
    plan: &mut Plan,
    moment: Moment,
) -> Result<(), Failure> {
    let mut mistakes = Vec::new();
    for version in &plan.versions {
        let makes_session = version.scripts.iter().any(|script| script.event.makes_session());
        if !makes_session {
            mistakes.extend(mistakes_in(link, version, moment)?);
            continue;
        }
        link.batch("BEGIN").map_err(failed("begin a transaction"))?;
        let begun = begin_connection(link, version);
        let found = match begun {
            Ok(begun) if begun.is_empty() => mistakes_in(link, version, moment),
            begun => begun,
        };
        link.roll_back();
        mistakes.extend(found?);
    }
    mistakes.extend(unknown_zones(link, plan)?);
    plan.mistakes.extend(mistakes);
    refused(&plan.mistakes)
}

/// Makes what the other scripts of a version find on its connections. What is wrong with the
/// scripts that make it is returned.
fn begin_connection(
    link: &mut Link,
    version: &VersionPlan<PostgresSchema>,
) -> Result<Vec<String>, Failure> {
    for script in version.scripts.iter().filter(|script| script.event.begins_connection()) {
        let whole = script.parse_of_version()?;
        for one in whole.statements() {
            let (statement, begins) = Statement::rendered(one, &no_table(), &[], None);
            let nothing = None::<&str>;
            let values: Vec<&(dyn ToSql + Sync)> =
                statement.slots.iter().map(|_| &nothing as &(dyn ToSql + Sync)).collect();
            link.batch("RESET search_path").map_err(failed("run a script"))?;
            let Err(fault) = link.flight(&[Call::new(&statement.sql, &values)]) else { continue };
            let Some(refusal) = fault.db() else { return Err(failed("run a script")(fault)) };
            let at = one.place_of(place_in(&statement.sql, refusal), &begins);
            return Ok(vec![script.told(&Mistake { at, message: refusal.message().to_owned() })]);
        }
    }
    Ok(Vec::new())
}

/// What is wrong with the scripts of a version.
fn mistakes_in(
    link: &mut Link,
    version: &VersionPlan<PostgresSchema>,
    moment: Moment,
) -> Result<Vec<String>, Failure> {
    let mut mistakes = Vec::new();
    for table in &version.tables {
        for script in table.scripts.iter().filter(|script| script.is_own()) {
            let table = (&table.published, &table.details);
            mistakes.extend(mistakes_of(link, script, table, moment)?);
        }
    }
    // Those have run.
    for script in version.scripts.iter().filter(|script| !script.event.begins_connection()) {
        mistakes.extend(mistakes_of_version(link, script, moment)?);
    }
    Ok(mistakes)
}

/// What is wrong with a script that belongs to no table.
fn mistakes_of_version(
    link: &mut Link,
    script: &TableScript,
    moment: Moment,
) -> Result<Vec<String>, Failure> {
    let whole = script.parse_of_version()?;
    let (mut found, mut returned) = (Vec::new(), Vec::new());
    for one in whole.statements() {
        let (statement, begins) = Statement::rendered(one, &no_table(), &[], None);
        match understood(link, &statement.sql) {
            // What a procedure returns is known when it has run.
            Ok(_) if !one.counts() => returned.push(None),
            Ok(Signature { columns, .. }) => {
                let wrong = columns.iter().find_map(|column| wrong_type(&whole, column));
                found.extend(wrong.map(|message| Mistake {
                    at: one.place_of(first_word(&statement.sql), &begins),
                    message,
                }));
                returned.push(Some(columns.into_iter().map(|column| column.name).collect()));
            }
            Err(fault) => found.extend(
                mistake_in(one, (&statement.sql, &begins), moment, fault)
                    .map_err(|fault| fault.failure(format_args!("understand {}", script.event)))?,
            ),
        }
    }
    if found.is_empty() && !whole.is_ignored() {
        let wrong = sets_nothing(script.event, &returned);
        found.extend(wrong.map(|message| Mistake { at: 0, message }));
    }
    Ok(found.iter().map(|mistake| script.told(mistake)).collect())
}

/// What is wrong with a column that has the name of a value which the script may set, if its type
/// cannot be one.
fn wrong_type(script: &Script, column: &Column) -> Option<String> {
    let is_time = script.may_set(&column.name)?.is_time();
    let right = if is_time { "timestamptz" } else { "integer or text" };
    let Column { name, type_, .. } = column;
    (!sets(type_, is_time))
        .then(|| format!("it returns {name} as {}: cast it to {right}", type_.name()))
}

/// Time zones of models that the database does not know.
fn unknown_zones(link: &mut Link, plan: &Plan) -> Result<Vec<String>, Failure> {
    let mut unknown = Vec::new();
    for version in &plan.versions {
        let mut zones = version.tables.iter().filter_map(|table| table.details.time_zone.as_ref());
        let Some(zone) = zones.next() else { continue };
        let sql = "SELECT clock_timestamp() AT TIME ZONE $1";
        match link.query(sql, &[zone]) {
            Ok(_) => {}
            Err(fault) => match fault.db() {
                Some(refusal) => unknown.push(format!("time_zone: {}", refusal.message())),
                None => return Err(fault.failure("look up the time zone")),
            },
        }
    }
    Ok(unknown)
}

/// What is wrong with one script, each with its place.
fn mistakes_of(
    link: &mut Link,
    script: &TableScript,
    (published, details): (&PublishedTable, &TableDetails),
    moment: Moment,
) -> Result<Vec<String>, Failure> {
    let whole = script.parse(published)?;
    let mut found = Vec::new();
    for one in whole.statements() {
        let (statement, begins) =
            Statement::rendered(one, published, &details.columns, details.time_zone.as_deref());
        if let Some(piece) = row_among_sets(&whole, one) {
            let why = "a script that names a batch cannot name the values of one row";
            let at = one.place_of(begins[piece], &begins);
            found.push(Mistake { at, message: why.to_owned() });
            continue;
        }
        let fault = match understood(link, &statement.sql) {
            Ok(Signature { columns, .. }) => {
                let wrong = wrong_columns(script.event, &columns, published, &details.columns);
                let wrong =
                    wrong.or_else(|| unfit(link, script.event, &statement, published, details));
                let at = one.place_of(first_word(&statement.sql), &begins);
                found.extend(wrong.map(|message| Mistake { at, message }));
                found.extend(wrong_times(
                    link,
                    one,
                    (&statement, &begins),
                    details,
                    |link, sql| understood(link, sql).ok(),
                )?);
                continue;
            }
            Err(fault) => fault,
        };
        found.extend(
            mistake_in(one, (&statement.sql, &begins), moment, fault)
                .map_err(|fault| fault.failure(format_args!("understand {}", script.event)))?,
        );
    }
    Ok(found.iter().map(|mistake| script.told(mistake)).collect())
}

/// What the database does not understand in a statement of a script; none of what may be made yet.
fn mistake_in(
    one: &Script,
    (sql, begins): (&str, &[usize]),
    moment: Moment,
    fault: Fault,
) -> Result<Option<Mistake>, Fault> {
    let Some(refusal) = fault.db().filter(|refusal| is_mistake(refusal)) else { return Err(fault) };
    if moment == Moment::Before && may_be_ours(sql, refusal) {
        return Ok(None);
    }
    let at = one.place_of(place_in(sql, refusal), begins);
    Ok(Some(Mistake { at, message: refusal.message().to_owned() }))
}

/// The names of a script are looked up as for an upload. In a transaction, one that is not
/// understood leaves the transaction as it was.
fn understood(link: &mut Link, sql: &str) -> Result<Signature, Fault> {
    let is_in_transaction = link.is_in_transaction();
    if is_in_transaction {
        link.batch("SAVEPOINT understood")?;
    }
    link.batch("RESET search_path")?;
    let understood = link.understand(sql);
    if is_in_transaction && !link.is_lost() {
        link.batch("ROLLBACK TO SAVEPOINT understood; RELEASE SAVEPOINT understood")?;
    }
    if !link.is_lost() {
        link.batch(NO_SEARCH_PATH)?;
    }
    understood
}

/// Why rows cannot be looked up inside of a cursor, if they cannot: it changes rows, for instance.
fn unfit(
    link: &mut Link,
    event: Event,
    cursor: &Statement,
    table: &PublishedTable,
    details: &TableDetails,
) -> Option<String> {
    if event != Event::DownloadCursor {
        return None;
    }
    let lookup = own_cursor::by_key(cursor, table, &details.columns);
    let fault = understood(link, &lookup.sql).err()?;
    fault.db().map(|refusal| {
        format!("rows cannot be looked up in it by their keys: {}", refusal.message())
    })
}

/// What is wrong with the columns that a cursor returns, if something is.
fn wrong_columns(
    event: Event,
    found: &[Column],
    table: &PublishedTable,
    types: &[ColumnType],
) -> Option<String> {
    if let Some(wrong) = wrong_width(event, table, found.len()) {
        return Some(wrong);
    }
    let wanted = returned(event, table);
    let mut pairs = wanted.iter().map(|at| &types[*at]).zip(found);
    let (wanted, found) = pairs.find(|(wanted, found)| !wanted.takes(&found.type_))?;
    let (name, found) = (&found.name, found.type_.name());
    Some(format!(
        "it returns {name} as {found}: cast it to what the published column is, {}",
        wanted.cast
    ))
}

/// A value of one row in a script that takes a whole batch: its piece in the statement `one`.
fn row_among_sets(whole: &Script, one: &Script) -> Option<usize> {
    if !whole.statements().any(|statement| statement.batch().is_some()) {
        return None;
    }
    one.pieces.iter().position(|piece| match piece {
        Piece::Parameter(at) => {
            matches!(one.parameters[*at], Parameter::New(_) | Parameter::Old(_))
        }
        Piece::Text(_) | Piece::Relation(_) => false,
    })
}

/// Whether the script is to blame, and not the state of the database.
fn is_mistake(refusal: &Refusal) -> bool {
    refusal.state().starts_with("42") || code(refusal.state()) == Code::ScriptFailed
}

/// Whether it is about something of ours that is not there: a schema, a table or a column. A column
/// of a log has no name of ours.
fn may_be_ours(sql: &str, refusal: &Refusal) -> bool {
    matches!(refusal.state(), "3F000" | "42P01" | "42703") && sql.contains("syncline")
}
