//! Builds SQL: names in quotes, lists with commas. `sql/tokens.rs` reads it.

pub(crate) mod tokens;

use std::fmt::Write;

/// `name` as an identifier, whatever characters it has.
pub(crate) fn ident(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// `text` as a literal.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The parts with commas between them.
pub(crate) fn list(parts: impl IntoIterator<Item = String>) -> String {
    join(parts, ", ")
}

/// The conditions, all of which must hold.
pub(crate) fn all(parts: impl IntoIterator<Item = String>) -> String {
    join(parts, " AND ")
}

/// The conditions, of which one must hold.
pub(crate) fn any(parts: impl IntoIterator<Item = String>) -> String {
    join(parts, " OR ")
}

fn join(parts: impl IntoIterator<Item = String>, separator: &str) -> String {
    let mut text = String::new();
    for part in parts {
        if !text.is_empty() {
            text.push_str(separator);
        }
        text.push_str(&part);
    }
    text
}

/// `?first, …` for `count` parameters.
pub(crate) fn parameters(first: usize, count: usize) -> String {
    let mut text = String::new();
    for n in first..first + count {
        let comma = if n == first { "" } else { ", " };
        let _ = write!(text, "{comma}?{n}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_with_quotes_stay_what_they_are() {
        assert_eq!(ident(r#"my "own" table"#), r#""my ""own"" table""#);
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(parameters(3, 2), "?3, ?4");
    }
}
