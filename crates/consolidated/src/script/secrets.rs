//! What a remote sends in proof is in no message and in no log.
//!
//! Databases quote in their words what they were given, or a part of it. Words that do are not
//! passed on.

use model::Failure;

/// A part of a value that has so many characters is as secret as the whole.
const PART_CHARS_MIN: usize = 4;

/// What begins like a secret is one: whoever says it may have cut it.
const HEAD_CHARS_MAX: usize = 64;

/// Stands for words that are not passed on.
const UNTOLD: &str =
    "the words of the database are not told, for they quote what the remote has sent in proof";

/// Passwords, and authentication parameters.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    pub(crate) fn of<'v>(values: impl Iterator<Item = &'v str>) -> Secrets {
        let mut all = Vec::new();
        for value in values.filter(|value| !value.is_empty()) {
            let parts = value.split(|c: char| !c.is_alphanumeric());
            let parts = parts.filter(|part| part.chars().count() >= PART_CHARS_MIN);
            let head = |text: &str| text.chars().take(HEAD_CHARS_MAX).collect();
            all.extend(std::iter::once(value).chain(parts).map(head));
        }
        Secrets(all)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a text has one of them in it.
    pub(crate) fn are_in(&self, text: &str) -> bool {
        self.0.iter().any(|secret| match secret.chars().count() < PART_CHARS_MIN {
            true => is_word_of(secret, text),
            false => text.contains(secret),
        })
    }

    /// What is told in the place of the words of a database: they themselves, or a sentence with
    /// the SQLSTATE, where that is known.
    pub(crate) fn told(&self, words: &str, state: Option<&str>) -> String {
        match (self.are_in(words), state) {
            (false, _) => words.to_owned(),
            (true, Some(state)) => format!("{state}: {UNTOLD}"),
            (true, None) => UNTOLD.to_owned(),
        }
    }

    /// The failure without a cause that says one of them.
    pub(crate) fn hide(&self, failure: Failure) -> Failure {
        if self.is_empty() || !self.are_in(&failure.full_message()) {
            return failure;
        }
        let message = match self.are_in(failure.message()) {
            true => UNTOLD.to_owned(),
            false => format!("{}: {UNTOLD}", failure.message()),
        };
        let hidden = Failure::new(failure.code(), message).hint(failure.hint_text());
        match failure.table_name() {
            Some(table) => hidden.table(table),
            None => hidden,
        }
    }
}

/// Whether it stands somewhere in the text with no letter and no digit beside it. A short value
/// such as 7 is a part of many words.
fn is_word_of(secret: &str, text: &str) -> bool {
    let stands_alone = |at: usize| {
        let before = text[..at].chars().next_back();
        let behind = text[at + secret.len()..].chars().next();
        ![before, behind].into_iter().flatten().any(char::is_alphanumeric)
    };
    text.match_indices(secret).any(|(at, _)| stands_alone(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Code;

    #[test]
    fn words_with_a_secret_or_a_part_of_one_are_not_told() {
        let long = "x".repeat(100);
        let secrets = Secrets::of(["open sesame: 7", "", "é1", "7", &long].into_iter());
        for said in ["open sesame: 8", "near \"sesame\"", "é1", "=(7)", &long[..70]] {
            assert_eq!(secrets.told(said, Some("22P02")), format!("22P02: {UNTOLD}"));
            let failure = Failure::new(Code::ScriptFailed, "it fails").source(said).table("t");
            let failure = secrets.hide(failure);
            assert_eq!(failure.full_message(), format!("it fails: {UNTOLD}"));
            assert_eq!(failure.table_name(), Some("t"));
        }
        for said in ["no such table: t7", "70", "é", "é10", "", "ope"] {
            assert_eq!(secrets.told(said, None), said);
        }
        assert!(!Secrets::default().are_in("anything"));
    }
}
