//! `syncline bench`: how many rows a second travel between remotes and the centre.
//!
//! `measurement.rs` is the plot of a run. `centre.rs` is the consolidated database made for it,
//! `server_process.rs` and `clients.rs` are the processes that it starts, `client.rs` what one of
//! thousands of clients does; they speak through `gate.rs`. `ceiling.rs` measures the same work on
//! the bare database. `report.rs` makes a page of what a suite has left.

mod ceiling;
mod centre;
mod client;
mod client_process;
mod clients;
mod clock;
mod cpu;
mod figures;
mod gate;
mod interruption;
mod latency;
mod machine;
mod measurement;
mod purchase;
mod report;
mod server_process;
mod session;
mod steps;
mod tally;

use crate::args::{Arguments, BenchAction, BenchOptions, BenchRunOptions};
use clap::CommandFactory;
use clap::error::ErrorKind;
use model::{Code, Failure};

/// Does what was asked with benchmarks.
pub(crate) fn run(options: &BenchOptions) -> Result<(), Failure> {
    match &options.action {
        BenchAction::Run(options) => measure(options),
        BenchAction::Report(options) => report::run(options),
        BenchAction::Clients => client_process::run(),
    }
}

/// Measures; whatever comes of it, FILE says so.
fn measure(options: &BenchRunOptions) -> Result<(), Failure> {
    refuse_contradictions(options);
    if let Some(path) = &options.json {
        // First, so that no figures of an earlier run survive a run that is killed.
        let unfinished = Failure::new(Code::BenchmarkWrong, "the run has not ended");
        figures::write_json(path, &figures::failed_json(options, &unfinished))?;
    }
    let result = measurement::run(options).map(|figures| figures.into_json(options));
    if let Some(path) = &options.json {
        let json = match &result {
            Ok(json) => json.clone(),
            Err(failure) => figures::failed_json(options, failure),
        };
        figures::write_json(path, &json)?;
    }
    figures::print(options, &result?)
}

/// Ends the program where options exclude each other, as `clap` does with wrong usage.
fn refuse_contradictions(options: &BenchRunOptions) {
    if options.server_url.is_some() && options.consolidated.starts_with("sqlite:") {
        let message = "--server-url wants a database with a server of its own: the file of a run \
                       is new, so nobody can serve it yet";
        Arguments::command().error(ErrorKind::ArgumentConflict, message).exit();
    }
}
