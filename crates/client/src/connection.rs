//! The engine's own connection to the remote file, and the meaning of SQLite's errors at a remote.

use crate::disk::Location;
use crate::system::disk::not_writable;
use model::{Code, Failure, ValueRef};
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef as SqlValueRef};
use rusqlite::{
    CachedStatement, Connection, Error, ErrorCode, MAIN_DB, OpenFlags, Transaction,
    TransactionBehavior,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the engine waits for another program's write lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Prepared statements kept: a handful per table of a large schema.
const STATEMENTS_MAX: usize = 512;

/// Opens an existing file.
pub(crate) fn open(location: &Location) -> Result<Connection, Failure> {
    connect(&location.path, location.disk.vfs(), OpenFlags::SQLITE_OPEN_READ_WRITE)
}

/// Creates the file, in WAL mode: the journal in which readers and the writer do not wait for
/// each other. Files that exist keep the mode they have.
pub(crate) fn create(location: &Location) -> Result<Connection, Failure> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let connection = connect(&location.path, location.disk.vfs(), flags)?;
    connection
        .pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))
        .map_err(|error| at(&location.path, error))?;
    Ok(connection)
}

/// A database without a file, which ends with its connection.
pub(crate) fn in_memory() -> Result<Connection, Failure> {
    connect(Path::new(":memory:"), None, OpenFlags::default())
}

fn connect(path: &Path, vfs: Option<&str>, flags: OpenFlags) -> Result<Connection, Failure> {
    // One thread uses it at a time, as Rust sees to: no lock for every value that is bound.
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || -> rusqlite::Result<Connection> {
        let connection = match vfs {
            Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs)?,
            None => Connection::open_with_flags(path, flags)?,
        };
        connection.busy_timeout(BUSY_TIMEOUT)?;
        // What was recorded as sent must survive a power cut (trap 6). With a WAL this is FULL.
        // Without one, FULL does not bring to the disk that the journal of a commit is gone, which
        // would undo it.
        connection.pragma_update(None, "synchronous", "EXTRA")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        enable_triggers(&connection, false)?;
        // A statement that was prepared stays so, whatever is bound to it. Plans here do not depend
        // on it, and otherwise the number of a new generation has the largest of them prepared
        // again at every upload.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        // The first access to the file; before it anything opens.
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(connection)
    };
    open().map_err(|error| at(path, error))
}

fn at(path: &Path, error: Error) -> Failure {
    if let Some(file) = refused(path, &error) {
        return read_only(&file).source(error);
    }
    let failure = explain(error);
    match failure.code() {
        Code::RemoteNotADatabase => {
            let message = format!("cannot open `{}` as a database", path.display());
            Failure::new(Code::RemoteNotADatabase, message).source(failure)
        }
        _ => failure,
    }
}

/// Begins a transaction that holds the write lock from the start, so that it cannot fail halfway
/// because another program was faster. Rolled back when dropped.
pub(crate) fn begin_immediate(connection: &Connection) -> Result<Transaction<'_>, Failure> {
    // SQLite begins one on a file that it could only open for reading, and refuses the first write.
    if let (Some(path), Ok(true)) = (connection.path(), connection.is_readonly(MAIN_DB)) {
        return Err(read_only(Path::new(path)));
    }
    let begun = Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
    begun.map_err(|error| {
        match connection.path().and_then(|path| refused(Path::new(path), &error)) {
            Some(file) => read_only(&file).source(error),
            None => explain(error),
        }
    })
}

fn read_only(file: &Path) -> Failure {
    Failure::new(Code::CannotWrite, format!("this user may not write `{}`", file.display()))
}

/// The file because of which SQLite refuses to open or to write the database. It does not say which
/// it is.
fn refused(path: &Path, error: &Error) -> Option<PathBuf> {
    let of_rights = [ErrorCode::CannotOpen, ErrorCode::ReadOnly, ErrorCode::PermissionDenied];
    let code = error.sqlite_error_code()?;
    of_rights.contains(&code).then(|| not_writable(path)).flatten()
}

/// Begins a transaction that reads one state of the file throughout.
pub(crate) fn begin_read(connection: &Connection) -> Result<Transaction<'_>, Failure> {
    Transaction::new_unchecked(connection, TransactionBehavior::Deferred).map_err(explain)
}

/// The names of the tables and triggers of Syncline begin so.
const OWN_TABLES: &str = "syncline_";
/// What SQLite says where a column is missing.
const NO_COLUMN: &str = "no such column";

/// What a failure of SQLite means for the user of the remote.
pub(crate) fn explain(error: Error) -> Failure {
    let (code, message) = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            (Code::RemoteNotADatabase, "the remote file is not a database, or damaged")
        }
        Some(ErrorCode::CannotOpen) => (Code::RemoteNotADatabase, "cannot open the remote file"),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (Code::RemoteBusy, "another program holds the write lock of the remote file")
        }
        Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => {
            (Code::RemoteDiskFull, "the remote file cannot be written")
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            (Code::CannotWrite, "the remote file is read-only")
        }
        _ if is_damage(&error) => (
            Code::RemoteTablesDamaged,
            "the tables of Syncline in the remote file are not as it has left them",
        ),
        _ => (Code::Bug, "the remote file refused a statement"),
    };
    Failure::new(code, message).source(error)
}

/// A value in a table of Syncline that this program has not written there.
pub(crate) fn damaged(what: impl Into<String>) -> Failure {
    Failure::new(Code::RemoteTablesDamaged, what)
}

/// Whether this is what a table of Syncline answers that somebody has changed. Only such tables are
/// read as values of known types.
fn is_damage(error: &Error) -> bool {
    match error {
        Error::InvalidColumnType(..)
        | Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::Utf8Error(..)
        | Error::QueryReturnedNoRows => true,
        Error::SqliteFailure(_, Some(message)) => {
            message.contains(OWN_TABLES) || message.starts_with(NO_COLUMN)
        }
        Error::SqlInputError { msg, sql, .. } => {
            msg.contains(OWN_TABLES) || (msg.starts_with(NO_COLUMN) && sql.contains(OWN_TABLES))
        }
        _ => false,
    }
}

/// From now on no trigger of this connection fires, also none of the user: writes of the engine are
/// not changes of this remote. Foreign keys still work, and other connections are not affected.
///
/// Every switch makes SQLite prepare every statement again. So triggers stay as they are until code
/// needs the other state. Code that writes to the user's tables sets the state, which costs nothing
/// if it is set already.
pub(crate) fn triggers_off(connection: &Connection) -> Result<(), Failure> {
    enable_triggers(connection, false).map_err(explain)
}

/// From now on triggers fire, for statements of the application.
pub(crate) fn triggers_on(connection: &Connection) -> Result<(), Failure> {
    enable_triggers(connection, true).map_err(explain)
}

fn enable_triggers(connection: &Connection, enable: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, enable).map(drop)
}

/// Pages kept in memory while it exists, in KiB; they are given back afterwards. Rows that come in
/// another order than they lie in would otherwise make SQLite write and read the same pages over
/// and over.
const LARGE_CACHE_KIB: i64 = 32 * 1024;

/// Gives this connection a larger cache while it exists.
#[derive(Debug)]
pub(crate) struct LargeCache<'a> {
    connection: &'a Connection,
    before: i64,
}

impl<'a> LargeCache<'a> {
    pub(crate) fn new(connection: &'a Connection) -> Result<LargeCache<'a>, Failure> {
        let before = connection.pragma_query_value(None, "cache_size", |row| row.get(0));
        let before = before.map_err(explain)?;
        connection.pragma_update(None, "cache_size", -LARGE_CACHE_KIB).map_err(explain)?;
        Ok(LargeCache { connection, before })
    }
}

impl Drop for LargeCache<'_> {
    fn drop(&mut self) {
        let _ = self.connection.pragma_update(None, "cache_size", self.before);
    }
}

/// Binds a value as it is, without a copy on our side. `Absent` binds NULL.
pub(crate) fn bind(
    statement: &mut CachedStatement<'_>,
    parameter: usize,
    value: ValueRef<'_>,
) -> rusqlite::Result<()> {
    let value = match value {
        ValueRef::Null | ValueRef::Absent => SqlValueRef::Null,
        ValueRef::Integer(i) => SqlValueRef::Integer(i),
        ValueRef::Real(r) => SqlValueRef::Real(r),
        ValueRef::Text(t) => SqlValueRef::Text(t),
        ValueRef::Blob(b) => SqlValueRef::Blob(b),
    };
    statement.raw_bind_parameter(parameter, ToSqlOutput::Borrowed(value))
}

/// The value in a column of a row, borrowed from SQLite until the next row.
pub(crate) fn value<'a>(
    row: &'a rusqlite::Row<'_>,
    column: usize,
) -> rusqlite::Result<ValueRef<'a>> {
    Ok(match row.get_ref(column)? {
        SqlValueRef::Null => ValueRef::Null,
        SqlValueRef::Integer(i) => ValueRef::Integer(i),
        SqlValueRef::Real(r) => ValueRef::Real(r),
        SqlValueRef::Text(t) => ValueRef::Text(t),
        SqlValueRef::Blob(b) => ValueRef::Blob(b),
    })
}
