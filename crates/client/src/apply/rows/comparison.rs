//! Compares a row of a refresh with the stored one.
//!
//! If the database at the center may be in another state than the one that the remote knows, rows
//! that are overwritten or that return are recorded in the reject table.

use crate::connection::{bind, value};
use model::ValueRef;
use protocol::DownloadBegin;
use rusqlite::CachedStatement;

/// What of a refresh is kept in the reject table, because the database at the center may be in
/// another state than the one that the remote knows.
#[derive(Clone, Copy, Default)]
pub(in crate::apply) struct Tells {
    /// Rows that it overwrites.
    pub(in crate::apply) overwritten: bool,
    /// Rows that it brings although they had gone.
    pub(in crate::apply) brought_back: bool,
}

impl Tells {
    pub(in crate::apply) fn of(begin: &DownloadBegin) -> Tells {
        Tells { overwritten: begin.restored, brought_back: begin.restored && begin.deletes_lost }
    }
}

/// What there is of a row that comes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::apply) enum Stored {
    Missing,
    Different,
    Same,
}

/// Compares a row with the one that is stored under its key.
pub(in crate::apply) fn compare(
    select: &mut CachedStatement<'_>,
    key: &[ValueRef<'_>],
    row: &[ValueRef<'_>],
) -> rusqlite::Result<Stored> {
    for (n, value) in key.iter().enumerate() {
        bind(select, n + 1, *value)?;
    }
    let mut rows = select.raw_query();
    let Some(stored) = rows.next()? else { return Ok(Stored::Missing) };
    for (column, wanted) in row.iter().enumerate() {
        if !value(stored, column)?.identical(*wanted) {
            return Ok(Stored::Different);
        }
    }
    Ok(Stored::Same)
}
