//! Every promise and every trap is cited by a test that shows it, and back.
//!
//! A test cites with a comment above it or in it that begins with the numbers: `// S4`,
//! `// S1, Trap 6: the acknowledgement is lost`. `docs/internals/testing.md` has a heading for
//! each number; `xtask generate` lists the tests below it.
//!
//! A test that does its work only with `./test --full` says `if !full() { return; }`. It is listed,
//! but the promise or trap needs another one, which every run has.

use crate::checkout::{Checkout, SourceFile};
use crate::problem::Problem;

/// The document with the headings.
pub(crate) const TESTING: &str = "docs/internals/testing.md";

/// How a test returns in all but full runs, without white space.
const RETURN_UNLESS_FULL: [&str; 2] = ["if!full(){return;}", "if!harness::full(){return;}"];

/// The line that says a trap has no test because nothing can step on it yet.
pub(crate) const NOT_YET: &str = "Not built yet:";

const PROMISES: u32 = 11;
const TRAPS: u32 = 31;

/// A test that cites a number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Citation {
    /// `S4`, `Trap 9`.
    pub(crate) number: String,
    /// The function.
    pub(crate) test: String,
    /// The file.
    pub(crate) path: String,
    line: usize,
    /// It does its work in full runs alone.
    in_full_runs: bool,
}

/// All citations, by path and line.
pub(crate) struct Citations(pub(crate) Vec<Citation>);

impl Citations {
    /// Reads every test of the checkout. The tests of `xtask` itself promise nothing to a user.
    pub(crate) fn read(checkout: &Checkout) -> Citations {
        let product = checkout.rust().filter(|file| !file.path.starts_with("xtask/"));
        Citations(product.flat_map(citations).collect())
    }

    /// Compares the tests with the headings.
    pub(crate) fn check(&self, checkout: &Checkout) -> Vec<Problem> {
        let Some(text) = checkout.text(TESTING) else {
            return vec![Problem::of(TESTING, "is missing: it has a heading per promise and trap")];
        };
        let sections = sections(text);
        let mut problems = Vec::new();
        let promises = (1..=PROMISES).map(|number| format!("S{number}"));
        let traps = (1..=TRAPS).map(|number| format!("Trap {number}"));
        for number in promises.chain(traps) {
            if !sections.iter().any(|section| section.number == number) {
                problems.push(Problem::of(TESTING, format!("has no heading for {number}")));
            }
        }
        for Section { number, line, not_yet } in &sections {
            let mut tests = self.0.iter().filter(|it| it.number == *number).peekable();
            let fault = match (tests.peek().is_some(), not_yet) {
                (true, true) => format!("{number} is not built yet, but has tests"),
                (false, false) => format!("no test cites {number}"),
                (true, false) if tests.all(|it| it.in_full_runs) => {
                    format!("the tests that cite {number} do nothing without --full")
                }
                _ => continue,
            };
            problems.push(Problem::at(TESTING, *line, fault));
        }
        for Citation { number, test, path, line, .. } in &self.0 {
            if !sections.iter().any(|section| section.number == *number) {
                let message = format!("`{test}` cites {number}, which {TESTING} does not have");
                problems.push(Problem::at(path, *line, message));
            }
        }
        problems
    }
}

struct Section {
    number: String,
    line: usize,
    not_yet: bool,
}

/// The headings that begin with a number.
fn sections(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for (line, content) in super::link::prose(text) {
        if let Some(number) = heading_number(content) {
            sections.push(Section { number, line, not_yet: false });
        } else if let Some(section) = sections.last_mut() {
            section.not_yet |= content.starts_with(NOT_YET);
        }
    }
    sections
}

/// The number of a heading such as `### Trap 9: REPLACE`.
pub(crate) fn heading_number(line: &str) -> Option<String> {
    let heading = line.trim_start_matches('#');
    (heading.len() < line.len()).then(|| numbers(heading.trim_start()).into_iter().next())?
}

/// The citations of a file. Text, not syntax: a test may stand in the arguments of a macro.
fn citations(file: &SourceFile) -> Vec<Citation> {
    let lines: Vec<&str> = file.text.lines().collect();
    let mut citations: Vec<Citation> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let attribute = line.trim();
        if !attribute.starts_with("#[")
            || !(attribute.contains("test]") || attribute.contains("test("))
        {
            continue;
        }
        if attribute.starts_with("#[cfg") {
            continue;
        }
        let Some(function) = (index..lines.len()).find(|at| function_name(lines[*at]).is_some())
        else {
            continue;
        };
        let test = function_name(lines[function]).unwrap_or_default();
        let is_above = |line: &str| line.trim().starts_with("//") || line.trim().starts_with("#[");
        let first = (0..index).rev().take_while(|at| is_above(lines[*at])).last().unwrap_or(index);
        let last = end_of(&lines, function);
        let in_full_runs = returns_unless_full(&lines[function..=last]);
        for (at, line) in lines.iter().enumerate().take(last + 1).skip(first) {
            for number in comment_numbers(line) {
                let citation = Citation {
                    number,
                    test: test.to_owned(),
                    path: file.path.clone(),
                    line: at + 1,
                    in_full_runs,
                };
                let known = citations.iter().any(|known| {
                    (&known.number, &known.test) == (&citation.number, &citation.test)
                });
                if !known {
                    citations.push(citation);
                }
            }
        }
    }
    citations
}

fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let words = ["", "pub", "async", "pub async", "pub(crate)"];
    let name = after.split(['(', '<']).next()?;
    words.contains(&before.trim()).then_some(name)
}

/// Whether a function has the words for it, wherever they stand.
fn returns_unless_full(function: &[&str]) -> bool {
    let code: String = function.iter().flat_map(|line| line.split_whitespace()).collect();
    RETURN_UNLESS_FULL.iter().any(|words| code.contains(words))
}

/// The line of the brace that closes the function, found by its indent.
fn end_of(lines: &[&str], function: usize) -> usize {
    let line = lines[function];
    if line.trim_end().ends_with('}') {
        return function;
    }
    let indent = &line[..line.len() - line.trim_start().len()];
    let close = format!("{indent}}}");
    (function..lines.len()).find(|at| lines[*at] == close).unwrap_or(function)
}

/// The numbers a comment begins with.
fn comment_numbers(line: &str) -> Vec<String> {
    line.split("//")
        .skip(1)
        .flat_map(|it| numbers(it.trim_start_matches('/').trim_start()))
        .collect()
}

/// `S1, Trap 6 and S4: …` names three.
fn numbers(text: &str) -> Vec<String> {
    let mut rest = text;
    let mut numbers = Vec::new();
    loop {
        let (name, after) = match rest {
            _ if rest.starts_with("Trap ") => ("Trap ", &rest["Trap ".len()..]),
            _ if rest.starts_with('S') => ("S", &rest[1..]),
            _ => return numbers,
        };
        let digits = after.len() - after.trim_start_matches(|it: char| it.is_ascii_digit()).len();
        let (number, after) = after.split_at(digits);
        if number.is_empty() || after.starts_with(|it: char| it.is_alphanumeric() || it == '_') {
            return numbers;
        }
        numbers.push(format!("{name}{number}"));
        rest = after.trim_start_matches([',', ';', ' ']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::sample;
    use std::path::PathBuf;

    fn checkout(testing: &str, test: &str) -> Checkout {
        let files = vec![sample(TESTING, testing), sample("testing/a/tests/b.rs", test)];
        Checkout { root: PathBuf::from("/nonexistent"), files }
    }

    fn headings() -> String {
        let promises = (1..=PROMISES).map(|it| format!("### S{it} Promise\nNot built yet: all.\n"));
        let traps = (1..=TRAPS).map(|it| format!("### Trap {it}: trap\nNot built yet: all.\n"));
        promises.chain(traps).collect()
    }

    fn problems(testing: &str, test: &str) -> usize {
        let checkout = checkout(testing, test);
        Citations::read(&checkout).check(&checkout).len()
    }

    #[test]
    fn numbers_stand_at_the_beginning() {
        assert_eq!(numbers("S1, Trap 6 and S4: lost"), ["S1", "Trap 6", "S4"]);
        assert_eq!(numbers("S11"), ["S11"]);
        assert_eq!(numbers("Some text about S4"), Vec::<String>::new());
        assert_eq!(numbers("S3cret"), Vec::<String>::new());
    }

    #[test]
    fn comments_above_and_within_a_test_cite() {
        let text = "// S1: above\n// more\n#[test]\nfn first() {\n    // Trap 6\n\
                    \x20   a(); // S4\n}\n\nfn other() {\n    // S9\n}\n#[tokio::test]\n\
                    async fn second() { b() } // S2\n";
        let found = citations(&sample("a.rs", text));
        let found: Vec<_> = found.iter().map(|it| (&*it.test, &*it.number)).collect();
        let expected = [("first", "S1"), ("first", "Trap 6"), ("first", "S4"), ("second", "S2")];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_promise_without_a_test_is_found() {
        assert_eq!(problems(&headings(), ""), 0);
        let s4 = headings().replace("### S4 Promise\nNot built yet: all.\n", "### S4 Promise\n");
        assert_eq!(problems(&s4, ""), 1);
        assert_eq!(problems(&s4, "#[test]\nfn a() {\n    // S4\n}\n"), 0);
    }

    #[test]
    fn a_promise_that_only_full_runs_show_is_found() {
        let s4 = headings().replace("### S4 Promise\nNot built yet: all.\n", "### S4 Promise\n");
        let full = "#[test]\nfn a() {\n    // S4\n\
                    \x20   if !harness::full() {\n        return;\n    }\n    kill();\n}\n";
        assert_eq!(problems(&s4, full), 1);
        let always = "#[test]\nfn b() {\n    // S4\n    let n = if full() { 9 } else { 1 };\n}\n";
        assert_eq!(problems(&s4, always), 0);
        assert_eq!(problems(&s4, &format!("{full}{always}")), 0);
    }

    #[test]
    fn a_missing_heading_and_a_strange_number_are_found() {
        assert_eq!(problems(&headings().replace("Trap 31", "Trip 31"), ""), 1);
        assert_eq!(problems(&headings(), "// S12\n#[test]\nfn a() {}\n"), 1);
    }

    #[test]
    fn a_promise_that_was_built_meanwhile_is_found() {
        assert_eq!(problems(&headings(), "// S4\n#[test]\nfn a() {}\n"), 1);
    }
}
