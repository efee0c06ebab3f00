//! `syncline bench`: how many rows a second remotes and the center exchange.
//!
//! `measurement.rs` has the steps of a run. `center.rs` is the consolidated database of the run,
//! `server_process.rs` and `clients.rs` are the processes that it starts, and `client.rs` is one of
//! thousands of clients. They communicate through `barrier.rs`, and synchronize through a network
//! that `clients/link.rs` may make slow. `baseline.rs` measures the same
//! work on the bare database. `suite.rs` makes many runs, each as a separate process. `report.rs`
//! writes a page with their results.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod barrier;
mod baseline;
mod center;
mod checksum;
mod client;
mod clients;
mod clock;
mod figures;
mod final_comparison;
mod interruption;
mod latency;
mod layout;
mod machine;
mod measurement;
mod options;
mod purchase;
mod report;
mod server_process;
mod session;
mod steps;
mod suite;

pub use center::AddScripts;
pub use options::BenchOptions;

use crate::options::{BenchAction, BenchRunOptions};
use model::{Code, Failure};

/// Does what was asked with benchmarks.
pub fn run(options: &BenchOptions, add_scripts: AddScripts) -> Result<(), Failure> {
    match &options.action {
        BenchAction::Run(options) => measure(options, add_scripts),
        BenchAction::Suite(options) => suite::run(options),
        BenchAction::Report(options) => report::run(options),
        BenchAction::Clients => crate::clients::process::run(),
    }
}

/// Measures, and writes any outcome to FILE.
fn measure(options: &BenchRunOptions, add_scripts: AddScripts) -> Result<(), Failure> {
    if let Some(path) = &options.json {
        // First, so that no figures of an earlier run survive a run that is killed.
        let unfinished = Failure::new(Code::BenchmarkWrong, "the run has not ended");
        figures::write_json(path, &figures::settings::failed_json(options, &unfinished))?;
    }
    let measured = measurement::run(options, add_scripts);
    let result = measured.map(|measured| measured.into_json(options));
    if let Some(path) = &options.json {
        let json = match &result {
            Ok(json) => json.clone(),
            Err(failure) => figures::settings::failed_json(options, failure),
        };
        figures::write_json(path, &json)?;
    }
    figures::print(options, &result?)
}
