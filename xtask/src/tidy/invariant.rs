//! One name for one invariant.
//!
//! The documentation of a file names its invariants with letters and a number, and comments cite
//! them by that name. So two files must not mean different things by one set of letters. What holds
//! in the same way on both databases has one name, and begins with the same line.

use crate::checkout::{Checkout, SourceFile};
use crate::problem::Problem;
use std::collections::BTreeMap;

/// Where letters are defined: the first lines of each number, and the place of the set.
struct Set<'c> {
    path: &'c str,
    line: usize,
    lines: BTreeMap<&'c str, &'c str>,
}

pub(crate) fn check(checkout: &Checkout) -> Vec<Problem> {
    let mut known: BTreeMap<&str, Vec<Set<'_>>> = BTreeMap::new();
    let mut problems = Vec::new();
    for file in checkout.rust() {
        for (letters, set) in sets(file) {
            let others = known.entry(letters).or_default();
            if let Some(other) = others.iter().find(|other| differ(other, &set)) {
                let text = format!("{} names other invariants with `{letters}`", other.path);
                problems.push(Problem::at(&file.path, set.line, text));
            }
            others.push(set);
        }
    }
    problems
}

/// Whether two sets say different things under one number, or have no number in common.
fn differ(one: &Set<'_>, other: &Set<'_>) -> bool {
    let common: Vec<bool> = one
        .lines
        .iter()
        .filter_map(|(number, line)| other.lines.get(number).map(|it| it == line))
        .collect();
    common.is_empty() || common.contains(&false)
}

/// The invariants of a file, by their letters.
fn sets(file: &SourceFile) -> BTreeMap<&str, Set<'_>> {
    let mut sets: BTreeMap<&str, Set<'_>> = BTreeMap::new();
    for (number, line) in file.lines() {
        let Some(text) = line.strip_prefix("//! ") else { continue };
        let text = text.strip_prefix("Invariant ").unwrap_or(text);
        let Some((name, statement)) = text.split_once(['.', ':']) else { continue };
        let digits = name.find(|letter: char| letter.is_ascii_digit()).unwrap_or(0);
        let (letters, digits) = name.split_at(digits);
        let is_name = !letters.is_empty()
            && letters.len() <= 2
            && letters.bytes().all(|letter| letter.is_ascii_uppercase())
            && digits.bytes().all(|digit| digit.is_ascii_digit());
        if is_name && statement.starts_with(' ') {
            let set = Set { path: &file.path, line: number, lines: BTreeMap::new() };
            sets.entry(letters).or_insert(set).lines.insert(digits, statement);
        }
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::sample;

    fn problems(files: &[(&str, &str)]) -> usize {
        let files = files.iter().map(|(path, text)| sample(path, text)).collect();
        check(&Checkout { root: "/".into(), files }).len()
    }

    #[test]
    fn letters_with_two_meanings_are_found() {
        let one = ("crates/a/src/a.rs", "//! A.\n//!\n//! P1. A row is sent once.\n");
        let other = ("crates/a/src/b.rs", "//! B.\n//!\n//! Invariant P1: a key stays.\n");
        assert_eq!(problems(&[one, other]), 1);
        let more = ("crates/a/src/b.rs", "//! B.\n//!\n//! P2. A key stays.\n");
        assert_eq!(problems(&[one, more]), 1, "the next number of another set");
    }

    #[test]
    fn the_same_invariant_on_two_databases_is_one() {
        let one = ("crates/a/src/a.rs", "//! A.\n//!\n//! P1. A row is sent once.\n");
        let same =
            ("crates/a/src/b.rs", "//! B.\n//!\n//! P1. A row is sent once.\n//! P2. And.\n");
        let word = ("crates/a/src/c.rs", "//! C.\n//!\n//! UTF8. Not an invariant.\n");
        assert_eq!(problems(&[one, same, word]), 0);
    }
}
