//! One thing that is not as it should be, and where.

use std::fmt;

/// A broken rule, printed as `path:line: message` so that editors can jump to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    path: String,
    line: usize,
    message: String,
}

impl Problem {
    /// A problem of a line, counted from one.
    pub(crate) fn at(path: &str, line: usize, message: impl Into<String>) -> Problem {
        Problem { path: path.to_owned(), line, message: message.into() }
    }

    /// A problem of a file as a whole.
    pub(crate) fn of(path: &str, message: impl Into<String>) -> Problem {
        Problem::at(path, 0, message)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}
