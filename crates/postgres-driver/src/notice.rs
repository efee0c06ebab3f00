//! Notices of the database, for the log.

use crate::message::Message;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend;
use std::io;

/// A message may quote a row: of more than this only the beginning is logged.
const TEXT_CHARS_MAX: usize = 200;

/// A trigger may warn of every row: after so many warnings of one flight the others are logged
/// like notices.
const WARNINGS_MAX: u32 = 20;

/// Counts the warnings of a flight.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    warned: u32,
    /// None is logged: they may quote what is a secret.
    pub(crate) silent: bool,
}

impl Notices {
    /// A new flight begins.
    pub(crate) fn begin(&mut self) {
        self.warned = 0;
    }

    /// Logs a notice, without its detail, which often quotes rows.
    pub(crate) fn log(&mut self, message: &Message<'_>) -> io::Result<()> {
        if self.silent || !tracing::enabled!(tracing::Level::WARN) {
            return Ok(());
        }
        let backend::Message::NoticeResponse(body) = message.parse()? else { return Ok(()) };
        let (mut severity, mut state, mut text) = (String::new(), String::new(), String::new());
        let mut fields = body.fields();
        while let Some(field) = fields.next()? {
            let value = String::from_utf8_lossy(field.value_bytes());
            match field.type_() {
                // In the language of the server; the English one follows it.
                b'S' | b'V' => severity = cut(&value),
                b'C' => state = cut(&value),
                b'M' => text = cut(&value),
                _ => {}
            }
        }
        if severity == "WARNING" && self.warned < WARNINGS_MAX {
            self.warned += 1;
            tracing::warn!(%state, %text, "the database warns");
        } else {
            tracing::debug!(%severity, %state, %text, "the database notes");
        }
        Ok(())
    }
}

/// The beginning, on one line.
fn cut(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut short: String = text.chars().take(TEXT_CHARS_MAX).map(plain).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_and_stay_on_one_line() {
        assert_eq!(cut("a\nb\u{1b}[0m"), "a b [0m");
        assert_eq!(cut(&"ä".repeat(200)), "ä".repeat(200));
        assert_eq!(cut(&"ä".repeat(201)), format!("{}…", "ä".repeat(200)));
    }
}
