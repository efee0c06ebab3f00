//! The options of commands that take something away.

use clap::Args;

/// Whether to do it, to ask first, or only to say what would be done.
#[derive(Debug, Clone, Args)]
pub(crate) struct Consent {
    /// Do it without a question; necessary where there is no terminal
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,

    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}
