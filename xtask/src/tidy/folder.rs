//! A folder has no more files than a person reads at a glance.
//!
//! Where there are more, some of them share a noun: it becomes a folder.

use crate::checkout::Checkout;
use crate::problem::Problem;
use std::collections::BTreeMap;

const FILES_MAX: usize = 22;

/// Finds the folders of source code and of tests that have too many files of their own.
pub(crate) fn check(checkout: &Checkout) -> Vec<Problem> {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for file in &checkout.files {
        if let Some((folder, _)) = file.path.rsplit_once('/')
            && (file.below_src().is_some() || file.path.contains("/tests/"))
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
    fn a_folder_has_at_most_22_files() {
        let sources = ["crates/a/src", "crates/a/src/b/c", "testing/a/src", "xtask/src/b"];
        let tests = ["crates/a/tests", "crates/a/tests/it/b", "testing/a/tests"];
        for folder in sources.into_iter().chain(tests) {
            assert_eq!(problems(folder, 22), 0, "{folder}");
            assert_eq!(problems(folder, 23), 1, "{folder}");
        }
        assert_eq!(problems("docs/a", 23), 0, "a shelf");
    }
}
