//! SQL that creates a published table at a remote.
//!
//! A remote is never stricter than the center, which has accepted every row of a download already.
//! Parts of a definition that cannot be converted exactly are left out and reported.

use crate::deploy::{ForeignKey, TableFacts};
use crate::postgres::deploy::tables::{UserColumn, UserTable};
use crate::postgres::values::datetime::Times;
use crate::postgres::values::{ColumnType, Kind, NumericAs};
use crate::quote::{ident, idents, literal};

/// The statements, and what was left out. `types` are those of `columns`; `foreign_keys` are the
/// positions of the table's foreign keys that hold at every remote.
pub(in crate::postgres) fn create(
    table: &UserTable,
    columns: &[String],
    types: &[ColumnType],
    foreign_keys: &[usize],
) -> (Vec<String>, Vec<String>) {
    let published = table.published_name();
    let mut notices = Vec::new();
    let mut parts: Vec<String> = columns
        .iter()
        .zip(types)
        .filter_map(|(name, kind)| Some(definition(table, table.column(name)?, kind)))
        .collect();
    notices.extend(
        columns
            .iter()
            .zip(types)
            .filter_map(|(name, kind)| without_default(table, table.column(name)?, kind)),
    );
    parts.push(format!("PRIMARY KEY ({})", idents("", &table.key)));
    let mut indexes = Vec::new();
    for index in &table.indexes {
        let plain: Option<Vec<String>> = index.columns.iter().cloned().collect();
        match plain.filter(|plain| !index.partial && index.tree && within(plain, columns)) {
            Some(plain) if index.unique => {
                parts.push(format!("UNIQUE ({})", idents("", &plain)));
            }
            Some(plain) => indexes.push(format!(
                "CREATE INDEX {} ON {} ({})",
                ident(&index_name(table, &index.name)),
                ident(&published),
                idents("", &plain)
            )),
            None => notices.push(format!(
                "index {} of {published} is left out at remotes: it is not a B-tree over published \
                 columns only",
                index.name
            )),
        }
    }
    let kept = foreign_keys.iter().filter_map(|position| table.foreign_keys.get(*position));
    parts.extend(kept.map(ForeignKey::definition));
    let mut statements =
        vec![format!("CREATE TABLE {} (\n    {}\n)", ident(&published), parts.join(",\n    "))];
    statements.extend(indexes);
    (statements, notices)
}

/// Indexes of all schemas share one space of names at a remote.
fn index_name(table: &UserTable, index: &str) -> String {
    match table.published_name() == table.name {
        true => index.to_owned(),
        false => format!("{}.{index}", table.schema),
    }
}

fn within(names: &[String], columns: &[String]) -> bool {
    names.iter().all(|name| columns.contains(name))
}

fn definition(table: &UserTable, column: &UserColumn, kind: &ColumnType) -> String {
    let mut text = format!("{} {}", ident(&column.name), declared_type(kind));
    if column.not_null || table.key.contains(&column.name) {
        text.push_str(" NOT NULL");
    }
    if let Some(default) = column.default.as_deref().and_then(|default| value(default, kind)) {
        text.push_str(&format!(" DEFAULT {default}"));
    }
    text
}

/// A notice about a column that the database fills, and remotes do not.
fn without_default(table: &UserTable, column: &UserColumn, kind: &ColumnType) -> Option<String> {
    let default = column.default.as_deref();
    let is_filled = column.is_numbered() || default.is_some();
    let crosses = default.is_some_and(|default| value(default, kind).is_some())
        // An integer as the whole key is the rowid.
        || table.key.as_slice() == [column.name.clone()] && declared_type(kind) == "INTEGER";
    (column.not_null && is_filled && !column.generated && !crosses).then(|| {
        format!(
            "the default of column {} of {} is left out at remotes: what inserts rows there has to \
             give the column a value, because it takes no NULL",
            column.name,
            table.published_name()
        )
    })
}

/// The type whose affinity keeps every value of `kind` as it is.
fn declared_type(kind: &ColumnType) -> &'static str {
    match kind.kind {
        Kind::Bool | Kind::Int2 | Kind::Int4 | Kind::Int8 => "INTEGER",
        Kind::Numeric(NumericAs::Integer) => "INTEGER",
        Kind::Float4 | Kind::Float8 | Kind::Numeric(NumericAs::Real) => "REAL",
        Kind::Numeric(NumericAs::Numeric) => "NUMERIC",
        Kind::Bytea => "BLOB",
        Kind::Numeric(NumericAs::Text)
        | Kind::Text
        | Kind::Char
        | Kind::Uuid
        | Kind::Date
        | Kind::Time
        | Kind::Timestamp
        | Kind::Timestamptz
        | Kind::Interval
        | Kind::Other => "TEXT",
    }
}

/// The default in SQLite's words: literals, the present time, random identifiers.
fn value(default: &str, kind: &ColumnType) -> Option<String> {
    let now = matches!(
        default.to_ascii_lowercase().as_str(),
        "now()" | "current_timestamp" | "transaction_timestamp()" | "localtimestamp"
    );
    match kind.kind {
        Kind::Timestamptz | Kind::Timestamp if now => {
            Some(present(kind.times, kind.kind == Kind::Timestamptz).into())
        }
        Kind::Date if now || default == "CURRENT_DATE" => Some("(date('now'))".into()),
        Kind::Uuid if default == "gen_random_uuid()" => Some(RANDOM_UUID.into()),
        Kind::Bool => match default {
            "true" => Some("1".into()),
            "false" => Some("0".into()),
            _ => None,
        },
        Kind::Int2 | Kind::Int4 | Kind::Int8 | Kind::Float4 | Kind::Float8 | Kind::Numeric(_) => {
            let digits = number(default)?;
            match kind.kind {
                Kind::Numeric(NumericAs::Text) => Some(literal(digits)),
                _ => Some(digits.to_owned()),
            }
        }
        Kind::Text | Kind::Char | Kind::Uuid | Kind::Date | Kind::Other => text(default),
        // Values that a remote would have to spell exactly as the center does.
        _ => None,
    }
}

/// The present time to the millisecond.
fn present(times: Times, utc: bool) -> &'static str {
    match (times, utc) {
        (Times::Full, true) => "(strftime('%Y-%m-%d %H:%M:%f000Z', 'now'))",
        (Times::Full, false) => "(strftime('%Y-%m-%d %H:%M:%f000', 'now'))",
        // Without zeros at its end.
        (Times::Sqlite, _) => "(rtrim(rtrim(strftime('%Y-%m-%d %H:%M:%f', 'now'), '0'), '.'))",
        (Times::Rfc3339, true) => {
            "(rtrim(rtrim(strftime('%Y-%m-%dT%H:%M:%f', 'now'), '0'), '.') || 'Z')"
        }
        (Times::Rfc3339, false) => "(rtrim(rtrim(strftime('%Y-%m-%dT%H:%M:%f', 'now'), '0'), '.'))",
    }
}

/// Random, version 4.
const RANDOM_UUID: &str = "(lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || \
     substr(hex(randomblob(2)), 2) || '-' || substr('89ab', 1 + (random() & 3), 1) || \
     substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))))";

/// The number in `0`, `(-1)`, `'-1'::integer`, `0.00`.
fn number(default: &str) -> Option<&str> {
    let bare = match default.split_once("'::") {
        Some((quoted, _)) => quoted.strip_prefix('\'')?,
        None => default,
    };
    let bare = bare.strip_prefix('(').and_then(|b| b.strip_suffix(')')).unwrap_or(bare);
    let unsigned = bare.strip_prefix('-').unwrap_or(bare);
    let plain = unsigned.starts_with(|c: char| c.is_ascii_digit())
        && unsigned.chars().all(|c| c.is_ascii_digit() || c == '.');
    plain.then_some(bare)
}

/// The text in `'it''s'::text`, as a literal.
fn text(default: &str) -> Option<String> {
    let (quoted, cast) = default.rsplit_once("'::")?;
    let inner = quoted.strip_prefix('\'')?;
    // A quote that is not doubled ends the literal: this is an expression.
    let simple = !inner.replace("''", "").contains('\'') && !cast.contains(['(', '|', '\'']);
    simple.then(|| format!("'{inner}'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use postgres_types::Type;

    #[test]
    fn literal_defaults_cross_and_expressions_do_not() {
        let of = |kind| ColumnType { kind, ..ColumnType::of("", 0, false, NumericAs::Text) };
        for (default, kind, expected) in [
            ("0", Kind::Int4, Some("0")),
            ("'-1'::integer", Kind::Int4, Some("-1")),
            ("'-1.50'::numeric", Kind::Numeric(NumericAs::Numeric), Some("-1.50")),
            ("'-1.50'::numeric", Kind::Numeric(NumericAs::Text), Some("'-1.50'")),
            ("nextval('a_seq'::regclass)", Kind::Int4, None),
            ("(1 + 2)", Kind::Int4, None),
            ("true", Kind::Bool, Some("1")),
            ("'it''s'::text", Kind::Text, Some("'it''s'")),
            ("'ok'::public.mood", Kind::Other, Some("'ok'")),
            ("('a'::text || 'b'::text)", Kind::Text, None),
            ("'a'::text || 'b'::text", Kind::Text, None),
            ("NULL::character varying", Kind::Text, None),
            ("now()", Kind::Text, None),
            ("CURRENT_DATE", Kind::Date, Some("(date('now'))")),
        ] {
            assert_eq!(value(default, &of(kind)).as_deref(), expected, "{default}");
        }
    }

    #[test]
    fn sqlite_understands_what_stands_for_the_present_and_for_chance() {
        let sqlite = rusqlite::Connection::open_in_memory().unwrap();
        let one = |sql: &str| -> String {
            sqlite.query_row(&format!("SELECT CAST({sql} AS TEXT)"), [], |row| row.get(0)).unwrap()
        };
        let uuid = one(RANDOM_UUID);
        assert_eq!(uuid.len(), 36, "{uuid}");
        assert_eq!(uuid.as_bytes()[14], b'4', "{uuid}");
        let now = ColumnType::of("", Type::TIMESTAMPTZ.oid(), false, NumericAs::Text);
        for (times, pattern) in [
            (Times::Full, "????-??-?? ??:??:??.???000Z"),
            (Times::Sqlite, "????-??-?? ??:??:*[0-9]"),
            (Times::Rfc3339, "????-??-??T??:??:*[0-9]Z"),
        ] {
            let now = value("now()", &ColumnType { times, ..now.clone() }).unwrap();
            assert_eq!(one(&format!("{now} GLOB '{pattern}'")), "1", "{now}");
        }
    }
}
