//! A page under construction. Text from outside cannot add markup to it.

use crate::report::palette::{Drawing, StyleSheet};

/// The text of a page.
///
/// Markup is what the program itself says, so only a `&'static str` is one; everything else is
/// text and escaped, in attributes too.
#[derive(Debug, Default)]
pub(super) struct Page(String);

impl Page {
    /// Adds markup of our own.
    pub(super) fn markup(&mut self, markup: &'static str) -> &mut Page {
        self.0.push_str(markup);
        self
    }

    /// Adds text, for an element or for an attribute between double quotes.
    pub(super) fn text(&mut self, text: &str) -> &mut Page {
        for character in text.chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\n' | '\t' => self.0.push(character),
                control if control.is_control() => self.0.push(char::REPLACEMENT_CHARACTER),
                other => self.0.push(other),
            }
        }
        self
    }

    /// Adds an element that has nothing but text: `markup` opens it, `end` closes it.
    pub(super) fn element(
        &mut self,
        begin: &'static str,
        text: &str,
        end: &'static str,
    ) -> &mut Page {
        self.markup(begin).text(text).markup(end)
    }

    /// Adds a drawing, whose library has escaped what it was given.
    pub(super) fn drawing(&mut self, drawing: &Drawing) -> &mut Page {
        self.0.push_str(drawing.svg());
        self
    }

    /// Adds the generated part of the style sheet, which has nothing but our own colors.
    pub(super) fn style_sheet(&mut self, sheet: &StyleSheet) -> &mut Page {
        self.0.push_str(sheet.text());
        self
    }

    /// The page as it stands.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// The text as the beginning of a sentence.
pub(super) fn upper_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_wherever_it_stands() {
        let mut page = Page::default();
        page.markup("<p title=\"").text("\"'><script>&").markup("\">").text("a\u{0}\u{1b}[2J\nb");
        assert_eq!(
            page.into_text(),
            "<p title=\"&quot;&#39;&gt;&lt;script&gt;&amp;\">a\u{fffd}\u{fffd}[2J\nb"
        );
    }
}
