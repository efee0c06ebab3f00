//! American spelling, and one word of the glossary for one thing.
//!
//! Decisions and the changelog are history, and history is not rewritten.

use crate::checkout::SourceFile;
use crate::problem::Problem;

/// Parts of words, and what is written instead.
const SPELLINGS: &[(&str, &str)] = &[
    ("centre", "center"),
    ("colour", "color"),
    ("catalogue", "catalog"),
    ("licence", "license"),
    ("cancelled", "canceled"),
    ("cancelling", "canceling"),
    ("labelled", "labeled"),
    ("neighbour", "neighbor"),
    ("behaviour", "behavior"),
    ("synchronis", "synchroniz"),
];

/// Whole words of our own that the field has another word for.
const GLOSSARY: &[(&str, &str)] = &[
    ("knot", "constraint cycle"),
    ("parked", "waiting"),
    ("stretches", "own entries"),
    ("stillness", "departure probe"),
];

/// Texts that are not rewritten, and this list.
fn is_exempt(path: &str) -> bool {
    path.starts_with("docs/decisions/")
        || path.starts_with("LICENSE")
        || ["CHANGELOG.md", "Cargo.lock", "xtask/src/tidy/spelling.rs"].contains(&path)
}

/// Finds the words in names of files and in every line.
pub(crate) fn check(file: &SourceFile) -> Vec<Problem> {
    if is_exempt(&file.path) {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for (word, instead) in found(&file.path) {
        problems.push(Problem::of(&file.path, format!("`{word}`: write `{instead}`")));
    }
    for (number, line) in file.lines() {
        for (word, instead) in found(line) {
            problems.push(Problem::at(&file.path, number, format!("`{word}`: write `{instead}`")));
        }
    }
    problems
}

fn found(text: &str) -> Vec<(&'static str, &'static str)> {
    let text = text.to_lowercase();
    let words: Vec<&str> = text.split(|letter: char| !letter.is_alphanumeric()).collect();
    let spelled = SPELLINGS.iter().filter(|(word, _)| text.contains(word));
    spelled.chain(GLOSSARY.iter().filter(|(word, _)| words.contains(word))).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::sample;

    #[test]
    fn words_are_found_in_lines_and_in_names_of_files() {
        for (word, _) in SPELLINGS.iter().chain(GLOSSARY) {
            let text = format!("// Of a {word}.\nlet the_{word} = 1;\n");
            assert_eq!(check(&sample("crates/a/src/b.rs", &text)).len(), 2, "{word}");
            assert_eq!(check(&sample(&format!("docs/{word}.md"), "text\n")).len(), 1, "{word}");
        }
        assert_eq!(check(&sample("docs/a.md", "The center catalogs knots.\n")), []);
    }

    #[test]
    fn history_keeps_its_words() {
        assert_eq!(check(&sample("docs/decisions/0001-a.md", "the centre\n")), []);
    }
}
