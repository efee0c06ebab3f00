//! `numeric` between PostgreSQL's binary format and decimal text, digit by digit.
//!
//! The binary format is a list of digits to the base 10,000, the power of the first one (*weight*),
//! a sign, and the number of decimals to show (*scale*).

use crate::postgres::values::misfit::Misfit;
use smallvec::SmallVec;

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const INFINITY: u16 = 0xD000;
const MINUS_INFINITY: u16 = 0xF000;

/// PostgreSQL's limits, in decimal digits.
const INTEGER_DIGITS_MAX: i64 = 131_072;
const SCALE_MAX: i64 = 16_383;

const NO_NUMBER: Misfit = "is not a number";
const OUT_OF_RANGE: Misfit = "has too many digits";

/// Appends the binary form of a decimal text.
pub(in crate::postgres) fn write_binary(text: &[u8], out: &mut Vec<u8>) -> Result<(), Misfit> {
    let (negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if write_short(negative, unsigned, out) {
        return Ok(());
    }
    if unsigned.eq_ignore_ascii_case(b"nan") {
        header(out, 0, 0, NAN, 0);
        return Ok(());
    }
    if unsigned.eq_ignore_ascii_case(b"infinity") || unsigned.eq_ignore_ascii_case(b"inf") {
        header(out, 0, 0, if negative { MINUS_INFINITY } else { INFINITY }, 0);
        return Ok(());
    }
    write_any(negative, unsigned, out)
}

/// The decimals of a number in its binary form; none of NaN and the infinities.
pub(in crate::postgres) fn decimals(binary: &[u8]) -> Option<u16> {
    let word = |at: usize| Some(u16::from_be_bytes([*binary.get(at)?, *binary.get(at + 1)?]));
    let special = word(4)? & NAN == NAN;
    if special { None } else { word(6) }
}

fn write_any(negative: bool, unsigned: &[u8], out: &mut Vec<u8>) -> Result<(), Misfit> {
    let decimal = Decimal::parse(unsigned)?;
    let scale = (decimal.len() as i64 - decimal.point).max(0);
    let (Some(first), Some(last)) = (decimal.first(), decimal.last()) else {
        check(scale <= SCALE_MAX)?;
        header(out, 0, 0, 0, scale);
        return Ok(());
    };
    check(decimal.point - first <= INTEGER_DIGITS_MAX && scale <= SCALE_MAX)?;
    let weight = (decimal.point - 1 - first).div_euclid(4);
    let lowest = (decimal.point - 1 - last).div_euclid(4);
    header(out, weight - lowest + 1, weight, if negative { NEGATIVE } else { 0 }, scale);
    for power in (lowest..=weight).rev() {
        let mut digit = 0;
        for exponent in (4 * power..4 * power + 4).rev() {
            digit = digit * 10 + decimal.digit(decimal.point - 1 - exponent);
        }
        out.extend_from_slice(&digit.to_be_bytes());
    }
    Ok(())
}

/// Most decimal digits of a number that is written in one go: three more, which bring its decimals
/// to whole groups of four, still fit into 64 bits.
const SHORT_TEXT: usize = 16;

/// Appends the binary form of digits and a point, as most numbers are written. False, and nothing
/// appended: it is longer, or not just that.
fn write_short(negative: bool, text: &[u8], out: &mut Vec<u8>) -> bool {
    if text.len() > SHORT_TEXT + 1 {
        return false;
    }
    let (mut number, mut point) = (0_u64, None);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => number = number * 10 + u64::from(byte - b'0'),
            b'.' if point.is_none() => point = Some(at),
            _ => return false,
        }
    }
    let digits = text.len() - usize::from(point.is_some());
    if digits == 0 || digits > SHORT_TEXT {
        return false;
    }
    let scale = point.map_or(0, |at| text.len() - 1 - at);
    write_whole(negative, number, scale, out);
    true
}

/// Appends the binary form of `number` divided by 10 to the power of `scale`. With the zeros that
/// bring its decimals to whole groups of four it fits into 64 bits.
pub(in crate::postgres) fn write_whole(
    negative: bool,
    mut number: u64,
    scale: usize,
    out: &mut Vec<u8>,
) {
    if number == 0 {
        return header(out, 0, 0, 0, scale as i64);
    }
    let behind = scale.div_ceil(4);
    number *= 10_u64.pow((behind * 4 - scale) as u32);
    let mut groups = [0_u16; 5];
    let mut first = groups.len();
    while number > 0 {
        first -= 1;
        groups[first] = (number % 10_000) as u16;
        number /= 10_000;
    }
    let last = groups.iter().rposition(|group| *group != 0).unwrap_or_default();
    let weight = groups.len() as i64 - first as i64 - 1 - behind as i64;
    let sign = if negative { NEGATIVE } else { 0 };
    header(out, (last + 1 - first) as i64, weight, sign, scale as i64);
    groups[first..=last].iter().for_each(|group| out.extend_from_slice(&group.to_be_bytes()));
}

fn check(fits: bool) -> Result<(), Misfit> {
    if fits { Ok(()) } else { Err(OUT_OF_RANGE) }
}

fn header(out: &mut Vec<u8>, digits: i64, weight: i64, sign: u16, scale: i64) {
    // Within the limits all of them fit into 16 bits.
    out.extend_from_slice(&(digits as i16).to_be_bytes());
    out.extend_from_slice(&(weight as i16).to_be_bytes());
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&(scale as u16).to_be_bytes());
}

/// Decimal digits as they were written, and where the point is among them.
struct Decimal<'a> {
    whole: &'a [u8],
    fraction: &'a [u8],
    /// Digits before the point; the exponent moves it beyond either end.
    point: i64,
}

impl Decimal<'_> {
    fn parse(text: &[u8]) -> Result<Decimal<'_>, Misfit> {
        let exponent_at = text.iter().position(|byte| matches!(byte, b'e' | b'E'));
        let (mantissa, exponent) = match exponent_at {
            Some(at) => (&text[..at], read_exponent(&text[at + 1..])?),
            None => (text, 0),
        };
        let (whole, fraction) = match mantissa.iter().position(|byte| *byte == b'.') {
            Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
            None => (mantissa, &[][..]),
        };
        let digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
        if whole.is_empty() && fraction.is_empty() || !digits(whole) || !digits(fraction) {
            return Err(NO_NUMBER);
        }
        Ok(Decimal { whole, fraction, point: whole.len() as i64 + exponent })
    }

    fn len(&self) -> usize {
        self.whole.len() + self.fraction.len()
    }

    fn digit(&self, at: i64) -> u16 {
        let Ok(at) = usize::try_from(at) else { return 0 };
        let byte = match at.checked_sub(self.whole.len()) {
            None => self.whole.get(at),
            Some(at) => self.fraction.get(at),
        };
        byte.map_or(0, |byte| u16::from(byte - b'0'))
    }

    fn first(&self) -> Option<i64> {
        (0..self.len() as i64).find(|at| self.digit(*at) != 0)
    }

    fn last(&self) -> Option<i64> {
        (0..self.len() as i64).rev().find(|at| self.digit(*at) != 0)
    }
}

fn read_exponent(text: &[u8]) -> Result<i64, Misfit> {
    let text = std::str::from_utf8(text).map_err(|_| NO_NUMBER)?;
    let exponent: i64 = text.parse().map_err(|_| NO_NUMBER)?;
    check(exponent.abs() <= INTEGER_DIGITS_MAX + SCALE_MAX)?;
    Ok(exponent)
}

/// A number of few digits, as most are: `whole` divided by 10 to the power of `scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::postgres) struct Short {
    pub(in crate::postgres) negative: bool,
    pub(in crate::postgres) digits: u64,
    pub(in crate::postgres) scale: u32,
}

/// Digits to the base 10,000 of a [`Short`]: with them it is below 10 to the power of 16.
const SHORT_DIGITS: i32 = 4;

impl Short {
    /// Reads the binary form. `None`: a longer number, no number, or not the binary format.
    pub(in crate::postgres) fn read(bytes: &[u8]) -> Option<Short> {
        let (&[c, d, w, e, s, g, a, b], rest) = bytes.split_first_chunk()?;
        let count = usize::from(u16::from_be_bytes([c, d]));
        let weight = i32::from(i16::from_be_bytes([w, e]));
        let sign = u16::from_be_bytes([s, g]);
        let scale = u32::from(u16::from_be_bytes([a, b]));
        let places = scale.div_ceil(4) as i32;
        if sign & !NEGATIVE != 0
            || rest.len() != 2 * count
            || weight.max(0) + 1 + places > SHORT_DIGITS
        {
            return None;
        }
        let (present, _) = rest.as_chunks::<2>();
        let mut digits = 0;
        for power in (-places..=weight.max(0)).rev() {
            let at = usize::try_from(weight - power).ok();
            let digit = at.and_then(|at| present.get(at)).map_or(0, |d| u16::from_be_bytes(*d));
            if digit > 9999 {
                return None;
            }
            digits = digits * 10_000 + u64::from(digit);
        }
        // The last digit may have more places than are shown.
        digits /= 10_u64.pow(places as u32 * 4 - scale);
        Some(Short { negative: sign == NEGATIVE, digits, scale })
    }

    /// Without zeros at the end of the fraction.
    pub(in crate::postgres) fn trimmed(mut self) -> Short {
        while self.scale > 0 && self.digits.is_multiple_of(10) {
            self.digits /= 10;
            self.scale -= 1;
        }
        self
    }

    /// The whole number that it is.
    pub(in crate::postgres) fn integer(self) -> Option<i64> {
        let digits = i64::try_from(self.digits).ok().filter(|_| self.scale == 0)?;
        Some(if self.negative { -digits } else { digits })
    }

    /// The double nearest to it, if one division of exact doubles finds it.
    pub(in crate::postgres) fn real(self) -> Option<f64> {
        if self.digits >= 1 << 53 {
            return None;
        }
        // The scale is at most 12, and powers of ten up to 22 are exact.
        let magnitude = self.digits as f64 / 10_u64.pow(self.scale) as f64;
        Some(if self.negative { -magnitude } else { magnitude })
    }

    /// The text that PostgreSQL itself would show, at the end of `text`.
    pub(in crate::postgres) fn write(self, text: &mut [u8; 32]) -> &[u8] {
        let (mut rest, mut at) = (self.digits, text.len());
        let mut put = |byte: u8| {
            at -= 1;
            text[at] = byte;
        };
        let mut digit = || {
            let digit = (rest % 10) as u8;
            rest /= 10;
            (b'0' + digit, rest > 0)
        };
        (0..self.scale).for_each(|_| put(digit().0));
        if self.scale > 0 {
            put(b'.');
        }
        let mut more = true;
        while more {
            let byte;
            (byte, more) = digit();
            put(byte);
        }
        if self.negative {
            put(b'-');
        }
        &text[at..]
    }
}

/// What a binary numeric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::postgres) enum Class {
    Finite,
    Infinite,
    NotANumber,
}

/// A text of a number: on the stack, as no row may cost an allocation, unless it is long.
pub(in crate::postgres) type Text = SmallVec<[u8; 96]>;

/// The text that PostgreSQL itself would show. `None`: not the binary form.
pub(in crate::postgres) fn text(bytes: &[u8]) -> Option<(Text, Class)> {
    let word = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let count = i64::from(word(0)?);
    let weight = i64::from(word(2)? as i16);
    let scale = usize::from(word(6)?);
    let sign = match word(4)? {
        NAN => return Some((Text::from_slice(b"NaN"), Class::NotANumber)),
        INFINITY => return Some((Text::from_slice(b"Infinity"), Class::Infinite)),
        MINUS_INFINITY => return Some((Text::from_slice(b"-Infinity"), Class::Infinite)),
        NEGATIVE => &b"-"[..],
        _ => b"",
    };
    // The digits of this power of 10,000.
    let group = |power: i64| -> Option<[u8; 4]> {
        let at = weight - power;
        let group = if (0..count).contains(&at) { word(8 + 2 * at as usize)? } else { 0 };
        Some([1000, 100, 10, 1].map(|place| b'0' + (group / place % 10) as u8))
    };
    let mut text = Text::from_slice(sign);
    let first = group(weight.max(0))?;
    let zeros = first[..3].iter().take_while(|digit| **digit == b'0').count();
    text.extend_from_slice(&first[zeros..]);
    for power in (0..weight.max(0)).rev() {
        text.extend_from_slice(&group(power)?);
    }
    if scale > 0 {
        text.push(b'.');
        let end = text.len() + scale;
        for power in 1..=scale.div_ceil(4) as i64 {
            text.extend_from_slice(&group(-power)?);
        }
        text.truncate(end);
    }
    Some((text, Class::Finite))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(text: &str) -> Result<String, Misfit> {
        let mut bytes = Vec::new();
        write_binary(text.as_bytes(), &mut bytes)?;
        Ok(String::from_utf8(super::text(&bytes).unwrap().0.to_vec()).unwrap())
    }

    // Trap 15
    #[test]
    fn a_short_number_is_written_as_any_number_is() {
        let mut texts: Vec<String> =
            ["", ".", "..", "1.2.3", "1e3", "x", "-1"].map(Into::into).into();
        for digits in
            ["0", "7", "10", "9999", "10000", "1000100", "123456789120000", "9999999999999999"]
        {
            texts.extend(
                (0..=digits.len()).map(|at| format!("{}.{}", &digits[..at], &digits[at..])),
            );
            texts.push(digits.to_owned());
            texts.push(format!("00{digits}"));
            texts.push(format!("0.000{digits}"));
        }
        let mut shorts = 0;
        for (text, negative) in texts.iter().flat_map(|text| [(text, false), (text, true)]) {
            let (mut short, mut any) = (Vec::new(), Vec::new());
            if write_short(negative, text.as_bytes(), &mut short) {
                shorts += 1;
                assert_eq!(write_any(negative, text.as_bytes(), &mut any), Ok(()), "{text}");
                assert_eq!(short, any, "{text}");
            } else {
                assert_eq!(short, [0_u8; 0], "{text}");
            }
        }
        assert!(shorts > 120, "{shorts}");
    }

    // Trap 15
    #[test]
    fn every_number_comes_back_with_all_its_digits() {
        let long = "123456789".repeat(40);
        let awkward = [
            "0",
            "0.00",
            "1",
            "-1",
            "9999",
            "10000",
            "10001",
            "99999999",
            "100000000",
            "0.1",
            "0.0001",
            "0.00001",
            "-0.000000012",
            "1.50",
            "12345.678900",
            "1000000000000",
            "79228162514264337593543950335",
            "NaN",
            "Infinity",
            "-Infinity",
            long.as_str(),
        ];
        for text in awkward {
            assert_eq!(there_and_back(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn other_spellings_are_understood_and_the_rest_is_refused() {
        for (text, canonical) in [
            ("+1", "1"),
            ("007", "7"),
            (".5", "0.5"),
            ("5.", "5"),
            ("1e3", "1000"),
            ("1.5e-3", "0.0015"),
            ("15E2", "1500"),
            ("-inf", "-Infinity"),
            ("1.23e1", "12.3"),
        ] {
            assert_eq!(there_and_back(text).as_deref(), Ok(canonical), "{text}");
        }
        for text in ["", "-", ".", "1,5", "0x10", "1e", "1e999999", "12a", " 1", "1.2.3"] {
            assert!(there_and_back(text).is_err(), "{text}");
        }
    }
}
