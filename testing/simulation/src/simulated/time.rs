//! Time that passes only where everybody waits, and the clocks of machines that show it.

use model::Clock;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::time::Instant;

/// What a wall clock shows first, in milliseconds: 2026-01-01.
const BEGINNING_UNIX_MS: i64 = 1_767_225_600_000;

/// The clock of one machine. Its wall time can be set.
#[derive(Debug)]
pub(super) struct Virtual {
    begun: Instant,
    ahead_ms: AtomicI64,
}

impl Virtual {
    /// A clock that is right, if `begun` is the beginning of the world.
    pub(super) fn new(begun: Instant) -> Arc<Virtual> {
        Arc::new(Virtual { begun, ahead_ms: AtomicI64::new(0) })
    }

    /// Moves the wall time.
    pub(super) fn adjust(&self, by_ms: i64) {
        self.ahead_ms.fetch_add(by_ms, Ordering::Relaxed);
    }
}

impl Clock for Virtual {
    fn unix_ms(&self) -> i64 {
        let now_ms = i64::try_from(self.monotonic_ms()).unwrap();
        BEGINNING_UNIX_MS + now_ms + self.ahead_ms.load(Ordering::Relaxed)
    }

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap()
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap()
    }
}

/// Lets time pass without giving way to anybody, as what blocks does on the only thread.
pub(super) fn block(time: Duration) {
    let mut advancing = pin!(tokio::time::advance(time));
    // The first poll moves the time. The rest would give way.
    let _ = advancing.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}
