//! Files of a crate do not use each other in a circle.
//!
//! Each can then be read, tested and changed before those that need it. A file uses another where
//! it names an item of it. A declaration such as `mod b;` and a re-export are no use: whoever names
//! a re-exported item uses the file that has it. Calls of methods are not seen, and neither are
//! tests.

use super::mention::{self, Mention};
use crate::checkout::{Checkout, SourceFile};
use crate::problem::Problem;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// How often a re-exported item may be re-exported again.
const RE_EXPORTS_MAX: usize = 16;

/// Finds the circles.
pub(crate) fn check(checkout: &Checkout) -> Vec<Problem> {
    let mut problems = Vec::new();
    for files in crates(checkout).into_values() {
        let uses = Modules::read(&files).uses();
        for circle in find(&uses) {
            let first = circle.first().copied().unwrap_or_default();
            problems.push(Problem::of(first, describe(&circle, &uses)));
        }
    }
    problems
}

/// The source files of each crate, by the folder with its `src`.
fn crates(checkout: &Checkout) -> BTreeMap<&str, Vec<&SourceFile>> {
    let mut crates: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
    for file in checkout.rust() {
        if let Some((owner, _)) = file.path.split_once("/src/") {
            crates.entry(owner).or_default().push(file);
        }
    }
    crates
}

/// Which file uses which others, each with the line that says so.
type Uses<'a> = BTreeMap<&'a str, BTreeMap<&'a str, usize>>;

/// The modules of a crate, by their path: `["worker", "apply"]`.
struct Modules<'a>(HashMap<Vec<String>, Module<'a>>);

struct Module<'a> {
    file: &'a SourceFile,
    /// What it names for itself.
    mentions: Vec<Mention>,
    /// What others may name through it.
    re_exports: HashMap<String, String>,
}

impl<'a> Modules<'a> {
    fn read(files: &[&'a SourceFile]) -> Modules<'a> {
        let mut modules = HashMap::new();
        let mut tests = HashSet::new();
        for file in files {
            let Ok(syntax) = syn::parse_file(&file.text) else { continue };
            let path = module_path(file);
            tests.extend(declared_for_tests(&syntax).map(|name| [&path[..], &[name]].concat()));
            let (mentions, re_exports) = read(&syntax);
            modules.insert(path, Module { file, mentions, re_exports });
        }
        modules.retain(|path, _| !(1..=path.len()).any(|len| tests.contains(&path[..len])));
        Modules(modules)
    }

    fn uses(&self) -> Uses<'a> {
        let mut uses: Uses<'a> = BTreeMap::new();
        for (path, module) in &self.0 {
            let from = uses.entry(&module.file.path).or_default();
            for mention in &module.mentions {
                match self.file_of(path, &mention.path) {
                    Some(file) if file.path != module.file.path => {
                        from.entry(&file.path).or_insert(mention.line);
                    }
                    _ => {}
                }
            }
        }
        uses
    }

    /// The file of the item that is named by `path` in the module at `from`; none: it is of another
    /// crate, or it is a module.
    fn file_of(&self, from: &[String], path: &str) -> Option<&'a SourceFile> {
        let (mut from, mut path) = (from.to_vec(), path.to_owned());
        for _ in 0..RE_EXPORTS_MAX {
            let (at, rest) = self.descend(&from, &path)?;
            let module = self.0.get(&at)?;
            let (name, below) = rest.split_first()?;
            let Some(next) = module.re_exports.get(name) else { return Some(module.file) };
            path = below.iter().fold(next.clone(), |path, part| format!("{path}::{part}"));
            from = at;
        }
        None
    }

    /// The innermost module on the way, and what is left of the path.
    fn descend(&self, from: &[String], path: &str) -> Option<(Vec<String>, Vec<String>)> {
        let mut parts = path.split("::").map(|part| part.trim_start_matches("r#").to_owned());
        let mut parts: std::collections::VecDeque<String> = parts.by_ref().collect();
        let mut at = from.to_vec();
        let first = parts.front()?.clone();
        match first.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => {
                at.pop()?;
            }
            child => {
                at.push(child.to_owned());
                if !self.0.contains_key(&at) {
                    return None;
                }
            }
        }
        parts.pop_front();
        while parts.front().is_some_and(|part| part == "super") {
            parts.pop_front();
            at.pop()?;
        }
        while let Some(part) = parts.front() {
            at.push(part.clone());
            if !self.0.contains_key(&at) {
                at.pop();
                break;
            }
            parts.pop_front();
        }
        Some((at, parts.into()))
    }
}

/// The path of the module that a file is: none for the root of a crate.
fn module_path(file: &SourceFile) -> Vec<String> {
    let below = file.below_src().unwrap_or_default().trim_end_matches(".rs");
    match below {
        "lib" | "main" => Vec::new(),
        below => below.split('/').map(str::to_owned).collect(),
    }
}

/// The files that this one declares for its tests only.
fn declared_for_tests(syntax: &syn::File) -> impl Iterator<Item = String> {
    syntax.items.iter().filter_map(|item| match item {
        syn::Item::Mod(item) if mention::only_in_tests(&item.attrs) => Some(item.ident.to_string()),
        _ => None,
    })
}

/// What a file names for itself, and what it re-exports.
fn read(syntax: &syn::File) -> (Vec<Mention>, HashMap<String, String>) {
    let (mut mentions, imports) = mention::of_file(syntax);
    let mut re_exports = HashMap::new();
    for item in &syntax.items {
        let syn::Item::Use(item) = item else { continue };
        if matches!(item.vis, syn::Visibility::Inherited) || mention::only_in_tests(&item.attrs) {
            continue;
        }
        for exported in mention::of_use(item) {
            if let Some(at) = mentions.iter().position(|mention| *mention == exported) {
                mentions.swap_remove(at);
            }
            let names = imports.iter().filter(|(_, full)| **full == exported.path);
            re_exports.extend(names.map(|(name, full)| (name.clone(), full.clone())));
        }
    }
    (mentions, re_exports)
}

/// The groups of files in which each one reaches all others.
fn find<'a>(uses: &Uses<'a>) -> Vec<BTreeSet<&'a str>> {
    let reached: BTreeMap<&str, BTreeSet<&'a str>> =
        uses.keys().map(|file| (*file, reach(uses, file))).collect();
    let mut circles: Vec<BTreeSet<&'a str>> = Vec::new();
    for (file, targets) in &reached {
        if !targets.contains(file) || circles.iter().any(|circle| circle.contains(file)) {
            continue;
        }
        let back = targets.iter().filter(|target| reached[**target].contains(file));
        circles.push(back.copied().collect());
    }
    circles
}

/// All files that `from` uses, and those that they use.
fn reach<'a>(uses: &Uses<'a>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for target in uses.get(file).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(*target) {
                open.push(target);
            }
        }
    }
    reached
}

/// Who uses whom in a circle.
fn describe(circle: &BTreeSet<&str>, uses: &Uses<'_>) -> String {
    let mut text = format!("a circle of {} files:", circle.len());
    for file in circle {
        for (target, line) in uses.get(file).into_iter().flatten() {
            if circle.contains(target) {
                text.push_str(&format!("\n    {file}:{line} uses {target}"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::sample;
    use std::path::PathBuf;

    /// The circles among these files of a crate.
    fn circles(files: &[(&str, &str)]) -> usize {
        let files = files
            .iter()
            .map(|(path, text)| sample(&format!("crates/a/src/{path}"), text))
            .collect();
        check(&Checkout { root: PathBuf::new(), files }).len()
    }

    #[test]
    fn a_circle_is_found_however_the_paths_are_written() {
        let b = ("b.rs", "pub struct B; fn f() { crate::c::C::new(); }");
        for c in [
            "use crate::b::B;",
            "use super::b::{self, B};",
            "fn f() { crate::b::B; }",
            "use crate::b; fn f(b: &b::B) {}",
            "use super::b as other; fn f() { g!(other::B) }",
        ] {
            assert_eq!(circles(&[("lib.rs", "mod b; mod c;"), b, ("c.rs", c)]), 1, "{c}");
        }
        assert_eq!(circles(&[b, ("c.rs", "pub struct C; use crate::b;")]), 0, "only a module");
        assert_eq!(circles(&[b, ("c.rs", "use crate::d::D;"), ("d.rs", "use crate::b::B;")]), 1);
    }

    #[test]
    fn a_parent_and_its_child_may_form_one() {
        let child = ("b/c.rs", "use super::B; pub struct C;");
        assert_eq!(circles(&[("b.rs", "mod c; pub struct B(c::C);"), child]), 1);
        assert_eq!(circles(&[("b.rs", "mod c; pub struct B;"), child]), 0, "a declaration");
        assert_eq!(circles(&[("b.rs", "mod c; pub use c::C; pub struct B;"), child]), 0);
        let sibling = ("b/d.rs", "use super::C;");
        let parent = ("b.rs", "mod c; mod d; pub use c::C; use d::D;");
        assert_eq!(circles(&[parent, ("b/c.rs", "pub struct C;"), sibling]), 0, "C is in c.rs");
    }

    #[test]
    fn tests_and_other_crates_form_none() {
        let b = ("b.rs", "use crate::c::C;");
        assert_eq!(circles(&[b, ("c.rs", "#[cfg(test)] mod tests { use crate::b::B; }")]), 0);
        let parent = ("c.rs", "#[cfg(test)] mod tests;");
        assert_eq!(circles(&[b, parent, ("c/tests.rs", "use crate::b::B;")]), 0);
        assert_eq!(circles(&[b, ("c.rs", "use other::b::B;")]), 0);
        let through = ("d.rs", "pub use other::B;");
        assert_eq!(circles(&[b, through, ("c.rs", "use crate::d::B;")]), 0);
    }
}
