//! Every Rust file says in its first line what it is for.

use crate::checkout::SourceFile;
use crate::problem::Problem;

/// The first line is `//!` and a full sentence on its own.
pub(crate) fn check(file: &SourceFile) -> Option<Problem> {
    let first = file.text.lines().next().unwrap_or_default();
    let Some(sentence) = first.strip_prefix("//! ") else {
        return Some(Problem::at(&file.path, 1, "the file has no `//!` header in its first line"));
    };
    let starts = sentence.starts_with(|first: char| first.is_uppercase() || first == '`');
    let ends = sentence.ends_with(['.', '?', '!', ':']);
    (!starts || !ends || !sentence.contains(' ')).then(|| {
        Problem::at(&file.path, 1, "the first line of the header is not a sentence of its own")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::sample;

    #[test]
    fn a_file_without_a_sentence_is_found() {
        assert!(check(&sample("a.rs", "")).is_some());
        assert!(check(&sample("a.rs", "use std::fmt;\n")).is_some());
        assert!(check(&sample("a.rs", "//! Spill.\n")).is_some());
        assert!(check(&sample("a.rs", "//! Rows that do not fit\n//! in memory.\n")).is_some());
        assert!(check(&sample("a.rs", "//! the spill keeps rows.\n")).is_some());
        assert_eq!(check(&sample("a.rs", "//! Rows that do not fit in memory.\n")), None);
    }
}
