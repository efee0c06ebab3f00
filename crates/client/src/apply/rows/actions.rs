//! What foreign keys do on their own.

use crate::apply::rows::comparison::Tells;
use rusqlite::Connection;
use std::cell::Cell;

/// Notices what foreign keys do on their own.
pub(super) struct Actions<'a> {
    pub(super) connection: &'a Connection,
    pub(super) seen: Cell<bool>,
    pub(super) tells: Cell<Tells>,
}

impl Actions<'_> {
    /// Runs a statement. SQLite counts its own changes separately from their effects.
    pub(super) fn watch(
        &self,
        statement: impl FnOnce() -> rusqlite::Result<usize>,
    ) -> rusqlite::Result<usize> {
        let before = self.connection.total_changes();
        let own = statement()?;
        if self.connection.total_changes() - before > own as u64 {
            self.seen.set(true);
        }
        Ok(own)
    }
}
