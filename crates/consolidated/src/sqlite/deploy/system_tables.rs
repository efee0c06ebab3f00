//! The system tables in a file of SQLite.

use crate::deploy::SystemTables;

pub(in crate::sqlite) const SYSTEM: SystemTables = SystemTables {
    format: 7,
    made: include_str!("../system_tables.sql"),
    later: COLUMNS,
    bind: &BIND,
    date: "UPDATE syncline_user SET password_set_at = CAST(strftime('%s', 'now') AS INTEGER)",
};

const COLUMNS: &[(&str, &str, &str)] = &[
    ("syncline_table", "details", "TEXT NOT NULL DEFAULT '{}'"),
    ("syncline_owed", "withheld", "INTEGER"),
    ("syncline_owed", "bundled", "INTEGER"),
    ("syncline_conflict", "result_row", "TEXT"),
    ("syncline_remote", "held_deployment", "INTEGER"),
    ("syncline_remote", "secret", "TEXT"),
    ("syncline_remote", "bound_users", "TEXT"),
    ("syncline_remote", "void_counter", "INTEGER NOT NULL DEFAULT 0"),
    ("syncline_remote", "deletes_lost", "INTEGER NOT NULL DEFAULT 0"),
    ("syncline_remote", "forgotten_at", "TEXT"),
    ("syncline_remote", "acknowledged", "INTEGER NOT NULL DEFAULT 0"),
    ("syncline_remote", "acknowledged_at", "TEXT"),
    ("syncline_user", "password_set_at", "INTEGER NOT NULL DEFAULT 0"),
    ("syncline_user", "password_expires_at", "INTEGER"),
];

/// Remotes of older programs belong to who synchronized last, if there is still such a user.
const BIND: [&str; 3] = [
    "UPDATE syncline_remote SET bound_users = CASE
         WHEN user_name IN (SELECT user_name FROM syncline_user) THEN json_array(user_name)
         ELSE '[]' END",
    "INSERT INTO syncline_system VALUES ('incarnation', random())",
    "INSERT INTO syncline_system VALUES ('receipt_key', randomblob(32))",
];
