//! The package of Debian, from the same tree, by `dpkg-deb`.

use super::file::{at, install, write};
use crate::checkout::output;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Scripts that run when the package is installed or removed.
const SCRIPTS: &[&str] = &["postinst", "prerm"];

/// Whether this machine can make the package.
pub(super) fn is_possible() -> bool {
    Command::new("dpkg-deb").arg("--version").output().is_ok_and(|said| said.status.success())
}

/// `syncline_VERSION_ARCHITECTURE.deb`.
pub(super) fn package(
    root: &Path,
    folder: &Path,
    tree: &Path,
    version: &str,
) -> Result<PathBuf, String> {
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
    let architecture = architecture.trim();
    write(&tree.join("usr/share/doc/syncline/copyright"), &copyright(root)?)?;
    write(&tree.join("DEBIAN/control"), &control(tree, version, architecture)?)?;
    for script in SCRIPTS {
        install(&root.join("packaging").join(script), &tree.join("DEBIAN").join(script), 0o755)?;
    }
    let made = folder.join(format!("syncline_{version}_{architecture}.deb"));
    output(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).arg(tree).arg(&made))?;
    Ok(made)
}

fn control(tree: &Path, version: &str, architecture: &str) -> Result<String, String> {
    let program = tree.join("usr/bin/syncline");
    let bytes = fs::read(&program).map_err(|error| at(&program, &error))?;
    let (major, minor) = c_library(&bytes).ok_or("the program names no version of glibc")?;
    Ok(format!(
        "Package: syncline\n\
         Version: {version}\n\
         Architecture: {architecture}\n\
         Maintainer: Syncline developers <syncline@localhost>\n\
         Section: database\n\
         Priority: optional\n\
         Depends: libc6 (>= {major}.{minor}), libgcc-s1, adduser\n\
         Recommends: ca-certificates\n\
         Description: two-way synchronization of SQLite files with a central database\n \
         Many SQLite files that work without a network are kept in sync with one\n \
         SQLite or PostgreSQL database. The package has the program for both sides,\n \
         and a service for the server.\n"
    ))
}

/// Both licenses, of which users choose one.
fn copyright(root: &Path) -> Result<String, String> {
    let mut text =
        "Syncline is under the MIT license or the Apache License 2.0, as you like.\n".to_owned();
    for license in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let path = root.join(license);
        text.push('\n');
        text.push_str(&fs::read_to_string(&path).map_err(|error| at(&path, &error))?);
    }
    Ok(text)
}

/// The newest version of glibc whose symbols a program names: `GLIBC_2.34` is (2, 34).
fn c_library(program: &[u8]) -> Option<(u32, u32)> {
    const PREFIX: &[u8] = b"GLIBC_";
    let mut newest = None;
    for start in places_of(program, PREFIX) {
        let rest = &program[start + PREFIX.len()..];
        let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.');
        let Ok(text) = std::str::from_utf8(&rest[..end.unwrap_or(rest.len())]) else { continue };
        let mut numbers = text.split('.').map(str::parse::<u32>);
        if let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) {
            newest = newest.max(Some((major, minor)));
        }
    }
    newest
}

/// Where a text begins in a program.
fn places_of<'a>(program: &'a [u8], text: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let windows = program.windows(text.len()).enumerate();
    windows.filter(move |(_, window)| *window == text).map(|(start, _)| start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_c_library_counts() {
        let program = b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0";
        assert_eq!(c_library(program), Some((2, 34)));
        assert_eq!(c_library(b"static"), None);
    }
}
