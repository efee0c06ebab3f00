//! What the database remembers of remotes, in its system tables.

use super::errors::failed;
use crate::identity::{Consequence, Remembered, recognize, still_ours};
use crate::synchronization::{Identity, Session};
use model::{Counter, Failure, Nonce, Progress};
use rusqlite::{Connection, OptionalExtension, params};

/// Recognizes the remote, and shuts out its predecessors.
pub(super) fn begin(
    connection: &Connection,
    session: &Session,
    identity: &Identity,
) -> Result<Remembered, Failure> {
    let (remote, consequence) = recognize(session, identity, read(connection, session)?)?;
    match consequence {
        Consequence::Nothing => {}
        Consequence::ForgetOwed => {
            connection
                .execute(
                    "DELETE FROM syncline_owed WHERE remote_id = ?1",
                    [session.remote_id.as_str()],
                )
                .map_err(failed("forget what the former file was owed"))?;
        }
        Consequence::NewGeneration => {
            connection
                .execute(
                    "UPDATE syncline_system SET value = random() WHERE name = 'generation'",
                    [],
                )
                .map_err(failed("begin a new generation"))?;
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

fn read(connection: &Connection, session: &Session) -> Result<Option<Remembered>, Failure> {
    connection
        .prepare_cached(
            "SELECT progress, counter, nonce, epoch, attempt FROM syncline_remote
             WHERE remote_id = ?1",
        )
        .and_then(|mut statement| {
            statement
                .query_row([session.remote_id.as_str()], |row| {
                    Ok(Remembered {
                        progress: Progress(row.get(0)?),
                        counter: Counter(row.get(1)?),
                        nonce: Nonce(row.get(2)?),
                        epoch: row.get(3)?,
                        attempt: row.get(4)?,
                    })
                })
                .optional()
        })
        .map_err(failed("read what is known of the remote"))
}

/// Stores the remote's state.
pub(super) fn write(
    connection: &Connection,
    session: &Session,
    remote: &Remembered,
) -> Result<(), Failure> {
    connection
        .prepare_cached(
            "INSERT INTO syncline_remote
                 (remote_id, user_name, script_version, progress, counter, nonce, epoch, attempt)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (remote_id) DO UPDATE SET
                 user_name = excluded.user_name, script_version = excluded.script_version,
                 progress = excluded.progress, counter = excluded.counter,
                 nonce = excluded.nonce, epoch = excluded.epoch,
                 attempt = excluded.attempt",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                session.remote_id.as_str(),
                session.user.as_str(),
                session.script_version.as_str(),
                remote.progress.0,
                remote.counter.0,
                remote.nonce.0,
                remote.epoch,
                remote.attempt,
            ])
        })
        .map_err(failed("store what is known of the remote"))?;
    Ok(())
}
