//! No file or folder has a name that accepts anything.

use crate::checkout::SourceFile;
use crate::problem::Problem;

/// Words that say nothing and therefore attract everything.
const VAGUE: &[&str] = &[
    "abstract",
    "base",
    "common",
    "context",
    "core",
    "data",
    "engine",
    "helper",
    "helpers",
    "impl",
    "info",
    "manager",
    "misc",
    "operations",
    "processor",
    "service",
    "shared",
    "traits",
    "types",
    "util",
    "utils",
];

/// No vague word, and no `mod.rs`: tabs of an editor stay distinct.
pub(crate) fn check(file: &SourceFile) -> Option<Problem> {
    let stem = file.path.strip_suffix(".rs")?;
    if stem.ends_with("/mod") || stem == "mod" {
        return Some(Problem::of(&file.path, "`foo.rs` beside `foo/` instead of `foo/mod.rs`"));
    }
    let vague = stem.split('/').find(|part| VAGUE.contains(part))?;
    Some(Problem::of(&file.path, format!("`{vague}` says nothing: name the noun it is about")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::sample;

    #[test]
    fn vague_names_are_found_in_files_and_folders() {
        for path in ["crates/a/src/util.rs", "crates/common/src/lib.rs", "crates/a/src/b/mod.rs"] {
            assert!(check(&sample(path, "")).is_some(), "{path}");
        }
        assert_eq!(check(&sample("crates/a/src/spill.rs", "")), None);
        assert_eq!(check(&sample("docs/reference/errors.md", "")), None);
    }
}
