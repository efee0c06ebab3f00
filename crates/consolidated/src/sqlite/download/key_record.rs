//! The names in the record of the key changes of a table.

/// The table with the key changes of a table.
pub(in crate::sqlite) fn keys_name(table: &str) -> String {
    format!("syncline_keys_{table}")
}

/// The column with the key's column before the change.
pub(in crate::sqlite) fn was(column: &str) -> String {
    format!("was_{column}")
}

/// The column with the key's column after it.
pub(in crate::sqlite) fn becomes(column: &str) -> String {
    format!("is_{column}")
}
