//! The colors of the page in the light and in the dark, and the drawings in these colors.
//!
//! A drawing is made in the light colors. The generated style sheet replaces each of them by a
//! variable. So the same drawing is also right in the dark and on paper.

use std::fmt::Write;

/// What a color is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Palette {
    Text,
    Faint,
    Grid,
    Paper,
    Ours,
    Baseline,
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

impl Palette {
    /// All of them.
    pub(super) const ALL: [Palette; 10] = [
        Palette::Text,
        Palette::Faint,
        Palette::Grid,
        Palette::Paper,
        Palette::Ours,
        Palette::Baseline,
        Palette::Failed,
        Palette::Published(Age::Newest),
        Palette::Published(Age::Newer),
        Palette::Published(Age::Oldest),
    ];

    /// The CSS variable with the color, which is the class of what has it, too.
    pub(super) fn name(self) -> &'static str {
        match self {
            Palette::Text => "ink",
            Palette::Faint => "faint",
            Palette::Grid => "grid",
            Palette::Paper => "paper",
            Palette::Ours => "ours",
            Palette::Baseline => "ceiling",
            Palette::Failed => "failed",
            Palette::Published(Age::Newest) => "newest",
            Palette::Published(Age::Newer) => "newer",
            Palette::Published(Age::Oldest) => "oldest",
        }
    }

    /// Red, green and blue in daylight; no two are equal, because drawings are recolored by them.
    pub(super) fn light(self) -> u32 {
        match self {
            Palette::Text => 0x001a_202c,
            Palette::Faint => 0x005a_6573,
            Palette::Grid => 0x00e3_e7ec,
            Palette::Paper => 0x00ff_ffff,
            Palette::Ours => 0x000b_5fcc,
            Palette::Baseline => 0x006b_7684,
            Palette::Failed => 0x00b4_2318,
            Palette::Published(Age::Newest) => 0x00c2_410c,
            Palette::Published(Age::Newer) => 0x0086_6a00,
            Palette::Published(Age::Oldest) => 0x007a_3e9d,
        }
    }

    fn dark(self) -> u32 {
        match self {
            Palette::Text => 0x00e6_eaf0,
            Palette::Faint => 0x009a_a6b4,
            Palette::Grid => 0x002a_323d,
            Palette::Paper => 0x0016_1b23,
            Palette::Ours => 0x006c_b2ff,
            Palette::Baseline => 0x008a_95a3,
            Palette::Failed => 0x00ff_8a80,
            Palette::Published(Age::Newest) => 0x00ff_9e64,
            Palette::Published(Age::Newer) => 0x00d9_bb4e,
            Palette::Published(Age::Oldest) => 0x00c7_9aee,
        }
    }

    /// Lines can be distinguished without their colors: the lengths of dashes and gaps.
    fn dashes(self) -> Option<&'static str> {
        match self {
            Palette::Published(Age::Newest) => Some("14 8"),
            Palette::Published(Age::Newer) => Some("5 7"),
            Palette::Published(Age::Oldest) => Some("16 6 4 6"),
            Palette::Baseline => Some("2 7"),
            _ => None,
        }
    }
}

/// An image as SVG, in the light colors.
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

/// The rules that follow from the colors.
pub(super) fn style_sheet() -> StyleSheet {
    let variables = |value: fn(Palette) -> u32| {
        Palette::ALL.iter().fold(String::new(), |mut text, color| {
            let _ = write!(text, "--{}:#{:06x};", color.name(), value(*color));
            text
        })
    };
    let mut sheet = format!(
        ":root{{{}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{}}}}}\n",
        variables(Palette::light),
        variables(Palette::dark)
    );
    for color in Palette::ALL {
        let (name, rgb) = (color.name(), color.light());
        let _ = writeln!(
            sheet,
            ".chart [fill=\"#{rgb:06X}\"]{{fill:var(--{name})}}\
             .chart [stroke=\"#{rgb:06X}\"]{{stroke:var(--{name})}}.{name}{{color:var(--{name})}}"
        );
        if let Some(dashes) = color.dashes() {
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
    fn no_two_colors_of_a_drawing_are_equal() {
        for (at, one) in Palette::ALL.iter().enumerate() {
            for other in &Palette::ALL[at + 1..] {
                assert_ne!(one.light(), other.light());
                assert_ne!(one.name(), other.name());
            }
        }
    }

    /// The contrast of two colors, by the guidelines for accessible pages.
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
        for color in Palette::ALL
            .into_iter()
            .filter(|color| !matches!(color, Palette::Grid | Palette::Paper))
        {
            for value in [Palette::light, Palette::dark] {
                let contrast = contrast(value(color), value(Palette::Paper));
                assert!(contrast >= 4.5, "{color:?}: {contrast:.2}");
            }
        }
    }
}
