//! `syncline bench`: how many rows a second remotes and the centre exchange.
//!
//! `measurement.rs` has the steps of a run. `centre.rs` is the consolidated database of the run,
//! `server_process.rs` and `clients.rs` are the processes that it starts, and `client.rs` is one of
//! thousands of clients. They communicate through `gate.rs`. `ceiling.rs` measures the same work on
//! the bare database. `suite.rs` makes many runs, each as a separate process. `report.rs` writes a
//! page with their results.

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
mod layout;
mod machine;
mod measurement;
mod processors;
mod purchase;
mod report;
mod server_process;
mod session;
mod steps;
mod suite;
mod tally;

use crate::args::{Arguments, BenchAction, BenchOptions, BenchRunOptions, Model, Operation};
use clap::CommandFactory;
use clap::error::ErrorKind;
use model::{Code, Failure};

/// Does what was asked with benchmarks.
pub(crate) fn run(options: &BenchOptions) -> Result<(), Failure> {
    match &options.action {
        BenchAction::Run(options) => measure(options),
        BenchAction::Suite(options) => suite::run(options),
        BenchAction::Report(options) => report::run(options),
        BenchAction::Clients => client_process::run(),
    }
}

/// Measures, and writes any outcome to FILE.
fn measure(options: &BenchRunOptions) -> Result<(), Failure> {
    refuse_contradictions(options);
    if let Some(path) = &options.json {
        // First, so that no figures of an earlier run survive a run that is killed.
        let unfinished = Failure::new(Code::BenchmarkWrong, "the run has not ended");
        figures::write_json(path, &figures::settings::failed_json(options, &unfinished))?;
    }
    let result = measurement::run(options).map(|figures| figures.into_json(options));
    if let Some(path) = &options.json {
        let json = match &result {
            Ok(json) => json.clone(),
            Err(failure) => figures::settings::failed_json(options, failure),
        };
        figures::write_json(path, &json)?;
    }
    figures::print(options, &result?)
}

/// Whether others may have changed or inserted some of the uploaded rows.
fn can_conflict(options: &BenchRunOptions) -> bool {
    match options.operation {
        Operation::UploadUpdate => true,
        Operation::UploadInsert | Operation::UploadDelete => options.model != Model::OrderLines,
        Operation::Download | Operation::Exchange => false,
    }
}

/// Ends the program where options exclude each other, as `clap` does with wrong usage.
fn refuse_contradictions(options: &BenchRunOptions) {
    let overlapping = options.model == Model::Overlapping;
    let message = if options.server_url.is_some() && options.consolidated.starts_with("sqlite:") {
        "--server-url needs PostgreSQL: with SQLite the file of a run is new, so no server can \
         serve it yet"
    } else if options.conflicts > 0 && !can_conflict(options) {
        "--conflicts needs an upload, and with --model order-lines --operation upload-update: a \
         purchase and its lines come and go together"
    } else if overlapping && (options.clients < 2 || !options.rows.is_multiple_of(2)) {
        "--model overlapping needs at least two clients and an even number of rows: every row \
         belongs to two remotes"
    } else if options.cpus.is_some_and(|cpus| cpus > machine::cores()) {
        "--cpus asks for more processors than this program may use here"
    } else {
        return;
    };
    Arguments::command().error(ErrorKind::ArgumentConflict, message).exit();
}
