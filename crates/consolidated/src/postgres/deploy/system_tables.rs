//! The system tables in a database of PostgreSQL.

use crate::deploy::SystemTables;

pub(in crate::postgres) const SYSTEM: SystemTables = SystemTables {
    format: 14,
    made: include_str!("system_tables.sql"),
    added: "syncline_synchronization",
    altered: "ALTER TABLE syncline.syncline_reject ADD COLUMN settled text",
};
