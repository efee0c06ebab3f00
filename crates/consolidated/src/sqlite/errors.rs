//! What SQLite's errors mean for whoever has to act.

use model::{Code, Failure};
use rusqlite::{Error, ErrorCode, ffi};

/// The code of an error outside a row: full disk, lock, damage, or a script.
pub(super) fn code(error: &Error) -> Code {
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::OperationInterrupted,
        ) => Code::DatabaseBusy,
        Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => Code::DatabaseDiskFull,
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Code::NotADatabase,
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
            Code::DatabaseUnavailable
        }
        _ => Code::ScriptFailed,
    }
}

/// For `map_err`: what was being done, with the code that fits.
pub(super) fn failed(doing: &str) -> impl Fn(Error) -> Failure + '_ {
    move |error| Failure::new(code(&error), format!("cannot {doing}")).source(error)
}

/// What is wrong with one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowFault {
    /// A row with this key exists.
    KeyExists,
    /// Another row has a value that must be unique.
    NotUnique,
    /// The code under which the row is rejected.
    Refused(Code),
}

/// The fault of the row that a statement was run for, or the failure of everything.
pub(super) fn row_fault(
    error: Error,
    table: &str,
    event: &str,
) -> Result<(RowFault, String), Failure> {
    let Error::SqliteFailure(inner, message) = &error else {
        return Err(script_failed(error, table, event));
    };
    let fault = match inner.extended_code {
        ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_ROWID => RowFault::KeyExists,
        ffi::SQLITE_CONSTRAINT_UNIQUE => RowFault::NotUnique,
        ffi::SQLITE_CONSTRAINT_CHECK
        | ffi::SQLITE_CONSTRAINT_NOTNULL
        | ffi::SQLITE_CONSTRAINT_DATATYPE => RowFault::Refused(Code::RowRefused),
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => RowFault::Refused(Code::RowReferences),
        // What RESTRICT says, which SQLite implements as a trigger.
        ffi::SQLITE_CONSTRAINT_TRIGGER
            if message.as_deref() == Some("FOREIGN KEY constraint failed") =>
        {
            RowFault::Refused(Code::RowReferences)
        }
        ffi::SQLITE_CONSTRAINT_TRIGGER => RowFault::Refused(Code::RowVetoed),
        ffi::SQLITE_MISMATCH | ffi::SQLITE_TOOBIG => RowFault::Refused(Code::RowRefused),
        _ => return Err(script_failed(error, table, event)),
    };
    Ok((fault, message.clone().unwrap_or_else(|| inner.to_string())))
}

/// What most likely became of a table or a column that is not there.
const RENAMED: &str = "a table or a column was renamed or dropped and that was not deployed: run \
                       `syncline check`, then `syncline deploy`";

/// The failure of a script as a whole.
pub(super) fn script_failed(error: Error, table: &str, event: &str) -> Failure {
    let failure =
        Failure::new(code(&error), format!("{event} of table {table} failed")).table(table);
    let text = error.to_string();
    let renamed = ["no such table", "no such column"].iter().any(|it| text.contains(it));
    let failure = if renamed { failure.hint(RENAMED) } else { failure };
    failure.source(error)
}
