//! Adds to the system tables of an older program what they lack.
//!
//! It examines the tables and not the format number. So a deployment that was made between two
//! formats is completed too.

use super::errors::failed;
use super::link::Link;
use super::present::{SYSTEM_FORMAT, text};
use super::steps::SYSTEM_TABLES;
use model::Failure;
use std::collections::BTreeSet;

/// Columns that a system table did not have from the beginning, in the order of their coming.
const COLUMNS: &[(&str, &str, &str)] = &[
    ("syncline_owed", "withheld", "bigint"),
    ("syncline_owed", "whole_key", "bytea"),
    ("syncline_conflict", "result_row", "text"),
    ("syncline_log_state", "triggers", "text"),
    ("syncline_log_state", "unstamped", "xid8"),
    ("syncline_log_state", "bypassed", "xid8"),
    ("syncline_log_state", "settled", "xid8"),
    ("syncline_key_change", "unlinked", "boolean NOT NULL DEFAULT false"),
    ("syncline_remote", "held_deployment", "bigint"),
    ("syncline_remote", "secret", "text"),
    ("syncline_remote", "bound_users", "text"),
    ("syncline_remote", "void_counter", "bigint NOT NULL DEFAULT 0"),
    ("syncline_remote", "deletes_lost", "boolean NOT NULL DEFAULT false"),
    ("syncline_remote", "forgotten_at", "timestamptz"),
];

/// A system table in whose place there is another: it knew of each key only what became of it last.
pub(super) const REPLACED: &str = "syncline_moved";

/// Remotes of older programs belong to who synchronized last, if there is still such a user.
const BIND: [&str; 3] = [
    "UPDATE syncline.syncline_remote SET bound_users = CASE
         WHEN user_name IN (SELECT user_name FROM syncline.syncline_user)
         THEN json_build_array(user_name)::text ELSE '[]' END",
    "INSERT INTO syncline.syncline_system
     VALUES ('incarnation', ((random() - 0.5) * 9e18)::bigint::text)",
    "INSERT INTO syncline.syncline_system
     SELECT 'receipt_key', random || random
     FROM replace(gen_random_uuid()::text, '-', '') AS random",
];

/// Every column of Syncline: table and name.
pub(super) fn columns(link: &mut Link) -> Result<BTreeSet<(String, String)>, Failure> {
    let sql = "SELECT c.relname::text, a.attname::text
               FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
               WHERE c.relnamespace = to_regnamespace('syncline') AND c.relkind = 'r'
                 AND a.attnum > 0 AND NOT a.attisdropped";
    let rows = link.query(sql, &[]).map_err(failed("describe the system tables"))?;
    rows.iter().map(|row| Ok((text(row, 0)?, text(row, 1)?))).collect()
}

/// The statements that bring system tables of `format` to today's.
pub(super) fn missing(format: i64, present: &BTreeSet<(String, String)>) -> Vec<String> {
    let exists = |name: &str| present.iter().any(|(table, _)| table == name);
    let mut statements = Vec::new();
    for line in SYSTEM_TABLES.lines() {
        let name = line.split(' ').nth(2).unwrap_or_default();
        let name = name.trim_start_matches("syncline.");
        if !name.is_empty() && !exists(name) {
            statements.push(line.trim_end_matches(';').to_owned());
        }
    }
    for (table, column, declared) in COLUMNS {
        let is_there = present.contains(&((*table).to_owned(), (*column).to_owned()));
        if exists(table) && !is_there {
            let table = format!("syncline.{table}");
            statements.push(format!("ALTER TABLE {table} ADD COLUMN {column} {declared}"));
            if *column == "bound_users" {
                statements.extend(BIND.map(str::to_owned));
            }
        }
    }
    if format != SYSTEM_FORMAT {
        let update = "UPDATE syncline.syncline_system SET value";
        statements.push(format!("{update} = '{SYSTEM_FORMAT}' WHERE name = 'format'"));
    }
    statements
}
