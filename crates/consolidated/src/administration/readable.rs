//! Rows and keys as people read them: the JSON in the notes about conflicts and rejects.

use crate::synchronization::change::Change;
use model::{MESSAGE_BYTES_MAX, PublishedTable, Readable, RowReader, ValueRef, cut};
use serde_json::{Number, Value as Json, json};
use std::fmt::Write as _;

/// Bytes of one value that are kept in a note. The remote has the whole value.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// What the record of a conflict says of a row that stayed as it was at the center. It is JSON, and
/// unlike any row. Most conflicts leave the row as it is, and the bytes of a record decide what it
/// costs.
pub(crate) const UNCHANGED: &str = r#""unchanged""#;

/// The resulting row of a record, which may only say that it is the `consolidated` one.
pub(crate) fn result(recorded: Option<String>, consolidated: &Option<String>) -> Option<String> {
    match recorded.as_deref() {
        Some(UNCHANGED) => consolidated.clone(),
        _ => recorded,
    }
}

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
    // Names and numbers are longer than the values in a row.
    let mut object = String::with_capacity(3 * row.len());
    let names = columns.map(|name| move |out: &mut String| write_name(out, name));
    append_object(&mut object, names, &mut RowReader::new(row));
    object
}

/// The column names of a table, spelled once for many rows.
pub(crate) struct Names(Vec<String>);

impl Names {
    pub(crate) fn of(table: &PublishedTable) -> Names {
        let spelled = |name: &String| {
            let mut spelled = String::with_capacity(name.len() + 3);
            write_name(&mut spelled, name);
            spelled
        };
        Names(table.columns.iter().map(spelled).collect())
    }

    /// Appends the row as a JSON object by column name.
    pub(crate) fn append_row(&self, out: &mut String, row: &[u8]) {
        append_object(out, self.writers(), &mut RowReader::new(row));
    }

    /// The same of its values.
    pub(crate) fn append_values(&self, out: &mut String, row: &[ValueRef<'_>]) {
        append_object(out, self.writers(), &mut row.iter());
    }

    fn writers(&self) -> impl Iterator<Item = impl FnOnce(&mut String)> {
        self.0.iter().map(|name| move |out: &mut String| out.push_str(name))
    }
}

/// Where the values of a row come from.
trait Values<'v> {
    fn next_value(&mut self) -> Option<ValueRef<'v>>;
}

impl<'v> Values<'v> for RowReader<'v> {
    fn next_value(&mut self) -> Option<ValueRef<'v>> {
        self.value().ok()
    }
}

impl<'v> Values<'v> for std::slice::Iter<'_, ValueRef<'v>> {
    fn next_value(&mut self) -> Option<ValueRef<'v>> {
        self.next().copied()
    }
}

fn append_object<'v>(
    out: &mut String,
    names: impl Iterator<Item = impl FnOnce(&mut String)>,
    values: &mut impl Values<'v>,
) {
    let begin = out.len();
    for write_name in names {
        let Some(value) = values.next_value() else { break };
        if value == ValueRef::Absent {
            continue;
        }
        out.push_str(if out.len() == begin { "{" } else { "," });
        write_name(out);
        append_value(out, value);
    }
    out.push_str(if out.len() == begin { "{}" } else { "}" });
}

fn append_value(out: &mut String, value: ValueRef<'_>) {
    let written = match value {
        ValueRef::Text(text) if text.len() <= VALUE_BYTES_MAX => match std::str::from_utf8(text) {
            Ok(text) => return write_text(out, text),
            Err(_) => write!(out, "{}", to_json(value)),
        },
        ValueRef::Integer(number) => write!(out, "{}", Number::from(number)),
        ValueRef::Real(number) => match Number::from_f64(number) {
            Some(number) => write!(out, "{number}"),
            None => write!(out, "{}", to_json(value)),
        },
        _ => write!(out, "{}", to_json(value)),
    };
    debug_assert!(written.is_ok(), "a string takes all that is written to it");
}

/// Adds the name of a value.
fn write_name(json: &mut String, name: &str) {
    write_text(json, name);
    json.push(':');
}

/// Adds a text in JSON. Most texts have nothing to escape and are copied.
fn write_text(json: &mut String, text: &str) {
    // All bytes are looked at, which is faster than to stop at the first.
    let is_special = |byte: &u8| *byte < b' ' || *byte == b'"' || *byte == b'\\';
    match text.as_bytes().iter().fold(false, |any, byte| any | is_special(byte)) {
        false => {
            json.reserve(text.len() + 2);
            json.push('"');
            json.push_str(text);
            json.push('"');
        }
        true => json.push_str(&Json::from(text).to_string()),
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
        Change::Update => "update",
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
            compress: true,
            fires: false,
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
    fn numbers_are_spelled_as_json_spells_them() {
        let spelled = |value| {
            let mut json = String::new();
            append_value(&mut json, value);
            json
        };
        for number in [0, 1, -1, 9, 10, -10, 99, 100, 1234567890, -1234567890, i64::MAX, i64::MIN] {
            assert_eq!(spelled(ValueRef::Integer(number)), number.to_string());
        }
        for (number, json) in [(1.5, "1.5"), (-0.0, "-0.0"), (1e300, "1e+300"), (2.0, "2.0")] {
            assert_eq!(spelled(ValueRef::Real(number)), json);
            assert_eq!(json.parse::<f64>().unwrap().to_bits(), number.to_bits());
        }
        assert_eq!(spelled(ValueRef::Real(f64::NAN)), r#"{"real":"NaN"}"#);
        assert_eq!(spelled(ValueRef::Real(f64::INFINITY)), r#"{"real":"inf"}"#);
    }

    // The columns of a row are named alike, however many rows are spelled.
    #[test]
    fn names_that_are_spelled_once_are_those_of_one_row() {
        let table = PublishedTable {
            compress: true,
            fires: false,
            columns: vec!["id".into(), "a\"b".into(), "left out".into(), "note".into()],
            key: vec![0],
            name: "t".into(),
            direction: model::Direction::Both,
            create: Vec::new(),
            fingerprint: String::new(),
        };
        let values = [
            ValueRef::Integer(1),
            ValueRef::Real(0.5),
            ValueRef::Absent,
            ValueRef::Text("ä\n".as_bytes()),
        ];
        let mut image = Vec::new();
        values.iter().for_each(|value| write_value(&mut image, *value));
        let (names, mut of_row, mut of_values) = (Names::of(&table), String::new(), String::new());
        for _ in 0..2 {
            names.append_row(&mut of_row, &image);
            names.append_values(&mut of_values, &values);
        }
        assert_eq!(of_row, row(&table, &image).repeat(2));
        assert_eq!(of_values, of_row);
    }

    // S5
    #[test]
    fn a_result_that_is_not_repeated_is_the_row_at_the_center() {
        let row = Some(r#"{"id":1}"#.to_owned());
        assert_eq!(result(Some(UNCHANGED.to_owned()), &row), row);
        assert_eq!(result(row.clone(), &None), row);
        assert_eq!(result(None, &row), None);
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
