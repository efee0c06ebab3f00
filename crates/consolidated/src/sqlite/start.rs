//! Checks of the file before the first remote is served.

use super::connect::connect;
use super::deploy::installed;
use super::errors::failed;
use super::{incarnation, query};
use crate::deploy::format;
use crate::disk::Location;
use crate::serving::start_mark::{self, LAST, MARKS_MAX, Mark, Marked};
use model::Failure;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::path::Path;

/// Whether the file is where it says, and has the mark of the last start. `dir` is the folder of
/// the configuration. The caller holds the lock for serving.
pub(crate) fn start(location: &Location, dir: Option<&Path>) -> Result<(), Failure> {
    let connection = connect(location, false)?;
    installed::require_known_format(&connection)?;
    format::require(&mut &connection)?;
    let transaction = Transaction::new_unchecked(&connection, TransactionBehavior::Immediate)
        .map_err(failed("begin a transaction"))?;
    recognize(&transaction, location)?;
    if let Some(dir) = dir {
        start_mark::start(dir, &mut Started { connection: &transaction, path: &location.path })?;
    }
    transaction.commit().map_err(failed("note the start of the server"))
}

/// A copy, and a backup that was put in the place of the file, are other files.
fn recognize(connection: &Connection, location: &Location) -> Result<(), Failure> {
    let Some(home) = home(location) else { return Ok(()) };
    let (doing, sql) =
        ("recognize the file", "SELECT value FROM syncline_system WHERE name = 'home'");
    let known: Option<String> = query::maybe(connection, doing, sql, [])?;
    if known.as_ref() == Some(&home) {
        return Ok(());
    }
    let sql = "INSERT OR REPLACE INTO syncline_system VALUES ('home', ?1)";
    query::run(connection, doing, sql, [&home])?;
    match known {
        // Deployed, and never served.
        None => Ok(()),
        Some(_) => incarnation::renew(connection, "it is in another file: restored or copied"),
    }
}

/// Identifies the file that is there; none if this is not possible.
pub(super) fn file_at(location: &Location) -> Option<(u64, u64)> {
    location.disk.status(&location.path).ok().map(|status| (status.device, status.number))
}

/// Number and birth of the file. Not its device, which may have another number after a restart of
/// the machine.
fn home(location: &Location) -> Option<String> {
    let status = location.disk.status(&location.path).ok()?;
    Some(format!("{}/{}", status.number, status.born_ns))
}

struct Started<'a> {
    connection: &'a Connection,
    path: &'a Path,
}

impl Marked for Started<'_> {
    fn place(&mut self) -> Result<Mark, Failure> {
        let database_id = incarnation::database_id(self.connection)?;
        let incarnation = incarnation::number(self.connection)?.to_string();
        Ok(Mark { database_id, incarnation, timeline: 0, mark: String::new() })
    }

    fn has(&mut self, mark: &str) -> Result<bool, Failure> {
        incarnation::has_mark(self.connection, mark)
    }

    fn renew(&mut self, reason: &str) -> Result<(), Failure> {
        incarnation::renew(self.connection, reason)
    }

    fn add(&mut self) -> Result<String, Failure> {
        let (connection, doing) = (self.connection, "note the start of the server");
        let add = "INSERT INTO syncline_system
            VALUES ('start ' || lower(hex(randomblob(16))), strftime('%Y-%m-%d %H:%M:%f', 'now'))
            RETURNING substr(name, 7)";
        let mark: String = query::value(connection, doing, add, [])?;
        let note = "INSERT OR REPLACE INTO syncline_system VALUES (?1, ?2)";
        query::run(connection, doing, note, [LAST, &mark])?;
        let trim = "DELETE FROM syncline_system WHERE name GLOB 'start *' AND name NOT IN (
            SELECT name FROM syncline_system WHERE name GLOB 'start *'
            ORDER BY value DESC LIMIT ?1)";
        query::run(connection, doing, trim, [MARKS_MAX])?;
        // The file must not have what a crash takes from the database.
        let commit = format!("cannot note the start in {}", self.path.display());
        self.connection
            .execute_batch("COMMIT; BEGIN IMMEDIATE")
            .map_err(|error| failed(&commit)(error))?;
        Ok(mark)
    }
}
