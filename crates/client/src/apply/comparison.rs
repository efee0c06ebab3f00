//! Compares a row of a refresh with the stored one.
//!
//! If the database at the centre may be in another state than the one that the remote knows, rows
//! that are overwritten or that return are recorded in the reject table.

use crate::connection::{bind, value};
use model::ValueRef;
use protocol::DownloadBegin;
use rusqlite::CachedStatement;

/// What of a refresh is kept in the reject table, because the database at the centre may be in
/// another state than the one that the remote knows.
#[derive(Clone, Copy, Default)]
pub(super) struct Tells {
    /// Rows that it overwrites.
    pub(super) overwritten: bool,
    /// Rows that it brings although they had gone.
    pub(super) brought_back: bool,
}

impl Tells {
    pub(super) fn of(begin: &DownloadBegin) -> Tells {
        Tells { overwritten: begin.restored, brought_back: begin.restored && begin.deletes_lost }
    }
}

/// What there is of a row that comes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    Missing,
    Different,
    Same,
}

/// Compares a row with the one that is stored under its key.
pub(super) fn compare(
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
