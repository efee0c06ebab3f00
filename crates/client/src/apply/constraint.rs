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
pub(crate) fn is_duplicate(error: &Error) -> bool {
    matches!(
        extended_code(error),
        Some(
            ffi::SQLITE_CONSTRAINT_UNIQUE
                | ffi::SQLITE_CONSTRAINT_PRIMARYKEY
                | ffi::SQLITE_CONSTRAINT_ROWID
        )
    )
}

/// Whether a duplicate is one in another table than this one. SQLite names the columns, unless they
/// are expressions.
pub(crate) fn is_of_another_table(error: &Error, table: &str) -> bool {
    let text = error.to_string();
    let Some(columns) = text.strip_prefix("UNIQUE constraint failed: ") else { return false };
    let own = format!("{table}.");
    let is_own = columns.get(..own.len()).is_some_and(|it| it.eq_ignore_ascii_case(&own));
    !is_own && !columns.starts_with("index ")
}

fn extended_code(error: &Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}
