//! Makes the packages that users install: an archive for any Linux, and one of Debian.
//!
//! Both have the same tree below `usr`: the program, its man pages and completions, the unit of the
//! service. `trial` unpacks what was made and uses it, so that no package leaves untried.

mod debian;
mod file;
mod trial;

use crate::checkout::output;
use crate::problem::Problem;
use file::{at, install, write};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Completions: the shell, and the file where it looks for them.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "share/bash-completion/completions/syncline"),
    ("zsh", "share/zsh/vendor-completions/_syncline"),
    ("fish", "share/fish/vendor_completions.d/syncline.fish"),
];

/// Texts of the checkout that belong to every package.
const TEXTS: &[&str] = &["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Makes all packages in `target/package`, and says which.
pub(crate) fn make(root: &Path) -> Result<Vec<Problem>, String> {
    for made in build(root)? {
        println!("{}", made.display());
    }
    Ok(Vec::new())
}

/// Makes all packages and uses them.
pub(crate) fn make_and_try(root: &Path) -> Result<Vec<Problem>, String> {
    for made in build(root)? {
        trial::run(&made)?;
        println!("{}: ok", made.display());
    }
    Ok(Vec::new())
}

fn build(root: &Path) -> Result<Vec<PathBuf>, String> {
    let program = program(root)?;
    let folder = root.join("target/package");
    let tree = folder.join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree).map_err(|error| at(&tree, &error))?;
    }
    fill(root, &program, &tree.join("usr"))?;
    let version = version(&program)?;
    let mut made = vec![archive(&folder, &tree, &version)?];
    if debian::is_possible() {
        made.push(debian::package(root, &folder, &tree, &version)?);
    } else {
        println!("no dpkg-deb on this machine: no package for Debian");
    }
    Ok(made)
}

/// The program, built to run fast.
fn program(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let built = Command::new(cargo)
        .args(["build", "-q", "--profile", "dist", "--locked", "--package", "syncline"])
        .current_dir(root)
        .status()
        .map_err(|error| error.to_string())?;
    if !built.success() {
        return Err("the build failed".to_owned());
    }
    let target = std::env::var("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    Ok(target.join("dist/syncline"))
}

/// What the program says of itself: `syncline 1.2.3` is version 1.2.3.
fn version(program: &Path) -> Result<String, String> {
    let said = output(Command::new(program).arg("--version"))?;
    let number = said.split_whitespace().nth(1).ok_or("the program does not say its version")?;
    Ok(number.to_owned())
}

/// The tree below `usr`, the same in every package.
fn fill(root: &Path, program: &Path, usr: &Path) -> Result<(), String> {
    install(program, &usr.join("bin/syncline"), 0o755)?;
    let manuals = usr.join("share/man/man1");
    output(Command::new(program).args(["man", "--dir"]).arg(&manuals))?;
    for (shell, place) in COMPLETIONS {
        let script = output(Command::new(program).args(["completions", shell]))?;
        write(&usr.join(place), &script)?;
    }
    install(
        &root.join("packaging/syncline.service"),
        &usr.join("lib/systemd/system/syncline.service"),
        0o644,
    )?;
    for text in TEXTS {
        install(&root.join(text), &usr.join("share/doc/syncline").join(text), 0o644)?;
    }
    Ok(())
}

/// `syncline-VERSION-ARCHITECTURE-linux.tar.gz`, whose one folder has the tree below `usr`.
fn archive(folder: &Path, tree: &Path, version: &str) -> Result<PathBuf, String> {
    let name = format!("syncline-{version}-{}-linux", std::env::consts::ARCH);
    let made = folder.join(format!("{name}.tar.gz"));
    output(
        Command::new("tar")
            .arg("--create")
            .arg("--gzip")
            .args(["--owner=root:0", "--group=root:0", "--sort=name"])
            .arg(format!("--transform=s,^usr,{name},"))
            .arg("--file")
            .arg(&made)
            .arg("--directory")
            .arg(tree)
            .arg("usr"),
    )?;
    Ok(made)
}
