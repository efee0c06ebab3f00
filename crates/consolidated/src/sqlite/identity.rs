//! Decides whether a remote is the one the database remembers.
//!
//! | the remote says | the database says | so |
//! |---|---|---|
//! | a counter or progress ahead of ours | | we were restored: a new generation (trap 3) |
//! | this attempt's nonce is our last one | | the answer to it was lost |
//! | our counter, our nonce, our progress | | all is well |
//! | nothing yet | something | a new file took over the remote ID |
//! | anything else | | a copied file (trap 13) |

use super::errors::failed;
use crate::synchronization::{Begun, Identity, Session};
use model::{Code, Counter, Failure, Nonce, Progress};
use rusqlite::{Connection, OptionalExtension, params};

/// What the database remembers of a remote.
#[derive(Debug, Clone, Copy)]
pub(super) struct Remembered {
    pub(super) progress: Progress,
    pub(super) counter: Counter,
    pub(super) nonce: Nonce,
    pub(super) epoch: i64,
    /// The latest connection that began.
    pub(super) attempt: i64,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Known,
    /// The database has never seen this remote.
    New,
    /// A file without history uses a remote ID with one.
    TakenOver,
    /// The remote has seen a later state of this database.
    Restored,
    Copied,
}

fn judge(identity: &Identity, remembered: Option<&Remembered>) -> Verdict {
    let fresh = identity.counter == Counter(0)
        && identity.nonce_confirmed == Nonce(0)
        && identity.progress == Progress(0);
    let Some(ours) = remembered else {
        return if fresh { Verdict::New } else { Verdict::Restored };
    };
    if identity.counter > ours.counter || identity.progress > ours.progress {
        return Verdict::Restored;
    }
    let same_progress = identity.outcome_unknown || identity.progress == ours.progress;
    if ours.nonce == identity.nonce_attempt && same_progress {
        return Verdict::Known;
    }
    if fresh {
        return Verdict::TakenOver;
    }
    let same_past =
        ours.nonce == identity.nonce_confirmed && ours.counter == identity.counter && same_progress;
    if same_past { Verdict::Known } else { Verdict::Copied }
}

/// Recognizes the remote, raises its epoch, and thereby shuts out every predecessor (S8).
pub(super) fn begin(
    connection: &Connection,
    session: &Session,
    identity: &Identity,
) -> Result<Remembered, Failure> {
    let remembered = read(connection, session)?;
    let mut remote = remembered.unwrap_or(Remembered {
        progress: Progress(0),
        counter: Counter(0),
        nonce: Nonce(0),
        epoch: 0,
        attempt: 0,
    });
    match judge(identity, remembered.as_ref()) {
        // A Hello on its way for long must not apply an upload whose remote has meanwhile been
        // told that it was not committed.
        Verdict::Known if identity.attempt <= remote.attempt => return Err(overtaken(session)),
        Verdict::Known | Verdict::New => {}
        Verdict::TakenOver => {
            remote.progress = Progress(0);
            connection
                .execute(
                    "DELETE FROM syncline_owed WHERE remote_id = ?1",
                    [session.remote_id.as_str()],
                )
                .map_err(failed("forget what the former file was owed"))?;
        }
        Verdict::Restored => {
            connection
                .execute(
                    "UPDATE syncline_system SET value = random() WHERE name = 'generation'",
                    [],
                )
                .map_err(failed("begin a new generation"))?;
            remote.progress = remote.progress.max(identity.progress);
            remote.counter = remote.counter.max(identity.counter);
        }
        Verdict::Copied => {
            return Err(Failure::new(
                Code::CopiedRemote,
                format!("remote {} was seen here in a later state", session.remote_id),
            ));
        }
    }
    remote.epoch += 1;
    remote.attempt = identity.attempt;
    write(connection, session, &remote)?;
    Ok(remote)
}

/// The remote as this synchronization left it; a later one has raised the epoch.
pub(super) fn resume(
    connection: &Connection,
    session: &Session,
    epoch: i64,
) -> Result<Remembered, Failure> {
    read(connection, session)?
        .filter(|remote| remote.epoch == epoch)
        .ok_or_else(|| overtaken(session))
}

fn overtaken(session: &Session) -> Failure {
    let message = format!("a later synchronization of remote {} has begun", session.remote_id);
    Failure::new(Code::Superseded, message)
}

impl From<Remembered> for Begun {
    fn from(remote: Remembered) -> Begun {
        Begun { epoch: remote.epoch, progress: remote.progress }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(counter: i64, nonce: i64, progress: i64) -> Remembered {
        Remembered {
            progress: Progress(progress),
            counter: Counter(counter),
            nonce: Nonce(nonce),
            epoch: 1,
            attempt: 1,
        }
    }

    fn says(counter: i64, confirmed: i64, attempt: i64, progress: i64, unknown: bool) -> Identity {
        Identity {
            counter: Counter(counter),
            nonce_confirmed: Nonce(confirmed),
            nonce_attempt: Nonce(attempt),
            attempt: 2,
            progress: Progress(progress),
            outcome_unknown: unknown,
        }
    }

    fn check(identity: Identity, remembered: Option<Remembered>, verdict: Verdict) {
        let judged = judge(&identity, remembered.as_ref());
        assert_eq!(judged, verdict, "{identity:?} {remembered:?}");
    }

    // Trap 3, Trap 13
    #[test]
    fn every_past_of_a_remote_has_its_verdict() {
        check(says(0, 0, 7, 0, false), None, Verdict::New);
        check(says(3, 5, 7, 9, false), Some(ours(3, 5, 9)), Verdict::Known);
        // The answer to the attempt was lost, once or several times.
        check(says(3, 5, 7, 9, true), Some(ours(4, 7, 12)), Verdict::Known);
        check(says(0, 0, 7, 0, true), Some(ours(2, 7, 4)), Verdict::Known);
        // The attempt never arrived.
        check(says(3, 5, 7, 9, true), Some(ours(3, 5, 9)), Verdict::Known);
        // The database was restored.
        check(says(3, 5, 7, 9, false), None, Verdict::Restored);
        check(says(3, 5, 7, 9, false), Some(ours(2, 4, 9)), Verdict::Restored);
        check(says(3, 5, 7, 9, false), Some(ours(3, 5, 8)), Verdict::Restored);
        // Somebody else went on with this remote ID.
        check(says(3, 5, 7, 9, false), Some(ours(4, 6, 9)), Verdict::Copied);
        check(says(3, 5, 7, 9, false), Some(ours(3, 6, 9)), Verdict::Copied);
        check(says(3, 5, 7, 9, false), Some(ours(3, 5, 11)), Verdict::Copied);
        check(says(3, 5, 7, 9, false), Some(ours(4, 7, 11)), Verdict::Copied);
        check(says(0, 0, 7, 0, false), Some(ours(4, 6, 9)), Verdict::TakenOver);
    }
}
