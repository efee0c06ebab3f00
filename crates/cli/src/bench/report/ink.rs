//! The colours of the page in the light and in the dark, and the drawings in these colours.
//!
//! A drawing is made in the light colours. The generated style sheet replaces each of them by a
//! variable. So the same drawing is also right in the dark and on paper.

use std::fmt::Write;

/// What a colour is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Text,
    Faint,
    Grid,
    Paper,
    Ours,
    Ceiling,
    Failed,
    /// The published figures, the most recent first.
    Published(Age),
}

/// Which of the published measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    Newest,
    Newer,
    Oldest,
}

impl Ink {
    /// All of them.
    pub(super) const ALL: [Ink; 10] = [
        Ink::Text,
        Ink::Faint,
        Ink::Grid,
        Ink::Paper,
        Ink::Ours,
        Ink::Ceiling,
        Ink::Failed,
        Ink::Published(Age::Newest),
        Ink::Published(Age::Newer),
        Ink::Published(Age::Oldest),
    ];

    /// The CSS variable with the colour, which is the class of what has it, too.
    pub(super) fn name(self) -> &'static str {
        match self {
            Ink::Text => "ink",
            Ink::Faint => "faint",
            Ink::Grid => "grid",
            Ink::Paper => "paper",
            Ink::Ours => "ours",
            Ink::Ceiling => "ceiling",
            Ink::Failed => "failed",
            Ink::Published(Age::Newest) => "newest",
            Ink::Published(Age::Newer) => "newer",
            Ink::Published(Age::Oldest) => "oldest",
        }
    }

    /// Red, green and blue in daylight; no two are equal, because drawings are recoloured by them.
    pub(super) fn light(self) -> u32 {
        match self {
            Ink::Text => 0x001a_202c,
            Ink::Faint => 0x005a_6573,
            Ink::Grid => 0x00e3_e7ec,
            Ink::Paper => 0x00ff_ffff,
            Ink::Ours => 0x000b_5fcc,
            Ink::Ceiling => 0x006b_7684,
            Ink::Failed => 0x00b4_2318,
            Ink::Published(Age::Newest) => 0x00c2_410c,
            Ink::Published(Age::Newer) => 0x0086_6a00,
            Ink::Published(Age::Oldest) => 0x007a_3e9d,
        }
    }

    fn dark(self) -> u32 {
        match self {
            Ink::Text => 0x00e6_eaf0,
            Ink::Faint => 0x009a_a6b4,
            Ink::Grid => 0x002a_323d,
            Ink::Paper => 0x0016_1b23,
            Ink::Ours => 0x006c_b2ff,
            Ink::Ceiling => 0x008a_95a3,
            Ink::Failed => 0x00ff_8a80,
            Ink::Published(Age::Newest) => 0x00ff_9e64,
            Ink::Published(Age::Newer) => 0x00d9_bb4e,
            Ink::Published(Age::Oldest) => 0x00c7_9aee,
        }
    }

    /// Lines can be distinguished without their colours: the lengths of dashes and gaps.
    fn dashes(self) -> Option<&'static str> {
        match self {
            Ink::Published(Age::Newest) => Some("14 8"),
            Ink::Published(Age::Newer) => Some("5 7"),
            Ink::Published(Age::Oldest) => Some("16 6 4 6"),
            Ink::Ceiling => Some("2 7"),
            _ => None,
        }
    }
}

/// An image as SVG, in the light colours.
#[derive(Debug)]
pub(super) struct Drawing(String);

impl Drawing {
    /// Takes what the library of the charts has drawn.
    pub(super) fn new(svg: String) -> Drawing {
        Drawing(svg)
    }

    pub(super) fn svg(&self) -> &str {
        &self.0
    }
}

/// Rules of the style sheet.
#[derive(Debug)]
pub(super) struct StyleSheet(String);

impl StyleSheet {
    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

/// The rules that follow from the colours.
pub(super) fn style_sheet() -> StyleSheet {
    let variables = |colour: fn(Ink) -> u32| {
        Ink::ALL.iter().fold(String::new(), |mut text, ink| {
            let _ = write!(text, "--{}:#{:06x};", ink.name(), colour(*ink));
            text
        })
    };
    let mut sheet = format!(
        ":root{{{}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{}}}}}\n",
        variables(Ink::light),
        variables(Ink::dark)
    );
    for ink in Ink::ALL {
        let (name, rgb) = (ink.name(), ink.light());
        let _ = writeln!(
            sheet,
            ".chart [fill=\"#{rgb:06X}\"]{{fill:var(--{name})}}\
             .chart [stroke=\"#{rgb:06X}\"]{{stroke:var(--{name})}}.{name}{{color:var(--{name})}}"
        );
        if let Some(dashes) = ink.dashes() {
            let _ = writeln!(
                sheet,
                ".chart polyline[stroke=\"#{rgb:06X}\"],.swatch.{name} line\
                 {{stroke-dasharray:{dashes}}}"
            );
        }
    }
    StyleSheet(sheet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_colours_of_a_drawing_are_equal() {
        for (at, one) in Ink::ALL.iter().enumerate() {
            for other in &Ink::ALL[at + 1..] {
                assert_ne!(one.light(), other.light());
                assert_ne!(one.name(), other.name());
            }
        }
    }

    /// The contrast of two colours, by the guidelines for accessible pages.
    fn contrast(one: u32, other: u32) -> f64 {
        let luminance = |rgb: u32| {
            let part = |shift: u32| {
                let value = f64::from(rgb >> shift & 0xff) / 255.0;
                if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * part(16) + 0.7152 * part(8) + 0.0722 * part(0) + 0.05
        };
        let (one, other) = (luminance(one), luminance(other));
        one.max(other) / one.min(other)
    }

    #[test]
    fn everything_that_is_read_stands_out_by_day_and_by_night() {
        for ink in Ink::ALL.into_iter().filter(|ink| !matches!(ink, Ink::Grid | Ink::Paper)) {
            for colour in [Ink::light, Ink::dark] {
                let contrast = contrast(colour(ink), colour(Ink::Paper));
                assert!(contrast >= 4.5, "{ink:?}: {contrast:.2}");
            }
        }
    }
}
