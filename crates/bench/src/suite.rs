//! `syncline bench suite`: the published tests, with one parameter varied in each.
//!
//! `suite/plan.rs` has the tests and their runs, and `suite/record.rs` writes them to `suite.json`.
//! Every run is a separate process, `syncline bench run`. So no run has effects on the next one,
//! and after a signal it cleans up itself.

mod comparison;
mod plan;
mod record;
mod result;

use crate::center;
use crate::clients::link::Link;
use crate::figures::{grouped, settings, write_json};
use crate::interruption::{Ending, Interruption};
use crate::options::{BenchSuiteOptions, Model};
use crate::session::Session;
use crate::steps::SuiteSteps;
use consolidated::Url;
use model::{Code, Failure};
use plan::{Limits, Run, Test};
use result::{read_json, result_of};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use terminal::output;

/// Connections of a database that are not for the workers of a server.
const CONNECTIONS_SPARE: u32 = 10;

/// The speed of a link that is only made to see whether one can be made.
const LINK_TRIED_MBIT: u32 = 1000;

/// Makes all runs that are not there yet.
pub(crate) fn run(options: &BenchSuiteOptions) -> Result<(), Failure> {
    let limits = limits(&options.consolidated)?;
    let tests = plan::tests(options, &limits);
    for left_out in tests.iter().filter(|test| test.is_chosen(options)) {
        if let (true, Some(why)) = (left_out.is_of_this_version(), &left_out.missing) {
            output::line(why)?;
        }
    }
    create_folder(&options.dir)?;
    record::write(options, &tests)?;

    let interruption = Interruption::listen(Ending::Terminate)?;
    let chosen: Vec<&Test> = tests.iter().filter(|test| test.is_chosen(options)).collect();
    let runs = || chosen.iter().flat_map(|test| test.runs().map(move |run| (*test, run)));
    let steps = SuiteSteps::new(runs().count() as u64);
    let mut counts = Counts::default();
    for (test, run) in runs() {
        steps.next(format!("{} {}", test.name, run.title()));
        let ended = carry_out(&options.dir, run, &interruption);
        tell(&steps, test, run, &interruption.explain(ended)?, &mut counts)?;
    }
    drop(steps);
    for test in chosen.iter().filter(|test| test.is_compared) {
        comparison::print(&options.dir, test)?;
    }
    counts.conclude(&options.dir)
}

/// What the machine and the database can give.
fn limits(url: &str) -> Result<Limits, Failure> {
    let url = Url::parse(url)?;
    // A database that no run could use is refused here, once, and not by every run.
    center::create(&url, Model::Purchase, 1)?.remove()?;
    let connections_max = match &url {
        Url::Sqlite(_) => None,
        Url::Postgres(url) => {
            let connections = Session::open(url)?.one::<String>("SHOW max_connections")?;
            Some(connections.parse::<u32>().unwrap_or(0).saturating_sub(CONNECTIONS_SPARE))
        }
    };
    let no_link = Link::new(LINK_TRIED_MBIT).err().map(|failure| failure.message().to_owned());
    Ok(Limits { connections_max, cpus_max: super::machine::cores(), no_link })
}

fn create_folder(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| {
        Failure::new(Code::CannotWrite, format!("cannot make {}", folder.display())).source(error)
    })
}

/// What became of a run.
enum Ended {
    /// It was there already.
    Before,
    Now(Value),
    Failed(Value),
}

/// Makes a run, unless its result is there.
fn carry_out(folder: &Path, run: &Run, interruption: &Interruption) -> Result<Ended, Failure> {
    let file = folder.join(&run.file);
    if result_of(&file, run).is_some() {
        return Ok(Ended::Before);
    }
    if let Some(parent) = file.parent() {
        create_folder(parent)?;
    }
    // Whatever is there is of other settings; a process that cannot even start leaves this.
    let unfinished = Failure::new(Code::BenchmarkWrong, "the run has not ended");
    write_json(&file, &settings::failed_json(&run.options, &unfinished))?;
    start_and_wait(&file, run, interruption)?;
    match result_of(&file, run) {
        Some(result) => Ok(Ended::Now(result)),
        None => Ok(Ended::Failed(read_json(&file).unwrap_or_default())),
    }
}

/// How the process ends is known from the file that it writes.
fn start_and_wait(file: &Path, run: &Run, interruption: &Interruption) -> Result<(), Failure> {
    let failed = |error| Failure::new(Code::Bug, "cannot start a run").source(error);
    let mut child = Command::new(std::env::current_exe().map_err(failed)?)
        .args(["bench", "run"])
        .args(&run.arguments)
        .arg("--json")
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // A progress bar within a progress bar is no help. Failures are in the file.
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    interruption.watch([child.id()].into_iter());
    let mut told = Vec::new();
    if let Some(stderr) = &mut child.stderr {
        // Ends with the process, which is not forgotten before: its number stays its own.
        let _ = stderr.read_to_end(&mut told);
    }
    interruption.forget();
    child.wait().map(drop).map_err(failed)
}

/// Tells people about a run.
fn tell(
    steps: &SuiteSteps,
    test: &Test,
    run: &Run,
    ended: &Ended,
    counts: &mut Counts,
) -> Result<(), Failure> {
    let name = format!("{} {}", test.name, run.title());
    let line = match ended {
        Ended::Before => {
            counts.before += 1;
            return Ok(());
        }
        Ended::Now(result) => {
            counts.now += 1;
            let number = |key: &str| grouped(&result[key].to_string());
            match result["rows"].as_u64() {
                Some(0) => {
                    format!("{name}: {} synchronizations per second", number("syncs_per_second"))
                }
                _ => format!(
                    "{name}: {} rows per second, {} of the bare database",
                    number("rows_per_second"),
                    number("ratio_to_ceiling")
                ),
            }
        }
        Ended::Failed(result) => {
            let message = format!(
                "{name} failed: {}",
                result["error"]["message"].as_str().unwrap_or("it left no result")
            );
            counts.failures.push(message.clone());
            message
        }
    };
    steps.told(|| output::line(&line))
}

/// The results of all runs.
#[derive(Default)]
struct Counts {
    before: u64,
    now: u64,
    failures: Vec<String>,
}

impl Counts {
    fn conclude(self, folder: &Path) -> Result<(), Failure> {
        output::line(&format!(
            "{} made, {} there before, {} failed; the results are in {}",
            output::counted(self.now, "run"),
            self.before,
            self.failures.len(),
            folder.display()
        ))?;
        match self.failures.first() {
            None => Ok(()),
            Some(first) => Err(Failure::new(
                Code::BenchmarkWrong,
                format!("{} of the suite failed, the first: {first}", {
                    output::counted(self.failures.len() as u64, "run")
                }),
            )
            .hint("the same command makes them again, and no other")),
        }
    }
}
