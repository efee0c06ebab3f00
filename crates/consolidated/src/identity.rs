//! Decides whether a remote is the one that the database remembers.
//!
//! A pure function: it takes all that is known about both sides and returns one verdict.
//!
//! | the remote says | the database says | verdict |
//! |---|---|---|
//! | | it belongs to other users | refused; nothing else happens (trap 30) |
//! | a receipt of this database that is ahead of it | | restored: a new generation |
//! | the nonce of this attempt is the last one | | the answer to it was lost |
//! | the same counter, nonce and progress | | known |
//! | nothing yet | another file | a new file took over the remote ID |
//! | | another file | a copied file, or one that was replaced: sent its last upload |
//! | a greater counter or progress, and no such receipt | | only this remote is compared |
//! | anything else | | a copied file (trap 13) |

mod acknowledgement;
mod binding;
mod receipt;

pub(crate) use acknowledgement::noting;
pub use binding::Binding;
pub(crate) use receipt::{Incarnation, Proven};

use crate::synchronization::{Begun, Identity, Session};
use model::{Code, Counter, Failure, Nonce, Progress};

/// No remote synchronizes so often that its counter is greater. Greater counters are not taken
/// over, so that the counter here never overflows.
const COUNTER_MAX: i64 = 1 << 62;

/// Files of one remote ID that were replaced, and of which the last upload is known.
pub(crate) const FORMER_FILES_MAX: i64 = 16;

/// What the database remembers of a remote.
#[derive(Debug, Clone, Default)]
pub(crate) struct Remembered {
    pub(crate) progress: Progress,
    pub(crate) counter: Counter,
    pub(crate) nonce: Nonce,
    pub(crate) epoch: i64,
    /// The latest connection that began.
    pub(crate) attempt: i64,
    /// Digest of the secret of its file; none from programs that draw none.
    pub(crate) secret: Option<u128>,
    pub(crate) binding: Binding,
    /// Watermarks that were handed out up to here are void: what the remote holds is compared.
    pub(crate) void_counter: Counter,
    /// Whether deletes may have been lost with them.
    pub(crate) deletes_lost: bool,
    /// The last download that it is known to have applied; zero of none.
    pub(crate) acknowledged: Counter,
    /// An operator does not want to see it any more; it may come back.
    pub(crate) forgotten: bool,
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

    /// Whether a watermark with this counter is one of those that still count.
    pub(crate) fn counts(&self, mark: Counter) -> bool {
        Void::of(self).leaves(mark, self.counter)
    }
}

/// Which watermarks of a remote are void.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Void {
    pub(crate) counter: Counter,
    pub(crate) deletes_lost: bool,
}

impl Void {
    fn of(remote: &Remembered) -> Void {
        Void { counter: remote.void_counter, deletes_lost: remote.deletes_lost }
    }

    /// Whether a watermark with this counter still counts at a remote whose last one is `now`.
    pub(crate) fn leaves(&self, mark: Counter, now: Counter) -> bool {
        self.counter < mark && mark <= now
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recognition {
    Known,
    /// Known, but a later connection of the same file has begun.
    Overtaken,
    /// Known, but an operator had it forgotten.
    Returned,
    /// The database has never seen this remote.
    New,
    /// A file without history uses a remote ID with one.
    TakenOver,
    /// The database proves that it has been in a later state.
    Restored,
    /// Only the remote says so. This proves nothing about others.
    Doubtful,
    Copied,
    /// Another file has taken its place; its last upload here.
    Replaced(Progress),
}

/// What there is to judge by, besides what both sides say.
pub(crate) struct Evidence<'a> {
    /// What the remote's receipt proves.
    pub(crate) receipt: Option<Proven>,
    /// The last upload of the remote's file, where it was replaced by another.
    pub(crate) former: &'a mut dyn FnMut() -> Result<Option<Progress>, Failure>,
}

fn judge(
    identity: &Identity,
    remembered: Option<&Remembered>,
    evidence: &mut Evidence<'_>,
) -> Result<Recognition, Failure> {
    let fresh = identity.counter == Counter(0)
        && identity.nonce_confirmed == Nonce(0)
        && identity.progress == Progress(0);
    let ahead_of =
        |epoch| evidence.receipt.is_some_and(|receipt| receipt.here && receipt.epoch > epoch);
    let Some(ours) = remembered else {
        // An operator may have deleted the record of this remote. If a restore removed it, other
        // remotes that saw the lost changes have receipts too.
        return Ok(if fresh { Recognition::New } else { Recognition::Doubtful });
    };
    if ahead_of(ours.epoch) {
        return Ok(Recognition::Restored);
    }
    if ours.secret.is_some() && ours.secret != identity.secret {
        // A file that never had an answer is reported too: its upload may have been committed
        // before it was replaced. It is unknown whether two programs without a secret are the same
        // file, unless this one waits for an answer.
        let told = !fresh || identity.secret.is_some() || identity.outcome_unknown;
        return Ok(match (evidence.former)()? {
            Some(progress) if told => Recognition::Replaced(progress),
            _ if fresh => Recognition::TakenOver,
            _ if ours.forgotten => Recognition::Doubtful,
            _ => Recognition::Copied,
        });
    }
    let same_progress = identity.outcome_unknown || identity.progress == ours.progress;
    let same_attempt = ours.nonce == identity.nonce_attempt && same_progress;
    let same_past =
        ours.nonce == identity.nonce_confirmed && ours.counter == identity.counter && same_progress;
    // A Hello on its way for long must not apply an upload whose remote has meanwhile learned
    // that it was not committed, or has sent it again through another server (trap 25).
    let late = identity.attempt <= ours.attempt;
    if same_attempt || same_past {
        return Ok(match ours.forgotten {
            _ if late => Recognition::Overtaken,
            true => Recognition::Returned,
            false => Recognition::Known,
        });
    }
    if fresh {
        return Ok(match ours.secret {
            Some(_) => Recognition::Copied,
            // Of programs that draw no secret only the nonce tells whether this is a new file.
            None if late && ours.nonce == identity.nonce_attempt => Recognition::Overtaken,
            None => Recognition::TakenOver,
        });
    }
    if let Some(progress) = (evidence.former)()? {
        return Ok(Recognition::Replaced(progress));
    }
    let elsewhere = evidence.receipt.is_some_and(|receipt| !receipt.here);
    let greater = identity.counter > ours.counter || identity.progress > ours.progress;
    Ok(if greater || elsewhere { Recognition::Doubtful } else { Recognition::Copied })
}

/// What else has to change at the database when a remote begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consequence {
    Nothing,
    /// What the former file was owed is forgotten; its last upload is kept.
    Replace {
        /// The former file's.
        secret: Option<u128>,
        progress: Progress,
    },
    /// The database was restored: what remotes hold is compared, never assumed.
    NewGeneration,
}

/// Recognizes the remote and raises its epoch, which shuts out every predecessor (S8).
pub(crate) fn recognize(
    session: &Session,
    identity: &Identity,
    remembered: Option<Remembered>,
    mut evidence: Evidence<'_>,
) -> Result<(Remembered, Consequence), Failure> {
    // Checked first, because other users are refused whatever they say.
    if let Some(remembered) = &remembered {
        remembered.binding.require(&session.remote_id, &session.owner)?;
    }
    let verdict = judge(identity, remembered.as_ref(), &mut evidence)?;
    let mut remote = remembered.unwrap_or_default();
    if let Some(receipt) = evidence.receipt.filter(|receipt| receipt.here) {
        // The receipt may be shown again, and is older then.
        remote.epoch = remote.epoch.max(receipt.epoch);
    }
    let mut consequence = Consequence::Nothing;
    match verdict {
        Recognition::Overtaken => return Err(overtaken(session)),
        Recognition::New => {}
        Recognition::Known => acknowledge(&mut remote, identity, evidence.receipt),
        Recognition::Returned => compare_alone(&mut remote, identity, false),
        Recognition::TakenOver => {
            consequence = Consequence::Replace { secret: remote.secret, progress: remote.progress };
            remote.progress = Progress(0);
            remote.acknowledged = Counter(0);
        }
        Recognition::Restored => {
            remote.progress = remote.progress.max(identity.progress);
            compare_alone(&mut remote, identity, true);
            consequence = Consequence::NewGeneration;
        }
        Recognition::Doubtful => {
            tracing::warn!(remote = %session.remote_id, counter = identity.counter.0,
                progress = identity.progress.0,
                "a remote has a later state than this database: only this remote is compared");
            remote.progress = remote.progress.max(identity.progress);
            compare_alone(&mut remote, identity, true);
        }
        Recognition::Copied => return Err(copied(session)),
        Recognition::Replaced(progress) => return Err(copied(session).committed(progress)),
    }
    remote.epoch += 1;
    remote.attempt = identity.attempt;
    remote.secret = identity.secret.or(remote.secret);
    remote.forgotten = false;
    remote.binding.bind_first(&session.owner);
    Ok((remote, consequence))
}

/// Makes every watermark void that the remote has.
fn compare_alone(remote: &mut Remembered, identity: &Identity, deletes_lost: bool) {
    if identity.counter.0 < COUNTER_MAX {
        remote.counter = remote.counter.max(identity.counter);
    }
    remote.void_counter = remote.counter;
    remote.deletes_lost = deletes_lost;
}

/// A remote that names the last download has applied it. Its receipt shows that it was one of this
/// life of the database.
fn acknowledge(remote: &mut Remembered, identity: &Identity, receipt: Option<Proven>) {
    let is_last = identity.counter == remote.counter && remote.counts(identity.counter);
    if is_last && receipt.is_some_and(|receipt| receipt.here) {
        remote.acknowledged = identity.counter;
    }
}

fn copied(session: &Session) -> Failure {
    let message = format!("remote {} has a later state here", session.remote_id);
    Failure::new(Code::CopiedRemote, message)
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

    /// The file that the database knows, and another one.
    const OURS: Option<u128> = Some(1);
    const OTHER: Option<u128> = Some(2);

    fn ours(counter: i64, nonce: i64, progress: i64) -> Remembered {
        Remembered {
            progress: Progress(progress),
            counter: Counter(counter),
            nonce: Nonce(nonce),
            epoch: 5,
            attempt: 1,
            ..Remembered::default()
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
            secret: None,
        }
    }

    fn judged(
        identity: Identity,
        remembered: Option<&Remembered>,
        receipt: Option<Proven>,
        former: Option<i64>,
    ) -> Recognition {
        let former = &mut || Ok(former.map(Progress));
        judge(&identity, remembered, &mut Evidence { receipt, former }).unwrap()
    }

    fn check(identity: Identity, remembered: Option<Remembered>, verdict: Recognition) {
        let judged = judged(identity, remembered.as_ref(), None, None);
        assert_eq!(judged, verdict, "{identity:?} {remembered:?}");
    }

    // Trap 3, Trap 13, Trap 30
    #[test]
    fn every_past_of_a_remote_has_its_verdict() {
        check(says(0, 0, 7, 0, false), None, Recognition::New);
        check(says(3, 5, 7, 9, false), Some(ours(3, 5, 9)), Recognition::Known);
        // The answer to the attempt was lost, once or several times.
        check(says(3, 5, 7, 9, true), Some(ours(4, 7, 12)), Recognition::Known);
        check(says(0, 0, 7, 0, true), Some(ours(2, 7, 4)), Recognition::Known);
        // The attempt never arrived.
        check(says(3, 5, 7, 9, true), Some(ours(3, 5, 9)), Recognition::Known);
        // Only the remote says so. Nothing proves that the database was restored.
        check(says(3, 5, 7, 9, false), None, Recognition::Doubtful);
        check(says(3, 5, 7, 9, false), Some(ours(2, 4, 9)), Recognition::Doubtful);
        check(says(3, 5, 7, 9, false), Some(ours(3, 5, 8)), Recognition::Doubtful);
        // Another file has continued with this remote ID.
        check(says(3, 5, 7, 9, false), Some(ours(4, 6, 9)), Recognition::Copied);
        check(says(3, 5, 7, 9, false), Some(ours(3, 6, 9)), Recognition::Copied);
        check(says(3, 5, 7, 9, false), Some(ours(3, 5, 11)), Recognition::Copied);
        check(says(3, 5, 7, 9, false), Some(ours(4, 7, 11)), Recognition::Copied);
        check(says(0, 0, 7, 0, false), Some(ours(4, 6, 9)), Recognition::TakenOver);
        // An operator had it forgotten.
        let forgotten = Remembered { forgotten: true, ..ours(3, 5, 9) };
        check(says(3, 5, 7, 9, false), Some(forgotten), Recognition::Returned);
    }

    // Trap 25: a file without a past is distinguished from another by its secret, or by the nonce.
    #[test]
    fn a_late_hello_of_a_fresh_file_is_refused_and_another_file_takes_over() {
        let fresh = |secret| Identity { secret, ..says(0, 0, 7, 0, false) };
        let marked = || Remembered { secret: OURS, ..ours(4, 6, 9) };
        check(fresh(OURS), Some(marked()), Recognition::Copied);
        check(fresh(OTHER), Some(marked()), Recognition::TakenOver);
        check(fresh(None), Some(marked()), Recognition::TakenOver);
        let late = Identity { attempt: 1, ..fresh(None) };
        check(late, Some(ours(4, 7, 9)), Recognition::Overtaken);
        check(late, Some(ours(4, 6, 9)), Recognition::TakenOver);
        // It was here before the other: what it sent may have been committed then.
        let here_before = |identity| judged(identity, Some(&marked()), None, Some(8));
        assert_eq!(here_before(fresh(OTHER)), Recognition::Replaced(Progress(8)));
        assert_eq!(here_before(fresh(None)), Recognition::TakenOver);
        let waits = Identity { outcome_unknown: true, ..fresh(None) };
        assert_eq!(here_before(waits), Recognition::Replaced(Progress(8)));
        // It has begun, without a result yet.
        check(fresh(OURS), Some(Remembered { secret: OURS, ..ours(0, 0, 0) }), Recognition::Known);
    }

    // Trap 13, S1: the file that another one has replaced learns what became of its last upload.
    #[test]
    fn another_file_with_a_past_is_a_copy_and_a_replaced_one_is_told_its_last_upload() {
        let other = Identity { secret: OTHER, ..says(3, 5, 7, 9, true) };
        let marked = Remembered { secret: OURS, ..ours(3, 5, 9) };
        assert_eq!(judged(other, Some(&marked), None, None), Recognition::Copied);
        let replaced = Recognition::Replaced(Progress(8));
        assert_eq!(judged(other, Some(&marked), None, Some(8)), replaced);
        let unmarked = says(3, 5, 7, 9, false);
        assert_eq!(judged(unmarked, Some(&ours(4, 6, 0)), None, Some(8)), replaced);
        let forgotten = Remembered { forgotten: true, ..marked };
        assert_eq!(judged(other, Some(&forgotten), None, None), Recognition::Doubtful);
    }

    // Trap 30: only a receipt of this very incarnation, and ahead of it, proves a restore.
    #[test]
    fn a_receipt_proves_a_restore_and_another_incarnation_a_copy_of_the_center() {
        let receipt = |here, epoch| Some(Proven { here, epoch });
        let verdict = |identity, remembered: Option<&Remembered>, proven| {
            judged(identity, remembered, proven, None)
        };
        let (ahead, known) = (says(4, 6, 7, 9, false), says(3, 5, 7, 9, false));
        let ours = ours(3, 5, 9);
        assert_eq!(verdict(ahead, Some(&ours), receipt(true, 6)), Recognition::Restored);
        assert_eq!(verdict(ahead, Some(&ours), receipt(true, 5)), Recognition::Doubtful);
        assert_eq!(verdict(ahead, Some(&ours), receipt(false, 6)), Recognition::Doubtful);
        assert_eq!(verdict(ahead, None, receipt(true, 1)), Recognition::Doubtful);
        assert_eq!(verdict(known, Some(&ours), receipt(true, 5)), Recognition::Known);
        assert_eq!(verdict(known, Some(&ours), receipt(false, 9)), Recognition::Known);
        let behind = says(2, 4, 7, 9, false);
        assert_eq!(verdict(behind, Some(&ours), receipt(true, 4)), Recognition::Copied);
        assert_eq!(verdict(behind, Some(&ours), receipt(false, 4)), Recognition::Doubtful);
    }

    // Trap 30
    #[test]
    fn only_the_last_download_of_this_life_is_acknowledged() {
        let acknowledged = |identity: Identity, remote: Remembered, here: Option<bool>| {
            let mut remote = Remembered { acknowledged: Counter(1), ..remote };
            acknowledge(&mut remote, &identity, here.map(|here| Proven { here, epoch: 4 }));
            remote.acknowledged.0
        };
        let says = |counter| says(counter, 5, 7, 9, false);
        assert_eq!(acknowledged(says(3), ours(3, 5, 9), Some(true)), 3);
        // Of a download that is not the last one, of none, and of another life.
        assert_eq!(acknowledged(says(2), ours(3, 5, 9), Some(true)), 1);
        assert_eq!(acknowledged(says(4), ours(3, 5, 9), Some(true)), 1);
        assert_eq!(acknowledged(says(3), ours(3, 5, 9), Some(false)), 1);
        assert_eq!(acknowledged(says(3), ours(3, 5, 9), None), 1);
        let void = Remembered { void_counter: Counter(3), ..ours(3, 5, 9) };
        assert_eq!(acknowledged(says(3), void, Some(true)), 1);
    }

    // Trap 30: no counter that a client invents can make the stored one overflow.
    #[test]
    fn a_counter_beyond_reason_is_not_taken_over() {
        let mut remote = ours(3, 5, 9);
        compare_alone(&mut remote, &says(i64::MAX, 5, 7, 9, false), true);
        assert_eq!((remote.counter, remote.void_counter), (Counter(3), Counter(3)));
        assert!(!remote.counts(Counter(3)) && !remote.counts(Counter(i64::MAX)));
        compare_alone(&mut remote, &says(8, 5, 7, 9, false), true);
        assert_eq!((remote.counter, remote.void_counter), (Counter(8), Counter(8)));
    }
}
