//! Moments as text.

use model::civil_date;

/// A moment as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
pub(crate) fn iso_utc(unix_ms: i64) -> String {
    let (day, ms) = (unix_ms.div_euclid(86_400_000), unix_ms.rem_euclid(86_400_000));
    let (year, month, day) = civil_date(day);
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{:03}Z", ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_their_date() {
        let check = |unix_ms, text: &str| assert_eq!(iso_utc(unix_ms), text);
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_400_123, "2000-02-29T00:00:00.123Z");
        check(1_709_251_199_999, "2024-02-29T23:59:59.999Z");
        check(4_107_542_400_000, "2100-03-01T00:00:00.000Z");
        check(-1, "1969-12-31T23:59:59.999Z");
    }
}
