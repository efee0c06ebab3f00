//! Decides whether a remote is the one the database remembers.
//!
//! | the remote says | the database says | so |
//! |---|---|---|
//! | a counter or progress ahead of ours | | we were restored: a new generation (trap 3) |
//! | this attempt's nonce is our last one | | the answer to it was lost |
//! | our counter, our nonce, our progress | | all is well |
//! | nothing yet | something | a new file took over the remote ID |
//! | anything else | | a copied file (trap 13) |

use crate::synchronization::{Begun, Identity, Session};
use model::{Code, Counter, Failure, Nonce, Progress};

/// What the database remembers of a remote.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remembered {
    pub(crate) progress: Progress,
    pub(crate) counter: Counter,
    pub(crate) nonce: Nonce,
    pub(crate) epoch: i64,
    /// The latest connection that began.
    pub(crate) attempt: i64,
}

impl Remembered {
    /// The failure of an upload that follows `previous`, which is not the last one here.
    pub(crate) fn out_of_sequence(&self, previous: Progress) -> Failure {
        let message = format!(
            "the upload follows number {}, but number {} is the last one here",
            previous.0, self.progress.0
        );
        Failure::new(Code::OutOfSequence, message)
    }
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

/// What else has to change at the database when a remote begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consequence {
    Nothing,
    /// What the former file was owed is forgotten.
    ForgetOwed,
    /// The database was restored: what remotes hold is compared, never assumed.
    NewGeneration,
}

/// Recognizes the remote and raises its epoch, which shuts out every predecessor (S8).
pub(crate) fn recognize(
    session: &Session,
    identity: &Identity,
    remembered: Option<Remembered>,
) -> Result<(Remembered, Consequence), Failure> {
    let mut remote = remembered.unwrap_or(Remembered {
        progress: Progress(0),
        counter: Counter(0),
        nonce: Nonce(0),
        epoch: 0,
        attempt: 0,
    });
    let mut consequence = Consequence::Nothing;
    match judge(identity, remembered.as_ref()) {
        // A Hello on its way for long must not apply an upload whose remote has meanwhile been
        // told that it was not committed.
        Verdict::Known if identity.attempt <= remote.attempt => return Err(overtaken(session)),
        Verdict::Known | Verdict::New => {}
        Verdict::TakenOver => {
            remote.progress = Progress(0);
            consequence = Consequence::ForgetOwed;
        }
        Verdict::Restored => {
            remote.progress = remote.progress.max(identity.progress);
            remote.counter = remote.counter.max(identity.counter);
            consequence = Consequence::NewGeneration;
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
    Ok((remote, consequence))
}

/// The remote as this synchronization left it; a later one has raised the epoch.
pub(crate) fn still_ours(
    session: &Session,
    remembered: Option<Remembered>,
    epoch: i64,
) -> Result<Remembered, Failure> {
    remembered.filter(|remote| remote.epoch == epoch).ok_or_else(|| overtaken(session))
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
