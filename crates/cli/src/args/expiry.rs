//! When a password expires, as people write it.

use model::{civil_date, civil_day};

const DAY_S: i64 = 24 * 60 * 60;

/// When a password expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expires {
    Now,
    Never,
    ByAge,
    /// At the beginning of a day in UTC, in seconds since 1970.
    On(i64),
}

/// Understands `YYYY-MM-DD`, `now`, `never` and `by-age`.
pub(crate) fn parse_expiry(text: &str) -> Result<Expires, String> {
    match text {
        "now" => Ok(Expires::Now),
        "never" => Ok(Expires::Never),
        "by-age" => Ok(Expires::ByAge),
        date => day(date)
            .map(|day| Expires::On(day * DAY_S))
            .ok_or_else(|| "write YYYY-MM-DD, now, never or by-age".to_owned()),
    }
}

/// A date as people read it.
pub(crate) fn date(unix_s: i64) -> String {
    let (year, month, day) = civil_date(unix_s.div_euclid(DAY_S));
    format!("{year:04}-{month:02}-{day:02}")
}

/// A moment as RFC 3339 has it.
pub(crate) fn moment(unix_s: i64) -> String {
    let s = unix_s.rem_euclid(DAY_S);
    format!("{}T{:02}:{:02}:{:02}Z", date(unix_s), s / 3600, s / 60 % 60, s % 60)
}

fn day(text: &str) -> Option<i64> {
    let digits = |range: std::ops::Range<usize>| {
        let part = text.get(range).filter(|part| part.bytes().all(|it| it.is_ascii_digit()))?;
        part.parse::<i64>().ok()
    };
    let apart = text.len() == 10 && text.get(4..5) == Some("-") && text.get(7..8) == Some("-");
    let (year, month, of_month) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
    let day = civil_day(year, month, of_month);
    // There is no 31st of April, and the last day of all stands for never.
    let exists = civil_date(day) == (year, month, of_month) && year < 9999;
    (apart && exists).then_some(day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_days_that_exist() {
        assert_eq!(parse_expiry("1970-01-02"), Ok(Expires::On(86_400)));
        assert_eq!(parse_expiry("2028-02-29").map(|it| matches!(it, Expires::On(_))), Ok(true));
        assert_eq!(date(1_835_395_200), "2028-02-29");
        assert_eq!(moment(1_835_395_200 + 3 * 3600 + 62), "2028-02-29T03:01:02Z");
        for text in [
            "",
            "2027-02-29",
            "2027-13-01",
            "2027-00-10",
            "27-01-01",
            "2027-1-01",
            "+027-01-01",
            "2027/01/01",
            "9999-12-31",
            "é027-01-01",
            "2027-01-01x",
        ] {
            assert!(parse_expiry(text).is_err(), "{text}");
        }
    }
}
