//! Dates and times between PostgreSQL's binary format and the text at the remote.
//!
//! | type | text at the remote |
//! |---|---|
//! | date | `2024-02-29`, `0044-03-15 BC`, `infinity` |
//! | time | `08:30:00`, `08:30:00.5` |
//! | timestamp | `2024-02-29 08:30:00`, `2024-02-29 08:30:00.5`, then ` BC`, `-infinity` |
//! | timestamptz | the same in UTC |
//!
//! Timestamps are written as SQLite's functions write them. The model may choose another notation
//! ([`Times`]).
//!
//! More notations are read than written: `T` between date and time, fewer digits, and for
//! timestamptz an offset. A timestamp with an offset that is not zero has two meanings, so it is
//! refused.

use crate::postgres::values::misfit::Misfit;
use model::{civil_date, civil_day};
use serde::{Deserialize, Serialize};

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// Days from 1970-01-01 to PostgreSQL's day zero, 2000-01-01.
const EPOCH_DAYS: i64 = 10_957;

/// How a timestamp with all its digits is written.
const USUAL: [u8; 27] = *b"0000-00-00 00:00:00.000000Z";

/// PostgreSQL's first date, 4714-11-24 BC, and the first days after its last date and timestamp.
const FIRST_DAY: i64 = -2_451_545;
const END_DAY_DATE: i64 = 2_147_483_494 - 2_451_545;
const END_DAY_TIMESTAMP: i64 = 109_203_528 - 2_451_545;

/// Of the months of a year that is no leap year.
const MONTH_DAYS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

const NO_DATE: Misfit = "is not a date";
const NO_TIME: Misfit = "is not a time";
const NO_TIMESTAMP: Misfit = "is not a date and time";
const OUT_OF_RANGE: Misfit = "is out of the range of dates";

/// In which notation remotes get timestamps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::postgres) enum Times {
    /// `2024-02-29 08:30:00.000000`, and a `Z` in UTC: of what was deployed before there were
    /// others.
    #[default]
    Full,
    /// `2024-02-29 08:30:00`, as `datetime('now')` writes it.
    Sqlite,
    /// `2024-02-29T08:30:00`, and a `Z` in UTC.
    Rfc3339,
}

impl Times {
    pub(in crate::postgres) fn is_full(&self) -> bool {
        *self == Times::Full
    }
}

/// Any date.
pub(in crate::postgres) fn date(days: i32) -> String {
    match days {
        i32::MAX => "infinity".into(),
        i32::MIN => "-infinity".into(),
        days => {
            let (date, era) = civil(i64::from(days));
            date + era
        }
    }
}

/// A time of the day: its text up to a length, without zeros at the end.
pub(in crate::postgres) fn time(micros: i64) -> ([u8; 15], usize) {
    let text = of_day(micros);
    let (clock, fraction) = text.split_at("00:00:00".len());
    let digits = fraction.iter().rposition(|byte| matches!(byte, b'1'..=b'9'));
    (text, clock.len() + digits.map_or(0, |last| last + 1))
}

/// A time of the day with all its digits.
fn of_day(micros: i64) -> [u8; 15] {
    let mut text = *b"00:00:00.000000";
    // Both are below the number of microseconds of a day.
    let seconds = (micros / MICROS_PER_SECOND) as u32;
    let fraction = (micros % MICROS_PER_SECOND) as u32;
    text[..2].copy_from_slice(pair(seconds / 3600));
    text[3..5].copy_from_slice(pair(seconds / 60 % 60));
    text[6..8].copy_from_slice(pair(seconds % 60));
    text[9..11].copy_from_slice(pair(fraction / 10_000));
    text[11..13].copy_from_slice(pair(fraction / 100 % 100));
    text[13..].copy_from_slice(pair(fraction % 100));
    text
}

/// The microseconds since 1970 of those since 2000, in which this file and the database count. What
/// is infinite stays so.
pub(in crate::postgres) fn since_1970(micros: i64) -> i64 {
    match micros {
        i64::MAX | i64::MIN => micros,
        micros => micros.saturating_add(EPOCH_DAYS * MICROS_PER_DAY),
    }
}

/// Any timestamp.
pub(in crate::postgres) fn timestamp(micros: i64, utc: bool, times: Times) -> String {
    match micros {
        i64::MAX => "infinity".into(),
        i64::MIN => "-infinity".into(),
        micros => {
            let (date, era) = civil(micros.div_euclid(MICROS_PER_DAY));
            let mut text = USUAL;
            text[11..26].copy_from_slice(&of_day(micros.rem_euclid(MICROS_PER_DAY)));
            let len = notate(&mut text, utc, times);
            format!("{date}{}{era}", String::from_utf8_lossy(&text[10..len]))
        }
    }
}

/// Turns a timestamp with all its digits, as [`usual_timestamp`] writes it, into this notation.
/// Returns its length.
pub(in crate::postgres) fn notate(text: &mut [u8; 27], utc: bool, times: Times) -> usize {
    if times == Times::Full {
        return text.len() - usize::from(!utc);
    }
    let (second, fraction) = text[..26].split_at("0000-00-00 00:00:00".len());
    let digits = fraction.iter().rposition(|byte| matches!(byte, b'1'..=b'9'));
    let len = second.len() + digits.map_or(0, |last| last + 1);
    if times == Times::Sqlite {
        return len;
    }
    text[10] = b'T';
    text[len] = b'Z';
    len + usize::from(utc)
}

/// A date of the years 1 to 9999, which need four digits and no era.
pub(in crate::postgres) fn usual_date(days: i32) -> Option<[u8; 10]> {
    let mut text = *b"0000-00-00";
    let (year, month, day) = usual_civil(days)?;
    text[..2].copy_from_slice(pair(year / 100));
    text[2..4].copy_from_slice(pair(year % 100));
    text[5..7].copy_from_slice(pair(month));
    text[8..].copy_from_slice(pair(day));
    Some(text)
}

/// A timestamp of these years with all its digits; for [`notate`].
pub(in crate::postgres) fn usual_timestamp(micros: i64) -> Option<[u8; 27]> {
    let mut text = USUAL;
    let date = usual_date(i32::try_from(micros.div_euclid(MICROS_PER_DAY)).ok()?)?;
    text[..10].copy_from_slice(&date);
    text[11..26].copy_from_slice(&of_day(micros.rem_euclid(MICROS_PER_DAY)));
    Some(text)
}

/// Two digits; `number` is below 100.
pub(in crate::postgres) fn pair(number: u32) -> &'static [u8; 2] {
    const PAIRS: [[u8; 2]; 100] = {
        let mut pairs = [[0; 2]; 100];
        let mut number = 0;
        while number < 100 {
            pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
            number += 1;
        }
        pairs
    };
    &PAIRS[number as usize % 100]
}

/// [`civil_date`] for the years 1 to 9999, in 32 bits and without a division by a variable: after
/// Neri and Schneider, "Euclidean affine functions and their application to calendar algorithms".
fn usual_civil(days: i32) -> Option<(u32, u32, u32)> {
    // 0001-01-01 and 9999-12-31.
    if !(-730_119..=2_921_939).contains(&days) {
        return None;
    }
    // Since 0000-03-01: years begin in March, so that the leap day is the last of its year.
    let shifted = (days + 730_425) as u32;
    let centuries = 4 * shifted + 3;
    let of_century = centuries % 146_097 / 4;
    let years = 2_939_745 * u64::from(4 * of_century + 3);
    let of_year = years as u32 / 2_939_745 / 4;
    let months = 2141 * of_year + 197_913;
    let turned = u32::from(of_year >= 306);
    let year = 100 * (centuries / 146_097) + (years >> 32) as u32 + turned;
    Some((year, (months >> 16) - 12 * turned, (months & 0xFFFF) / 2141 + 1))
}

/// Year, month and day, and the era.
fn civil(days: i64) -> (String, &'static str) {
    let (year, month, day) = civil_date(days + EPOCH_DAYS);
    let (year, era) = if year <= 0 { (1 - year, " BC") } else { (year, "") };
    (format!("{year:04}-{month:02}-{day:02}"), era)
}

pub(in crate::postgres) fn read_date(text: &[u8]) -> Result<i32, Misfit> {
    match text {
        b"infinity" => return Ok(i32::MAX),
        b"-infinity" => return Ok(i32::MIN),
        _ => {}
    }
    let (text, before_christ) = split_era(text);
    let mut cursor = Cursor(text);
    let days = cursor.date(before_christ).ok_or(NO_DATE)?;
    if !cursor.0.is_empty() {
        return Err(NO_DATE);
    }
    match (FIRST_DAY..END_DAY_DATE).contains(&days) {
        true => i32::try_from(days).map_err(|_| OUT_OF_RANGE),
        false => Err(OUT_OF_RANGE),
    }
}

pub(in crate::postgres) fn read_time(text: &[u8]) -> Result<i64, Misfit> {
    let mut cursor = Cursor(text);
    let micros = cursor.time().ok_or(NO_TIME)?;
    if cursor.0.is_empty() { Ok(micros) } else { Err(NO_TIME) }
}

pub(in crate::postgres) fn read_timestamp(text: &[u8], with_zone: bool) -> Result<i64, Misfit> {
    if let Some(micros) = read_usual_timestamp(text) {
        return Ok(micros);
    }
    match text {
        b"infinity" => return Ok(i64::MAX),
        b"-infinity" => return Ok(i64::MIN),
        _ => {}
    }
    let (text, before_christ) = split_era(text);
    let mut cursor = Cursor(text);
    let days = cursor.date(before_christ).ok_or(NO_TIMESTAMP)?;
    let mut micros = 0;
    if cursor.eat(b" ") || cursor.eat(b"T") {
        micros = cursor.time().ok_or(NO_TIMESTAMP)?;
        let offset = cursor.offset().ok_or(NO_TIMESTAMP)?;
        if offset != 0 && !with_zone {
            return Err("has an offset from UTC, which the column cannot keep");
        }
        micros -= offset;
    }
    if !cursor.0.is_empty() {
        return Err(NO_TIMESTAMP);
    }
    let total = days * MICROS_PER_DAY + micros;
    let range = FIRST_DAY * MICROS_PER_DAY..END_DAY_TIMESTAMP * MICROS_PER_DAY;
    if range.contains(&total) { Ok(total) } else { Err(OUT_OF_RANGE) }
}

/// The digits of the fraction of a second in a text that is read as a time.
pub(in crate::postgres) fn second_digits(text: &[u8]) -> usize {
    let point = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    text[point..].iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count()
}

/// Reads what [`usual_timestamp`] writes, with or without the `Z`, or without a fraction.
fn read_usual_timestamp(text: &[u8]) -> Option<i64> {
    let mut whole = *b"0000-00-00 00:00:00.000000";
    let text = text.strip_suffix(b"Z").unwrap_or(text);
    if !matches!(text.len(), 19 | 26) {
        return None;
    }
    whole[..text.len()].copy_from_slice(text);
    let text = whole;
    let marks = [text[4], text[7], text[10], text[13], text[16], text[19]];
    let digit = |at: usize| text[at].is_ascii_digit().then(|| i64::from(text[at] - b'0'));
    let pair = |at: usize| Some(digit(at)? * 10 + digit(at + 1)?);
    let (year, month, day) = (pair(0)? * 100 + pair(2)?, pair(5)?, pair(8)?);
    let (hours, minutes, seconds) = (pair(11)?, pair(14)?, pair(17)?);
    let fraction = (pair(20)? * 100 + pair(22)?) * 100 + pair(24)?;
    // A leap day is read with more care.
    let last = *MONTH_DAYS.get(usize::try_from(month - 1).ok()?)?;
    let is_day = year > 0 && (1..=last).contains(&day);
    if marks != *b"-- ::." || !is_day || hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let days = civil_day(year, month, day) - EPOCH_DAYS;
    let of_day = (hours * 60 + minutes) * 60 + seconds;
    Some(days * MICROS_PER_DAY + of_day * MICROS_PER_SECOND + fraction)
}

fn split_era(text: &[u8]) -> (&[u8], bool) {
    match text.strip_suffix(b" BC") {
        Some(text) => (text, true),
        None => (text, false),
    }
}

/// What is left to read of a text.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn eat(&mut self, wanted: &[u8]) -> bool {
        let rest = self.0.strip_prefix(wanted);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// A number of `least` to `most` digits.
    fn number(&mut self, least: usize, most: usize) -> Option<i64> {
        let len = self.0.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(len);
        self.0 = rest;
        let value = digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
        (len >= least).then_some(value)
    }

    /// Days since PostgreSQL's day zero. Years beyond the calendar are caught by the range.
    fn date(&mut self, before_christ: bool) -> Option<i64> {
        let year = self.number(4, 7)?;
        let month = self.eat(b"-").then(|| self.number(2, 2))??;
        let day = self.eat(b"-").then(|| self.number(2, 2))??;
        let year = if before_christ { 1 - year } else { year };
        let written_zero = if before_christ { year == 1 } else { year == 0 };
        if written_zero || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return None;
        }
        let days = civil_day(year, month, day);
        // 31 April would be the first of May.
        (civil_date(days) == (year, month, day)).then_some(days - EPOCH_DAYS)
    }

    /// Microseconds of a time of the day, to the end of the day included.
    fn time(&mut self) -> Option<i64> {
        let hours = self.number(2, 2)?;
        let minutes = self.eat(b":").then(|| self.number(2, 2))??;
        let seconds = if self.eat(b":") { self.number(2, 2)? } else { 0 };
        let fraction = if self.eat(b".") { self.fraction()? } else { 0 };
        let micros = ((hours * 60 + minutes) * 60 + seconds) * MICROS_PER_SECOND + fraction;
        (minutes < 60 && seconds < 60 && micros <= MICROS_PER_DAY).then_some(micros)
    }

    /// Microseconds; digits beyond them are rounded, as PostgreSQL does.
    fn fraction(&mut self) -> Option<i64> {
        let before = self.0.len();
        let value = self.number(1, 6)?;
        let value = value * 10_i64.pow(6 - (before - self.0.len()) as u32);
        let up = self.0.first().is_some_and(|digit| (b'5'..=b'9').contains(digit));
        while self.0.first().is_some_and(u8::is_ascii_digit) {
            self.0 = &self.0[1..];
        }
        Some(value + i64::from(up))
    }

    /// Microseconds east of UTC; nothing and `Z` are zero.
    fn offset(&mut self) -> Option<i64> {
        if self.0.is_empty() || self.eat(b"Z") {
            return Some(0);
        }
        let sign = if self.eat(b"+") { 1 } else { self.eat(b"-").then_some(-1)? };
        let hours = self.number(2, 2)?;
        let minutes = match self.eat(b":") || !self.0.is_empty() {
            true => self.number(2, 2)?,
            false => 0,
        };
        let seconds = if self.eat(b":") { self.number(2, 2)? } else { 0 };
        let valid = hours < 16 && minutes < 60 && seconds < 60;
        valid.then_some(sign * ((hours * 60 + minutes) * 60 + seconds) * MICROS_PER_SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Trap 15
    #[test]
    fn every_date_comes_back() {
        let awkward = [
            "2000-01-01",
            "1999-12-31",
            "1970-01-01",
            "1969-12-31",
            "1900-02-28",
            "2024-02-29",
            "0001-01-01",
            "0001-12-31 BC",
            "0044-03-15 BC",
            "4714-11-24 BC",
            "9999-12-31",
            "10000-01-01",
            "5874897-12-31",
            "infinity",
            "-infinity",
        ];
        for text in awkward {
            assert_eq!(date(read_date(text.as_bytes()).unwrap()), text);
        }
        for days in (-2_451_545..3_000_000).step_by(997) {
            assert_eq!(read_date(date(days).as_bytes()), Ok(days));
        }
        let wrong = [
            "",
            "2023-02-29",
            "1900-02-29",
            "2024-13-01",
            "0000-01-01",
            "24-1-1",
            "2024-01-01 ",
            "2024-01-01 08:00",
            "5874898-06-03",
            "4714-11-23 BC",
            "now",
        ];
        for text in wrong {
            assert!(read_date(text.as_bytes()).is_err(), "{text}");
        }
    }

    // Trap 15
    #[test]
    fn the_usual_way_and_the_other_agree() {
        let mut usual = 0;
        for days in -730_200..2_922_100 {
            let Some(text) = usual_date(days) else { continue };
            usual += 1;
            assert_eq!(str::from_utf8(&text), Ok(date(days).as_str()));
        }
        assert_eq!(usual, 3_652_059, "the days of 9999 years");
        for days in [i32::MIN, i32::MAX, -730_120, 2_921_940] {
            assert_eq!(usual_date(days), None);
        }
        let day = MICROS_PER_DAY;
        for micros in (-730_119 * day..2_921_940 * day).step_by(7_654_321_098_765) {
            let text = usual_timestamp(micros).unwrap();
            assert_eq!(str::from_utf8(&text), Ok(timestamp(micros, true, Times::Full).as_str()));
            let read = [read_usual_timestamp(&text), read_usual_timestamp(&text[..26])];
            assert!(read == [Some(micros); 2] || text[5..10] == *b"02-29" && read == [None; 2]);
        }
        let wrong = [
            "0000-01-01 00:00:00.000000",
            "2023-02-29 00:00:00.000000",
            "2023-00-01 00:00:00.000000",
            "2023-13-01 00:00:00.000000",
            "2023-04-31 00:00:00.000000",
            "2023-04-00 00:00:00.000000",
            "2023-04-01 24:00:00.000000",
            "2023-04-01 00:60:00.000000",
            "2023-04-01 00:00:60.000000",
            "2023-04-01 00:00:00.00000x",
            "2023-04-01T00:00:00.000000",
        ];
        for text in wrong {
            assert_eq!(read_usual_timestamp(text.as_bytes()), None, "{text}");
        }
        for micros in [i64::MIN, i64::MAX, -730_119 * day - 1, 2_921_940 * day] {
            assert_eq!(usual_timestamp(micros), None);
        }
    }

    // Trap 15
    #[test]
    fn every_timestamp_comes_back() {
        let awkward = [
            "1969-12-31 23:59:59.999999",
            "2000-01-01 00:00:00.000000",
            "1999-12-31 23:59:59.999999",
            "0044-03-15 12:00:00.500000 BC",
            "294276-12-31 23:59:59.999999",
            "4714-11-24 00:00:00.000000 BC",
            "infinity",
            "-infinity",
        ];
        for text in awkward {
            let micros = read_timestamp(text.as_bytes(), false).unwrap();
            assert_eq!(timestamp(micros, false, Times::Full), text);
        }
    }

    #[test]
    fn other_spellings_of_a_moment_are_understood() {
        for (text, canonical) in [
            ("2024-02-29", "2024-02-29 00:00:00.000000Z"),
            ("2024-02-29T08:30Z", "2024-02-29 08:30:00.000000Z"),
            ("2024-02-29 08:30:01.5+02", "2024-02-29 06:30:01.500000Z"),
            ("2024-02-29 08:30:01.1234567-0530", "2024-02-29 14:00:01.123457Z"),
            ("2024-02-29T23:59:59.9999999+00:00", "2024-03-01 00:00:00.000000Z"),
            ("0044-03-15 00:00:00.000000Z BC", "0044-03-15 00:00:00.000000Z BC"),
            ("2024-02-29 24:00:00", "2024-03-01 00:00:00.000000Z"),
        ] {
            let micros = read_timestamp(text.as_bytes(), true).unwrap();
            assert_eq!(timestamp(micros, true, Times::Full), canonical, "{text}");
        }
        assert!(read_timestamp(b"2024-02-29T08:30Z", false).is_ok());
        assert!(read_timestamp(b"2024-02-29T08:30+01", false).is_err());
        for text in ["1709195400", "2024-02-29 8:30", "2024-02-29 25:00", "2024-02-29 08:30 CET"] {
            assert!(read_timestamp(text.as_bytes(), true).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_written_without_trailing_zeros() {
        for text in ["00:00:00", "08:30:00.5", "23:59:59.999999", "24:00:00"] {
            let (written, len) = time(read_time(text.as_bytes()).unwrap());
            assert_eq!(str::from_utf8(&written[..len]), Ok(text));
        }
        assert!(read_time(b"24:00:01").is_err());
    }

    // Trap 15
    #[test]
    fn a_moment_has_the_notation_of_its_column() {
        for (text, utc, sqlite, rfc3339) in [
            ("2024-02-29 08:30:00", true, "2024-02-29 08:30:00", "2024-02-29T08:30:00Z"),
            ("2024-02-29 08:30:00", false, "2024-02-29 08:30:00", "2024-02-29T08:30:00"),
            (
                "2024-03-01T08:30:00.250000Z",
                true,
                "2024-03-01 08:30:00.25",
                "2024-03-01T08:30:00.25Z",
            ),
            (
                "2024-03-01 00:00:00.000001",
                false,
                "2024-03-01 00:00:00.000001",
                "2024-03-01T00:00:00.000001",
            ),
            (
                "0044-03-15 12:00:00.5 BC",
                true,
                "0044-03-15 12:00:00.5 BC",
                "0044-03-15T12:00:00.5Z BC",
            ),
            ("12024-03-01 12:00:00", false, "12024-03-01 12:00:00", "12024-03-01T12:00:00"),
            ("-infinity", true, "-infinity", "-infinity"),
        ] {
            let micros = read_timestamp(text.as_bytes(), utc).unwrap();
            for (times, expected) in [(Times::Sqlite, sqlite), (Times::Rfc3339, rfc3339)] {
                assert_eq!(timestamp(micros, utc, times), expected);
                assert_eq!(read_timestamp(expected.as_bytes(), utc), Ok(micros), "{expected}");
                if let Some(mut text) = usual_timestamp(micros) {
                    let len = notate(&mut text, utc, times);
                    assert_eq!(str::from_utf8(&text[..len]), Ok(expected));
                }
            }
        }
    }
}
