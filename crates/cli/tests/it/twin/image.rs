//! Everything that a database holds, without what differs between twins.

use super::normal::{self, Why, mask, of_type, of_value};
use harness::postgres::{SUPERUSER, TestDatabase};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// Per table its rows in order, each as a text.
pub(crate) type Image = BTreeMap<String, Vec<String>>;

/// Rows of one difference that are shown.
const ROWS_SHOWN_MAX: usize = 8;

/// What is left out: tables, and columns as `table.column`.
pub(crate) type Ignored = BTreeSet<String>;

/// Names of places, and what stands for them.
pub(crate) type Places = Vec<(String, &'static str)>;

/// Servers write it a moment after a synchronization has ended, with times and sizes.
const NOTED_ASIDE: &str = "syncline_synchronization";

fn is_compared(table: &str, ignored: &Ignored) -> bool {
    table != NOTED_ASIDE && !ignored.contains(table)
}

/// An SQLite database with all its tables, and with the definition of everything in it.
pub(crate) fn of_file(path: &Path, places: &Places, ignored: &Ignored) -> Image {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(20)).unwrap();
    let mut statement = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        .unwrap();
    let names = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let mut names: Vec<String> = names.map(Result::unwrap).collect();
    names.push("sqlite_schema".to_owned());
    let mut image = Image::new();
    for name in names.into_iter().filter(|name| is_compared(name, ignored)) {
        // Where a table lies in the file is of no interest.
        let columns = match name.as_str() {
            "sqlite_schema" => "type, name, tbl_name, sql",
            _ => "*",
        };
        let rows = file_rows(&connection, &name, columns, places, ignored);
        image.insert(name, rows);
    }
    image
}

fn file_rows(
    connection: &Connection,
    table: &str,
    columns: &str,
    places: &Places,
    ignored: &Ignored,
) -> Vec<String> {
    let mut statement = connection.prepare(&format!("SELECT {columns} FROM \"{table}\"")).unwrap();
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.query([]).unwrap();
    let mut lines = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let values = (0..names.len()).map(|at| shown(row.get_ref(at).unwrap())).collect();
        lines.push(line(table, &names, values, &BTreeSet::new(), places, ignored));
    }
    lines.sort();
    lines
}

fn shown(value: ValueRef<'_>) -> Option<String> {
    Some(match value {
        ValueRef::Null => return None,
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => format!("{number:?}"),
        ValueRef::Text(text) => format!("'{}'", String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => {
            format!("x'{}'", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
    })
}

/// A database of PostgreSQL with all tables of the user and of the system.
pub(crate) fn of_database(database: &TestDatabase, places: &Places, ignored: &Ignored) -> Image {
    let database = database.as_role(SUPERUSER);
    let columns = database.query(
        "SELECT n.nspname || '.' || c.relname, a.attname, a.atttypid::regtype::text
         FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
         JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
         WHERE c.relkind = 'r' AND n.nspname IN ('public', 'syncline')
         ORDER BY 1, a.attnum",
    );
    let mut tables: BTreeMap<String, (Vec<String>, BTreeSet<String>)> = BTreeMap::new();
    for row in columns {
        let [table, column, of] = <[String; 3]>::try_from(row).unwrap();
        let (names, transactions) = tables.entry(table).or_default();
        if of_type(&of).is_some() {
            transactions.insert(column.clone());
        }
        names.push(column);
    }
    tables.retain(|name, _| is_compared(unqualified(name), ignored));
    let selects = tables.iter().map(|(name, (columns, _))| {
        // Whether a value is NULL is told from what it says.
        let values: Vec<String> = columns
            .iter()
            .map(|column| format!("coalesce('''' || t.\"{column}\"::text || '''', 'NULL')"))
            .collect();
        format!("SELECT '{name}', jsonb_build_array({})::text FROM {name} AS t", values.join(", "))
    });
    let sql = selects.collect::<Vec<_>>().join(" UNION ALL ");
    let mut image: Image = tables.keys().map(|name| (name.clone(), Vec::new())).collect();
    for row in database.query(&sql) {
        let values: Vec<String> = serde_json::from_str(&row[1]).unwrap();
        let (names, transactions) = &tables[&row[0]];
        let values = values.into_iter().map(|value| (value != "NULL").then_some(value)).collect();
        let line = line(&row[0], names, values, transactions, places, ignored);
        image.get_mut(&row[0]).unwrap().push(line);
    }
    image.values_mut().for_each(|lines| lines.sort());
    image
}

fn unqualified(table: &str) -> &str {
    table.split_once('.').map_or(table, |(_, name)| name)
}

/// A row as a text.
fn line(
    table: &str,
    names: &[String],
    values: Vec<Option<String>>,
    transactions: &BTreeSet<String>,
    places: &Places,
    ignored: &Ignored,
) -> String {
    let first = values.first().cloned().flatten().unwrap_or_default();
    let first = first.trim_matches('\'').to_owned();
    let mut parts = Vec::new();
    for (name, value) in names.iter().zip(values) {
        if ignored.contains(&format!("{}.{name}", unqualified(table))) {
            continue;
        }
        let is_transaction = transactions.contains(name);
        let value = match (value, of_value(table, name, &first)) {
            (None, Some(why @ Why::Late)) => mask(why, ""),
            (None, _) => "NULL".to_owned(),
            (Some(value), Some(why)) => mask(why, &value),
            (Some(value), None) if is_transaction => mask(Why::Transaction, &value),
            (Some(value), None) => normal::value(&value, places),
        };
        parts.push(format!("{name} = {value}"));
    }
    parts.join(", ")
}

/// What differs between two images; nothing where they are equal.
pub(crate) fn difference(images: &[Image; 2]) -> Option<String> {
    let [old, new] = images;
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut story = String::new();
    for name in names {
        let (old, new) = (old.get(name), new.get(name));
        if old == new {
            continue;
        }
        story.push_str(&format!("  {name}\n"));
        match (old, new) {
            (Some(old), Some(new)) => {
                story.push_str(&only("old", &surplus(old, new)));
                story.push_str(&only("new", &surplus(new, old)));
            }
            (Some(_), None) => story.push_str("    only the old program has this table\n"),
            _ => story.push_str("    only the new program has this table\n"),
        }
    }
    (!story.is_empty()).then_some(story)
}

/// The rows of one table that the other one has not, or not so often.
fn surplus(rows: &[String], other: &[String]) -> Vec<String> {
    let mut other: Vec<&String> = other.iter().collect();
    let missing = |row: &&String| match other.iter().position(|it| it == row) {
        Some(at) => {
            other.swap_remove(at);
            false
        }
        None => true,
    };
    rows.iter().filter(missing).cloned().collect()
}

fn only(which: &str, rows: &[String]) -> String {
    let mut lines: String =
        rows.iter().take(ROWS_SHOWN_MAX).map(|row| format!("    {which}: {row}\n")).collect();
    if rows.len() > ROWS_SHOWN_MAX {
        lines.push_str(&format!("    {which}: {} more\n", rows.len() - ROWS_SHOWN_MAX));
    }
    lines
}
