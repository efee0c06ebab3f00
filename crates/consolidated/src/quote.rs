//! Identifiers and literals as SQL text.

/// `name` as a quoted identifier.
pub(crate) fn ident(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// `text` as a string literal.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Each name quoted, with `prefix` in front, separated by commas.
pub(crate) fn idents<S: AsRef<str>>(prefix: &str, names: &[S]) -> String {
    join(names, ", ", |name| format!("{prefix}{}", ident(name)))
}

/// What `form` makes of each name, separated by `separator`.
pub(crate) fn join<S: AsRef<str>>(
    names: &[S],
    separator: &str,
    form: impl Fn(&str) -> String,
) -> String {
    names.iter().map(|name| form(name.as_ref())).collect::<Vec<_>>().join(separator)
}
