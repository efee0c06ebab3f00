//! Children that refer to a UNIQUE value of a row, and not to its key.
//!
//! When a download takes such a value from a row, the file's own foreign keys act upon the
//! children. The center names only rows that it has changed, and it need not have changed these: it
//! may not check foreign keys. So the tables of these children lose their watermark together with
//! the download, and another attempt receives them as a whole.

use super::download::Download;
use crate::connection::explain;
use crate::schema::history::History;
use crate::schema::stored_table::stored_tables;
use crate::schema::{RemoteTable, reference};
use model::Failure;
use protocol::DownloadMode;
use rusqlite::Connection;
use std::collections::BTreeSet;

/// Positions of the tables whose rows may have followed a value that the download has moved, or
/// such a row.
pub(super) fn tables(
    connection: &Connection,
    download: &Download,
    tables: &[RemoteTable],
) -> Result<BTreeSet<usize>, Failure> {
    let mut followed = BTreeSet::new();
    if !tables.iter().any(|table| table.referred_by_value) {
        return Ok(followed);
    }
    let references = reference::references(connection, tables).map_err(explain)?;
    // Every round but the last adds a table.
    loop {
        let before = followed.len();
        for reference in &references {
            let (child, Some(at)) = (&tables[reference.child], reference.parent_at) else {
                continue;
            };
            let by_value = reference.by_key(&tables[at]).is_none();
            let moves = by_value && download.came[at].rows || followed.contains(&at);
            // All rows of a refresh came, and are right.
            let is_whole = download.mode(child) == DownloadMode::Refresh;
            if moves && !is_whole && child.published.direction.downloads() {
                followed.insert(reference.child);
            }
        }
        if followed.len() == before {
            return Ok(followed);
        }
    }
}

/// Has these tables received as a whole.
pub(super) fn receive_anew(
    connection: &Connection,
    followed: &BTreeSet<usize>,
) -> Result<(), Failure> {
    if followed.is_empty() {
        return Ok(());
    }
    let mut history = History::read(connection)?;
    let forget = "UPDATE syncline_table SET watermark = NULL WHERE position = ?1";
    for (position, stored) in stored_tables(connection)?.iter().enumerate() {
        if followed.contains(&position) {
            history.keep_watermark(stored);
            connection.execute(forget, [position as i64]).map_err(explain)?;
        }
    }
    history.write(connection)
}

#[cfg(test)]
mod tests;
