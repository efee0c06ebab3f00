//! Keys and rows, which are stored as JSON, as lines that people read.

use serde_json::Value;
use terminal::output;

/// Characters of a value that the terminal shows. The JSON has the whole value.
const VALUE_CHARS_MAX: usize = 200;

/// The text as JSON, for programs.
pub(crate) fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

/// A key on one line: `id=3, line=2`.
pub(crate) fn key(text: &str) -> String {
    match parsed(text) {
        Value::Object(columns) => {
            let columns = columns.iter().map(|(name, it)| format!("{name}={}", value(it)));
            columns.collect::<Vec<_>>().join(", ")
        }
        other => value(&other),
    }
}

/// Prints a row, one line per column.
pub(crate) fn row(heading: &str, text: Option<&str>) -> Result<(), model::Failure> {
    let columns: Vec<(String, String)> = match text.map(parsed) {
        None => return output::line(&format!("{heading}: none")),
        Some(Value::Object(columns)) => {
            columns.iter().map(|(name, it)| (name.clone(), value(it))).collect()
        }
        Some(other) => vec![(String::new(), value(&other))],
    };
    output::line(&format!("{heading}:"))?;
    let columns: Vec<(String, String)> =
        columns.into_iter().map(|(name, value)| (format!("  {name}"), value)).collect();
    output::record(&columns)
}

fn value(value: &Value) -> String {
    let text = match value {
        Value::Null => "NULL".to_owned(),
        Value::String(text) => text.clone(),
        Value::Object(object) if object.len() == 1 && object.contains_key("blob") => {
            format!("x'{}'", object["blob"].as_str().unwrap_or_default())
        }
        other => other.to_string(),
    };
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shown_by_column_name() {
        assert_eq!(key(r#"{"id":3,"line":"a"}"#), "id=3, line=a");
        assert_eq!(key(r#"{"id":{"blob":"01ff"}}"#), "id=x'01ff'");
        assert_eq!(key(&format!("{{\"k\":\"{}\"}}", "x".repeat(500))).chars().count(), 203);
    }
}
