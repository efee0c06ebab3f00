//! The consolidated database as one SQLite file.
//!
//! One writer applies uploads, several at a time in one transaction with a savepoint each;
//! readers fetch downloads from snapshots beside it (WAL). Other programs may write to the file:
//! triggers note every change in a log per table, numbered under SQLite's single writer, so that
//! a number is never visible before a smaller one.
//!
//! `admin.rs` is what the command line uses, `writer.rs` and `reader.rs` what a server uses.

mod admin;
mod catalog;
mod check;
mod conflict;
mod constraint;
mod deploy;
mod dialect;
mod errors;
mod fence;
mod fetch;
mod identity;
mod plan;
mod reader;
mod remote_ddl;
mod scripts;
mod serve_lock;
mod tables;
mod tracking;
mod upload;
mod values;
mod watermark;
mod writer;

pub(crate) use admin::Admin;
pub(crate) use reader::Reader;
pub(crate) use serve_lock::ServeLock;
pub(crate) use writer::Writer;

use errors::failed;
use model::{Code, Failure};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// How long a statement waits for another program's lock before it gives up.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Prepared statements kept per connection; more than any model needs at once.
const STATEMENTS_MAX: usize = 4096;

/// Opens an existing database file.
fn connect(path: &Path, read_only: bool) -> Result<Connection, Failure> {
    if !path.is_file() {
        return Err(Failure::new(
            Code::DatabaseUnavailable,
            format!("there is no database file {}", path.display()),
        ));
    }
    // Readers open for writing too: a WAL file of a killed writer needs recovery first.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| opening(path, error))?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed("set the lock time-out"))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // The first access to the file: this is where one learns that it is no database.
    connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
        .map_err(|error| opening(path, error))?;
    connection
        .execute_batch(match read_only {
            true => "PRAGMA query_only = ON;",
            // With a small cache every page of a large upload would be written several times.
            false => {
                "PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536;"
            }
        })
        .map_err(failed("set up the connection"))?;
    Ok(connection)
}

fn opening(path: &Path, error: rusqlite::Error) -> Failure {
    let code = errors::code(&error);
    let code = if code == Code::ScriptFailed { Code::DatabaseUnavailable } else { code };
    Failure::new(code, format!("cannot open {}", path.display())).source(error)
}
