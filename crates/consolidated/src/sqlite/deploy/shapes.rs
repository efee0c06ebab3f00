//! Notes which deployment's tables a remote holds.

use crate::sqlite::errors::failed;
use crate::synchronization::{Held, Session};
use model::Failure;
use rusqlite::{Connection, params};

/// Notes that the remote holds the tables of today, for as long as older ones are kept for it.
pub(in crate::sqlite) fn note_held(
    connection: &Connection,
    session: &Session,
) -> Result<(), Failure> {
    if !matches!(session.held, Held::Same { note: true }) {
        return Ok(());
    }
    connection
        .prepare_cached(
            "UPDATE syncline_remote SET held_deployment = ?2
             WHERE remote_id = ?1 AND held_deployment IS NOT ?2",
        )
        .and_then(|mut s| s.execute(params![session.remote_id.as_str(), session.deployment]))
        .map_err(failed("note what the remote holds"))?;
    Ok(())
}
