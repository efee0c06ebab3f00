//! `syncline remote rejects`: what to do with the rows that were refused.

use super::RemoteFile;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Lists, shows, retries or dismisses the rows that the consolidated database refused.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Examples:
  syncline remote rejects ann.db                            all of them, one line per column
  syncline remote rejects retry ann.db --id 3               make the rejected change again
  syncline remote rejects retry ann.db --all                all that can be; lists the others
  syncline remote rejects dismiss ann.db --table purchase   remove those of a table
  syncline remote rejects dismiss ann.db --table line --key 'purchase=7, line=2'")]
pub(crate) struct RemoteRejects {
    #[command(subcommand)]
    pub(crate) action: Option<RemoteRejectsAction>,

    /// The remote database
    #[arg(value_name = "FILE", required = true)]
    pub(crate) file: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to do with rejects.
#[derive(Debug, Subcommand)]
pub(crate) enum RemoteRejectsAction {
    /// Lists them, one line per column
    List(RemoteFile),
    /// Shows some of them
    Show(Selected),
    /// Makes rejected changes again, to the current rows
    Retry(Again),
    /// Removes rejects
    Dismiss(Selected),
}

/// Some rejects or conflicts of a remote.
#[derive(Debug, Args)]
pub(crate) struct Selected {
    #[command(flatten)]
    pub(crate) remote: RemoteFile,

    #[command(flatten)]
    pub(crate) selection: Selection,
}

/// Some of them, whose changes are made again.
#[derive(Debug, Args)]
pub(crate) struct Again {
    #[command(flatten)]
    pub(crate) these: Selected,

    /// Also if the row has changed since, here or at the consolidated database
    #[arg(long)]
    pub(crate) force: bool,
}

/// Which rejects or conflicts.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Selection {
    /// The one of this number (repeatable)
    #[arg(long = "id", value_name = "ID")]
    pub(crate) ids: Vec<i64>,

    /// Those of this table
    #[arg(long, value_name = "T", conflicts_with = "ids")]
    pub(crate) table: Option<String>,

    /// Only those of that table with this key, written as in the list
    #[arg(long, value_name = "KEY", requires = "table")]
    pub(crate) key: Option<String>,

    /// All
    #[arg(long, conflicts_with_all = ["ids", "table"])]
    pub(crate) all: bool,
}
