//! Values between the row format and SQLite, without a copy, and as parameters of scripts.

use crate::download::time::{NEVER, Time};
use crate::script::{Parameter, Script};
use crate::synchronization::Session;
use crate::upload::uploaded_row::UploadedRow;
use model::{ValueRef, write_value};
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef as SqliteRef};
use rusqlite::{Row, Statement};

/// A value to bind. Text is bound as the bytes it is, valid UTF-8 or not (trap 15).
pub(super) struct Bind<'a>(pub(super) ValueRef<'a>);

impl ToSql for Bind<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            ValueRef::Null | ValueRef::Absent => SqliteRef::Null,
            ValueRef::Integer(i) => SqliteRef::Integer(i),
            ValueRef::Real(r) => SqliteRef::Real(r),
            ValueRef::Text(t) => SqliteRef::Text(t),
            ValueRef::Blob(b) => SqliteRef::Blob(b),
        }))
    }
}

/// Appends the first `width` columns of a result row.
pub(super) fn write_row(out: &mut Vec<u8>, row: &Row<'_>, width: usize) -> rusqlite::Result<()> {
    for column in 0..width {
        let value = match row.get_ref(column)? {
            SqliteRef::Null => ValueRef::Null,
            SqliteRef::Integer(i) => ValueRef::Integer(i),
            SqliteRef::Real(r) => ValueRef::Real(r),
            SqliteRef::Text(t) => ValueRef::Text(t),
            SqliteRef::Blob(b) => ValueRef::Blob(b),
        };
        write_value(out, value);
    }
    Ok(())
}

/// Binds every parameter of `script`.
pub(super) fn bind(
    statement: &mut Statement<'_>,
    script: &Script,
    session: &Session,
    row: &UploadedRow<'_>,
) -> rusqlite::Result<()> {
    bind_sessions(statement, script, session)?;
    bind_row(statement, script, row)
}

/// Binds what is the same for all rows: it stays bound from row to row.
pub(super) fn bind_sessions(
    statement: &mut Statement<'_>,
    script: &Script,
    session: &Session,
) -> rusqlite::Result<()> {
    for (index, parameter) in script.parameters.iter().enumerate() {
        if !matches!(parameter, Parameter::New(_) | Parameter::Old(_)) {
            bind_session(statement, index + 1, parameter, session)?;
        }
    }
    Ok(())
}

/// Binds what differs from row to row.
pub(super) fn bind_row(
    statement: &mut Statement<'_>,
    script: &Script,
    row: &UploadedRow<'_>,
) -> rusqlite::Result<()> {
    for (index, parameter) in script.parameters.iter().enumerate() {
        match parameter {
            Parameter::New(column) => {
                statement.raw_bind_parameter(index + 1, Bind(row.new[*column]))?
            }
            Parameter::Old(column) => {
                statement.raw_bind_parameter(index + 1, Bind(row.old[*column]))?
            }
            _ => {}
        }
    }
    Ok(())
}

/// Binds a parameter that is the same for all rows.
pub(super) fn bind_session(
    statement: &mut Statement<'_>,
    index: usize,
    parameter: &Parameter,
    session: &Session,
) -> rusqlite::Result<()> {
    match parameter.is_time() {
        true => bind_time(statement, index, NEVER),
        false => statement.raw_bind_parameter(index, session.value_of(parameter)),
    }
}

/// Binds a moment at the center, in whole seconds; NULL for none.
pub(super) fn bind_time(
    statement: &mut Statement<'_>,
    index: usize,
    time: impl Into<Option<Time>>,
) -> rusqlite::Result<()> {
    let seconds = time.into().map(|time| time.div_euclid(1_000_000));
    statement.raw_bind_parameter(index, seconds)
}
