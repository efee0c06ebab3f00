//! Intervals as people write them, in the notation of ISO 8601 in which the center shows them.

use model::{ValueRef, write_value};
use std::fmt::Write;

const MICROS_PER_SECOND: i64 = 1_000_000;

/// Months, days and microseconds, which the database keeps apart.
#[derive(Debug, Default, PartialEq)]
struct Interval {
    months: i64,
    days: i64,
    micros: i64,
}

/// Writes `text` as the center would. False where it is not `1 day`, `2 hours 30 minutes`,
/// `1 day 02:30:00` or the like: then only the database knows.
pub(in crate::postgres) fn write(text: &[u8], out: &mut Vec<u8>) -> bool {
    let read = std::str::from_utf8(text).ok().and_then(read);
    let Some(interval) = read else { return false };
    write_value(out, ValueRef::Text(interval.iso().as_bytes()));
    true
}

fn read(text: &str) -> Option<Interval> {
    let (mut interval, mut words) = (Interval::default(), text.split_ascii_whitespace().peekable());
    words.peek()?;
    while let Some(word) = words.next() {
        if word.contains(':') {
            let micros = clock(word)?;
            interval.micros = interval.micros.checked_add(micros)?;
            return words.next().is_none().then_some(interval);
        }
        let count = whole(word)?;
        interval.add(count, words.next()?)?;
    }
    Some(interval)
}

/// A whole number of few digits.
fn whole(word: &str) -> Option<i64> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let fits = (1..=6).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    if fits { word.parse().ok() } else { None }
}

/// `02:30` or `02:30:00`, with a sign or without.
fn clock(word: &str) -> Option<i64> {
    let (sign, word) = word.strip_prefix('-').map_or((1, word), |word| (-1, word));
    let mut parts = word.split(':').map(whole);
    let (hours, minutes) = (parts.next()??, parts.next()??);
    let seconds = parts.next().unwrap_or(Some(0))?;
    let are_parts = minutes < 60 && seconds < 60 && hours.min(minutes).min(seconds) >= 0;
    let is_all = are_parts && parts.next().is_none();
    is_all.then_some(sign * ((hours * 60 + minutes) * 60 + seconds) * MICROS_PER_SECOND)
}

impl Interval {
    fn add(&mut self, count: i64, unit: &str) -> Option<()> {
        let unit = unit.to_ascii_lowercase();
        let (part, factor) = match unit.strip_suffix('s').unwrap_or(&unit) {
            "year" => (&mut self.months, 12),
            "month" | "mon" => (&mut self.months, 1),
            "week" => (&mut self.days, 7),
            "day" => (&mut self.days, 1),
            "hour" => (&mut self.micros, 3600 * MICROS_PER_SECOND),
            "minute" | "min" => (&mut self.micros, 60 * MICROS_PER_SECOND),
            "second" | "sec" => (&mut self.micros, MICROS_PER_SECOND),
            _ => return None,
        };
        *part = part.checked_add(count * factor)?;
        Some(())
    }

    /// As the database shows it.
    fn iso(&self) -> String {
        let mut text = "P".to_owned();
        let seconds = self.micros / MICROS_PER_SECOND;
        let date = [(self.months / 12, 'Y'), (self.months % 12, 'M'), (self.days, 'D')];
        let time = [(seconds / 3600, 'H'), (seconds / 60 % 60, 'M'), (seconds % 60, 'S')];
        for (mark, parts) in [("", date), ("T", time)] {
            if parts.iter().any(|(count, _)| *count != 0) {
                text += mark;
            }
            for (count, unit) in parts.iter().filter(|(count, _)| *count != 0) {
                // A String takes all that is written.
                let _ = write!(text, "{count}{unit}");
            }
        }
        if text == "P" { "PT0S".to_owned() } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_shown_as_the_database_shows_it() {
        for (text, shown) in [
            ("1 day", Some("P1D")),
            ("90 minutes", Some("PT1H30M")),
            ("1 year 14 mons", Some("P2Y2M")),
            ("-1 month 2 weeks", Some("P-1M14D")),
            ("1 day 02:03:04", Some("P1DT2H3M4S")),
            ("-02:30", Some("PT-2H-30M")),
            ("25 Hours", Some("PT25H")),
            ("0 days", Some("PT0S")),
            ("P1D", None),
            ("1.5 days", None),
            ("1 day ago", None),
            ("1 02:00:00", None),
            ("1 fortnight", None),
            ("02:61:00", None),
            ("", None),
        ] {
            let read = read(text).map(|interval| interval.iso());
            assert_eq!(read.as_deref(), shown, "{text}");
        }
    }
}
