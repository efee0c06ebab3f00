//! The log of a table.

use crate::deploy::table::TableFacts;
use crate::quote::ident;
use crate::sqlite::deploy::tables::UserTable;
use std::collections::BTreeSet;

/// The column of a log that is 1 in the entries of rows that were deleted or changed their place or
/// key, 2 in those of new rows or keys, and NULL in all others. No table has it among its key
/// columns.
pub(in crate::sqlite) const MOVED: &str = "syncline_moved";

/// The column of a log that numbers its entries.
pub(in crate::sqlite) const SEQUENCE: &str = "syncline_sequence";

pub(in crate::sqlite) fn log_name(table: &str) -> String {
    format!("syncline_log_{table}")
}

/// What the log of a table keeps where departures count.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::sqlite) struct Kept {
    /// The columns beside the key whose old values are kept.
    pub(in crate::sqlite) place: BTreeSet<String>,
    /// The columns by whose value entries are sought: among a thousand remotes, each would read
    /// what all others have changed. Entries of new rows keep their values too.
    pub(in crate::sqlite) sought: BTreeSet<String>,
}

/// The definition of a column that keeps values of `column`, under the name `kept_as`.
pub(in crate::sqlite) fn kept_column(table: &UserTable, column: &str, kept_as: &str) -> String {
    let column = table.column(column);
    let declared = column.map_or("", |column| column.declared_type.as_str());
    let collation = column.map_or("BINARY", |column| column.collation.as_str());
    format!("{} {declared} COLLATE {}", ident(kept_as), ident(collation))
}
