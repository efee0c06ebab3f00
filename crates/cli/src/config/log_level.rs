//! How much is logged, as the file and the command line say it.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How much to log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    /// Nothing
    Off,
    /// Rows at risk or service down
    Error,
    /// Problems that need attention
    Warn,
    /// Start, stop, one line per synchronization
    Info,
    /// Details for developers of Syncline
    Debug,
    /// Everything, for developers of Syncline
    Trace,
}
