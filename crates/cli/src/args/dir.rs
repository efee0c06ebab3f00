//! The folder of a consolidated database, for the commands that need it.

use clap::Args;
use std::path::PathBuf;

/// Where `syncline.toml` is.
#[derive(Debug, Clone, Args)]
pub(crate) struct Dir {
    /// The folder with syncline.toml
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
}
