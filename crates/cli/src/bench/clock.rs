//! Time of the operating system: the only file of the benchmark that reads it (A6).

use std::time::{Duration, Instant};

/// Runs from its making.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    #[allow(clippy::disallowed_methods, reason = "this is the file that reads time")]
    pub(super) fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// Since the start.
    #[allow(clippy::disallowed_methods, reason = "this is the file that reads time")]
    pub(super) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
