//! A folder has no more files than a person reads at a glance.
//!
//! Where there are more, some of them share a noun: it becomes a folder.

use crate::checkout::Checkout;
use crate::problem::Problem;
use std::collections::BTreeMap;

const FILES_MAX: usize = 22;

/// Finds the folders of source code that have too many files of their own.
pub(crate) fn check(checkout: &Checkout) -> Vec<Problem> {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for file in &checkout.files {
        if let Some((folder, _)) = file.path.rsplit_once('/')
            && file.below_src().is_some()
        {
            *folders.entry(folder).or_default() += 1;
        }
    }
    folders.retain(|_, files| *files > FILES_MAX);
    let problem = |(folder, files)| {
        let message = format!("{files} files, {FILES_MAX} fit: which of them share a noun?");
        Problem::of(folder, message)
    };
    folders.into_iter().map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::sample;
    use std::path::PathBuf;

    fn problems(folder: &str, files: usize) -> usize {
        let files = (0..files).map(|at| sample(&format!("{folder}/f{at}.rs"), "//! F.")).collect();
        check(&Checkout { root: PathBuf::new(), files }).len()
    }

    #[test]
    fn a_folder_of_source_code_has_at_most_22_files() {
        for folder in ["crates/a/src", "crates/a/src/b/c", "testing/a/src", "xtask/src/b"] {
            assert_eq!(problems(folder, 22), 0, "{folder}");
            assert_eq!(problems(folder, 23), 1, "{folder}");
        }
        assert_eq!(problems("crates/a/tests", 23), 0, "tests are a list");
    }
}
