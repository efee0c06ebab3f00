//! Numbers in a form that is easy to read.

use crate::figures::grouped;

/// With separated thousands, and at most the digits that a measurement can have: `1,234,567`,
/// `4.25`.
pub(super) fn plain(number: f64) -> String {
    let decimals = match number.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.01 => 2,
        size if size > 0.0 => 4,
        _ => 0,
    };
    let text = format!("{number:.decimals$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    match text.strip_prefix('-') {
        Some(size) => format!("−{}", grouped(size)),
        None => grouped(text),
    }
}

/// Short enough for an axis: `500`, `1.5k`, `20k`, `3M`.
pub(super) fn short(number: f64) -> String {
    for (size, letter) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if number.abs() >= size * 0.999_999 {
            return format!("{}{letter}", plain(number / size));
        }
    }
    plain(number)
}

/// How many times as much: `2.64×`, `13.7×`, `0.85×`.
pub(super) fn times(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 100.0 => format!("{}×", plain(ratio)),
        ratio if ratio >= 10.0 => format!("{ratio:.1}×"),
        ratio => format!("{ratio:.2}×"),
    }
}

/// A share of one: `87 %`, `9.2 %`.
pub(super) fn percent(share: f64) -> String {
    let decimals = usize::from(share < 0.0995);
    format!("{:.decimals$}\u{a0}%", share * 100.0)
}

/// `23.5 GiB`.
pub(super) fn bytes(number: f64) -> String {
    for (size, unit) in [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if number >= size as f64 {
            return format!("{}\u{a0}{unit}", plain(number / size as f64));
        }
    }
    format!("{}\u{a0}bytes", plain(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_as_exact_as_they_deserve() {
        let cases = [
            (1_234_567.4, "1,234,567"),
            (999.6, "1,000"),
            (46.94, "46.9"),
            (5.0, "5"),
            (4.251, "4.25"),
            (0.0041, "0.0041"),
            (0.0, "0"),
            (-1234.0, "−1,234"),
        ];
        for (number, text) in cases {
            assert_eq!(plain(number), text);
        }
    }

    #[test]
    fn axes_and_ratios_are_short() {
        let cases = [(500.0, "500"), (1e3, "1k"), (1500.0, "1.5k"), (2e4, "20k"), (3e6, "3M")];
        for (number, text) in cases {
            assert_eq!(short(number), text);
        }
        for (ratio, text) in
            [(2.636, "2.64×"), (13.7, "13.7×"), (0.853, "0.85×"), (1234.0, "1,234×")]
        {
            assert_eq!(times(ratio), text);
        }
        assert_eq!((percent(0.8734), percent(0.0922)), ("87\u{a0}%".into(), "9.2\u{a0}%".into()));
        assert_eq!(bytes(25_276_502_016.0), "23.5\u{a0}GiB");
    }
}
