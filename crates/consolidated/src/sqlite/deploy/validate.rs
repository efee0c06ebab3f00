//! Lets SQLite understand the scripts that users wrote, and tells where it does not.

use crate::deploy::VersionPlan;
use crate::deploy::own::{TableScript, sets_nothing, wrong_width};
use crate::script::own::no_table;
use crate::script::{Event, Mistake, Piece, Script};
use crate::sqlite::deploy::plan::{Plan, SqliteSchema};
use crate::sqlite::errors::failed;
use crate::sqlite::event_script::{self, begins};
use crate::sqlite::owners_fault::owners_fault;
use crate::sqlite::query;
use model::{Failure, PublishedTable};
use rusqlite::{Connection, Error};

/// What is wrong with the scripts of users in `plan`, as lines for people.
pub(super) fn mistakes(connection: &Connection, plan: &Plan) -> Result<Vec<String>, Failure> {
    let mut told = Vec::new();
    for version in &plan.versions {
        let run = |sql| connection.execute_batch(sql).map_err(failed("set a savepoint"));
        run("SAVEPOINT understood")?;
        let begun = begin_connection(connection, version)?;
        match begun.is_empty() {
            true => told.extend(mistakes_of(connection, version)?),
            false => told.extend(begun),
        }
        run("ROLLBACK TO understood; RELEASE understood")?;
    }
    Ok(told)
}

/// Makes what the other scripts of a version find on its connections. What is wrong with the
/// scripts that make it is returned.
fn begin_connection(
    connection: &Connection,
    version: &VersionPlan<SqliteSchema>,
) -> Result<Vec<String>, Failure> {
    let mut told = Vec::new();
    for written in version.scripts.iter().filter(|script| script.event.begins_connection()) {
        let script = written.parse_of_version()?;
        for one in script.statements() {
            // Its parameters are NULL.
            let run = || connection.prepare(&one.sql)?.raw_query().next().map(drop);
            if let Err(error) = run() {
                told.push(written.told(&event_script::mistake(one, &error)));
                break;
            }
        }
    }
    Ok(told)
}

fn mistakes_of(
    connection: &Connection,
    version: &VersionPlan<SqliteSchema>,
) -> Result<Vec<String>, Failure> {
    let mut told = Vec::new();
    for table in &version.tables {
        for written in table.scripts.iter().filter(|script| script.is_own()) {
            let script = written.parse(&table.published)?;
            let event = written.event;
            let asked = script.statements();
            let mistakes =
                asked.filter_map(|one| mistake(connection, one, (event, &table.published)));
            told.extend(mistakes.map(|mistake| written.told(&mistake)));
        }
    }
    // Those have run.
    for written in version.scripts.iter().filter(|script| !script.event.begins_connection()) {
        told.extend(mistakes_of_version(connection, written)?);
    }
    Ok(told)
}

/// What is wrong with a script that belongs to no table.
fn mistakes_of_version(
    connection: &Connection,
    written: &TableScript,
) -> Result<Vec<String>, Failure> {
    let (script, table) = (written.parse_of_version()?, no_table());
    let (mut told, mut columns) = (Vec::new(), Vec::new());
    for one in script.statements() {
        told.extend(mistake(connection, one, (written.event, &table)));
        let prepared = connection.prepare(&one.sql).ok();
        let names = prepared.as_ref().map(|prepared| prepared.column_names());
        columns.push(names.map(|names| names.into_iter().map(str::to_owned).collect()));
    }
    if told.is_empty() && !script.is_ignored() {
        let wrong = sets_nothing(written.event, &columns);
        told.extend(wrong.map(|message| Mistake { at: 0, message }));
    }
    Ok(told.iter().map(|mistake| written.told(mistake)).collect())
}

/// Times that own cursors compare with numbers, which are less than any text, as lines for people.
pub(super) fn warnings(connection: &Connection, plan: &Plan) -> Result<Vec<String>, Failure> {
    let mut told = Vec::new();
    for table in plan.tables() {
        let cursors = table.scripts.iter().filter(|it| it.is_own() && !it.event.is_upload());
        for written in cursors {
            let script = written.parse(&table.published)?;
            let begins = begins(&script);
            for (at, piece) in script.pieces.iter().enumerate() {
                let Piece::Parameter(of) = piece else { continue };
                let column = compared_with(&script.pieces[..at]);
                let Some(column) = column.filter(|_| script.parameters[*of].is_time()) else {
                    continue;
                };
                if is_of_numbers(connection, column)? {
                    let message = format!(
                        "{column} is a column of numbers, and a number is less than any text: \
                         write unixepoch({{s.…}}) if it has seconds since 1970"
                    );
                    let at = script.place_of(begins[at], &begins);
                    told.push(written.told(&Mistake { at, message }));
                }
            }
        }
    }
    Ok(told)
}

/// Tables that cannot be read because of what the owner has made of them, as lines for people.
pub(super) fn unreadable(connection: &Connection, plan: &Plan) -> Result<Vec<String>, Failure> {
    unprepared(connection, plan, |event| match event {
        Event::UploadLook
        | Event::UploadFence
        | Event::DownloadCursor
        | Event::DownloadDeleteCursor => Some("it cannot be read"),
        _ => None,
    })
}

/// What the owner has made of tables that makes their rows impossible to write, as lines for
/// people.
pub(super) fn unwritable(connection: &Connection, plan: &Plan) -> Result<Vec<String>, Failure> {
    unprepared(connection, plan, |event| match event {
        Event::UploadInsert => Some("inserts from remotes are rejected"),
        Event::UploadUpdate => Some("updates from remotes are rejected"),
        Event::UploadDelete => Some("deletes from remotes are rejected"),
        Event::ConflictRule => Some("changes from remotes that conflict are rejected"),
        Event::DeleteConflictRule => Some("deletes from remotes that conflict are rejected"),
        _ => None,
    })
}

/// What the owner's objects stop, in the words of `told`, where SQLite cannot run them here.
fn unprepared(
    connection: &Connection,
    plan: &Plan,
    told: impl Fn(Event) -> Option<&'static str>,
) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    for table in plan.tables() {
        for written in table.scripts.iter().filter(|script| !script.is_own()) {
            let Some(stopped) = told(written.event) else { continue };
            let script = written.parse(&table.published)?;
            let Err(error) = connection.prepare(&script.sql) else { continue };
            if let Some(why) = owners_fault(connection, &error, &script.sql) {
                let line = format!("table {}: {stopped}: {why}", table.published.name);
                lines.extend(Some(line).filter(|line| !lines.contains(line)));
            }
        }
    }
    Ok(lines)
}

/// The column before a comparison, where these pieces end with one.
fn compared_with(before: &[Piece]) -> Option<&str> {
    let Some(Piece::Text(text)) = before.last() else { return None };
    let compared = text.trim_end().trim_end_matches(['<', '>', '=']);
    let column = compared.trim_end();
    let begin = column.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    let is_comparison = compared.len() < text.trim_end().len();
    Some(&column[begin..]).filter(|name| is_comparison && !name.is_empty())
}

/// Whether a column of this name, in whatever table, stores numbers.
fn is_of_numbers(connection: &Connection, column: &str) -> Result<bool, Failure> {
    let sql = "SELECT count(*) FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
        WHERE t.type = 'table' AND c.name = ?1 COLLATE NOCASE
          AND (c.type LIKE '%INT%' OR c.type LIKE '%REAL%')";
    let found: i64 = query::value(connection, "look up a column", sql, [column])?;
    Ok(found > 0)
}

fn mistake(
    connection: &Connection,
    script: &Script,
    (event, table): (Event, &PublishedTable),
) -> Option<Mistake> {
    let begins = begins(script);
    let placed = |at: usize, message: &str| {
        Some(Mistake { at: script.place_of(at, &begins), message: message.to_owned() })
    };
    if let Some(batch) = script.batch() {
        return placed(begins[batch], "there are no batches on SQLite: name values of one row");
    }
    for (piece, begin) in script.pieces.iter().zip(&begins) {
        if let Some(at) = bare_parameter(piece) {
            return placed(begin + at, "a value is named in braces, such as {r.column}");
        }
    }
    match connection.prepare(&script.sql) {
        Ok(statement) => {
            let wrong = wrong_width(event, table, statement.column_count())?;
            placed(script.sql.len() - script.sql.trim_start().len(), &wrong)
        }
        Err(Error::SqlInputError { msg, offset, .. }) => {
            placed(usize::try_from(offset).unwrap_or(0), &msg)
        }
        Err(Error::SqliteFailure(_, Some(message))) => {
            placed(named(&message, &script.sql).unwrap_or(0), &message)
        }
        Err(error) => placed(0, &error.to_string()),
    }
}

/// Where a parameter of SQLite stands. SQLite would give it a value of ours.
fn bare_parameter(piece: &Piece) -> Option<usize> {
    let Piece::Text(text) = piece else { return None };
    let aside = ["'", "\"", "`", "[", "--", "/*"].iter().any(|begin| text.starts_with(begin));
    text.find(['?', ':', '@', '$']).filter(|_| !aside)
}

/// Where the name stands that a message ends with: SQLite does not tell the place of every mistake.
fn named(message: &str, sql: &str) -> Option<usize> {
    let (_, name) = message.rsplit_once(": ")?;
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let ends = |text: &str, next: Option<char>| !text.is_empty() && !next.is_some_and(is_name);
    let mut found = sql.match_indices(name).filter(|(at, name)| {
        let (before, behind) = (&sql[..*at], &sql[at + name.len()..]);
        ends(name, before.chars().next_back()) && ends(name, behind.chars().next())
    });
    found.next().map(|(at, _)| at)
}
