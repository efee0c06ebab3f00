//! Values between the row format and SQLite, without a copy.

use model::{RowReader, ValueRef, write_value};
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

/// The row's values as a JSON array, for people: blobs in hexadecimal, odd text repaired.
pub(super) fn row_json(row: &[u8]) -> String {
    let mut reader = RowReader::new(row);
    let mut values = Vec::new();
    while !reader.is_at_end() {
        let Ok(value) = reader.value() else { break };
        values.push(match value {
            ValueRef::Null => serde_json::Value::Null,
            ValueRef::Integer(i) => i.into(),
            ValueRef::Real(r) => r.into(),
            ValueRef::Text(t) => String::from_utf8_lossy(t).into(),
            ValueRef::Blob(b) => {
                b.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
            }
            ValueRef::Absent => "<unchanged>".into(),
        });
    }
    serde_json::Value::Array(values).to_string()
}
