//! The time of the operating system. Only this file of the benchmark reads it (A6).

use model::civil_date;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Runs from its making.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[allow(clippy::disallowed_methods, reason = "this is the file that reads time")]
    pub(crate) fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// Since the start.
    #[allow(clippy::disallowed_methods, reason = "this is the file that reads time")]
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The moment, as `2026-01-31T12:34:56Z`.
#[allow(clippy::disallowed_methods, reason = "this is the file that reads time")]
pub(crate) fn now_utc() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    utc(since.as_secs())
}

/// A moment in seconds since 1970.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil_date(days as i64);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn a_moment_has_its_date() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_767_225_599), "2025-12-31T23:59:59Z");
        assert_eq!(utc(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
