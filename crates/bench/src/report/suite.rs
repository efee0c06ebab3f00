//! Reads the folder of a suite. Any file in it may be missing, cut off or wrong.

use model::{Code, Failure};
use serde::Deserialize;
use serde_json::Value;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Component, Path};

/// The file that lists the runs.
const INDEX: &str = "suite.json";
/// The format that this program understands.
const SUITE_VERSION: u64 = 1;
/// Largest file that is read; a thousand runs are a tenth of it.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// What no measurement exceeds.
const FIGURE_MAX: f64 = 1e15;

/// A suite, with the outcome of each run.
#[derive(Debug)]
pub(super) struct Suite {
    pub(super) started: Option<String>,
    pub(super) command: Option<String>,
    pub(super) scale: Option<f64>,
    pub(super) consolidated: Option<String>,
    pub(super) machine: Value,
    pub(super) tests: Vec<Test>,
}

/// One parameter, varied.
#[derive(Debug)]
pub(super) struct Test {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) parameter: String,
    /// The unit of its values. Empty if the name of the parameter says it.
    pub(super) unit: String,
    pub(super) points: Vec<Point>,
    /// Why the test cannot be run.
    pub(super) missing: Option<String>,
    /// What its points cost is compared with the first one.
    pub(super) is_compared: bool,
}

/// One value of the parameter.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) label: String,
    /// Its place on an axis; none for values without an order.
    pub(super) value: Option<f64>,
    /// The value of the published point that it corresponds to. With a small scale it is larger.
    pub(super) published: Option<f64>,
    pub(super) runs: Vec<Run>,
}

/// One run of `syncline bench run`.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) operation: String,
    pub(super) command: Option<String>,
    pub(super) outcome: RunResult,
}

/// The outcome of a run.
#[derive(Debug)]
pub(super) enum RunResult {
    Measured(Figures),
    /// The reason why it has no figures.
    Failed(String),
    NotRun,
}

/// The figures of a run that went well.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) rows_per_second: f64,
    pub(super) syncs_per_second: f64,
    json: Value,
}

#[derive(Deserialize)]
struct SuiteFile {
    suite_version: u64,
    started: Option<String>,
    command: Option<String>,
    scale: Option<f64>,
    consolidated: Option<String>,
    #[serde(default)]
    machine: Value,
    #[serde(default)]
    tests: Vec<TestFile>,
}

#[derive(Deserialize)]
struct TestFile {
    name: String,
    title: Option<String>,
    parameter: Option<ParameterFile>,
    #[serde(default)]
    points: Vec<PointFile>,
    missing: Option<String>,
    #[serde(default)]
    is_compared: bool,
}

#[derive(Deserialize)]
struct ParameterFile {
    name: String,
    unit: Option<String>,
}

#[derive(Deserialize)]
struct PointFile {
    label: Option<String>,
    value: Option<f64>,
    published: Option<f64>,
    #[serde(default)]
    runs: Vec<RunFile>,
}

#[derive(Deserialize)]
struct RunFile {
    operation: String,
    file: String,
    command: Option<String>,
}

/// Reads the suite in a folder. Only a folder without a suite is a failure. A run that cannot be
/// read is a run without figures.
pub(super) fn read(folder: &Path) -> Result<Suite, Failure> {
    let path = folder.join(INDEX);
    let unreadable = |what: &str| {
        let message = format!("{} {what}", path.display());
        Failure::new(Code::SuiteUnreadable, message)
    };
    let text = read_file(&path).map_err(|error| unreadable("cannot be read").source(error))?;
    let suite: SuiteFile = serde_json::from_str(&text)
        .map_err(|error| unreadable("does not describe a suite").source(error))?;
    if suite.suite_version != SUITE_VERSION {
        let message = format!("has version {}, not {SUITE_VERSION}", suite.suite_version);
        return Err(unreadable(&message).hint("use the program that made the suite"));
    }
    Ok(Suite {
        started: suite.started,
        command: suite.command,
        scale: suite.scale,
        consolidated: suite.consolidated,
        machine: suite.machine,
        tests: suite.tests.into_iter().map(|test| read_test(folder, test)).collect(),
    })
}

fn read_test(folder: &Path, test: TestFile) -> Test {
    let (parameter, unit) = match test.parameter {
        Some(ParameterFile { name, unit }) => (name, unit.unwrap_or_default()),
        None => (String::new(), String::new()),
    };
    Test {
        title: test.title.unwrap_or_else(|| test.name.clone()),
        name: test.name,
        parameter,
        unit,
        points: test.points.into_iter().map(|point| read_point(folder, point)).collect(),
        missing: test.missing,
        is_compared: test.is_compared,
    }
}

fn read_point(folder: &Path, point: PointFile) -> Point {
    let sensible = |value: &f64| (0.0..=FIGURE_MAX).contains(value);
    let value = point.value.filter(sensible);
    let published = point.published.filter(sensible).or(value);
    let label = match (point.label, value) {
        (None, None) => String::new(),
        (Some(label), None) => label,
        // A number is formatted like all others.
        (Some(label), Some(value)) if label.parse() != Ok(value) => label,
        (_, Some(value)) => super::number::plain(value),
    };
    let runs = point.runs.into_iter().map(|run| Run {
        outcome: read_outcome(folder, &run.file),
        operation: run.operation,
        command: run.command,
    });
    Point { label, value, published, runs: runs.collect() }
}

fn read_outcome(folder: &Path, file: &str) -> RunResult {
    let inside = Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
    if !inside {
        return RunResult::Failed("its file is outside the folder of the suite".to_owned());
    }
    let text = match read_file(&folder.join(file)) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return RunResult::NotRun,
        Err(error) => return RunResult::Failed(format!("its file cannot be read: {error}")),
    };
    match serde_json::from_str(&text) {
        Ok(json) => understand(json),
        Err(error) => RunResult::Failed(format!("its file is not a result: {error}")),
    }
}

fn understand(json: Value) -> RunResult {
    if let Some(error) = json.get("error").filter(|error| !error.is_null()) {
        let text = |key: &str| error.get(key).and_then(Value::as_str);
        let message = text("message").unwrap_or("no reason is given");
        return RunResult::Failed(match text("code") {
            Some(code) => format!("{code}: {message}"),
            None => message.to_owned(),
        });
    }
    let figure = |key: &str| json.get(key).and_then(Value::as_f64);
    let sensible = |figure: &f64| (0.0..=FIGURE_MAX).contains(figure);
    let rows = figure("rows_per_second").filter(sensible);
    let syncs = figure("syncs_per_second").filter(sensible);
    match (rows, syncs) {
        (Some(rows_per_second), Some(syncs_per_second)) if syncs_per_second > 0.0 => {
            RunResult::Measured(Figures { rows_per_second, syncs_per_second, json })
        }
        _ => RunResult::Failed("its file has no figures".to_owned()),
    }
}

fn read_file(path: &Path) -> std::io::Result<String> {
    // Opening a pipe would wait until a program writes into it.
    if !std::fs::metadata(path)?.is_file() {
        return Err(ErrorKind::InvalidInput.into());
    }
    let mut text = String::new();
    let read = File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > FILE_BYTES_MAX {
        return Err(ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}

impl Suite {
    /// All runs, with the test and the point that they belong to.
    pub(super) fn runs(&self) -> impl Iterator<Item = (&Test, &Point, &Run)> {
        self.tests.iter().flat_map(|test| {
            let points = test.points.iter();
            points.flat_map(move |point| point.runs.iter().map(move |run| (test, point, run)))
        })
    }

    /// The runs with figures.
    pub(super) fn measured(&self) -> impl Iterator<Item = (&Test, &Point, &Run, &Figures)> {
        self.runs().filter_map(|(test, point, run)| match &run.outcome {
            RunResult::Measured(figures) => Some((test, point, run, figures)),
            _ => None,
        })
    }
}

impl Test {
    /// The parameter with its unit: `network of each client, bytes/s`.
    pub(super) fn axis(&self) -> String {
        match self.unit.is_empty() || self.unit == self.parameter {
            true => self.parameter.clone(),
            false => format!("{}, {}", self.parameter, self.unit),
        }
    }

    /// The operations that it runs: those of the published tables in their order, then the others.
    pub(super) fn operations(&self) -> Vec<&str> {
        let mut operations: Vec<&str> = Vec::new();
        let mine = || self.points.iter().flat_map(|point| &point.runs).map(|run| &*run.operation);
        let known = super::published::OPERATIONS.into_iter();
        for operation in known.filter(|known| mine().any(|run| run == *known)).chain(mine()) {
            if !operations.contains(&operation) {
                operations.push(operation);
            }
        }
        operations
    }
}

impl Point {
    /// The runs of an operation.
    pub(super) fn runs_of(&self, operation: &str) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.operation == operation)
    }

    /// The run of an operation that represents all of them: the median of those with figures, or
    /// the slower one of two.
    pub(super) fn figures(&self, operation: &str) -> Option<&Figures> {
        let mut figures: Vec<&Figures> = self
            .runs_of(operation)
            .filter_map(|run| match &run.outcome {
                RunResult::Measured(figures) => Some(figures),
                _ => None,
            })
            .collect();
        figures.sort_by(|one, other| one.rows_per_second.total_cmp(&other.rows_per_second));
        figures.get(figures.len().saturating_sub(1) / 2).copied()
    }

    /// Why an operation has no figures; none if it has some, or has not been run.
    pub(super) fn failure(&self, operation: &str) -> Option<&str> {
        if self.figures(operation).is_some() {
            return None;
        }
        self.runs_of(operation).find_map(|run| match &run.outcome {
            RunResult::Failed(why) => Some(why.as_str()),
            _ => None,
        })
    }
}

impl Figures {
    /// A number of the result: `/baseline/rows_per_second`.
    pub(super) fn number(&self, pointer: &str) -> Option<f64> {
        let number = self.json.pointer(pointer)?.as_f64()?;
        number.is_finite().then_some(number)
    }

    /// A text of the result: `/settings/clients_on`.
    pub(super) fn text(&self, pointer: &str) -> Option<&str> {
        self.json.pointer(pointer)?.as_str()
    }

    /// A part of the result.
    pub(super) fn part(&self, pointer: &str) -> &Value {
        self.json.pointer(pointer).unwrap_or(&Value::Null)
    }
}
