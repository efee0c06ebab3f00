//! Documents whose source is in the code, so that each fact is written once.

mod cited_tests;
mod error_pages;

use crate::checkout::Checkout;
use crate::problem::Problem;
use crate::tidy::{Citations, TESTING};

/// The page of every error code.
const ERRORS: &str = "docs/reference/errors.md";

/// Writes what is not current.
pub(crate) fn write(checkout: &Checkout) -> Result<Vec<Problem>, String> {
    for (path, text) in documents(checkout)? {
        if checkout.text(path) != Some(text.as_str()) {
            let file = checkout.root.join(path);
            std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
            println!("wrote {path}");
        }
    }
    Ok(Vec::new())
}

/// Finds what is not current.
pub(crate) fn check(checkout: &Checkout) -> Result<Vec<Problem>, String> {
    let documents = documents(checkout)?;
    let stale = documents.iter().filter(|(path, text)| checkout.text(path) != Some(text.as_str()));
    Ok(stale
        .map(|(path, _)| Problem::of(path, "is not current: run `cargo run -p xtask -- generate`"))
        .collect())
}

fn documents(checkout: &Checkout) -> Result<Vec<(&'static str, String)>, String> {
    let mut documents = vec![(ERRORS, error_pages::text())];
    if let Some(text) = checkout.text(TESTING) {
        documents.push((TESTING, cited_tests::insert(text, &Citations::read(checkout))));
    }
    Ok(documents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::sample;
    use std::path::PathBuf;

    #[test]
    fn a_stale_document_is_found() {
        let checkout = |text: &str| Checkout {
            root: PathBuf::from("/nonexistent"),
            files: vec![sample(ERRORS, text)],
        };
        assert_eq!(check(&checkout("# Old\n")).unwrap().len(), 1);
        assert_eq!(check(&checkout(&error_pages::text())).unwrap(), []);
    }
}
