//! The time. Only this file of the server reads it.

use model::Clock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The machine's clocks.
#[derive(Debug)]
pub(crate) struct SystemClock {
    start: Instant,
}

impl SystemClock {
    #[allow(clippy::disallowed_methods)] // The one place that may.
    pub(crate) fn new() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

#[allow(clippy::disallowed_methods)] // The one place that may.
impl Clock for SystemClock {
    fn unix_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}
