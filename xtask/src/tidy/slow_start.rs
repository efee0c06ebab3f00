//! Tests in the sources that start PostgreSQL or a browser are left out of `./test --quick`.
//!
//! That script skips them by the names of their modules. A name that it does not skip is a problem,
//! and so is one that it skips for nothing.

use crate::checkout::{Checkout, SourceFile};
use crate::problem::Problem;

/// The script, and its option.
const SCRIPT: &str = "test";
const SKIP: &str = "--skip ";

/// What starts one of them. In parts, so that this file does not find itself.
const STARTS: &[&str] =
    &[concat!("Cluster", "::"), concat!("Browser", "::"), concat!("World", "::on_postgres")];

/// Compares the modules of such tests with the script.
pub(crate) fn check(checkout: &Checkout) -> Vec<Problem> {
    let script = checkout.text(SCRIPT).unwrap_or_default();
    let words = script.split(SKIP).skip(1);
    let skipped: Vec<&str> = words.filter_map(|rest| rest.split_whitespace().next()).collect();
    let slow: Vec<(&SourceFile, String)> = checkout.rust().filter_map(slow_tests).collect();
    let mut problems = Vec::new();
    for (file, module) in &slow {
        if !skipped.iter().any(|word| module.contains(word)) {
            let message = format!("`{SCRIPT}` does not skip `{module}`, which starts PostgreSQL");
            problems.push(Problem::of(&file.path, message));
        }
    }
    for word in skipped {
        if !slow.iter().any(|(_, module)| module.contains(word)) {
            problems.push(Problem::of(SCRIPT, format!("nothing has to be skipped in `{word}`")));
        }
    }
    problems
}

/// The module of the tests in this file, if they start something slow.
fn slow_tests(file: &SourceFile) -> Option<(&SourceFile, String)> {
    let below = file.below_src()?.strip_suffix(".rs")?;
    let is_tests = format!("/{below}/").contains("/tests/") || below.ends_with("tests");
    let source = if is_tests { "" } else { file.without_tests() };
    let tests = &file.text[source.len()..];
    let is_slow = STARTS.iter().any(|start| tests.contains(start));
    let module = below.replace('/', "::") + if is_tests { "" } else { "::tests" };
    is_slow.then_some((file, module))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::sample;
    use std::path::PathBuf;

    fn problems(script: &str, path: &str, text: &str) -> usize {
        let files = vec![sample(SCRIPT, script), sample(path, text)];
        check(&Checkout { root: PathBuf::new(), files }).len()
    }

    #[test]
    fn slow_modules_and_the_script_belong_together() {
        let slow = format!("let cluster = {}start();\n", STARTS[0]);
        let skips = "run --skip a::tests\n";
        assert_eq!(problems(skips, "crates/c/src/a/tests/b.rs", &slow), 0);
        assert_eq!(problems("run\n", "crates/c/src/a/tests/b.rs", &slow), 1);
        assert_eq!(problems(skips, "crates/c/src/a/tests.rs", "fn quick() {}\n"), 1);
    }

    #[test]
    fn tests_at_the_bottom_count_and_the_source_above_does_not() {
        let start = format!("{}start();\n", STARTS[0]);
        let tests = format!("fn a() {{}}\n\n#[cfg(test)]\nmod tests {{ {start} }}\n");
        assert_eq!(problems("run --skip a::tests\n", "crates/c/src/a.rs", &tests), 0);
        assert_eq!(problems("run\n", "crates/c/src/a.rs", &tests), 1);
        assert_eq!(problems("run\n", "crates/c/src/a.rs", &start), 0);
        assert_eq!(problems("run\n", "crates/c/tests/a.rs", &start), 0, "not in the sources");
    }
}
