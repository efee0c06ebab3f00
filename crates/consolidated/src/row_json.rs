//! Rows for people to read: in the notes about conflicts.

use model::{RowReader, ValueRef};

/// The row's values as a JSON array, for people: blobs in hexadecimal, odd text repaired.
pub(crate) fn row_json(row: &[u8]) -> String {
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
