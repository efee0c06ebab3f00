//! A row as text for people: in the notes about conflicts and rejects.

use crate::shape::LeftOut;
use crate::synchronization::{BatchSource, Change};
use crate::uploaded_row::{RowId, UploadedRow};
use model::{Code, Failure, MESSAGE_BYTES_MAX, PublishedTable, RowReader, ValueRef, cut};
use serde_json::{Value as Json, json};

/// Bytes of one value that are kept in a note; the remote has it whole.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// Bytes of all rows that are kept of the rejects of one upload; the remote has them all.
pub(crate) const ROWS_BYTES_MAX: usize = 16 << 20;

/// The message, cut where it is long, without what no database can store.
pub(crate) fn message(text: String) -> String {
    let text = if text.contains('\0') { text.replace('\0', "") } else { text };
    match text.len() > MESSAGE_BYTES_MAX {
        true => cut(&text, MESSAGE_BYTES_MAX).into_owned(),
        false => text,
    }
}

/// The row as a JSON object by column name. A value that the row does not carry is not in it.
pub(crate) fn row(table: &PublishedTable, row: &[u8]) -> String {
    object(table.columns.iter(), row)
}

/// A key, which is the key's columns as a row, as a JSON object by column name.
pub(crate) fn key(table: &PublishedTable, key: &[u8]) -> String {
    object(table.key.iter().filter_map(|at| table.columns.get(usize::from(*at))), key)
}

fn object<'a>(columns: impl Iterator<Item = &'a String>, row: &[u8]) -> String {
    let mut reader = RowReader::new(row);
    let mut object = String::with_capacity(2 * row.len());
    for name in columns {
        let Ok(value) = reader.value() else { break };
        if value == ValueRef::Absent {
            continue;
        }
        object.push(if object.is_empty() { '{' } else { ',' });
        write_text(&mut object, name);
        object.push(':');
        match value {
            ValueRef::Integer(i) => object.push_str(&i.to_string()),
            ValueRef::Text(text) if text.len() <= VALUE_BYTES_MAX => {
                match std::str::from_utf8(text) {
                    Ok(text) => write_text(&mut object, text),
                    Err(_) => object.push_str(&to_json(value).to_string()),
                }
            }
            _ => object.push_str(&to_json(value).to_string()),
        }
    }
    object.push_str(if object.is_empty() { "{}" } else { "}" });
    object
}

/// Adds a text in JSON; one without anything to escape as it is.
fn write_text(json: &mut String, text: &str) {
    let plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    match text.bytes().all(plain) {
        true => {
            json.push('"');
            json.push_str(text);
            json.push('"');
        }
        false => json.push_str(&Json::from(text).to_string()),
    }
}

/// A value in JSON. What JSON cannot say stands in an object: bytes as hexadecimal digits, numbers
/// that are none by name, the beginning of a value that is long.
fn to_json(value: ValueRef<'_>) -> Json {
    let cut = |bytes: &[u8], json: Json| match bytes.len() > VALUE_BYTES_MAX {
        true => json!({ "cut": json, "bytes": bytes.len() }),
        false => json,
    };
    let kept = |bytes: &[u8]| bytes.len().min(VALUE_BYTES_MAX);
    match value {
        ValueRef::Null | ValueRef::Absent => Json::Null,
        ValueRef::Integer(i) => i.into(),
        ValueRef::Real(r) if r.is_finite() => r.into(),
        ValueRef::Real(r) => json!({ "real": r.to_string() }),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(whole) => {
                let end = (0..=kept(text)).rev().find(|end| whole.is_char_boundary(*end));
                cut(text, whole[..end.unwrap_or(0)].into())
            }
            Err(_) => cut(text, json!({ "text": hex(&text[..kept(text)]) })),
        },
        ValueRef::Blob(bytes) => cut(bytes, json!({ "blob": hex(&bytes[..kept(bytes)]) })),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the remote wanted of a row.
pub(crate) fn operation(change: Change) -> &'static str {
    match change {
        Change::Insert => "insert",
        Change::Update | Change::KeyChange => "update",
        Change::Delete => "delete",
    }
}

/// A row that was refused.
#[derive(Debug)]
pub(crate) struct Rejected {
    /// Position of the table.
    pub(crate) table: usize,
    pub(crate) operation: &'static str,
    /// JSON.
    pub(crate) key: String,
    /// JSON: the row that the remote wanted, or the one that it wanted to delete.
    pub(crate) row: Option<String>,
    pub(crate) code: Code,
    pub(crate) message: String,
}

/// The rows of an upload for which `reason` has one, with their content. Of a row of which
/// something was left out it is what the remote sent.
pub(crate) fn rejected<'t>(
    (batches, left_out): (BatchSource<'_>, Option<&LeftOut>),
    table: &dyn Fn(usize) -> &'t PublishedTable,
    reason: &dyn Fn(&RowId) -> Option<(Code, String)>,
) -> Result<Vec<Rejected>, Failure> {
    let (mut rejected, mut bytes) = (Vec::new(), 0);
    batches(&mut |batch| {
        let published = table(batch.table);
        let (mut uploaded, mut rest) = (UploadedRow::default(), batch.rows);
        for _ in 0..batch.count {
            rest = uploaded.read(rest, batch.change, published.width())?;
            let id = uploaded.key(published, batch.table);
            let Some((code, message)) = reason(&id) else { continue };
            let whole = left_out.and_then(|left_out| left_out.content(&id));
            let content = whole
                .or_else(|| (bytes < ROWS_BYTES_MAX).then(|| row(published, uploaded.new_image())));
            bytes += content.as_ref().map_or(0, String::len);
            rejected.push(Rejected {
                table: batch.table,
                operation: operation(batch.change),
                key: key(published, &id.1),
                row: content,
                code,
                message,
            });
        }
        Ok(())
    })?;
    for id in left_out.iter().flat_map(|left_out| left_out.unsaid()) {
        let Some((code, message)) = reason(&id) else { continue };
        let (key, row) =
            (key(table(id.0), &id.1), left_out.and_then(|all| all.content_behind(&id)));
        let operation = operation(Change::Update);
        rejected.push(Rejected { table: id.0, operation, key, row, code, message });
    }
    Ok(rejected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::write_value;

    // S9: a database quotes the whole value in its message.
    #[test]
    fn messages_and_values_are_cut() {
        assert_eq!(message("a\0b".into()), "ab");
        let long = message("ä".repeat(5_000));
        assert!(long.len() <= MESSAGE_BYTES_MAX && long.ends_with('…'), "{}", long.len());
        let text = "ä".repeat(VALUE_BYTES_MAX);
        let json = to_json(ValueRef::Text(text.as_bytes()));
        assert_eq!(json["bytes"], text.len());
        assert_eq!(json["cut"].as_str().unwrap().len(), VALUE_BYTES_MAX);
    }

    #[test]
    fn columns_have_their_names_and_what_was_not_sent_is_left_out() {
        let table = PublishedTable {
            columns: vec!["id".into(), "note".into(), "photo".into()],
            key: vec![2],
            name: "t".into(),
            direction: model::Direction::Both,
            create: Vec::new(),
            fingerprint: String::new(),
        };
        let mut image = Vec::new();
        for value in [ValueRef::Integer(1), ValueRef::Absent, ValueRef::Blob(&[1, 255])] {
            write_value(&mut image, value);
        }
        assert_eq!(row(&table, &image), r#"{"id":1,"photo":{"blob":"01ff"}}"#);
        assert_eq!(key(&table, &image[image.len() - 3..]), r#"{"photo":{"blob":"01ff"}}"#);
        assert_eq!(key(&table, &[]), "{}");
    }

    #[test]
    fn texts_are_spelled_as_json_spells_them() {
        for text in ["", "plain ä", "a\"b", "a\\b", "line\nbreak\u{1}", "\u{7f}"] {
            let mut json = String::new();
            write_text(&mut json, text);
            assert_eq!(json, Json::from(text).to_string());
        }
    }
}
