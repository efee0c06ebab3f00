//! The system tables in a database of PostgreSQL.

use crate::deploy::SystemTables;

pub(in crate::postgres) const SYSTEM: SystemTables =
    SystemTables { format: 13, made: include_str!("system_tables.sql") };
