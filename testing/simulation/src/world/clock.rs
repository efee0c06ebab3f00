//! A clock whose wall time can be set.

use model::Clock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The system's clock, with a wall time of its own.
#[derive(Debug)]
pub(super) struct Adjustable {
    begun: Instant,
    ahead_ms: AtomicI64,
}

impl Adjustable {
    pub(super) fn new() -> Adjustable {
        Adjustable { begun: Instant::now(), ahead_ms: AtomicI64::new(0) }
    }

    /// Moves the wall time.
    pub(super) fn adjust(&self, by_ms: i64) {
        self.ahead_ms.fetch_add(by_ms, Ordering::Relaxed);
    }
}

impl Clock for Adjustable {
    fn unix_ms(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        i64::try_from(now).unwrap() + self.ahead_ms.load(Ordering::Relaxed)
    }

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap()
    }
}
