//! The remotes that the database knows, for the operator.

use super::errors::failed;
use super::incarnation;
use super::link::{Call, Link, Unreadable};
use crate::fleet::{KnownRemote, no_such_remote};
use crate::identity::Binding;
use model::{Code, Failure, RemoteId, UserName};

const LIST: &str = "SELECT remote_id, bound_users, user_name, script_version,
    to_char(last_upload_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'),
    to_char(last_download_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'),
    extract(epoch FROM now() - last_download_at)::int8, counter, progress,
    (SELECT count(*) FROM syncline.syncline_owed AS o WHERE o.remote_id = r.remote_id),
    secret IS NOT NULL, void_counter >= counter AND void_counter > 0
FROM syncline.syncline_remote AS r
WHERE forgotten_at IS NULL AND ($1::text IS NULL OR remote_id = $1)
ORDER BY remote_id COLLATE \"C\"";

const BIND: &str = "UPDATE syncline.syncline_remote SET bound_users = $2, epoch = epoch + 1
WHERE remote_id = $1 AND forgotten_at IS NULL RETURNING remote_id";

/// What proves its past stays: it may come back, and must not upload twice.
const FORGET: &str = "WITH forgotten AS (
    UPDATE syncline.syncline_remote SET forgotten_at = now(), bound_users = NULL, user_name = '',
        epoch = epoch + 1
    WHERE remote_id = $1 AND forgotten_at IS NULL RETURNING remote_id
), owed AS (
    DELETE FROM syncline.syncline_owed AS o USING forgotten WHERE o.remote_id = forgotten.remote_id
), made AS (
    DELETE FROM syncline.syncline_made AS m USING forgotten WHERE m.remote_id = forgotten.remote_id
)
SELECT remote_id FROM forgotten";

/// A namesake inherits none.
const UNBIND: &str = "UPDATE syncline.syncline_remote SET epoch = epoch + 1,
    bound_users = (bound_users::jsonb - $1)::text
WHERE CASE WHEN bound_users LIKE '[%' THEN bound_users::jsonb ? $1 END";

/// Every remote, or the one with this ID.
pub(super) fn remotes(
    link: &mut Link,
    only: Option<&RemoteId>,
) -> Result<Vec<KnownRemote>, Failure> {
    let rows =
        link.query(LIST, &[&only.map(RemoteId::as_str)]).map_err(failed("read the remotes"))?;
    let garbled = |error: Unreadable| {
        Failure::new(Code::Drift, "what is known of a remote cannot be read").source(error)
    };
    let mut remotes = Vec::with_capacity(rows.len());
    for row in &rows {
        let binding = Binding::read(row.try_get(1).map_err(garbled)?)?;
        let read = || -> Result<KnownRemote, Unreadable> {
            Ok(KnownRemote {
                remote_id: row.try_get(0)?,
                binding,
                user: row.try_get(2)?,
                script_version: row.try_get(3)?,
                last_upload_at: row.try_get(4)?,
                last_download_at: row.try_get(5)?,
                behind_s: row.try_get(6)?,
                counter: row.try_get(7)?,
                progress: row.try_get(8)?,
                owed: row.try_get(9)?,
                has_secret: row.try_get(10)?,
                compared_next: row.try_get(11)?,
            })
        };
        remotes.push(read().map_err(garbled)?);
    }
    Ok(remotes)
}

/// Binds a remote to others; who of those before is about to upload is refused.
pub(super) fn bind(
    link: &mut Link,
    remote_id: &RemoteId,
    binding: &Binding,
) -> Result<(), Failure> {
    let rows = link
        .query(BIND, &[&remote_id.as_str(), &binding.stored()])
        .map_err(failed("bind the remote"))?;
    if rows.is_empty() { Err(no_such_remote(remote_id)) } else { Ok(()) }
}

/// Forgets a remote.
pub(super) fn forget(link: &mut Link, remote_id: &RemoteId) -> Result<(), Failure> {
    let rows = link.query(FORGET, &[&remote_id.as_str()]).map_err(failed("forget the remote"))?;
    if rows.is_empty() { Err(no_such_remote(remote_id)) } else { Ok(()) }
}

/// Removes a user from the list and from every remote. False if there is no such user.
pub(super) fn remove_user(link: &mut Link, user: &UserName) -> Result<bool, Failure> {
    let name = user.as_str();
    let answers = link
        .begin(&[
            Call::new("BEGIN", &[]),
            Call::new("DELETE FROM syncline.syncline_user WHERE user_name = $1", &[&name]),
            Call::new(UNBIND, &[&name]),
            Call::new("COMMIT", &[]),
        ])
        .map_err(failed("remove the user"));
    if answers.is_err() {
        link.roll_back();
    }
    Ok(answers?[1].affected == 1)
}

/// The operator's word that the database is a restored one.
pub(super) fn declare_restored(link: &mut Link) -> Result<(), Failure> {
    incarnation::renew(link, "an operator declared the restore")
}

/// The key that signs comes first by its name; the former ones only prove what they have signed.
const FORMER_RECEIPT_KEY: &str = "
    UPDATE syncline.syncline_system
    SET name = 'receipt_key_' || replace(gen_random_uuid()::text, '-', '')
    WHERE name = 'receipt_key'";
const NEW_RECEIPT_KEY: &str = "
    INSERT INTO syncline.syncline_system
    SELECT 'receipt_key', replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '')";
const NEW_TOKEN_KEY: &str = "
    UPDATE syncline.syncline_system
    SET value = replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '')
    WHERE name = 'token_key'";

/// New keys for session tokens and receipts. A token names the version of the password under which
/// it was issued: with new versions no server takes it, whichever key it has read.
pub(super) fn rotate_keys(link: &mut Link) -> Result<(), Failure> {
    let void = format!(
        "UPDATE syncline.syncline_user SET password_version = {}",
        super::admin::NEW_PASSWORD_VERSION
    );
    let answers = link
        .begin(&[
            Call::new("BEGIN", &[]),
            Call::new(FORMER_RECEIPT_KEY, &[]),
            Call::new(NEW_RECEIPT_KEY, &[]),
            Call::new(NEW_TOKEN_KEY, &[]),
            Call::new(&void, &[]),
            Call::new("COMMIT", &[]),
        ])
        .map_err(failed("draw new keys"));
    if answers.is_err() {
        link.roll_back();
    }
    answers.map(drop)
}
