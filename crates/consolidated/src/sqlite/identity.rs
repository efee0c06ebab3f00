//! What the database remembers about remotes, in its system tables.

use super::errors::failed;
use super::query;
use crate::digest;
use crate::identity::{
    Binding, Consequence, Evidence, FORMER_FILES_MAX, Incarnation, Remembered, Void, recognize,
    still_ours,
};
use crate::synchronization::{Identity, Session};
use model::{Counter, Failure, Nonce, Progress, Receipt, RemoteId};
use rusqlite::{Connection, OptionalExtension, params};

/// Recognizes the remote, and shuts out its predecessors.
pub(super) fn begin(
    connection: &Connection,
    session: &Session,
    identity: &Identity,
    receipt: Option<&Receipt>,
    incarnation: &Incarnation,
) -> Result<Remembered, Failure> {
    let proven = match receipt {
        Some(receipt) => incarnation.verify(receipt, session, identity.secret)?,
        None => None,
    };
    let former = &mut || former_file(connection, session, identity.secret);
    let found = read(connection, session)?;
    let evidence = Evidence { receipt: proven, former };
    let (remote, consequence) = recognize(session, identity, found, evidence)?;
    match consequence {
        Consequence::Nothing => {}
        Consequence::Replace { secret, progress } => {
            forget_owed(connection, &session.remote_id)?;
            note_former_file(connection, &session.remote_id, secret, progress)?;
        }
        Consequence::NewGeneration => {
            super::incarnation::renew(connection, "a remote has a receipt of a later state")?;
        }
    }
    write(connection, session, &remote)?;
    Ok(remote)
}

/// The remote as this synchronization left it.
pub(super) fn resume(
    connection: &Connection,
    session: &Session,
    epoch: i64,
) -> Result<Remembered, Failure> {
    still_ours(session, read(connection, session)?, epoch)
}

pub(super) fn forget_owed(connection: &Connection, remote_id: &RemoteId) -> Result<(), Failure> {
    for table in ["syncline_owed", "syncline_made"] {
        let sql = format!("DELETE FROM {table} WHERE remote_id = ?1");
        query::run(connection, "forget what a remote was owed", &sql, [remote_id.as_str()])?;
    }
    Ok(())
}

/// The last upload of a file that was replaced by another.
fn former_file(
    connection: &Connection,
    session: &Session,
    secret: Option<u128>,
) -> Result<Option<Progress>, Failure> {
    let sql = "SELECT progress FROM syncline_former_file WHERE remote_id = ?1 AND secret = ?2";
    let values = params![session.remote_id.as_str(), stored(secret)];
    let found = query::maybe(connection, "read what is known of a former file", sql, values)?;
    Ok(found.map(Progress))
}

fn note_former_file(
    connection: &Connection,
    remote_id: &RemoteId,
    secret: Option<u128>,
    progress: Progress,
) -> Result<(), Failure> {
    let add = "INSERT OR REPLACE INTO syncline_former_file
        VALUES (?1, ?2, ?3, strftime('%Y-%m-%d %H:%M:%f', 'now'))";
    let file = params![remote_id.as_str(), stored(secret), progress.0];
    query::run(connection, "note a former file", add, file)?;
    let trim = "DELETE FROM syncline_former_file WHERE remote_id = ?1 AND secret NOT IN (
        SELECT secret FROM syncline_former_file WHERE remote_id = ?1
        ORDER BY replaced_at DESC LIMIT ?2)";
    let kept = params![remote_id.as_str(), FORMER_FILES_MAX];
    query::run(connection, "note a former file", trim, kept).map(drop)
}

/// A file that has drawn no secret has an empty one.
fn stored(secret: Option<u128>) -> String {
    secret.map(digest::hex).unwrap_or_default()
}

fn read(connection: &Connection, session: &Session) -> Result<Option<Remembered>, Failure> {
    let reading = failed("read what is known of the remote");
    let mut statement = connection
        .prepare_cached(
            "SELECT progress, counter, nonce, epoch, attempt, secret, void_counter, deletes_lost,
                 forgotten_at IS NOT NULL, bound_users, acknowledged
             FROM syncline_remote WHERE remote_id = ?1",
        )
        .map_err(&reading)?;
    let mut rows = statement.query([session.remote_id.as_str()]).map_err(&reading)?;
    let Some(row) = rows.next().map_err(&reading)? else { return Ok(None) };
    let read = || -> rusqlite::Result<_> {
        let secret: Option<String> = row.get(5)?;
        let remembered = Remembered {
            progress: Progress(row.get(0)?),
            counter: Counter(row.get(1)?),
            nonce: Nonce(row.get(2)?),
            epoch: row.get(3)?,
            attempt: row.get(4)?,
            secret: secret.as_deref().and_then(digest::from_hex),
            binding: Binding::Open,
            void_counter: Counter(row.get(6)?),
            deletes_lost: row.get(7)?,
            acknowledged: Counter(row.get(10)?),
            forgotten: row.get(8)?,
        };
        Ok((remembered, row.get::<_, Option<String>>(9)?))
    };
    let (remembered, bound) = read().map_err(&reading)?;
    let binding = Binding::read(bound.as_deref())?;
    Ok(Some(Remembered { binding, ..remembered }))
}

/// To whom a remote belongs.
pub(super) fn binding(connection: &Connection, remote_id: &RemoteId) -> Result<Binding, Failure> {
    let sql = "SELECT bound_users FROM syncline_remote WHERE remote_id = ?1";
    let doing = "read to whom the remote belongs";
    let bound: Option<Option<String>> = query::maybe(connection, doing, sql, [remote_id.as_str()])?;
    Binding::read(bound.flatten().as_deref())
}

/// Which watermarks of a remote are void.
pub(super) fn void(connection: &Connection, remote_id: &RemoteId) -> Result<Void, Failure> {
    connection
        .prepare_cached(
            "SELECT void_counter, deletes_lost FROM syncline_remote WHERE remote_id = ?1",
        )
        .and_then(|mut statement| {
            statement
                .query_row([remote_id.as_str()], |row| {
                    Ok(Void { counter: Counter(row.get(0)?), deletes_lost: row.get(1)? })
                })
                .optional()
        })
        .map(Option::unwrap_or_default)
        .map_err(failed("read which watermarks are void"))
}

/// Stores the remote's state.
pub(super) fn write(
    connection: &Connection,
    session: &Session,
    remote: &Remembered,
) -> Result<(), Failure> {
    query::run(
        connection,
        "store what is known of the remote",
        "INSERT INTO syncline_remote
                 (remote_id, user_name, script_version, progress, counter, nonce, epoch, attempt,
                  secret, bound_users, void_counter, deletes_lost, acknowledged)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
             ON CONFLICT (remote_id) DO UPDATE SET
                 user_name = excluded.user_name, script_version = excluded.script_version,
                 progress = excluded.progress, counter = excluded.counter,
                 nonce = excluded.nonce, epoch = excluded.epoch,
                 attempt = excluded.attempt, secret = excluded.secret,
                 bound_users = excluded.bound_users, void_counter = excluded.void_counter,
                 deletes_lost = excluded.deletes_lost, forgotten_at = NULL,
                 acknowledged_at = CASE
                     WHEN excluded.acknowledged > acknowledged THEN datetime('now')
                     WHEN excluded.acknowledged > 0 THEN acknowledged_at END,
                 acknowledged = excluded.acknowledged",
        params![
            session.remote_id.as_str(),
            session.owner.as_str(),
            session.script_version.as_str(),
            remote.progress.0,
            remote.counter.0,
            remote.nonce.0,
            remote.epoch,
            remote.attempt,
            remote.secret.map(digest::hex),
            remote.binding.stored(),
            remote.void_counter.0,
            remote.deletes_lost,
            remote.acknowledged.0,
        ],
    )
    .map(drop)
}
