//! What a check yields.

use std::fmt;

/// A promise that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The check that has found it.
    pub check: &'static str,
    /// What is wrong.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.text)
    }
}

/// What a check yields.
pub type Verdict = Result<(), Violation>;

/// Says what is wrong where something does not hold.
pub(super) fn ensure(holds: bool, check: &'static str, text: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(Violation { check, text: text() }) }
}
