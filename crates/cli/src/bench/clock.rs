//! Time of the operating system: the only file of the benchmark that reads it (A6).

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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

/// The moment, as `2026-01-31T12:34:56Z`.
#[allow(clippy::disallowed_methods, reason = "this is the file that reads time")]
pub(super) fn now_utc() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    utc(since.as_secs())
}

/// The date of a moment, in seconds since 1970: days are counted in eras of 400 years that begin
/// in March, so that a leap day is the last of its year.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
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
