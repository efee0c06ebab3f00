//! `syncline remote conflicts`: what to do with the changes that lost conflicts.

use super::RemoteFile;
use super::remote_rejects::{Again, Selected};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Lists, shows, retries or dismisses the changes of this remote that lost conflicts.
///
/// Each has the row that lost, as it was here, and the row that stayed. The verb may also stand
/// behind FILE.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Examples:
  syncline remote conflicts ann.db                     all of them, one per line
  syncline remote conflicts show ann.db --id 3         one with both rows
  syncline remote conflicts retry ann.db --id 3        make the change again, to the row that stayed
  syncline remote conflicts dismiss ann.db --all       they are as they should be")]
pub(crate) struct RemoteConflicts {
    #[command(subcommand)]
    pub(crate) action: Option<RemoteConflictsAction>,

    /// The remote database
    #[arg(value_name = "FILE", required = true)]
    pub(crate) file: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to do with them.
#[derive(Debug, Subcommand)]
pub(crate) enum RemoteConflictsAction {
    /// Lists them, one per line
    List(RemoteFile),
    /// Shows the row that lost and the row that stayed
    Show(Selected),
    /// Makes the changes again, to the rows that stayed
    Retry(Again),
    /// Removes them from the list
    Dismiss(Selected),
}
