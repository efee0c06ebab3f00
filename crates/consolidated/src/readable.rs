//! Rows and keys as people read them: the JSON in the notes about conflicts and rejects.

use crate::synchronization::Change;
use model::{MESSAGE_BYTES_MAX, PublishedTable, Readable, RowReader, ValueRef, cut};
use serde_json::{Value as Json, json};

/// Bytes of one value that are kept in a note. The remote has the whole value.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// The message, cut if it is long, and without zero bytes, which PostgreSQL cannot store.
pub(crate) fn message(text: String) -> String {
    let text = if text.contains('\0') { text.replace('\0', "") } else { text };
    match text.len() > MESSAGE_BYTES_MAX {
        true => cut(&text, MESSAGE_BYTES_MAX).into_owned(),
        false => text,
    }
}

/// The row as a JSON object by column name. Values that were not uploaded are left out.
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

/// Adds a text in JSON. Most texts have nothing to escape and are copied.
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

/// A value in JSON. Of a long value it is the beginning, with the number of bytes.
fn to_json(value: ValueRef<'_>) -> Json {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) if bytes.len() > VALUE_BYTES_MAX => {
            json!({ "cut": Readable(beginning(value)), "bytes": bytes.len() })
        }
        _ => json!(Readable(value)),
    }
}

/// The first bytes of a long value. A text is not cut within a character.
fn beginning(value: ValueRef<'_>) -> ValueRef<'_> {
    match value {
        ValueRef::Text(bytes) => {
            let end = match std::str::from_utf8(bytes) {
                Ok(text) => (0..=VALUE_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)),
                Err(_) => Some(VALUE_BYTES_MAX),
            };
            ValueRef::Text(&bytes[..end.unwrap_or(0).min(bytes.len())])
        }
        ValueRef::Blob(bytes) => ValueRef::Blob(&bytes[..VALUE_BYTES_MAX.min(bytes.len())]),
        short => short,
    }
}

/// What the remote wanted of a row.
pub(crate) fn operation(change: Change) -> &'static str {
    match change {
        Change::Insert => "insert",
        Change::Update | Change::KeyChange => "update",
        Change::Delete => "delete",
    }
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
