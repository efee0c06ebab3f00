//! What the user typed after `syncline bench suite`.

use super::ClientsOn;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Repeats the published tests, one parameter at a time.
///
/// Every point of a test is some runs of `syncline bench run`, whose results go to
/// DIR/TEST/POINT-OPERATION.json; DIR/suite.json lists them all. A run that is there already, with
/// the same settings, program and machine, is not repeated: after an interruption the same command
/// goes on where it was. A run that fails is told, and the suite goes on with the next.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  syncline bench suite --consolidated postgres:///bench
  syncline bench suite --consolidated postgres:///bench --scale 1 --dir night
  syncline bench suite --consolidated sqlite:bench.db --only rows --only conflicts --scale 0.01

With --scale 1 every test has the published number of clients and rows, ten million in most runs,
and the suite takes a night. With the default it takes some minutes.")]
pub(crate) struct BenchSuiteOptions {
    /// The consolidated database; only schemas or files made for the runs are touched
    #[arg(long, value_name = "URL")]
    pub(crate) consolidated: String,

    /// The folder for the results; created if it does not exist
    #[arg(long, value_name = "DIR", default_value = "bench-suite")]
    pub(crate) dir: PathBuf,

    /// Clients of every test, as a share of the published number
    #[arg(long, value_name = "S", default_value_t = 0.05, value_parser = parse_scale)]
    pub(crate) scale: f64,

    /// Run this test only; may be given several times [default: all]
    #[arg(long, value_enum, value_name = "TEST")]
    pub(crate) only: Vec<TestName>,

    /// Timed sets of each run [default: as published, so that each carries as many rows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) sets: Option<u32>,

    /// Where clients keep their rows
    #[arg(long, value_enum, value_name = "KIND", default_value_t = ClientsOn::Memory)]
    pub(crate) clients_on: ClientsOn,
}

/// The tests that can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TestName {
    /// A fixed number of workers
    Workers,
    /// Clients at once, with the same number of rows in all
    Clients,
    /// Rows of a synchronization, with the same number in all
    Rows,
    /// Processors
    Cpus,
    /// Clients behind a slow network
    SlowClients,
    /// Rows of 116 bytes that change at both ends
    MergeReplication,
    /// Synchronizations of one row and of none
    Small,
    /// Rows that were changed at both ends
    Conflicts,
    /// Lines that follow their purchase
    Parent,
    /// Rows that are at two remotes
    Overlapping,
}

impl TestName {
    /// The name, as on the command line and in file names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TestName::Workers => "workers",
            TestName::Clients => "clients",
            TestName::Rows => "rows",
            TestName::Cpus => "cpus",
            TestName::SlowClients => "slow-clients",
            TestName::MergeReplication => "merge-replication",
            TestName::Small => "small",
            TestName::Conflicts => "conflicts",
            TestName::Parent => "parent",
            TestName::Overlapping => "overlapping",
        }
    }
}

fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if (0.001..=10.0).contains(&scale) => Ok(scale),
        _ => Err("write a number from 0.001 to 10".to_owned()),
    }
}
