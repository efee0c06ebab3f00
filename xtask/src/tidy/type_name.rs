//! One word for one thing: types of the product that have the same short name are the same thing.
//!
//! The words are those that once meant several. What each means is in `docs/glossary.md`.

use crate::checkout::SourceFile;
use crate::problem::Problem;
use syn::visit::{self, Visit};

/// A word, and the end of the path of the only file that may define a type of this name.
const TYPES: &[(&str, Option<&str>)] = &[
    // What became of one uploaded row.
    ("Outcome", None),
    // Rows that go to the database in one statement.
    ("Batch", Some("consolidated/src/postgres/upload/batch.rs")),
    // What decides to which partition a row belongs.
    ("Place", None),
];

/// Finds types of the product whose name means something else.
pub(crate) fn check(file: &SourceFile, syntax: &syn::File) -> Vec<Problem> {
    if file.product_crate().is_none() {
        return Vec::new();
    }
    let mut types = Types { path: &file.path, problems: Vec::new() };
    types.visit_file(syntax);
    types.problems
}

struct Types<'a> {
    path: &'a str,
    problems: Vec<Problem>,
}

impl Types<'_> {
    fn name(&mut self, name: &syn::Ident) {
        let word = TYPES.iter().find(|(word, _)| name == word);
        let Some((word, owner)) = word else { return };
        if owner.is_some_and(|owner| self.path.ends_with(owner)) {
            return;
        }
        let message =
            format!("a type `{word}`: the glossary has another meaning, name it otherwise");
        self.problems.push(Problem::at(self.path, name.span().start().line, message));
    }
}

impl<'ast> Visit<'ast> for Types<'_> {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.name(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.name(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.name(&item.ident);
        visit::visit_item_type(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::sample;

    fn problems(path: &str, text: &str) -> usize {
        check(&sample(path, text), &syn::parse_file(text).unwrap()).len()
    }

    #[test]
    fn a_word_of_the_glossary_names_no_other_type() {
        for (word, _) in TYPES {
            for item in ["struct W;", "enum W {}", "type W = u8;", "mod m { pub struct W; }"] {
                let text = item.replace('W', word);
                assert_eq!(problems("crates/client/src/a.rs", &text), 1, "{text}");
                assert_eq!(problems("crates/client/tests/a.rs", &text), 0, "{text}");
            }
        }
        assert_eq!(problems("crates/client/src/a.rs", "struct RowOutcome;"), 0);
        let owner = "crates/consolidated/src/postgres/upload/batch.rs";
        assert_eq!(problems(owner, "struct Batch;"), 0);
    }
}
