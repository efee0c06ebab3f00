//! Long files and functions do not come back.
//!
//! A ratchet, not a wall: what is longer than the mark is listed with its length, and the list
//! only shrinks. An entry that is no longer needed is a problem too.

use crate::checkout::{Checkout, SourceFile};
use crate::problem::Problem;
use syn::visit::{self, Visit};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

/// Flat tables may be long. Each with the reason why it is one.
const LONG_FILES: &[(&str, &str)] = &[];

/// Functions longer than the mark: file, name, lines. Shorten them; add none.
const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[];

/// A file of the product has at most 600 lines, tests at its bottom not counted.
pub(crate) fn check_file(file: &SourceFile) -> Option<Problem> {
    let listed = LONG_FILES.iter().any(|(path, _)| *path == file.path);
    let counts = file.product_crate().is_some() || file.path.starts_with("xtask/");
    let lines = file.without_tests().lines().count();
    (counts && !listed && lines > FILE_LINES_MAX).then(|| {
        let message = format!("{lines} lines, {FILE_LINES_MAX} fit: which noun wants out?");
        Problem::of(&file.path, message)
    })
}

/// A function has at most 70 lines, unless it is listed with the lines it has.
pub(crate) fn check_functions(file: &SourceFile, syntax: &syn::File) -> Vec<Problem> {
    long_functions(syntax)
        .into_iter()
        .filter(|function| {
            let allowed = allowed(&file.path, &function.name).unwrap_or(FUNCTION_LINES_MAX);
            function.lines > allowed
        })
        .map(|Function { name, line, lines }| {
            let message = format!("`{name}` has {lines} lines, {FUNCTION_LINES_MAX} fit");
            Problem::at(&file.path, line, message)
        })
        .collect()
}

/// The list of exceptions names only what is still an exception, with the length it has.
pub(crate) fn check_exceptions(checkout: &Checkout) -> Vec<Problem> {
    let mut problems = Vec::new();
    let file = |path: &str| checkout.files.iter().find(|file| file.path == path);
    for (path, _) in LONG_FILES {
        let lines = file(path).map_or(0, |file| file.without_tests().lines().count());
        if lines <= FILE_LINES_MAX {
            problems.push(Problem::of(path, "no longer too long: take it off the list"));
        }
    }
    for (path, name, lines) in LONG_FUNCTIONS {
        let functions = file(path)
            .and_then(|file| syn::parse_file(&file.text).ok())
            .map(|syntax| long_functions(&syntax))
            .unwrap_or_default();
        if !functions.iter().any(|function| function.name == *name && function.lines == *lines) {
            let message = format!("`{name}` is no longer {lines} lines long: shorten the list");
            problems.push(Problem::of(path, message));
        }
    }
    problems
}

fn allowed(path: &str, name: &str) -> Option<usize> {
    LONG_FUNCTIONS.iter().find(|entry| (entry.0, entry.1) == (path, name)).map(|entry| entry.2)
}

struct Function {
    name: String,
    line: usize,
    lines: usize,
}

fn long_functions(syntax: &syn::File) -> Vec<Function> {
    let mut finder = Finder(Vec::new());
    finder.visit_file(syntax);
    finder.0
}

struct Finder(Vec<Function>);

impl Finder {
    fn measure(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let line = signature.fn_token.span.start().line;
        let lines = block.brace_token.span.close().end().line - line + 1;
        if lines > FUNCTION_LINES_MAX {
            self.0.push(Function { name: signature.ident.to_string(), line, lines });
        }
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.measure(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::sample;

    #[test]
    fn long_files_are_found_without_their_tests() {
        let path = "crates/server/src/worker.rs";
        assert!(check_file(&sample(path, &"//\n".repeat(601))).is_some());
        let tests = format!("{}#[cfg(test)]\n{}", "//\n".repeat(600), "//\n".repeat(600));
        assert_eq!(check_file(&sample(path, &tests)), None);
        assert_eq!(check_file(&sample("testing/a/src/lib.rs", &"//\n".repeat(601))), None);
    }

    #[test]
    fn long_functions_are_found_wherever_they_hide() {
        let body = "a();\n".repeat(69);
        for text in [
            format!("fn f() {{\n{body}}}"),
            format!("mod a {{ impl B {{ fn f() {{\n{body}}} }} }}"),
            format!("trait A {{ fn f() {{\n{body}}} }}"),
        ] {
            let syntax = syn::parse_file(&text).unwrap();
            let file = sample("crates/server/src/worker.rs", &text);
            assert_eq!(check_functions(&file, &syntax).len(), 1);
        }
        let short = syn::parse_file(&format!("fn f() {{\n{}}}", "a();\n".repeat(68))).unwrap();
        assert_eq!(check_functions(&sample("a.rs", ""), &short), []);
    }
}
