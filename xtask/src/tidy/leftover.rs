//! Nothing unfinished reaches the main branch.

use crate::checkout::SourceFile;
use crate::problem::Problem;

/// Marks of unfinished work, in parts so that this file does not find itself.
const MARKS: &[&str] = &[concat!("FIX", "ME"), concat!("TO", "DO"), concat!("X", "XX"), "HACK"];

/// Code that is for one's own desk, and why.
const CODE: &[(&str, &str)] = &[(concat!("db", "g!("), "left from debugging")];

/// Finds the marks as whole words in every text, and the code in Rust files.
pub(crate) fn check(file: &SourceFile) -> Vec<Problem> {
    let mut problems = Vec::new();
    let license = file.path.starts_with("LICENSE") || file.path == "Cargo.lock";
    if license || file.path == "xtask/src/tidy/leftover.rs" {
        return problems;
    }
    for (number, line) in file.lines() {
        let words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        for mark in words.filter(|word| MARKS.contains(word)) {
            problems.push(Problem::at(&file.path, number, format!("`{mark}` on the main branch")));
        }
        if file.path.ends_with(".rs") {
            for (code, reason) in CODE.iter().filter(|(code, _)| line.contains(code)) {
                problems.push(Problem::at(&file.path, number, format!("`{code}`: {reason}")));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::sample;

    #[test]
    fn marks_are_found_as_whole_words() {
        for mark in MARKS {
            let text = format!("// {mark}: later\n");
            assert_eq!(check(&sample("crates/a/src/b.rs", &text)).len(), 1, "{mark}");
        }
        assert_eq!(check(&sample("docs/a.md", "HACKNEY and TODOS\n")), []);
    }

    #[test]
    fn code_of_the_desk_is_found() {
        for (code, _) in CODE {
            assert_eq!(check(&sample("crates/a/src/b.rs", code)).len(), 1, "{code}");
        }
    }
}
