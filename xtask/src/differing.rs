//! The packages that differ from another branch, for those who check only what they changed.
//!
//! Printed as options of cargo: `-p syncline-client --features syncline-client/fail-points`.

use crate::checkout::output;
use crate::problem::Problem;
use crate::workspace::{self, Package};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Files and folders at the root that change how every package is built or checked.
const OF_ALL: [&str; 4] = ["Cargo.toml", "Cargo.lock", "clippy.toml", ".cargo"];

/// What cargo shall do with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Clippy looks at all of those with a file that differs, and of those that need them.
    Lint,
    /// The tests in the sources of those with a file that differs.
    UnitTests,
}

/// Prints the options; nothing where no package differs.
pub(crate) fn show(root: &Path, branch: &str, purpose: Purpose) -> Result<Vec<Problem>, String> {
    let packages = workspace::packages(root)?;
    let meant = meant(&packages, &files(root, branch)?, purpose);
    if !meant.is_empty() {
        println!("{}", options(&meant, purpose));
    }
    Ok(Vec::new())
}

/// The files that differ from where the branch was left, committed or not.
fn files(root: &Path, branch: &str) -> Result<Vec<String>, String> {
    let git = |arguments: &[&str]| output(Command::new("git").args(arguments).current_dir(root));
    let base = git(&["merge-base", "HEAD", branch])?;
    // Without renames, a file that moved differs in both packages.
    let changed = git(&["diff", "--name-only", "--no-renames", "-z", base.trim()])?;
    let new = git(&["ls-files", "--others", "--exclude-standard", "-z"])?;
    let paths = changed.split('\0').chain(new.split('\0'));
    Ok(paths.filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

fn meant<'a>(packages: &'a [Package], files: &[String], purpose: Purpose) -> Vec<&'a Package> {
    let differing = differing(packages, files);
    let meant = match purpose {
        Purpose::Lint => with_dependents(packages, differing),
        Purpose::UnitTests => differing,
    };
    packages.iter().filter(|package| meant.contains(package.name.as_str())).collect()
}

fn differing<'a>(packages: &'a [Package], files: &[String]) -> BTreeSet<&'a str> {
    let is_below =
        |path: &str, folder: &str| path.strip_prefix(folder).is_some_and(|it| it.starts_with('/'));
    let is_of_all = |path: &String| OF_ALL.iter().any(|it| path == it || is_below(path, it));
    let all = files.iter().any(is_of_all);
    let differs = |package: &&Package| files.iter().any(|path| is_below(path, &package.folder));
    let differing = packages.iter().filter(|package| all || differs(package));
    differing.map(|package| package.name.as_str()).collect()
}

fn with_dependents<'a>(
    packages: &'a [Package],
    mut reached: BTreeSet<&'a str>,
) -> BTreeSet<&'a str> {
    loop {
        let known = reached.len();
        for package in packages {
            if package.needs.iter().any(|need| reached.contains(need.as_str())) {
                reached.insert(&package.name);
            }
        }
        if reached.len() == known {
            return reached;
        }
    }
}

fn options(packages: &[&Package], purpose: Purpose) -> String {
    let names = packages.iter().map(|package| format!("-p {}", package.name));
    let features = packages.iter().filter_map(|package| package.feature());
    let features = features.map(|feature| format!("--features {feature}"));
    let targets = match purpose {
        Purpose::Lint => "--all-targets",
        Purpose::UnitTests if packages.iter().any(|package| package.has_library) => "--lib --bins",
        Purpose::UnitTests => "--bins",
    };
    names.chain(features).chain([targets.to_owned()]).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::sample;

    fn packages() -> Vec<Package> {
        vec![
            sample("cli", &["client", "serde"]),
            sample("client", &["model"]),
            sample("client-bench", &[]),
            sample("model", &[]),
            sample("xtask", &["model"]),
        ]
    }

    fn names(files: &[&str], purpose: Purpose) -> Vec<String> {
        let packages = packages();
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        let meant = meant(&packages, &files, purpose);
        meant.into_iter().map(|package| package.name.clone()).collect()
    }

    #[test]
    fn a_file_belongs_to_the_package_above_it() {
        let files = ["crates/client/src/a/b.rs", "docs/glossary.md", "test"];
        assert_eq!(names(&files, Purpose::UnitTests), ["client"]);
        assert_eq!(names(&["docs/glossary.md"], Purpose::Lint), Vec::<String>::new());
    }

    #[test]
    fn dependents_of_dependents_are_reached() {
        let files = ["crates/model/src/lib.rs"];
        assert_eq!(names(&files, Purpose::UnitTests), ["model"]);
        assert_eq!(names(&files, Purpose::Lint), ["cli", "client", "model", "xtask"]);
    }

    #[test]
    fn some_files_of_the_root_mean_all() {
        for file in ["Cargo.toml", "Cargo.lock", "clippy.toml", ".cargo/config.toml"] {
            assert_eq!(names(&[file], Purpose::UnitTests).len(), packages().len(), "{file}");
        }
        assert_eq!(names(&["crates/cli/Cargo.toml"], Purpose::UnitTests), ["cli"]);
    }

    #[test]
    fn options_name_packages_fail_points_and_targets() {
        let mut packages = packages();
        packages[0].has_fail_points = true;
        packages[4].has_library = false;
        let shown = |at: &[usize], purpose| {
            let meant: Vec<&Package> = at.iter().map(|at| &packages[*at]).collect();
            options(&meant, purpose)
        };
        let lint = "-p cli -p model --features cli/fail-points --all-targets";
        assert_eq!(shown(&[0, 3], Purpose::Lint), lint);
        assert_eq!(shown(&[3, 4], Purpose::UnitTests), "-p model -p xtask --lib --bins");
        assert_eq!(shown(&[4], Purpose::UnitTests), "-p xtask --bins");
    }
}
