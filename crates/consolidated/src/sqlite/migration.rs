//! Adds to the system tables of an older program what they lack.
//!
//! It examines the tables and not the format number. So a deployment that was made between two
//! formats is completed too.

use super::deploy::{SYSTEM_FORMAT, SYSTEM_TABLES, table_exists};
use super::errors::failed;
use model::Failure;
use rusqlite::Connection;

/// Columns that a system table did not have from the beginning, in the order of their coming.
const COLUMNS: &[(&str, &str, &str)] = &[
    ("syncline_table", "details", "TEXT NOT NULL DEFAULT '{}'"),
    ("syncline_owed", "withheld", "INTEGER"),
    ("syncline_conflict", "result_row", "TEXT"),
    ("syncline_remote", "held_deployment", "INTEGER"),
    ("syncline_remote", "secret", "TEXT"),
    ("syncline_remote", "bound_users", "TEXT"),
    ("syncline_remote", "void_counter", "INTEGER NOT NULL DEFAULT 0"),
    ("syncline_remote", "deletes_lost", "INTEGER NOT NULL DEFAULT 0"),
    ("syncline_remote", "forgotten_at", "TEXT"),
];

/// Remotes of older programs belong to who synchronized last, if there is still such a user.
const BIND: [&str; 3] = [
    "UPDATE syncline_remote SET bound_users = CASE
         WHEN user_name IN (SELECT user_name FROM syncline_user) THEN json_array(user_name)
         ELSE '[]' END",
    "INSERT INTO syncline_system VALUES ('incarnation', random())",
    "INSERT INTO syncline_system VALUES ('receipt_key', randomblob(32))",
];

/// The statements that bring system tables of `format` to today's.
pub(super) fn missing(connection: &Connection, format: i64) -> Result<Vec<String>, Failure> {
    let mut statements = Vec::new();
    for line in SYSTEM_TABLES.lines() {
        let name = line.split(' ').nth(2).unwrap_or_default();
        if !name.is_empty() && !table_exists(connection, name)? {
            statements.push(line.trim_end_matches(';').to_owned());
        }
    }
    for (table, column, declared) in COLUMNS {
        if table_exists(connection, table)? && !column_exists(connection, table, column)? {
            statements.push(format!("ALTER TABLE {table} ADD COLUMN {column} {declared}"));
            if *column == "bound_users" {
                statements.extend(BIND.map(str::to_owned));
            }
        }
    }
    if format != SYSTEM_FORMAT {
        let update = "UPDATE syncline_system SET value";
        statements.push(format!("{update} = {SYSTEM_FORMAT} WHERE name = 'format'"));
    }
    Ok(statements)
}

fn column_exists(connection: &Connection, table: &str, column: &str) -> Result<bool, Failure> {
    connection.column_exists(Some("main"), table, column).map_err(failed("describe a system table"))
}
