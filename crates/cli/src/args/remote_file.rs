//! The remote database of a command.

use clap::Args;
use std::path::PathBuf;

/// Which remote database, and how to print.
#[derive(Debug, Clone, Args)]
pub(crate) struct RemoteFile {
    /// The remote database
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
