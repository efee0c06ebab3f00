//! The options of `syncline fleet`, `declare-restored` and `rotate-keys`.

use super::name::{parse_remote_id, parse_user};
use super::notes::parse_age;
use super::{Consent, Dir};
use clap::{Args, Subcommand};
use model::{RemoteId, UserName};

/// Shows and manages the remotes of the consolidated database.
///
/// A remote ID belongs to the first user who synchronizes with it, and to one file. Another user
/// is refused (E2160) until the remote is bound to this user too. After a user is removed, the
/// remotes of this user belong to no user until they are bound again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  syncline fleet list --dir sales                        who fails, who waits for rows
  syncline fleet list --silent-for 7d                    who was not here for a week
  syncline fleet show till-7 --json
  syncline fleet bind till-7 --user ann --user ben       for a device with two users
  syncline fleet bind till-7 --any                       every user may use it
  syncline fleet forget till-7                           for a lost device")]
pub(crate) struct FleetOptions {
    #[command(subcommand)]
    pub(crate) action: FleetAction,
}

/// What to do with remotes.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetAction {
    /// Lists remotes, first those that need attention: who fails, who has rejects or conflicts,
    /// who was silent for longest
    List(ListRemotes),
    /// Shows one remote, with its last synchronizations
    Show {
        /// The remote ID
        #[arg(value_name = "ID", value_parser = parse_remote_id)]
        id: RemoteId,
        #[command(flatten)]
        dir: Dir,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Binds a remote to users; replaces the users that it belonged to
    Bind {
        /// The remote ID
        #[arg(value_name = "ID", value_parser = parse_remote_id)]
        id: RemoteId,
        /// This user may synchronize as the remote (repeatable)
        #[arg(
            long = "user",
            value_name = "NAME",
            value_parser = parse_user,
            required_unless_present = "any"
        )]
        users: Vec<UserName>,
        /// Every user may synchronize as the remote
        #[arg(long, conflicts_with = "users")]
        any: bool,
        #[command(flatten)]
        dir: Dir,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Forgets a remote, its users and its owed rows; if it comes back, its rows are compared
    Forget {
        /// The remote ID
        #[arg(value_name = "ID", value_parser = parse_remote_id)]
        id: RemoteId,
        #[command(flatten)]
        dir: Dir,
        #[command(flatten)]
        consent: Consent,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Which remotes to list.
#[derive(Debug, Args)]
pub(crate) struct ListRemotes {
    #[command(flatten)]
    pub(crate) dir: Dir,

    /// Only those that belong to this user
    #[arg(long, value_name = "NAME", value_parser = parse_user)]
    pub(crate) user: Option<UserName>,

    /// Only those whose last synchronization failed
    #[arg(long)]
    pub(crate) failing: bool,

    /// Only those that were not here for so long: 90s, 15m, 12h, 30d, 4w
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    pub(crate) silent_for: Option<i64>,

    /// Show the first N
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) limit: u32,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Declares that the consolidated database was restored from a backup.
///
/// Most restores are detected automatically: by the server, or by the receipt of a remote. After
/// this command every remote downloads all its tables with its next synchronization, and keeps the
/// rows and values that the database has lost in its reject table.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  syncline declare-restored --dir sales")]
pub(crate) struct DeclareRestoredOptions {
    #[command(flatten)]
    pub(crate) dir: Dir,

    #[command(flatten)]
    pub(crate) consent: Consent,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Creates new keys for session tokens and receipts.
///
/// Use it if an unauthorized person may have read the consolidated database. Every session token
/// is void at once, so each remote needs its password again. Send SIGHUP to running servers, or
/// restart them, so that they sign with the new key. Receipts stay valid.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  syncline rotate-keys --dir sales")]
pub(crate) struct RotateKeysOptions {
    #[command(flatten)]
    pub(crate) dir: Dir,

    #[command(flatten)]
    pub(crate) consent: Consent,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
