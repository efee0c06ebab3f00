//! A failure: at the client, in the log, and in messages.

use crate::code::Code;
use crate::cut::{MESSAGE_BYTES_MAX, cut};
use crate::progress::Progress;
use std::error::Error;
use std::fmt;

/// Bytes of the message of one level. Where it lists what a person has to mend it may be long.
const TEXT_BYTES_MAX: usize = 8 << 10;

/// What went wrong, who must act, and what to do (S11).
///
/// `Display` tells one level; causes are in [`Error::source`].
#[derive(Debug)]
pub struct Failure(Box<Parts>);

#[derive(Debug)]
struct Parts {
    code: Code,
    message: String,
    hint: Option<String>,
    retry_after_s: Option<u32>,
    table: Option<String>,
    key: Option<String>,
    committed: Option<Progress>,
    versions: Option<(u16, u16)>,
    others: Vec<Failure>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    /// A failure with a message: one lower-case line without a full stop.
    pub fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure(Box::new(Parts {
            code,
            message: message.into(),
            hint: None,
            retry_after_s: None,
            table: None,
            key: None,
            committed: None,
            versions: None,
            others: Vec::new(),
            source: None,
        }))
    }

    /// Fails if there are any: with the first, which has the others beside it.
    pub fn all(failures: Vec<Failure>) -> Result<(), Failure> {
        let mut failures = failures.into_iter().flat_map(|mut failure| {
            let others = failure.take_others();
            std::iter::once(failure).chain(others)
        });
        match failures.next() {
            Some(first) => Err(first.beside(failures.collect())),
            None => Ok(()),
        }
    }

    /// Says first what the message is about.
    pub fn about(mut self, what: impl fmt::Display) -> Failure {
        self.0.message = format!("{what}: {}", self.0.message);
        self
    }

    /// Adds what to do about it, one sentence.
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds when to try again, in seconds.
    pub fn retry_after_s(mut self, seconds: u32) -> Failure {
        self.0.retry_after_s = Some(seconds);
        self
    }

    /// Adds the table to blame.
    pub fn table(mut self, table: impl Into<String>) -> Failure {
        self.0.table = Some(table.into());
        self
    }

    /// Adds the row to blame, its key as text.
    pub fn key(mut self, key: impl Into<String>) -> Failure {
        self.0.key = Some(key.into());
        self
    }

    /// Adds the last upload that is committed in spite of the failure.
    pub fn committed(mut self, progress: Progress) -> Failure {
        self.0.committed = Some(progress);
        self
    }

    /// Adds the oldest and the newest version of the protocol that the server speaks.
    pub fn versions(mut self, least: u16, most: u16) -> Failure {
        self.0.versions = Some((least, most));
        self
    }

    /// Adds the cause.
    pub fn source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Failure {
        self.0.source = Some(source.into());
        self
    }

    /// Those that were found with it, in their order.
    pub fn others(&self) -> &[Failure] {
        &self.0.others
    }

    /// The same apart from it.
    pub fn take_others(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.0.others)
    }

    /// Adds what was found with it.
    pub fn beside(mut self, others: Vec<Failure>) -> Failure {
        self.0.others = others;
        self
    }

    /// The stable code.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The message of this level only.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The message followed by those of its causes, for people: each is cut where it is long,
    /// because databases quote whole values in theirs. SQLite's words for the number of an error
    /// say what the error above them has said.
    pub fn full_message(&self) -> String {
        let mut text = cut(&self.0.message, TEXT_BYTES_MAX).into_owned();
        let mut source = Error::source(self);
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            let cause_text = cut(&cause_text, MESSAGE_BYTES_MAX);
            if !text.contains(cause_text.as_ref()) && !is_number_of_sqlite(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
            }
            source = cause.source();
        }
        text
    }

    /// What to do: the one given here, or the code's own.
    pub fn hint_text(&self) -> &str {
        self.0.hint.as_deref().unwrap_or(self.0.code.hint())
    }

    /// Whether the same request may succeed later without a change.
    pub fn retry(&self) -> bool {
        self.0.code.retry()
    }

    /// When to try again, in seconds.
    pub fn retry_after(&self) -> Option<u32> {
        self.0.retry_after_s
    }

    /// The table to blame, if one is.
    pub fn table_name(&self) -> Option<&str> {
        self.0.table.as_deref()
    }

    /// The key of the row to blame, if one is.
    pub fn row_key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// The last upload that is committed in spite of the failure, if it is known.
    pub fn committed_progress(&self) -> Option<Progress> {
        self.0.committed
    }

    /// The oldest and the newest version of the protocol that the server speaks, if it says so.
    pub fn spoken_versions(&self) -> Option<(u16, u16)> {
        self.0.versions
    }
}

/// Whether this is what SQLite says of a number alone: `Error code 5: The database file is locked`.
fn is_number_of_sqlite(text: &str) -> bool {
    text.starts_with("Error code ")
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It ended with "database is locked: Error code 5: The database file is locked".
    #[test]
    fn a_failure_says_each_fact_once() {
        let number = Failure::new(Code::Bug, "Error code 5: The database file is locked");
        let cause = Failure::new(Code::Bug, "database is locked").source(number);
        let failure = Failure::new(Code::RemoteBusy, "another program writes").source(cause);
        assert_eq!(failure.full_message(), "another program writes: database is locked");
        let again = Failure::new(Code::RemoteBusy, "the disk is full")
            .source(Failure::new(Code::Bug, "disk").source(Failure::new(Code::Bug, "no room")));
        assert_eq!(again.full_message(), "the disk is full: no room");
    }
}
