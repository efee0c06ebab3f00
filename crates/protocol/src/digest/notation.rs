//! One text for all notations of a moment, and of a UUID.
//!
//! The type of a column is not known here. A moment is what begins with a date and a time of the
//! day; the text of it is that of SQLite's functions, in UTC. So two such texts in a column of text
//! count as equal too. Whatever else a text is, it stands for itself.

use model::{civil_date, civil_day};
use std::ops::Deref;

const SECONDS_PER_DAY: i64 = 86_400;

/// Most bytes of a text that is looked at. None becomes longer by more than a few.
const TEXT_BYTES_MAX: usize = 40;

/// On the stack, as no row may cost an allocation.
#[derive(Debug)]
pub(super) struct Notation {
    bytes: [u8; 2 * TEXT_BYTES_MAX],
    len: usize,
}

impl Notation {
    fn new() -> Notation {
        Notation { bytes: [0; 2 * TEXT_BYTES_MAX], len: 0 }
    }

    fn extend(&mut self, bytes: &[u8]) {
        for (place, byte) in self.bytes[self.len..].iter_mut().zip(bytes) {
            *place = *byte;
            self.len += 1;
        }
    }
}

impl Deref for Notation {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The notation that `text` is compared in; none where that is its own.
pub(super) fn of(text: &[u8]) -> Option<Notation> {
    match text.len() {
        16..=TEXT_BYTES_MAX => uuid(text).or_else(|| moment(text)).filter(|it| **it != *text),
        _ => None,
    }
}

/// 32 hexadecimal digits, with hyphens after 8, 12, 16 and 20 of them or with none.
fn uuid(text: &[u8]) -> Option<Notation> {
    let is_hyphen = |at: usize| text.len() == 36 && matches!(at, 8 | 13 | 18 | 23);
    let is_one = matches!(text.len(), 32 | 36)
        && text.iter().enumerate().all(|(at, byte)| match is_hyphen(at) {
            true => *byte == b'-',
            false => byte.is_ascii_hexdigit(),
        });
    if !is_one {
        return None;
    }
    let mut notation = Notation::new();
    for digit in text.iter().filter(|byte| **byte != b'-') {
        if matches!(notation.len(), 8 | 13 | 18 | 23) {
            notation.extend(b"-");
        }
        notation.extend(&[digit.to_ascii_lowercase()]);
    }
    Some(notation)
}

fn moment(text: &[u8]) -> Option<Notation> {
    let mut rest = text;
    let year = number(&mut rest, 4)?;
    let month = part(&mut rest, b"-")?;
    let day = part(&mut rest, b"-")?;
    let hour = part(&mut rest, b" T")?;
    let minute = part(&mut rest, b":")?;
    let second = if rest.first() == Some(&b':') { part(&mut rest, b":")? } else { 0 };
    let fraction = fraction(&mut rest)?;
    let offset = offset(&mut rest)?;
    let days = civil_day(year, month, day);
    let is_one = rest.is_empty()
        && (1..=12).contains(&month)
        && civil_date(days) == (year, month, day)
        && (hour < 24 || hour == 24 && minute == 0 && second == 0)
        && minute < 60
        && second < 60;
    if !is_one {
        return None;
    }
    let seconds = days * SECONDS_PER_DAY + (hour * 60 + minute) * 60 + second - offset;
    let (days, clock) = (seconds.div_euclid(SECONDS_PER_DAY), seconds.rem_euclid(SECONDS_PER_DAY));
    let (year, month, day) = civil_date(days);
    if !(0..=9999).contains(&year) {
        return None;
    }
    let mut notation = Notation::new();
    notation.extend(b"0000-00-00 00:00:00");
    let parts = [
        (0, year / 100),
        (2, year % 100),
        (5, month),
        (8, day),
        (11, clock / 3600),
        (14, clock / 60 % 60),
        (17, clock % 60),
    ];
    for (at, number) in parts {
        // All are from 0 to 99.
        notation.bytes[at] += (number / 10) as u8;
        notation.bytes[at + 1] += (number % 10) as u8;
    }
    if !fraction.is_empty() {
        notation.extend(b".");
        notation.extend(fraction);
    }
    Some(notation)
}

/// The number of so many digits at the front.
fn number(rest: &mut &[u8], digits: usize) -> Option<i64> {
    let (front, behind) = rest.split_at_checked(digits)?;
    *rest = behind;
    let value = |number: i64, byte: &u8| number * 10 + i64::from(byte - b'0');
    front.iter().all(u8::is_ascii_digit).then(|| front.iter().fold(0, value))
}

/// Two digits behind one of these marks.
fn part(rest: &mut &[u8], marks: &[u8]) -> Option<i64> {
    let (mark, behind) = rest.split_first()?;
    *rest = behind;
    if marks.contains(mark) { number(rest, 2) } else { None }
}

/// The digits behind the point, without zeros at their end.
fn fraction<'t>(rest: &mut &'t [u8]) -> Option<&'t [u8]> {
    let Some(behind) = rest.strip_prefix(b".") else { return Some(&[]) };
    let len = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, behind) = behind.split_at(len);
    *rest = behind;
    let end = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
    (len > 0).then_some(&digits[..end])
}

/// Seconds east of UTC.
fn offset(rest: &mut &[u8]) -> Option<i64> {
    let sign = match rest.first() {
        None => return Some(0),
        Some(b'Z') if rest.len() == 1 => {
            *rest = &[];
            return Some(0);
        }
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return None,
    };
    *rest = &rest[1..];
    let hours = number(rest, 2)?;
    let minutes = match rest.first() {
        None => 0,
        Some(b':') => part(rest, b":")?,
        Some(_) => number(rest, 2)?,
    };
    (hours < 16 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notations_of_one_value_have_one_text() {
        let moment = "2026-12-01 08:00:00";
        let uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for (text, shown) in [
            ("2026-12-01 08:00:00.000000Z", moment),
            ("2026-12-01T08:00:00Z", moment),
            ("2026-12-01 08:00", moment),
            ("2026-12-01T10:00:00+02:00", moment),
            ("2026-12-01 02:30:00.0-0530", moment),
            ("2026-11-30T24:00:00", "2026-12-01 00:00:00"),
            ("2024-02-29 08:30:00.250", "2024-02-29 08:30:00.25"),
            ("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", uuid),
            ("a0eebc999c0b4ef8bb6d6bb9bd380a11", uuid),
        ] {
            assert_eq!(of(text.as_bytes()).as_deref(), Some(shown.as_bytes()), "{text}");
        }
        let own = [
            moment,
            uuid,
            "2023-02-29 08:00:00Z",
            "2026-13-01 08:00:00Z",
            "2026-12-01 08:00:00 CET",
            "2026-12-01 25:00:00",
            "0044-03-15 12:00:00 BC",
            "0000-01-01T00:00+15:59",
            "2026-12-01 08:00:00.",
            "2026-12-01 08:00:00Zx",
            "words of some length, no more",
        ];
        for text in own {
            assert!(of(text.as_bytes()).is_none(), "{text}");
        }
    }
}
