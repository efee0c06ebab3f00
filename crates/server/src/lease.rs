//! One synchronization at a time for each remote (S8).
//!
//! A successor waits a moment for its predecessor to end, because usually it is the retry of a
//! client whose connection has just died. A predecessor for which the database works always
//! finishes, and the successor is refused with the time after which to try again. A predecessor
//! that sends or receives is ended at once by a later attempt: the same file makes one attempt at a
//! time, so the sender of the earlier one is dead, or not this remote. Any other successor waits
//! until its predecessor has made no progress for `takeover_after`.
//!
//! Between servers the epoch in the consolidated database decides. Leases only make it faster.

use crate::interruption::Interruption;
use model::{Clock, Code, Failure, RemoteId, UserName};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// How long a successor waits before it is refused.
const PATIENCE_MS: u64 = 1000;

/// The longest time that a successor is asked to stay away while the database works, in
/// milliseconds: it may be done sooner.
const APPLYING_MS_MAX: u64 = 60_000;

/// All remotes that synchronize with this server now.
pub(crate) struct Leases {
    clock: Arc<dyn Clock>,
    takeover_after_ms: u64,
    held: Mutex<HashMap<Claimant, Arc<Holder>>>,
    released: Notify,
}

/// The claimant of a remote. Another user, or another file, neither waits here nor ends it: the
/// database decides about the owner, under the lock of the row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Claimant {
    pub(crate) remote_id: RemoteId,
    pub(crate) user: UserName,
    /// Digest of the secret of the file; none from programs that draw none.
    pub(crate) file: Option<u128>,
}

/// An attempt of a claimant.
#[derive(Clone)]
pub(crate) struct NumberedAttempt {
    /// Later ones have larger numbers. A ping has none, because it has no predecessor.
    pub(crate) number: Option<i64>,
    pub(crate) interruption: Arc<Interruption>,
}

struct Holder {
    attempt: NumberedAttempt,
    /// When its peer was last heard, or the database began or ended to work for it.
    progress_ms: AtomicU64,
}

/// The right to synchronize a remote; given back when dropped.
pub(crate) struct Lease {
    leases: Arc<Leases>,
    claimant: Claimant,
    holder: Arc<Holder>,
}

impl Leases {
    pub(crate) fn new(clock: Arc<dyn Clock>, takeover_after_s: u64) -> Arc<Leases> {
        Arc::new(Leases {
            clock,
            takeover_after_ms: takeover_after_s * 1000,
            held: Mutex::default(),
            released: Notify::new(),
        })
    }

    /// Takes the lease for `claimant`, or says when to come back.
    pub(crate) async fn take(
        self: &Arc<Leases>,
        claimant: &Claimant,
        attempt: &NumberedAttempt,
    ) -> Result<Lease, Failure> {
        let give_up_ms = self.clock.monotonic_ms() + PATIENCE_MS;
        loop {
            let released = self.released.notified();
            let busy = match self.try_take(claimant, attempt) {
                Ok(lease) => return Ok(lease),
                Err(busy) => busy,
            };
            let now = self.clock.monotonic_ms();
            if now >= give_up_ms {
                return Err(busy);
            }
            // Whichever is first: another session ends, or the time is over.
            let patience = Duration::from_millis(give_up_ms - now);
            let _ = tokio::time::timeout(patience, released).await;
        }
    }

    fn try_take(
        self: &Arc<Leases>,
        claimant: &Claimant,
        attempt: &NumberedAttempt,
    ) -> Result<Lease, Failure> {
        let now = self.clock.monotonic_ms();
        let mut held = self.held();
        if let Some(holder) = held.get(claimant) {
            let idle_ms = now.saturating_sub(holder.progress_ms.load(Ordering::Relaxed));
            let numbers = attempt.number.zip(holder.attempt.number);
            let later = numbers.is_some_and(|(this, its)| this > its);
            let gives_way = later || idle_ms >= self.takeover_after_ms;
            let interruption = &holder.attempt.interruption;
            if !gives_way || !interruption.end(|| superseded(claimant)) {
                let applied = interruption.is_at_database();
                return Err(self.busy(claimant, idle_ms, applied));
            }
            let remote = &claimant.remote_id;
            tracing::warn!(%remote, idle_ms, later, "a synchronization was taken over");
        }
        let holder =
            Arc::new(Holder { attempt: attempt.clone(), progress_ms: AtomicU64::new(now) });
        held.insert(claimant.clone(), holder.clone());
        Ok(Lease { leases: self.clone(), claimant: claimant.clone(), holder })
    }

    fn busy(&self, claimant: &Claimant, idle_ms: u64, applied: bool) -> Failure {
        let (wait_ms, doing) = match applied {
            // What the database has worked on for long is likely to take as long again.
            true => (idle_ms.min(APPLYING_MS_MAX), "being applied"),
            false => (self.takeover_after_ms.saturating_sub(idle_ms), "running"),
        };
        let remote = &claimant.remote_id;
        let message = format!("another synchronization of remote {remote} is {doing}");
        let seconds = u32::try_from(wait_ms.div_ceil(1000)).unwrap_or(u32::MAX).max(1);
        Failure::new(Code::AlreadySynchronizing, message).retry_after_s(seconds)
    }

    fn held(&self) -> MutexGuard<'_, HashMap<Claimant, Arc<Holder>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// Notes that the peer is alive.
    pub(crate) fn progress(&self) {
        self.holder.progress_ms.store(self.leases.clock.monotonic_ms(), Ordering::Relaxed);
    }

    /// The database begins to work for this synchronization. False where it was ended before.
    pub(crate) fn begin_work(&self) -> bool {
        self.progress();
        self.holder.attempt.interruption.begin_work()
    }

    /// The database has done its work.
    pub(crate) fn end_work(&self) {
        self.progress();
        self.holder.attempt.interruption.end_work();
    }
}

fn superseded(claimant: &Claimant) -> Failure {
    let remote = &claimant.remote_id;
    Failure::new(Code::Superseded, format!("a later synchronization of remote {remote} took over"))
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut held = self.leases.held();
        if held.get(&self.claimant).is_some_and(|holder| Arc::ptr_eq(holder, &self.holder)) {
            held.remove(&self.claimant);
        }
        drop(held);
        self.leases.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct StoppedClock(AtomicU64);

    impl Clock for StoppedClock {
        fn unix_ms(&self) -> i64 {
            0
        }
        fn monotonic_ms(&self) -> u64 {
            // Time passes only by being looked at, 100 ms a look.
            self.0.fetch_add(100, Ordering::Relaxed)
        }
    }

    fn claimant(remote: &str, user: &str, file: Option<u128>) -> Claimant {
        let remote_id = RemoteId::new(remote).unwrap();
        Claimant { remote_id, user: UserName::new(user).unwrap(), file }
    }

    fn attempt(number: i64) -> NumberedAttempt {
        NumberedAttempt { number: Some(number), interruption: Arc::new(Interruption::new()) }
    }

    // S8: a predecessor that dripped rows kept its remote for as long as it liked.
    #[tokio::test]
    async fn a_later_attempt_replaces_its_predecessor_in_transfer_however_alive_it_is() {
        let leases = Leases::new(Arc::new(StoppedClock(AtomicU64::new(0))), 3600);
        let till = claimant("till", "ann", Some(1));
        let (first, second, third) = (attempt(7), attempt(8), attempt(9));
        let dripping = leases.take(&till, &first).await.unwrap();
        dripping.progress();
        for earlier in [attempt(6), attempt(7), NumberedAttempt { number: None, ..attempt(0) }] {
            let busy = leases.try_take(&till, &earlier).err().unwrap();
            assert_eq!(busy.code(), Code::AlreadySynchronizing);
        }
        let applying = leases.try_take(&till, &second).unwrap();
        assert_eq!(first.interruption.ended().await.code(), Code::Superseded);
        assert!(!dripping.begin_work(), "it was ended before it came to the database");
        drop(dripping);
        assert!(applying.begin_work());
        let busy = leases.try_take(&till, &third).err().unwrap();
        assert!(busy.retry_after().is_some_and(|seconds| seconds >= 1), "let finish");
        applying.end_work();
        assert!(leases.try_take(&till, &third).is_ok());
        assert_eq!(second.interruption.ended().await.code(), Code::Superseded);
    }

    // S8
    #[tokio::test]
    async fn what_is_no_later_attempt_waits_until_its_predecessor_is_silent() {
        let clock = Arc::new(StoppedClock(AtomicU64::new(0)));
        let leases = Leases::new(clock.clone(), 5);
        let (a, b) = (claimant("a", "ann", Some(1)), claimant("b", "ann", Some(1)));
        let one = attempt(1);
        let first = leases.take(&a, &one).await.unwrap();
        let other = leases.take(&b, &one).await.unwrap();
        let busy = leases.try_take(&a, &one).err().unwrap();
        assert_eq!(busy.code(), Code::AlreadySynchronizing);
        assert!(busy.retry_after().is_some_and(|s| (1..=5).contains(&s)));

        clock.0.fetch_add(60_000, Ordering::Relaxed);
        assert!(first.begin_work());
        clock.0.fetch_add(60_000, Ordering::Relaxed);
        let applied = leases.try_take(&a, &one).err().unwrap();
        assert_eq!(applied.retry_after(), Some(60), "as long again as it took until now");
        first.end_work();
        clock.0.fetch_add(60_000, Ordering::Relaxed);
        let again = attempt(1);
        let second = leases.take(&a, &again).await.unwrap();
        assert_eq!(one.interruption.ended().await.code(), Code::Superseded);
        drop(first);
        assert!(leases.try_take(&a, &one).is_err(), "the dead cannot give away what they lost");
        drop(second);
        drop(other);
        assert!(leases.try_take(&a, &one).is_ok());
    }

    // S8, Trap 30: the forged Hello of another user kept the rightful one out for as long as it
    // dripped rows.
    #[tokio::test]
    async fn another_user_or_file_keeps_nobody_out() {
        let leases = Leases::new(Arc::new(StoppedClock(AtomicU64::new(0))), 5);
        let rightful = claimant("a", "ann", Some(1));
        let forger = claimant("a", "mallory", Some(1));
        let _forged = leases.try_take(&forger, &attempt(9)).ok().unwrap();
        // Nor does another file of the same user, or a program that draws no secret.
        let files = [Some(2), None].map(|file| Claimant { file, ..rightful.clone() });
        let _others = files.map(|other| leases.try_take(&other, &attempt(9)).ok().unwrap());
        assert!(leases.try_take(&rightful, &attempt(1)).is_ok());
    }
}
