//! The system tables in a database of PostgreSQL.

use crate::deploy::SystemTables;

pub(in crate::postgres) const SYSTEM: SystemTables = SystemTables {
    format: 8,
    made: include_str!("system_tables.sql"),
    later: COLUMNS,
    bind: &BIND,
    date: "UPDATE syncline.syncline_user SET password_set_at = extract(epoch FROM now())::bigint",
};

const COLUMNS: &[(&str, &str, &str)] = &[
    ("syncline_owed", "withheld", "bigint"),
    ("syncline_owed", "whole_key", "bytea"),
    ("syncline_owed", "bundled", "integer"),
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
    ("syncline_remote", "acknowledged", "bigint NOT NULL DEFAULT 0"),
    ("syncline_remote", "acknowledged_at", "timestamptz"),
    ("syncline_user", "password_set_at", "bigint NOT NULL DEFAULT 0"),
    ("syncline_user", "password_expires_at", "bigint"),
];

/// A system table in whose place there is another: it knew of each key only what became of it last.
pub(in crate::postgres) const REPLACED: &str = "syncline_moved";

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
