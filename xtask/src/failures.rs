//! What failed in a run of `cargo test`, in a few lines: what, how to repeat it, and why.
//!
//! ```text
//! failed: wire::http::a_name
//!     cargo test -p syncline --features syncline/fail-points --test it wire::http::a_name
//!     crates/cli/tests/it/wire/http.rs:5:9:
//!     nobody answered
//! died: tests/it/main.rs (target/debug/deps/it-0123)
//!     cargo test -p syncline --features syncline/fail-points --test it
//!     signal: 6, SIGABRT: process abort signal
//! ```

mod message;
mod record;
#[cfg(test)]
mod tests;

use crate::workspace::{self, Package};
use record::{Failure, What};
use std::path::Path;

/// How the names of tests end that are ignored unless cargo is told to run them.
const IGNORED_END: &str = "_needs_syncline_test_data";

/// Prints what failed by this record of a run.
pub(crate) fn show(root: &Path, path: &str) -> Result<Vec<crate::problem::Problem>, String> {
    let text = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    let failures = record::read(&String::from_utf8_lossy(&text));
    // Only a run that fails has to know the packages.
    if !failures.is_empty() {
        let packages = workspace::packages(root)?;
        for failure in &failures {
            print!("{}", shown(failure, &packages));
        }
    }
    Ok(Vec::new())
}

fn shown(failure: &Failure, packages: &[Package]) -> String {
    let mut lines = match &failure.what {
        What::Test(name) => vec![format!("failed: {name}")],
        What::Program => vec![format!("died: {}", failure.program)],
    };
    lines.extend(command(failure, packages));
    lines.extend(failure.why.iter().cloned());
    lines.join("\n    ") + "\n"
}

/// The command that repeats it. What left without an error told cargo nothing, nor cargo us.
fn command(failure: &Failure, packages: &[Package]) -> Option<String> {
    let options = failure.options.as_deref()?;
    let mut words: Vec<String> = failure.seed.iter().cloned().collect();
    words.push("cargo test".to_owned());
    let mut package = None;
    let mut rest = Vec::new();
    let mut options = options.split_whitespace();
    while let Some(option) = options.next() {
        match option {
            "-p" => package = options.next(),
            _ => rest.push(option.to_owned()),
        }
    }
    if let Some(name) = package {
        words.push(format!("-p {name}"));
        let known = packages.iter().find(|package| package.name == name);
        let feature = known.and_then(Package::feature);
        words.extend(feature.map(|feature| format!("--features {feature}")));
    }
    words.extend(rest);
    if let What::Test(name) = &failure.what {
        words.push(quoted(name));
        if name.ends_with(IGNORED_END) {
            words.push("-- --ignored".to_owned());
        }
    }
    Some(words.join(" "))
}

/// The name of a documented example has spaces.
fn quoted(name: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == ':';
    match name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("'{name}'"),
    }
}
