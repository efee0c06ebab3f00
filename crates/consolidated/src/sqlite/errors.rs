//! The meaning of SQLite's errors, with the one who must act.

use super::owners_fault::owners_fault;
use crate::upload::reason::{DatabaseFault, Reason};
use model::{Code, Failure};
use rusqlite::{Connection, Error, ErrorCode, ffi};

/// The code of an error outside a row: full disk, lock, damage, or a script.
pub(super) fn code(error: &Error) -> Code {
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::OperationInterrupted,
        ) => Code::DatabaseBusy,
        Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => Code::DatabaseDiskFull,
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Code::NotADatabase,
        Some(
            ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied
            | ErrorCode::ReadOnly
            | ErrorCode::OutOfMemory,
        ) => Code::DatabaseUnavailable,
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

impl RowFault {
    /// The code under which the row is rejected, where nothing else can be done about it.
    pub(super) fn code(self) -> Code {
        match self {
            RowFault::KeyExists | RowFault::NotUnique => Code::RowNotUnique,
            RowFault::Refused(code) => code,
        }
    }
}

/// The fault of the row for which `sql` was run, or the failure of everything.
///
/// Rows are to blame for constraints, and for what an expression says while it runs. Disk, memory,
/// locks, rights, damage and missing objects are not faults of a row. But a row pays for what the
/// owner has made of its table, if SQLite cannot run that here: all others go on.
pub(super) fn row_fault(
    connection: &Connection,
    error: Error,
    sql: &str,
    table: &str,
    event: &str,
) -> Result<(RowFault, Reason), Failure> {
    if let Some(message) = owners_fault(connection, &error, sql) {
        let code = Code::RowRefused;
        return Ok((RowFault::Refused(code), (code, message).into()));
    }
    let Error::SqliteFailure(inner, message) = &error else {
        return Err(script_failed(error, table, event));
    };
    let fault = match inner.extended_code {
        ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_ROWID => RowFault::KeyExists,
        ffi::SQLITE_CONSTRAINT_UNIQUE => RowFault::NotUnique,
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => RowFault::Refused(Code::RowReferences),
        // What RESTRICT says, which SQLite implements as a trigger.
        ffi::SQLITE_CONSTRAINT_TRIGGER
            if message.as_deref() == Some("FOREIGN KEY constraint failed") =>
        {
            RowFault::Refused(Code::RowReferences)
        }
        ffi::SQLITE_CONSTRAINT_TRIGGER => RowFault::Refused(Code::RowVetoed),
        // A CHECK, NOT NULL, the type of a STRICT table, and what an index of an extension says.
        code if code & PRIMARY == ffi::SQLITE_CONSTRAINT => RowFault::Refused(Code::RowRefused),
        ffi::SQLITE_MISMATCH | ffi::SQLITE_TOOBIG => RowFault::Refused(Code::RowRefused),
        ffi::SQLITE_ERROR if is_of_a_value(connection, sql, message.as_deref()) => {
            RowFault::Refused(Code::RowRefused)
        }
        _ => return Err(script_failed(error, table, event)),
    };
    let message = message.clone().unwrap_or_else(|| inner.to_string());
    let said = DatabaseFault::new(state(inner.extended_code), Some(inner.extended_code));
    Ok((fault, Reason::said(fault.code(), message, said)))
}

/// What PostgreSQL calls the same.
fn state(extended: i32) -> &'static str {
    match extended {
        ffi::SQLITE_CONSTRAINT_PRIMARYKEY
        | ffi::SQLITE_CONSTRAINT_ROWID
        | ffi::SQLITE_CONSTRAINT_UNIQUE => "23505",
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => "23503",
        ffi::SQLITE_CONSTRAINT_NOTNULL => "23502",
        ffi::SQLITE_CONSTRAINT_CHECK => "23514",
        ffi::SQLITE_CONSTRAINT_TRIGGER => "P0001",
        ffi::SQLITE_CONSTRAINT_DATATYPE | ffi::SQLITE_MISMATCH => "22P02",
        code if code & PRIMARY == ffi::SQLITE_CONSTRAINT => "23000",
        _ => "22000",
    }
}

/// Another row has a value that must be unique, in the words of the database.
pub(super) fn not_unique(message: String) -> Reason {
    let number = ffi::SQLITE_CONSTRAINT_UNIQUE;
    Reason::said(Code::RowNotUnique, message, DatabaseFault::new(state(number), Some(number)))
}

/// A foreign key is broken, as it is found behind the statements.
pub(super) fn breaks_reference(message: String) -> Reason {
    let number = ffi::SQLITE_CONSTRAINT_FOREIGNKEY;
    Reason::said(Code::RowReferences, message, DatabaseFault::new(state(number), Some(number)))
}

/// The part of an extended code that tells the kind of error.
const PRIMARY: i32 = 0xff;

/// Whether an error that has no code of its own is about values: malformed JSON, an integer that
/// overflows, a trigger that sets off itself too often. What is missing or wrong in the statement,
/// or in a trigger, is found when it is prepared.
fn is_of_a_value(connection: &Connection, sql: &str, message: Option<&str>) -> bool {
    let is_missing = message.is_none_or(|message| MISSING.iter().any(|it| message.contains(it)));
    !is_missing && connection.prepare(sql).is_ok()
}

/// What an extension says that prepares statements of its own.
const MISSING: [&str; 5] =
    ["no such ", "syntax error", "not authorized", "has no column", "unable to open"];

/// Whether SQLite has certainly undone all of the statement that failed so.
pub(super) fn undoes_itself(connection: &Connection, error: &Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) && !may_keep(connection)
}

/// Whether a trigger of a user may keep changes that were made before a failure.
fn may_keep(connection: &Connection) -> bool {
    let sql = "SELECT count(*) > 0 FROM sqlite_schema
        WHERE sql LIKE '%FAIL%' AND name NOT LIKE 'syncline\\_%' ESCAPE '\\'";
    let asked = connection.prepare_cached(sql);
    // If this cannot be found out, the answer is yes.
    asked.and_then(|mut statement| statement.query_row([], |row| row.get(0))).unwrap_or(true)
}

/// What most likely became of a table or a column that is not there.
const RENAMED: &str = "a table or a column was renamed or dropped without a deployment: run \
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

#[cfg(test)]
mod tests {
    use super::*;

    const INSERT: &str = "INSERT OR ABORT INTO doc VALUES (1, ?1)";

    /// What becomes of a row that is inserted where this was done before.
    fn inserting(before: &str, value: &str) -> Result<RowFault, Code> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let connection = Connection::open(file.path()).unwrap();
        connection
            .execute_batch("CREATE TABLE doc (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")
            .and_then(|()| connection.execute_batch(before))
            .unwrap();
        let prepared = connection.prepare(INSERT);
        let error =
            prepared.and_then(|mut statement| statement.execute([value])).map(drop).unwrap_err();
        row_fault(&connection, error, INSERT, "doc", "upload_insert")
            .map(|(fault, _)| fault)
            .map_err(|failure| failure.code())
    }

    fn trigger(body: &str) -> String {
        format!("CREATE TRIGGER owners AFTER INSERT ON doc BEGIN {body}; END")
    }

    // S2, S11
    #[test]
    fn rows_are_to_blame_for_values_and_not_for_disk_rights_or_what_is_missing() {
        let refused = |code| Ok(RowFault::Refused(code));
        let taken = "INSERT INTO doc VALUES (1, 'x')";
        assert_eq!(inserting(taken, "x"), Ok(RowFault::KeyExists));
        assert_eq!(
            inserting("CREATE UNIQUE INDEX u ON doc (body); INSERT INTO doc VALUES (2, 'x')", "x"),
            Ok(RowFault::NotUnique)
        );
        for (body, code) in [
            ("SELECT json_extract(NEW.body, '$.a')", Code::RowRefused),
            ("SELECT abs(-9223372036854775807 - 1)", Code::RowRefused),
            ("SELECT zeroblob(3000000000) IS NULL", Code::RowRefused),
            ("UPDATE doc SET id = 'x'", Code::RowRefused),
            ("UPDATE doc SET body = NULL", Code::RowRefused),
            ("SELECT nowhere(NEW.id)", Code::RowRefused),
            ("INSERT INTO gone VALUES (1)", Code::RowRefused),
            ("UPDATE doc SET gone = 1", Code::RowRefused),
            ("SELECT RAISE(ABORT, 'no')", Code::RowVetoed),
            ("SELECT RAISE(FAIL, 'no')", Code::RowVetoed),
            ("SELECT RAISE(ROLLBACK, 'no')", Code::RowVetoed),
        ] {
            assert_eq!(inserting(&trigger(body), "{"), refused(code), "{body}");
        }
        let large = "x".repeat(1 << 20);
        for (before, code) in [
            ("PRAGMA max_page_count = 20", Code::DatabaseDiskFull),
            ("PRAGMA query_only = ON", Code::DatabaseUnavailable),
            ("ALTER TABLE doc RENAME TO doc_2", Code::ScriptFailed),
            (
                &format!("{}; ALTER TABLE doc RENAME TO doc_2", trigger("SELECT 1")),
                Code::ScriptFailed,
            ),
        ] {
            assert_eq!(inserting(before, &large), Err(code), "{before}");
        }
    }

    // S11: codes of SQLite that no test can bring about by itself.
    #[test]
    fn every_other_code_fails_the_upload() {
        let connection = Connection::open_in_memory().unwrap();
        for code in [
            ffi::SQLITE_IOERR_WRITE,
            ffi::SQLITE_IOERR_FSYNC,
            ffi::SQLITE_NOMEM,
            ffi::SQLITE_BUSY,
            ffi::SQLITE_LOCKED,
            ffi::SQLITE_INTERRUPT,
            ffi::SQLITE_CORRUPT,
            ffi::SQLITE_CORRUPT_VTAB,
            ffi::SQLITE_CANTOPEN,
            ffi::SQLITE_AUTH,
            ffi::SQLITE_SCHEMA,
        ] {
            let error = Error::SqliteFailure(ffi::Error::new(code), Some("malformed".into()));
            assert!(row_fault(&connection, error, "SELECT 1", "t", "e").is_err(), "{code}");
        }
    }
}
