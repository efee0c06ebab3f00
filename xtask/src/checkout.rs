//! The files of the repository, read once and handed to every rule.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Everything git knows or would know: tracked files and new ones that are not ignored.
pub(crate) struct Checkout {
    /// The folder that holds `.git`.
    pub(crate) root: PathBuf,
    /// Every text file, ordered by path.
    pub(crate) files: Vec<SourceFile>,
}

impl Checkout {
    /// Reads the checkout that this program was built from.
    pub(crate) fn read() -> Result<Checkout, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .ok_or("xtask has no parent folder")?
            .to_path_buf();
        let listing = output(
            Command::new("git")
                .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
                .current_dir(&root),
        )?;
        let mut paths: Vec<&str> = listing.split('\0').filter(|path| !path.is_empty()).collect();
        paths.sort_unstable();
        paths.dedup();
        let files = paths
            .into_iter()
            // What cannot be read as text is binary, or was deleted and not yet committed so.
            .filter_map(|path| {
                let text = std::fs::read_to_string(root.join(path)).ok()?;
                Some(SourceFile { path: path.to_owned(), text })
            })
            .collect();
        Ok(Checkout { root, files })
    }

    /// The Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// The Markdown files.
    pub(crate) fn markdown(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.path.ends_with(".md"))
    }

    /// The text of a file, if it exists.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }
}

/// One text file.
pub(crate) struct SourceFile {
    /// The path from the root, with `/`.
    pub(crate) path: String,
    /// All of it.
    pub(crate) text: String,
}

impl SourceFile {
    /// The product crate this file is source of: `server` for `crates/server/src/worker.rs`.
    pub(crate) fn product_crate(&self) -> Option<&str> {
        let (name, rest) = self.path.strip_prefix("crates/")?.split_once('/')?;
        rest.starts_with("src/").then_some(name)
    }

    /// The path below `src/`, if this is source.
    pub(crate) fn below_src(&self) -> Option<&str> {
        self.path.split_once("/src/").map(|(_, below)| below)
    }

    /// The text without the tests at its bottom.
    pub(crate) fn without_tests(&self) -> &str {
        let end = match self.text.starts_with("#[cfg(test)]\n") {
            true => Some(0),
            false => self.text.find("\n#[cfg(test)]\n").map(|newline| newline + 1),
        };
        &self.text[..end.unwrap_or(self.text.len())]
    }

    /// The lines, numbered from one.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// Runs a program to its end and returns what it printed; a failure if it failed.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name} does not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{name} did not print UTF-8"))
}

/// A file for the tests of the rules.
#[cfg(test)]
pub(crate) fn sample(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_belongs_to_its_crate() {
        assert_eq!(sample("crates/server/src/worker/apply.rs", "").product_crate(), Some("server"));
        assert_eq!(sample("crates/server/tests/load.rs", "").product_crate(), None);
        assert_eq!(sample("xtask/src/main.rs", "").product_crate(), None);
    }

    #[test]
    fn tests_at_the_bottom_are_no_product() {
        let file = sample("a.rs", "fn a() {}\n\n#[cfg(test)]\nmod tests {}\n");
        assert_eq!(file.without_tests(), "fn a() {}\n\n");
    }
}
