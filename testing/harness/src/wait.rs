//! Waiting for something that another process does, with a limit.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest wait for anything in a test; only a defect comes near it.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// How often a condition is looked at: often enough that a test is not slowed down by it.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// How long `work` takes.
pub fn time_of(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}

/// Waits until `condition` holds.
///
/// # Panics
/// When it does not within [`WAIT_MAX`].
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < WAIT_MAX, "waited {WAIT_MAX:?} in vain for {what}");
        sleep(LOOK_INTERVAL);
    }
}
