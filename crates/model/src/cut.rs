//! Texts that may contain whole values of rows, cut to a length for messages.

use std::borrow::Cow;

/// Bytes of a message, of a hint or of a name that leave for a peer or for the log. Databases
/// quote whole values in their errors, and a value may have megabytes.
pub const MESSAGE_BYTES_MAX: usize = 1 << 10;

const ELLIPSIS: &str = "…";

/// The text, or where it is longer its beginning and an ellipsis: at most `bytes_max` bytes in
/// all, and whole characters.
pub fn cut(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let room = bytes_max.saturating_sub(ELLIPSIS.len());
    let end = (0..=room).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    Cow::Owned(format!("{}{ELLIPSIS}", &text[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    // S9
    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer", 5), "lo…");
        for bytes_max in 10..20 {
            for text in ["ä".repeat(40), format!("a{}", "😀".repeat(40))] {
                let kept = cut(&text, bytes_max);
                assert!(kept.len() <= bytes_max && kept.len() + 4 > bytes_max, "{kept}");
                assert!(text.starts_with(kept.trim_end_matches('…')), "{kept}");
            }
        }
    }
}
