//! The options of `syncline bench suite`.

use super::ClientsOn;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Repeats the published tests, one parameter at a time.
///
/// Every point of a test consists of some runs of `syncline bench run`. Their results are in
/// DIR/TEST/POINT-OPERATION.json; DIR/suite.json lists them all. A run is not repeated if its
/// result exists, with the same settings, program and machine: after an interruption the same
/// command continues. If a run fails, the suite reports it and continues with the next.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  syncline bench suite --consolidated postgres:///bench
  syncline bench suite --consolidated postgres:///bench --scale 1 --dir night
  syncline bench suite --consolidated sqlite:bench.db --only rows --only conflicts --scale 0.01

With --scale 1 every test has the published number of clients and rows, ten million in most runs,
and the suite takes a night. With the default it takes some minutes.")]
pub(crate) struct BenchSuiteOptions {
    /// The consolidated database; only schemas or files created for the runs are changed
    #[arg(long, value_name = "URL")]
    pub(crate) consolidated: String,

    /// The folder for the results; created if it does not exist
    #[arg(long, value_name = "DIR", default_value = "bench-suite")]
    pub(crate) dir: PathBuf,

    /// Clients of every test, as a fraction of the published number
    #[arg(long, value_name = "S", default_value_t = 0.05, value_parser = parse_scale)]
    pub(crate) scale: f64,

    /// Run this test only (repeatable) [default: all]
    #[arg(long, value_enum, value_name = "TEST")]
    pub(crate) only: Vec<TestName>,

    /// Timed sets of each run [default: so many that the run has the published number of rows]
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
    /// Number of clients, with the same total number of rows
    Clients,
    /// Rows of a synchronization, with the same total number
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
    /// Lines that belong to their purchase
    Parent,
    /// Rows that belong to two remotes
    Overlapping,
    /// Tables that are published, all but one of them empty
    Tables,
    /// Transports, encryption and compression, on this machine
    Transports,
    /// The same with notes that compress
    Notes,
    /// The same over a link of 1 Gbit/s
    #[value(name = "link-1000")]
    Link1000,
    /// The same over a link of 10 Mbit/s
    #[value(name = "link-10")]
    Link10,
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
            TestName::Tables => "tables",
            TestName::Transports => "transports",
            TestName::Notes => "notes",
            TestName::Link1000 => "link-1000",
            TestName::Link10 => "link-10",
        }
    }
}

fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if (0.001..=10.0).contains(&scale) => Ok(scale),
        _ => Err("write a number from 0.001 to 10".to_owned()),
    }
}
