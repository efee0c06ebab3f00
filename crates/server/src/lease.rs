//! One at a time (S8): which synchronization of a remote goes on.
//!
//! A successor waits a moment for its predecessor to end, because the usual one is the retry of a
//! client whose connection has just died. Then: a predecessor at the database is let finish, and
//! the successor told when to come back; one that has made no progress for `takeover_after` is
//! cancelled; a living one keeps the remote.
//!
//! Between servers the epoch in the consolidated database does this; leases only make it quick.

use model::{Clock, Code, Failure, RemoteId, UserName};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// How long a successor waits before it is refused.
const PATIENCE_MS: u64 = 1000;

/// All remotes that synchronize with this server now.
pub(crate) struct Leases {
    clock: Arc<dyn Clock>,
    takeover_after_ms: u64,
    held: Mutex<HashMap<Claimant, Arc<Holder>>>,
    released: Notify,
}

/// Who wants a remote. Another user, and another file, neither waits for it here nor cancels it: to
/// whom it belongs is decided at the database, under the lock of its row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Claimant {
    pub(crate) remote_id: RemoteId,
    pub(crate) user: UserName,
    /// Digest of the secret of the file; none from programs that draw none.
    pub(crate) file: Option<u128>,
}

struct Holder {
    progress_ms: AtomicU64,
    at_database: AtomicBool,
    cancelled: Notify,
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
    pub(crate) async fn take(self: &Arc<Leases>, claimant: &Claimant) -> Result<Lease, Failure> {
        let give_up_ms = self.clock.monotonic_ms() + PATIENCE_MS;
        loop {
            let released = self.released.notified();
            let busy = match self.try_take(claimant) {
                Ok(lease) => return Ok(lease),
                Err(busy) => busy,
            };
            let now = self.clock.monotonic_ms();
            if now >= give_up_ms {
                return Err(busy);
            }
            // Whichever comes first: somebody ends, or patience does.
            let patience = Duration::from_millis(give_up_ms - now);
            let _ = tokio::time::timeout(patience, released).await;
        }
    }

    fn try_take(self: &Arc<Leases>, claimant: &Claimant) -> Result<Lease, Failure> {
        let remote_id = &claimant.remote_id;
        let now = self.clock.monotonic_ms();
        let mut held = self.held();
        if let Some(holder) = held.get(claimant) {
            let idle_ms = now.saturating_sub(holder.progress_ms.load(Ordering::Relaxed));
            let applying = holder.at_database.load(Ordering::Relaxed);
            if applying || idle_ms < self.takeover_after_ms {
                let wait_ms = match applying {
                    true => 1000,
                    false => self.takeover_after_ms - idle_ms,
                };
                let doing = if applying { "applied" } else { "under way" };
                let message =
                    format!("another synchronization of remote {remote_id} is being {doing}");
                let retry_after_s = u32::try_from(wait_ms.div_ceil(1000)).unwrap_or(u32::MAX);
                return Err(
                    Failure::new(Code::AlreadySynchronizing, message).retry_after_s(retry_after_s)
                );
            }
            tracing::warn!(remote = %remote_id, idle_ms, "a silent synchronization was taken over");
            holder.cancelled.notify_one();
        }
        let holder = Arc::new(Holder {
            progress_ms: AtomicU64::new(now),
            at_database: AtomicBool::new(false),
            cancelled: Notify::new(),
        });
        held.insert(claimant.clone(), holder.clone());
        Ok(Lease { leases: self.clone(), claimant: claimant.clone(), holder })
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

    /// Notes that the database works for this synchronization, or no longer does.
    pub(crate) fn at_database(&self, at_database: bool) {
        self.holder.at_database.store(at_database, Ordering::Relaxed);
        self.progress();
    }

    /// Returns when a successor has taken the remote.
    pub(crate) async fn cancelled(&self) -> Failure {
        self.holder.cancelled.notified().await;
        Failure::new(
            Code::Superseded,
            format!("a later synchronization of remote {} took over", self.claimant.remote_id),
        )
    }
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

    // S8
    #[tokio::test]
    async fn the_living_keep_their_remote_and_the_silent_lose_it() {
        let clock = Arc::new(StoppedClock(AtomicU64::new(0)));
        let leases = Leases::new(clock.clone(), 5);
        let claimant = |remote: &str, user: &str| Claimant {
            remote_id: RemoteId::new(remote).unwrap(),
            user: UserName::new(user).unwrap(),
            file: Some(1),
        };
        let (a, b) = (claimant("a", "ann"), claimant("b", "ann"));
        let first = leases.take(&a).await.unwrap();
        let other = leases.take(&b).await.unwrap();
        let busy = leases.try_take(&a).err().unwrap();
        assert_eq!(busy.code(), Code::AlreadySynchronizing);
        assert!(busy.retry_after().is_some_and(|s| (1..=5).contains(&s)));

        clock.0.fetch_add(60_000, Ordering::Relaxed);
        first.at_database(true);
        clock.0.fetch_add(60_000, Ordering::Relaxed);
        assert!(leases.try_take(&a).is_err(), "who is being applied is let finish");
        first.at_database(false);
        clock.0.fetch_add(60_000, Ordering::Relaxed);
        let second = leases.take(&a).await.unwrap();
        assert_eq!(first.cancelled().await.code(), Code::Superseded);
        drop(first);
        assert!(leases.try_take(&a).is_err(), "the dead cannot give away what they lost");
        drop(second);
        drop(other);
        assert!(leases.try_take(&a).is_ok());
    }

    // S8, Trap 30: the forged Hello of another user kept the rightful one out for as long as it
    // dripped rows.
    #[tokio::test]
    async fn another_user_or_file_keeps_nobody_out() {
        let leases = Leases::new(Arc::new(StoppedClock(AtomicU64::new(0))), 5);
        let rightful = Claimant {
            remote_id: RemoteId::new("a").unwrap(),
            user: UserName::new("ann").unwrap(),
            file: Some(1),
        };
        let forger = Claimant { user: UserName::new("mallory").unwrap(), ..rightful.clone() };
        let _forged = leases.try_take(&forger).ok().unwrap();
        // Nor does another file of the same user, or a program that draws no secret.
        let files = [Some(2), None].map(|file| Claimant { file, ..rightful.clone() });
        let _others = files.map(|other| leases.try_take(&other).ok().unwrap());
        assert!(leases.try_take(&rightful).is_ok());
    }
}
