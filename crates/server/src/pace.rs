//! How fast a queue moves, and so when refused remotes should try again.
//!
//! Each refused remote gets its own time, one after the other, so that they return as fast as the
//! queue moves and not all at once.

use model::Clock;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The longest time that a remote is asked to stay away, in seconds: the line may move faster then.
const RETRY_AFTER_MAX_S: u32 = 60;

const MICROSECONDS: u64 = 1_000_000;

/// How much a new measurement counts: one part of so many.
const SHARE: u64 = 8;

/// The pace of one line, measured while it is full.
pub(crate) struct Pace {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    /// When the line was filled, or moved last.
    since_us: u64,
    /// Between two who leave; 0 before anything was measured.
    interval_us: u64,
    /// When the last of those is to come back who were refused.
    last_us: u64,
}

impl Pace {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Pace {
        let now = clock.monotonic_us();
        let state = State { since_us: now, interval_us: 0, last_us: now };
        Pace { clock, state: Mutex::new(state) }
    }

    /// Now there is no room any more.
    pub(crate) fn filled(&self) {
        self.state().since_us = self.clock.monotonic_us();
    }

    /// One left the queue while it was full.
    pub(crate) fn moved(&self) {
        let now = self.clock.monotonic_us();
        let mut state = self.state();
        let interval = now.saturating_sub(state.since_us);
        state.interval_us = match state.interval_us {
            0 => interval,
            mean => mean - mean / SHARE + interval / SHARE,
        };
        state.since_us = now;
    }

    /// When the next one who is refused should come back, in seconds; `ahead` of it are those who
    /// wait in the line.
    pub(crate) fn retry_after_s(&self, ahead: usize) -> u32 {
        let now = self.clock.monotonic_us();
        let mut state = self.state();
        // What has stood still for longer than usual is likely to go on so for as long again.
        let interval = state.interval_us.max(now.saturating_sub(state.since_us));
        let ahead_us = interval.saturating_mul(ahead as u64);
        let at = state.last_us.max(now.saturating_add(ahead_us)).saturating_add(interval);
        state.last_us = at.min(now.saturating_add(u64::from(RETRY_AFTER_MAX_S) * MICROSECONDS));
        let seconds = (state.last_us - now).div_ceil(MICROSECONDS);
        u32::try_from(seconds).unwrap_or(RETRY_AFTER_MAX_S).clamp(1, RETRY_AFTER_MAX_S)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A clock that goes only where a test sets it.
    #[derive(Debug, Default)]
    pub(crate) struct Hand(pub(crate) AtomicU64);

    impl Clock for Hand {
        fn unix_ms(&self) -> i64 {
            0
        }
        fn monotonic_ms(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    pub(crate) fn stopped() -> Arc<dyn Clock> {
        Arc::new(Hand::default())
    }

    // S9
    #[test]
    fn the_refused_come_back_as_fast_as_the_line_moves() {
        let hand = Arc::new(Hand::default());
        let pass = |ms| hand.0.fetch_add(ms, Ordering::Relaxed);
        let pace = Pace::new(hand.clone());
        assert_eq!(pace.retry_after_s(1000), 1, "nothing is known yet");
        pass(60_000);
        pace.filled();
        for _ in 0..100 {
            pass(2_000);
            pace.moved();
        }
        // Ten wait; each refused remote tries again two seconds after the one before.
        let times: Vec<u32> = (0..4).map(|_| pace.retry_after_s(10)).collect();
        assert_eq!(times, [22, 24, 26, 28]);
        pass(28_000);
        pace.moved();
        for _ in 0..100 {
            pass(100);
            pace.moved();
        }
        assert_eq!(pace.retry_after_s(10), 2, "faster meanwhile");
        // Idle times are no measure of it.
        pass(600_000);
        pace.filled();
        assert_eq!(pace.retry_after_s(0), 1);
        // If the queue stands still, the times become later, up to a limit.
        pass(20_000);
        assert_eq!(pace.retry_after_s(0), 20);
        pass(7_000_000);
        for _ in 0..3 {
            assert_eq!(pace.retry_after_s(1000), 60);
        }
    }
}
