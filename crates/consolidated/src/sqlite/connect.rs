//! Opens database files.

use super::errors;
use super::errors::failed;
use crate::disk::Location;
use crate::serving::Serving;
use model::{Code, Failure};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// How long a statement waits for another program's lock before it gives up.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Prepared statements kept per connection; more than any model needs at once.
const STATEMENTS_MAX: usize = 4096;

/// After how many steps of a statement it looks whether it is to end: far less than a millisecond,
/// and too many to be felt.
const STEPS: i32 = 10_000;

/// Opens an existing database file for a server.
pub(super) fn connect_for(
    location: &Location,
    read_only: bool,
    serving: &Serving,
) -> Result<Connection, Failure> {
    let mut connection = connect(location, read_only)?;
    let cancellation = serving.cancellation.clone();
    connection
        .progress_handler(STEPS, Some(move || cancellation.is_canceled()))
        .map_err(failed("set up the end of statements"))?;
    Ok(connection)
}

/// Opens an existing database file.
pub(super) fn connect(location: &Location, read_only: bool) -> Result<Connection, Failure> {
    let path = &location.path;
    if !location.disk.status(path).is_ok_and(|status| status.is_regular) {
        return Err(Failure::new(
            Code::DatabaseUnavailable,
            format!("there is no database file {}", path.display()),
        ));
    }
    // Readers open for writing too: a WAL file of a killed writer needs recovery first.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match location.disk.vfs() {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs),
        None => Connection::open_with_flags(path, flags),
    }
    .map_err(|error| opening(path, error))?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed("set the lock time-out"))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Plans that depend on the values bound would be created again in every synchronization.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map_err(failed("keep plans stable"))?;
    // The first access to the file: this is where one learns that it is no database.
    connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
        .map_err(|error| opening(path, error))?;
    connection
        .execute_batch(match read_only {
            true => "PRAGMA query_only = ON;",
            // With a small cache every page of a large upload would be written several times.
            // EXTRA is FULL where there is a WAL. Without one, FULL does not bring to the disk that
            // the journal of a commit is gone: after a power cut it would undo the commit.
            false => {
                "PRAGMA foreign_keys = ON; PRAGMA synchronous = EXTRA; PRAGMA cache_size = -65536;"
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
