//! `syncline remote verify`: what is checked, and with which server it is compared.

use super::{CredentialOptions, TrustOptions};
use clap::Args;
use std::path::PathBuf;

/// Checks the file, and with --server compares its rows with the consolidated database.
///
/// Without --server: the file itself, the published tables and their triggers. With --server also
/// every row that the remote should have, by checksums of ranges, so that little is sent. Rows that
/// wait for the next synchronization, here or at the center, are left out. No row is changed
/// unless --repair is given.
///
/// The exit code is 1 if the file is damaged, if triggers were missing, or if differences remain.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  syncline remote verify ann.db                                       the file alone
  syncline remote verify ann.db --server --password-file ann.secret   the server that it knows
  syncline remote verify ann.db --server --repair --password-file ann.secret
                                  download again what differs; pending changes go up before")]
pub(crate) struct VerifyOptions {
    /// The remote database
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Compare with the consolidated database behind this server [default: the one that FILE knows]
    #[arg(long, value_name = "URL", num_args = 0..=1)]
    #[allow(clippy::option_option, reason = "not given, given without a value, given with one")]
    pub(crate) server: Option<Option<String>>,

    #[command(flatten)]
    pub(crate) trust: TrustOptions,

    #[command(flatten)]
    pub(crate) credential: CredentialOptions,

    /// Synchronize, and download the rows again that differ
    #[arg(long, requires = "server")]
    pub(crate) repair: bool,

    /// Name at most so many rows of each table that differ
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u16).range(..=1000))]
    pub(crate) rows: u16,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
