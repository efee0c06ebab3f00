//! What notes every change of a table: a log and the triggers that write it.
//!
//! An entry is the key of a row that somebody inserted, updated or deleted; whether the row still
//! exists tells a download which of both it is. The triggers use built-in functions only, so that
//! any program that writes to the file runs them.
//!
//! Trap 9: `REPLACE` removes rows without firing delete triggers. The row with the same key is
//! logged by the insert itself; the victims of other UNIQUE indexes are logged before it.

use super::tables::{UniqueIndex, UserTable};
use crate::quote::{ident, idents, join};

/// A database object of ours.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Object {
    /// `TABLE` or `TRIGGER`.
    pub(super) kind: &'static str,
    pub(super) name: String,
    /// The user table it watches.
    pub(super) table: String,
    /// As SQLite stores it.
    pub(super) sql: String,
}

pub(super) fn log_name(table: &str) -> String {
    format!("syncline_log_{table}")
}

/// The log of a table and its triggers.
pub(super) fn objects(table: &UserTable) -> Vec<Object> {
    let mut objects = vec![log(table)];
    let values = |row: &str| idents(&format!("{row}."), &table.key);
    let log_into =
        format!("INSERT INTO {} ({})", ident(&log_name(&table.name)), idents("", &table.key));
    let trigger = |event: &str, when: &str, statements: Vec<String>| {
        let name = format!("syncline_{event}_{}", table.name);
        let body: String = statements.iter().map(|s| format!("    {s};\n")).collect();
        let sql = format!(
            "CREATE TRIGGER {} {when} ON {}\nBEGIN\n{body}END",
            ident(&name),
            ident(&table.name)
        );
        Object { kind: "TRIGGER", name, table: table.name.clone(), sql }
    };
    let moved = join(&table.key, " OR ", |column| {
        let column = ident(column);
        format!("NEW.{column} COLLATE BINARY IS NOT OLD.{column}")
    });
    objects.push(trigger(
        "insert",
        "AFTER INSERT",
        vec![format!("{log_into} VALUES ({})", values("NEW"))],
    ));
    objects.push(trigger(
        "update",
        "AFTER UPDATE",
        vec![
            format!("{log_into} VALUES ({})", values("NEW")),
            format!("{log_into} SELECT {} WHERE {moved}", values("OLD")),
        ],
    ));
    objects.push(trigger(
        "delete",
        "AFTER DELETE",
        vec![format!("{log_into} VALUES ({})", values("OLD"))],
    ));
    let victims: Vec<String> =
        table.uniques.iter().filter_map(|unique| victims_of(table, unique, &log_into)).collect();
    if !victims.is_empty() {
        let columns = unique_columns(table);
        let before_update = format!("BEFORE UPDATE OF {}", idents("", &columns));
        objects.push(trigger("replace", "BEFORE INSERT", victims.clone()));
        objects.push(trigger("update_replace", &before_update, victims));
    }
    objects
}

fn log(table: &UserTable) -> Object {
    let name = log_name(&table.name);
    let columns = join(&table.key, ", ", |name| {
        let column = table.column(name);
        let declared = column.map_or("", |column| column.declared_type.as_str());
        let collation = column.map_or("BINARY", |column| column.collation.as_str());
        format!("{} {declared} COLLATE {}", ident(name), ident(collation))
    });
    let sql = format!("CREATE TABLE {} (sequence INTEGER PRIMARY KEY, {columns})", ident(&name));
    Object { kind: "TABLE", name, table: table.name.clone(), sql }
}

/// Logs the rows that a REPLACE by this index would remove. The condition of a partial index is
/// left out: an entry too many does no harm.
fn victims_of(table: &UserTable, unique: &UniqueIndex, log_into: &str) -> Option<String> {
    let columns: Option<Vec<_>> = unique.columns.iter().cloned().collect();
    let matches: Vec<String> = columns?
        .iter()
        .map(|(column, collation)| {
            let column = ident(column);
            format!("{column} = NEW.{column} COLLATE {}", ident(collation))
        })
        .collect();
    Some(format!(
        "{log_into} SELECT {} FROM {} WHERE {}",
        idents("", &table.key),
        ident(&table.name),
        matches.join(" AND ")
    ))
}

/// Columns of UNIQUE indexes, each once.
pub(super) fn unique_columns(table: &UserTable) -> Vec<String> {
    let mut columns: Vec<String> = Vec::new();
    for (column, _) in table.uniques.iter().flat_map(|unique| unique.columns.iter().flatten()) {
        if !columns.contains(column) {
            columns.push(column.clone());
        }
    }
    columns
}
