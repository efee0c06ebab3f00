//! Which characters the database can store.
//!
//! Every connection speaks UTF-8, and PostgreSQL converts. A text with a character that the
//! encoding of the database lacks is refused (22P05). Of a row that is the fault of the row. What
//! is written *about* rows is for people, and is stored with such characters spelled out.

use model::{Code, Failure};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The characters that can be stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Encoding {
    #[default]
    Unicode,
    /// The first 256 of them.
    Latin1,
    /// At least those of ASCII, as in every encoding of a database.
    Another,
}

impl Encoding {
    /// The encoding that PostgreSQL calls so. Without one, texts are any bytes: PostgreSQL converts
    /// and checks nothing, and what a remote would get need not be a text.
    pub(super) fn named(name: &str) -> Result<Encoding, Failure> {
        match name {
            "UTF8" => Ok(Encoding::Unicode),
            "LATIN1" => Ok(Encoding::Latin1),
            "SQL_ASCII" => {
                let message = "the database has no encoding (SQL_ASCII): its texts are any bytes";
                Err(Failure::new(Code::DatabaseUnavailable, message).hint(
                    "dump it, and load it into a database of `createdb -E UTF8 -T template0`",
                ))
            }
            _ => Ok(Encoding::Another),
        }
    }

    pub(super) fn is_unicode(&self) -> bool {
        *self == Encoding::Unicode
    }

    /// Whether a text in UTF-8 has a character that is certainly missing.
    pub(super) fn lacks(self, text: &[u8]) -> bool {
        // Those above the first 256 begin with a larger byte.
        self == Encoding::Latin1 && text.iter().any(|byte| *byte > 0xc3)
    }

    /// The text, with characters that may be missing spelled as in JSON: `\u20ac`. So a text in
    /// JSON stays the same.
    pub(super) fn spelled(self, text: &str) -> Cow<'_, str> {
        let last = match self {
            Encoding::Unicode => char::MAX,
            Encoding::Latin1 => '\u{ff}',
            Encoding::Another => '\u{7f}',
        };
        if text.chars().all(|character| character <= last) {
            return Cow::Borrowed(text);
        }
        let mut spelled = String::with_capacity(text.len() + 16);
        for character in text.chars() {
            if character <= last {
                spelled.push(character);
                continue;
            }
            for unit in character.encode_utf16(&mut [0; 2]) {
                spelled.push_str(&format!("\\u{unit:04x}"));
            }
        }
        Cow::Owned(spelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S11
    #[test]
    fn only_what_may_be_missing_is_spelled_out() {
        let text = "ü € 😀 \\u";
        for (name, expected) in [
            ("UTF8", "ü € 😀 \\u"),
            ("LATIN1", "ü \\u20ac \\ud83d\\ude00 \\u"),
            ("EUC_JP", "\\u00fc \\u20ac \\ud83d\\ude00 \\u"),
        ] {
            assert_eq!(Encoding::named(name).unwrap().spelled(text), expected, "{name}");
        }
        for (text, lacking) in [("~\u{80}\u{ff}", false), ("\u{100}", true), ("\u{10ffff}", true)] {
            assert_eq!(Encoding::Latin1.lacks(text.as_bytes()), lacking, "{text}");
            assert!(!Encoding::Unicode.lacks(text.as_bytes()));
        }
        assert_eq!(Encoding::named("SQL_ASCII").unwrap_err().code(), Code::DatabaseUnavailable);
    }
}
