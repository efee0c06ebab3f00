//! Values between the row format and SQLite, without a copy.

use model::{ValueRef, write_value};
use rusqlite::Row;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef as SqliteRef};

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
