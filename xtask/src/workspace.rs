//! The packages of the workspace, as cargo knows them.

use crate::checkout::output;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The feature of the switches that let a test kill a program at a chosen place.
const FAIL_POINTS: &str = "fail-points";

/// One package of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    /// `syncline-client`.
    pub(crate) name: String,
    /// `crates/client`, from the root.
    pub(crate) folder: String,
    /// The names of all packages it needs, also those that only its tests need.
    pub(crate) needs: Vec<String>,
    /// Whether it has a library; cargo refuses `--lib` where none has.
    pub(crate) has_library: bool,
    /// Whether it can be built with fail points.
    pub(crate) has_fail_points: bool,
}

impl Package {
    /// The feature that its tests are built with, if there is one.
    pub(crate) fn feature(&self) -> Option<String> {
        self.has_fail_points.then(|| format!("{}/{FAIL_POINTS}", self.name))
    }
}

/// Asks cargo.
pub(crate) fn packages(root: &Path) -> Result<Vec<Package>, String> {
    Ok(metadata(root)?.iter().map(|package| read(package, root)).collect())
}

/// The packages in the words of `cargo metadata`: manifests with their dependencies and targets.
pub(crate) fn metadata(root: &Path) -> Result<Vec<Value>, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let metadata = output(
        Command::new(cargo)
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .current_dir(root),
    )?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|error| error.to_string())?;
    Ok(metadata["packages"].as_array().cloned().unwrap_or_default())
}

fn read(package: &Value, root: &Path) -> Package {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let manifest = text(&package["manifest_path"]);
    let folder = Path::new(&manifest).parent().unwrap_or(root);
    let folder = folder.strip_prefix(root).unwrap_or(folder);
    let needs = package["dependencies"].as_array().into_iter().flatten();
    Package {
        name: text(&package["name"]),
        folder: folder.to_string_lossy().into_owned(),
        needs: needs.map(|dependency| text(&dependency["name"])).collect(),
        has_library: has_library(package),
        has_fail_points: !package["features"][FAIL_POINTS].is_null(),
    }
}

fn has_library(package: &Value) -> bool {
    let targets = package["targets"].as_array().into_iter().flatten();
    let mut kinds = targets.filter_map(|target| target["kind"].as_array()).flatten();
    kinds.any(|kind| kind == "lib")
}

/// A package for the tests of those that ask.
#[cfg(test)]
pub(crate) fn sample(name: &str, needs: &[&str]) -> Package {
    Package {
        name: name.to_owned(),
        folder: format!("crates/{name}"),
        needs: needs.iter().map(|need| (*need).to_owned()).collect(),
        has_library: true,
        has_fail_points: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_knows_what_a_package_is_and_needs() {
        let package = serde_json::json!({
            "name": "syncline-a",
            "manifest_path": "/here/crates/a/Cargo.toml",
            "dependencies": [{ "name": "syncline-b", "kind": "dev" }, { "name": "serde" }],
            "targets": [{ "kind": ["bin"] }, { "kind": ["lib"] }],
            "features": { "fail-points": ["fail/failpoints"] },
        });
        let package = read(&package, Path::new("/here"));
        let mut expected = sample("syncline-a", &["syncline-b", "serde"]);
        expected.folder = "crates/a".to_owned();
        expected.has_fail_points = true;
        assert_eq!(package, expected);
        assert_eq!(package.feature(), Some("syncline-a/fail-points".to_owned()));
    }
}
