//! A change of the schema while it is made.

use crate::connection::explain;
use crate::schema::LocalTable;
use model::{Code, Failure, PublishedTable};
use rusqlite::Connection;

/// What has been done so far, and on what.
pub(super) struct Change<'a> {
    pub(super) connection: &'a Connection,
    pub(super) open_generation: i64,
    pub(super) at: &'a str,
    /// Changes that went to the reject table.
    pub(super) rejects: u64,
    /// Tables whose rows nobody has compared with the center's since nothing captured them.
    pub(super) uncompared: Vec<String>,
}

impl Change<'_> {
    /// The table that the published SQL has created.
    pub(super) fn created(&self, published: &PublishedTable) -> Result<LocalTable, Failure> {
        LocalTable::read(self.connection, &published.name).map_err(explain)?.ok_or_else(|| {
            let message = format!("the published SQL does not create table {}", published.name);
            Failure::new(Code::RemoteSchemaDiffers, message).table(&published.name)
        })
    }
}
