//! `suite.json`: the tests, and the files with their results.

use super::plan::{Point, Run, Test};
use crate::figures::write_json;
use crate::options::BenchSuiteOptions;
use crate::{clock, machine};
use consolidated::Url;
use model::Failure;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Raised when readers of an earlier version would misunderstand the file.
const SUITE_VERSION: u32 = 1;

/// The name of the file, in the folder of the suite.
const FILE_NAME: &str = "suite.json";

/// Writes the file. Tests that were not chosen stay as an earlier suite recorded them.
pub(super) fn write(options: &BenchSuiteOptions, tests: &[Test]) -> Result<(), Failure> {
    let file = options.dir.join(FILE_NAME);
    let earlier = read(&file);
    let url = Url::parse(&options.consolidated)?.to_string();
    let record = |test: &Test| {
        let tests = earlier["tests"].as_array().into_iter().flatten();
        let recorded = tests.into_iter().find(|recorded| recorded["name"] == test.name).cloned();
        match test.is_chosen(options) || test.points.is_empty() {
            true => Some(describe(test, &url)),
            false => recorded,
        }
    };
    let json = json!({
        "suite_version": SUITE_VERSION,
        "started": match &earlier["started"] {
            Value::String(started) => started.clone(),
            _ => clock::now_utc(),
        },
        "command": command(options, &url),
        "scale": options.scale,
        "consolidated": url,
        "machine": machine::describe(),
        "tests": tests.iter().filter_map(record).collect::<Vec<_>>(),
    });
    write_json(&file, &json)
}

fn read(file: &Path) -> Value {
    let text = fs::read_to_string(file).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn describe(test: &Test, url: &str) -> Value {
    let (name, unit) = test.parameter;
    let point = |point: &Point| {
        json!({
            "label": point.label,
            "value": point.value,
            "published": point.published,
            "runs": point.runs.iter().map(|run| describe_run(run, url)).collect::<Vec<_>>(),
        })
    };
    json!({
        "name": test.name,
        "title": test.title,
        "parameter": {"name": name, "unit": unit},
        "points": test.points.iter().map(point).collect::<Vec<_>>(),
        "missing": test.missing,
        "is_compared": test.is_compared,
    })
}

fn describe_run(run: &Run, url: &str) -> Value {
    let mut words = vec!["syncline".to_owned(), "bench".to_owned(), "run".to_owned()];
    let mut after_consolidated = false;
    for argument in &run.arguments {
        // The URL without its password.
        words.push(quoted(if after_consolidated { url } else { argument }));
        after_consolidated = argument == "--consolidated";
    }
    json!({"operation": run.operation.name(), "file": run.file, "command": words.join(" ")})
}

fn command(options: &BenchSuiteOptions, url: &str) -> String {
    let mut command = format!(
        "syncline bench suite --consolidated {} --dir {} --scale {} --clients-on {}",
        quoted(url),
        quoted(&options.dir.to_string_lossy()),
        options.scale,
        options.clients_on.name()
    );
    for test in &options.only {
        command.push_str(&format!(" --only {}", test.name()));
    }
    if let Some(sets) = options.sets {
        command.push_str(&format!(" --sets {sets}"));
    }
    command
}

/// As a shell must see it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+".contains(c);
    match word.chars().all(is_plain) && !word.is_empty() {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_shell_understands_the_words() {
        assert_eq!(quoted("sqlite:bench.db"), "sqlite:bench.db");
        assert_eq!(quoted("postgres:///b?host=/s&port=1"), "'postgres:///b?host=/s&port=1'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
