//! The time of the operating system. Only this file of the crate reads it (A6).

use model::Clock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The clocks of the operating system.
#[derive(Debug)]
pub(crate) struct SystemClock {
    start: Instant,
}

impl SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the file that reads time")]
    pub(crate) fn new() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the file that reads time")]
    fn unix_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    #[allow(clippy::disallowed_methods, reason = "this is the file that reads time")]
    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
