//! The system tables in a file of SQLite.

use crate::deploy::SystemTables;

pub(in crate::sqlite) const SYSTEM: SystemTables = SystemTables {
    format: 14,
    made: include_str!("../system_tables.sql"),
    added: "syncline_synchronization",
    altered: "ALTER TABLE syncline_reject ADD COLUMN settled TEXT",
};
