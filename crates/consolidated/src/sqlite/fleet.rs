//! The remotes that the database knows, for the operator.

use super::errors::failed;
use super::{identity, incarnation};
use crate::fleet::{KnownRemote, no_such_remote};
use crate::identity::Binding;
use model::{Failure, RemoteId, UserName};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

const LIST: &str = "SELECT remote_id, bound_users, user_name, script_version,
    replace(last_upload_at, ' ', 'T') || 'Z', replace(last_download_at, ' ', 'T') || 'Z',
    CAST(strftime('%s', 'now') AS INTEGER) - CAST(strftime('%s', last_download_at) AS INTEGER),
    counter, progress,
    (SELECT count(*) FROM syncline_owed AS o WHERE o.remote_id = r.remote_id),
    secret IS NOT NULL, void_counter >= counter AND void_counter > 0
FROM syncline_remote AS r WHERE forgotten_at IS NULL AND (?1 IS NULL OR remote_id = ?1)
ORDER BY remote_id";

/// Every remote, or the one with this ID.
pub(super) fn remotes(
    connection: &Connection,
    only: Option<&RemoteId>,
) -> Result<Vec<KnownRemote>, Failure> {
    let reading = failed("read the remotes");
    let mut statement = connection.prepare(LIST).map_err(&reading)?;
    let mut rows = statement.query([only.map(RemoteId::as_str)]).map_err(&reading)?;
    let mut remotes = Vec::new();
    while let Some(row) = rows.next().map_err(&reading)? {
        let bound: Option<String> = row.get(1).map_err(&reading)?;
        let binding = Binding::read(bound.as_deref())?;
        let read = || -> rusqlite::Result<KnownRemote> {
            Ok(KnownRemote {
                remote_id: row.get(0)?,
                binding,
                user: row.get(2)?,
                script_version: row.get(3)?,
                last_upload_at: row.get(4)?,
                last_download_at: row.get(5)?,
                behind_s: row.get(6)?,
                counter: row.get(7)?,
                progress: row.get(8)?,
                owed: row.get(9)?,
                has_secret: row.get(10)?,
                compared_next: row.get(11)?,
            })
        };
        remotes.push(read().map_err(&reading)?);
    }
    Ok(remotes)
}

/// Binds a remote to others; who of those before is about to upload is refused.
pub(super) fn bind(
    connection: &Connection,
    remote_id: &RemoteId,
    binding: &Binding,
) -> Result<(), Failure> {
    let bound = connection
        .execute(
            "UPDATE syncline_remote SET bound_users = ?2, epoch = epoch + 1
             WHERE remote_id = ?1 AND forgotten_at IS NULL",
            params![remote_id.as_str(), binding.stored()],
        )
        .map_err(failed("bind the remote"))?;
    if bound == 1 { Ok(()) } else { Err(no_such_remote(remote_id)) }
}

/// Forgets a remote. What proves its past stays: it may come back, and must not upload twice.
pub(super) fn forget(connection: &Connection, remote_id: &RemoteId) -> Result<(), Failure> {
    let forgetting = failed("forget the remote");
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)
        .map_err(&forgetting)?;
    let forgotten = transaction
        .execute(
            "UPDATE syncline_remote SET forgotten_at = datetime('now'), bound_users = NULL,
                 user_name = '', epoch = epoch + 1
             WHERE remote_id = ?1 AND forgotten_at IS NULL",
            [remote_id.as_str()],
        )
        .map_err(&forgetting)?;
    if forgotten == 0 {
        return Err(no_such_remote(remote_id));
    }
    identity::forget_owed(&transaction, remote_id)?;
    transaction.commit().map_err(&forgetting)
}

/// Takes every remote from a user, so that a namesake inherits none.
pub(super) fn unbind(connection: &Connection, user: &UserName) -> Result<(), Failure> {
    connection
        .execute(
            "UPDATE syncline_remote SET epoch = epoch + 1, bound_users = (
                 SELECT json_group_array(value) FROM json_each(bound_users) WHERE value <> ?1)
             WHERE json_valid(bound_users) AND EXISTS (
                 SELECT 1 FROM json_each(bound_users) WHERE value = ?1)",
            [user.as_str()],
        )
        .map_err(failed("take the remotes from the user"))?;
    Ok(())
}

/// The operator's word that the database is a restored one.
pub(super) fn declare_restored(connection: &Connection) -> Result<(), Failure> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)
        .map_err(failed("begin a new generation"))?;
    incarnation::renew(&transaction, "an operator declared the restore")?;
    transaction.commit().map_err(failed("begin a new generation"))
}

/// The key that signs comes first by its name; the former ones only prove what they have signed.
const ROTATE_KEYS: &str = "
    UPDATE syncline_system SET name = 'receipt_key_' || lower(hex(randomblob(8)))
    WHERE name = 'receipt_key';
    INSERT INTO syncline_system VALUES ('receipt_key', randomblob(32));
    UPDATE syncline_system SET value = randomblob(32) WHERE name = 'token_key';
    UPDATE syncline_user SET password_version = random()";

/// New keys for session tokens and receipts. A token names the version of the password under which
/// it was issued: with new versions no server takes it, whichever key it has read.
pub(super) fn rotate_keys(connection: &Connection) -> Result<(), Failure> {
    let rotate = || {
        let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
        transaction.execute_batch(ROTATE_KEYS)?;
        transaction.commit()
    };
    rotate().map_err(failed("draw new keys"))
}
