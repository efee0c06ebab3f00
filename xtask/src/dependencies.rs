//! Licenses and duplicate versions of what we depend on, by the rules of `deny.toml`.
//!
//! The same two checks that `cargo deny check bans licenses` makes, for machines without it.

use crate::checkout::{Checkout, output};
use crate::problem::Problem;
use serde_json::Value;
use std::process::Command;

const RULES: &str = "deny.toml";

/// Checks every package that is built for this machine.
pub(crate) fn check(checkout: &Checkout) -> Result<Vec<Problem>, String> {
    let rules = Rules::parse(checkout.text(RULES).ok_or("deny.toml is missing")?)?;
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let metadata = output(
        Command::new(cargo)
            .args(["metadata", "--format-version", "1", "--all-features", "--locked"])
            .args(["--filter-platform", &rules.target])
            .current_dir(&checkout.root),
    )?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|error| error.to_string())?;
    let packages = packages(&metadata);
    Ok(faults(&rules, &packages).into_iter().map(|fault| Problem::of(RULES, fault)).collect())
}

struct Rules {
    target: String,
    licenses: Vec<String>,
    /// `name@version` of the duplicates that are known, the version cut where it does not matter.
    duplicates: Vec<String>,
}

impl Rules {
    fn parse(text: &str) -> Result<Rules, String> {
        let rules: toml::Table = text.parse().map_err(|error| format!("{RULES}: {error}"))?;
        let entries = |table: &str, key: &str| -> Vec<toml::Value> {
            let entries = rules.get(table).and_then(|table| table.get(key)?.as_array().cloned());
            entries.unwrap_or_default()
        };
        let texts = |entries: Vec<toml::Value>| -> Vec<String> {
            entries.iter().filter_map(|entry| entry.as_str().map(str::to_owned)).collect()
        };
        let skipped = |entry: toml::Value| -> Result<String, String> {
            let text = |key: &str| entry.get(key).and_then(toml::Value::as_str);
            match (text("crate"), text("reason")) {
                (Some(package), Some(_)) => Ok(package.to_owned()),
                _ => Err(format!("{RULES}: `skip` wants `crate` and `reason`: {entry}")),
            }
        };
        Ok(Rules {
            target: texts(entries("graph", "targets")).into_iter().next().ok_or("no target")?,
            licenses: texts(entries("licenses", "allow")),
            duplicates: entries("bans", "skip")
                .into_iter()
                .map(skipped)
                .collect::<Result<_, _>>()?,
        })
    }
}

#[derive(Debug)]
struct Package {
    name: String,
    version: String,
    license: String,
    is_ours: bool,
}

/// The packages that take part, ours included.
fn packages(metadata: &Value) -> Vec<Package> {
    let empty = Vec::new();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap_or(&empty);
    let used: Vec<&Value> = nodes.iter().map(|node| &node["id"]).collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    metadata["packages"]
        .as_array()
        .unwrap_or(&empty)
        .iter()
        .filter(|package| used.contains(&&package["id"]))
        .map(|package| Package {
            name: text(&package["name"]),
            version: text(&package["version"]),
            license: text(&package["license"]),
            is_ours: package["source"].is_null(),
        })
        .collect()
}

fn faults(rules: &Rules, packages: &[Package]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut known = vec![false; rules.duplicates.len()];
    for package in packages.iter().filter(|package| !package.is_ours) {
        let Package { name, version, license, .. } = package;
        if !is_allowed(license, &rules.licenses) {
            faults.push(format!("{name} {version} has the license `{license}`, not allowed here"));
        }
        let is_older = packages.iter().any(|other| {
            other.name == *name && parts(&other.version) > parts(version) && !other.is_ours
        });
        if !is_older {
            continue;
        }
        let entry = rules.duplicates.iter().position(|entry| is_meant(entry, package));
        match entry {
            Some(entry) => known[entry] = true,
            None => faults.push(format!("{name} {version} is here in a newer version as well")),
        }
    }
    for (entry, known) in rules.duplicates.iter().zip(known) {
        if !known {
            faults.push(format!("`{entry}` is no longer a duplicate: take it off the list"));
        }
    }
    faults
}

/// Whether `rand@0.8` means this package.
fn is_meant(entry: &str, package: &Package) -> bool {
    entry.split_once('@').is_some_and(|(name, version)| {
        let rest = package.version.strip_prefix(version);
        name == package.name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

fn parts(version: &str) -> Vec<u64> {
    version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}

/// Whether a license expression can be satisfied with the allowed licenses alone.
fn is_allowed(license: &str, allowed: &[String]) -> bool {
    // Before SPDX, a slash said "or".
    let spaced = license.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let result = either(&mut words, allowed);
    result && words.peek().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn either(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut result = both(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        result |= both(words, allowed);
    }
    result
}

fn both(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut result = single(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        result &= single(words, allowed);
    }
    result
}

fn single(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let Some(word) = words.next() else { return false };
    if word == "(" {
        let result = either(words, allowed);
        return words.next_if_eq(&")").is_some() && result;
    }
    // An exception only gives more freedom.
    if words.next_if_eq(&"WITH").is_some() {
        words.next();
    }
    allowed.iter().any(|license| license == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, license: &str) -> Package {
        let (name, version) = (name.to_owned(), version.to_owned());
        Package { name, version, license: license.to_owned(), is_ours: false }
    }

    fn rules(skip: &str) -> Rules {
        let text = format!(
            "[graph]\ntargets = ['here']\n[licenses]\nallow = ['MIT', 'Apache-2.0', 'ISC']\n\
             [bans]\nskip = [{skip}]\n"
        );
        Rules::parse(&text).unwrap()
    }

    #[test]
    fn licenses_are_read_as_expressions() {
        let allowed = rules("").licenses;
        for good in ["MIT", "GPL-3.0 OR MIT", "MIT/Apache-2.0", "(MIT OR GPL-3.0) AND ISC"] {
            assert!(is_allowed(good, &allowed), "{good}");
        }
        assert!(is_allowed("Apache-2.0 WITH LLVM-exception", &allowed));
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT MIT"] {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn a_strange_license_is_found() {
        assert_eq!(faults(&rules(""), &[package("a", "1.0.0", "GPL-3.0")]).len(), 1);
    }

    #[test]
    fn a_duplicate_needs_a_reason_that_still_holds() {
        let packages = [package("a", "0.9.1", "MIT"), package("a", "0.10.0", "MIT")];
        let skip = "{ crate = \"a@0.9\", reason = \"b holds it\" }";
        assert_eq!(faults(&rules(""), &packages).len(), 1);
        assert_eq!(faults(&rules(skip), &packages), Vec::<String>::new());
        assert_eq!(faults(&rules(skip), &packages[1..]).len(), 1);
        assert!(Rules::parse("[graph]\ntargets=['a']\n[bans]\nskip=[{crate='a@1'}]").is_err());
    }
}
