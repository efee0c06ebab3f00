//! Completes files of older versions when they are opened.

use super::stored_table::stored_tables;
use super::{FORMAT_VERSION, LocalTable, RemoteTable};
use crate::capture::triggers::Installed;
use crate::connection::{begin_immediate, explain};
use crate::progress::facts;
use model::Failure;
use rusqlite::Connection;

/// Brings our tables to the layout of now. Pending changes stay as they were captured.
pub(crate) fn migrate(connection: &Connection) -> Result<(), Failure> {
    let version = || facts::get::<i64>(connection, "format_version").map_err(explain);
    if version()? == Some(FORMAT_VERSION) {
        return Ok(());
    }
    let transaction = begin_immediate(connection)?;
    if version()?.unwrap_or(0) < 2 {
        record_key_changes(connection)?;
    }
    facts::set(connection, "format_version", FORMAT_VERSION).map_err(explain)?;
    transaction.commit().map_err(explain)
}

/// Version 2: a table of key changes per table that uploads, and triggers that write to it.
fn record_key_changes(connection: &Connection) -> Result<(), Failure> {
    let installed = Installed::read(connection).map_err(explain)?;
    for stored in stored_tables(connection)? {
        // A table that the user dropped, or changed beyond recognition, is reported when it is
        // used.
        let local = LocalTable::read(connection, &stored.published.name).map_err(explain)?;
        let table = local.and_then(|local| RemoteTable::new(0, stored, &local).ok());
        if let Some(table) = table.filter(RemoteTable::uploads) {
            super::mend(connection, &table, &installed)?;
        }
    }
    Ok(())
}
