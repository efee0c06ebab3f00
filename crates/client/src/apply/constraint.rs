//! Why SQLite refuses a row.

use rusqlite::{Error, ErrorCode, ffi};

pub(super) fn is_constraint(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

/// Whether a table refuses a row for what it says, and not because another row is in its way.
pub(super) fn is_refusal(error: &Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch)
    )
}

/// Another row has the same value in a UNIQUE index.
pub(super) fn is_duplicate(error: &Error) -> bool {
    matches!(
        extended_code(error),
        Some(
            ffi::SQLITE_CONSTRAINT_UNIQUE
                | ffi::SQLITE_CONSTRAINT_PRIMARYKEY
                | ffi::SQLITE_CONSTRAINT_ROWID
        )
    )
}

fn extended_code(error: &Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}
