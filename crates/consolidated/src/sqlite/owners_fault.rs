//! What the owner has made of a table that SQLite cannot run in our connection.
//!
//! An application may register functions and collations of its own, and use them in triggers,
//! constraints, generated columns and indexes. A trigger may name a table or a column that is gone.
//! SQLite finds this when it prepares a statement that needs the object.

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Error, ffi};

/// What SQLite says of a function or a collation that the connection does not have, or must not
/// call from a schema.
const UNKNOWN: [&str; 4] =
    ["no such function: ", "unknown function: ", "no such collation sequence: ", "unsafe use of "];

/// Why SQLite cannot prepare `sql` although nothing is wrong with `sql` itself, with the objects
/// that are to blame.
pub(super) fn owners_fault(connection: &Connection, error: &Error, sql: &str) -> Option<String> {
    let (error, message) = match error {
        Error::SqlInputError { error, msg, .. } => (error, msg),
        Error::SqliteFailure(error, Some(message)) => (error, message),
        _ => return None,
    };
    // An extended code tells that a collation is missing.
    if error.extended_code & 0xff != ffi::SQLITE_ERROR {
        return None;
    }
    let name = name_in(message);
    let is_unknown = UNKNOWN.iter().any(|unknown| message.contains(unknown));
    let is_theirs = is_unknown && !sql.contains(&format!("{name}("));
    if connection.prepare(sql).is_ok() || !(is_theirs || needs_triggers(connection, sql)) {
        return None;
    }
    let objects = naming(connection, name);
    Some(match objects.is_empty() {
        true => format!("SQLite cannot run it at the server: {message}"),
        false => format!("SQLite cannot run {} at the server: {message}", objects.join(", ")),
    })
}

/// Whether SQLite could prepare `sql` if there were no triggers, on its tables and on those that a
/// foreign key leads to.
fn needs_triggers(connection: &Connection, sql: &str) -> bool {
    let fire = |on| connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, on);
    let prepared = fire(false).is_ok() && connection.prepare(sql).is_ok();
    fire(true).is_ok() && prepared
}

/// What the message ends with.
fn name_in(message: &str) -> &str {
    let last = message.split([' ', '.']).next_back().unwrap_or_default();
    last.trim_end_matches("()")
}

/// The objects of the owner whose text has this name; only the triggers, if any has it.
fn naming(connection: &Connection, name: &str) -> Vec<String> {
    let sql =
        "SELECT iif(type = 'table', 'the table ', 'the ' || type || ' ' || name || ' of table ')
            || tbl_name, type
        FROM sqlite_schema
        WHERE instr(lower(sql), lower(?1)) > 0 AND name NOT LIKE 'syncline\\_%' ESCAPE '\\'
        ORDER BY type DESC, name";
    let look = || -> rusqlite::Result<Vec<(String, String)>> {
        let mut statement = connection.prepare(sql)?;
        let found = statement.query_map([name], |row| Ok((row.get(0)?, row.get(1)?)))?;
        found.collect()
    };
    let found = look().unwrap_or_default();
    let first = found.first().map(|(_, kind)| kind.clone());
    let alike = found.into_iter().filter(|(_, kind)| Some(kind) == first.as_ref());
    alike.map(|(object, _)| object).collect()
}
