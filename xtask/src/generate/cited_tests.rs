//! The tests that cite a promise or a trap, listed below its heading.

use crate::tidy::{Citations, NOT_YET, heading_number};

const BEGIN: &str = "<!-- tests, written by xtask generate -->";
const END: &str = "<!-- end of tests -->";

/// Puts the lists into the text. What people wrote stays, what stood between the marks goes.
pub(super) fn insert(text: &str, citations: &Citations) -> String {
    let mut written = String::new();
    let mut number: Option<String> = None;
    let mut listed = false;
    for line in text.lines() {
        match line {
            BEGIN => listed = true,
            END => listed = false,
            _ if listed => {}
            // With its first test that line is no longer true.
            _ if line.starts_with(NOT_YET) && is_cited(number.as_deref(), citations) => {}
            _ => {
                if line.starts_with('#') {
                    close(&mut written, number.take(), citations);
                    number = heading_number(line);
                }
                written.push_str(line);
                written.push('\n');
            }
        }
    }
    close(&mut written, number, citations);
    written.truncate(written.trim_end().len());
    written.push('\n');
    written
}

fn is_cited(number: Option<&str>, citations: &Citations) -> bool {
    citations.0.iter().any(|citation| Some(citation.number.as_str()) == number)
}

fn close(written: &mut String, number: Option<String>, citations: &Citations) {
    let Some(number) = number else { return };
    let tests: Vec<_> = citations.0.iter().filter(|citation| citation.number == number).collect();
    written.truncate(written.trim_end().len());
    written.push('\n');
    if !tests.is_empty() {
        written.push_str(&format!("\n{BEGIN}\n"));
        for test in tests {
            written.push_str(&format!("- `{}` in [{1}](../../{1})\n", test.test, test.path));
        }
        written.push_str(&format!("{END}\n"));
    }
    written.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::{Checkout, sample};
    use std::path::PathBuf;

    #[test]
    fn what_is_cited_is_built() {
        let test = sample("testing/a.rs", "// S1\n#[test]\nfn kill() {}\n");
        let checkout = Checkout { root: PathBuf::new(), files: vec![test] };
        let citations = Citations::read(&checkout);
        let text = "### S1 Once\nProse.\n\nNot built yet: a.\n\n### S2 All\nNot built yet: b.\n";
        let written = insert(text, &citations);
        assert!(!written.contains("yet: a") && written.contains("yet: b"), "{written}");
    }

    #[test]
    fn lists_are_replaced_and_prose_stays() {
        let test = sample("testing/a.rs", "// S1\n#[test]\nfn kill() {}\n");
        let checkout = Checkout { root: PathBuf::new(), files: vec![test] };
        let citations = Citations::read(&checkout);
        let text = "# Testing\n\n### S1 Once\nProse.\n\n### S2 All\nMore.\n";
        let once = insert(text, &citations);
        let list = format!("{BEGIN}\n- `kill` in [testing/a.rs](../../testing/a.rs)\n{END}\n");
        let expected = format!("# Testing\n\n### S1 Once\nProse.\n\n{list}\n### S2 All\nMore.\n");
        assert_eq!(once, expected);
        assert_eq!(insert(&once, &citations), once);
    }
}
