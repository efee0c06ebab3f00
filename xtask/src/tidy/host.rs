//! No text names the host of a package registry: where packages come from is the reader's choice.

use crate::checkout::{SourceFile, output};
use crate::problem::Problem;
use std::path::Path;
use std::process::Command;

/// The hosts, in parts so that this file does not name them either.
const HOSTS: &[&[&str]] = &[
    &["crates", "io"],
    &["pypi", "org"],
    &["pythonhosted", "org"],
    &["npmjs", "org"],
    &["npmjs", "com"],
    &["proxy", "golang", "org"],
    &["maven", "org"],
    &["deb", "debian", "org"],
];

/// Finds a host in a file. Cargo itself writes one into `Cargo.lock`.
pub(crate) fn check(file: &SourceFile) -> Vec<Problem> {
    if file.path == "Cargo.lock" {
        return Vec::new();
    }
    let hosts: Vec<String> = HOSTS.iter().map(|parts| parts.join(".")).collect();
    file.lines()
        .filter(|(_, line)| hosts.iter().any(|host| line.contains(host)))
        .map(|(number, _)| Problem::at(&file.path, number, "names the host of a registry"))
        .collect()
}

/// Finds a host in the messages of the commits.
pub(crate) fn check_commits(root: &Path) -> Result<Vec<Problem>, String> {
    let log = output(Command::new("git").args(["log", "--format=%h%n%B%x00"]).current_dir(root))?;
    Ok(log.split('\0').filter_map(|commit| check_commit(commit.trim_start())).collect())
}

fn check_commit(commit: &str) -> Option<Problem> {
    let (hash, message) = commit.split_once('\n')?;
    let named = HOSTS.iter().any(|parts| message.contains(&parts.join(".")));
    named.then(|| Problem::of(&format!("commit {hash}"), "names the host of a registry"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::sample;

    #[test]
    fn hosts_are_found_in_texts_and_commits() {
        for parts in HOSTS {
            let host = parts.join(".");
            assert_eq!(check(&sample("docs/a.md", &format!("See {host}.\n"))).len(), 1, "{host}");
            assert!(check_commit(&format!("abc\nTake it from {host}\n")).is_some(), "{host}");
        }
        assert_eq!(check(&sample("docs/a.md", "Many crates, io and all.\n")), []);
        assert_eq!(check_commit("abc\nTake the watermark after the upload commits\n"), None);
    }
}
