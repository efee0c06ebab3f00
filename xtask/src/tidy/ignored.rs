//! Only tests that need data from outside the checkout are ignored, and all of those are.
//!
//! `./test` runs ignored tests where the data is there, and counts them as skipped where it is not,
//! so that a fresh clone passes and nothing else can hide behind the attribute.

use crate::checkout::SourceFile;
use crate::problem::Problem;

/// How the name of such a test ends.
const NAME_END: &str = "_needs_syncline_test_data";

/// In parts, so that this file does not find itself.
const IGNORE: &str = concat!("#[", "ignore");
const WITH_REASON: &str = concat!("#[", "ignore = \"SYNCLINE_TEST_DATA ");

/// Compares the attributes with the names.
pub(crate) fn check(file: &SourceFile) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut ignored = None;
    for (number, line) in file.lines() {
        let line = line.trim();
        if line.starts_with(IGNORE) {
            if !line.starts_with(WITH_REASON) {
                let message = format!("write `{WITH_REASON}…`: nothing else is a reason to skip");
                problems.push(Problem::at(&file.path, number, message));
            }
            ignored = Some(number);
        }
        let Some(name) = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next()) else {
            continue;
        };
        match (name.ends_with(NAME_END), ignored.take()) {
            (false, Some(number)) => {
                let message = format!("a test that is not named `…{NAME_END}` must run");
                problems.push(Problem::at(&file.path, number, message));
            }
            (true, None) => {
                let message = format!("`{name}` is not ignored: a fresh clone has no such data");
                problems.push(Problem::at(&file.path, number, message));
            }
            _ => {}
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::sample;

    fn problems(text: &str) -> usize {
        check(&sample("a.rs", text)).len()
    }

    #[test]
    fn name_and_attribute_belong_together() {
        let (good, bare) = (format!("{WITH_REASON}…\"]"), format!("{IGNORE}]"));
        let named = format!("fn a{NAME_END}() {{}}");
        assert_eq!(problems(&format!("#[test]\n{good}\n{named}\n")), 0);
        assert_eq!(problems(&format!("#[test]\n{named}\n")), 1);
        assert_eq!(problems(&format!("#[test]\n{good}\nfn a() {{}}\n")), 1);
        assert_eq!(problems(&format!("#[test]\n{bare}\n{named}\n")), 1);
        assert_eq!(problems(&format!("#[test]\n{good}\n{named}\n#[test]\nfn a() {{}}\n")), 0);
    }
}
