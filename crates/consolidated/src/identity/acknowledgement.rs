//! Noting that a remote has applied a download, as soon as it says so.
//!
//! It is a note for people, and nothing else: what a remote has is decided by the watermarks that
//! it presents.

use crate::synchronization::Acknowledgement;

/// The statement, for the remote `?1`. It changes nothing where another synchronization has begun
/// since, where another download was made, or where the database is in another life (trap 30).
///
/// `unlocked` follows the query for the row. Where several may write, it leaves out a row that
/// another transaction has: that is a later synchronization, and nobody waits for it.
pub(crate) fn noting(acknowledgement: &Acknowledgement, unlocked: &str) -> String {
    let Acknowledgement { epoch, counter, nonce, incarnation, .. } = acknowledgement;
    let (counter, nonce) = (counter.0, nonce.0);
    format!(
        "UPDATE {{}}syncline_remote SET acknowledged = counter, acknowledged_at = {{now}}
         WHERE remote_id IN
                 (SELECT remote_id FROM {{}}syncline_remote WHERE remote_id = ?1 {unlocked})
           AND epoch = {epoch} AND counter = {counter} AND nonce = {nonce}
           AND void_counter < counter AND acknowledged < counter AND forgotten_at IS NULL
           AND EXISTS (SELECT 1 FROM {{}}syncline_system
               WHERE name = 'incarnation' AND CAST(value AS text) = '{incarnation}')"
    )
}
