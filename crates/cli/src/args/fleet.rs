//! What the user typed after `syncline fleet`, `declare-restored` and `rotate-keys`.

use super::{Dir, parse_remote_id, parse_user};
use clap::{Args, Subcommand};
use model::{RemoteId, UserName};

/// Shows and manages the remotes that the consolidated database knows.
///
/// A remote ID belongs to the user that synchronized first with it, and to one file. Another user
/// is refused (E2160) until the remote is bound to that one too. Removing a user leaves its remotes
/// to nobody until they are bound again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  syncline fleet list --dir sales                        who, which version, how far behind
  syncline fleet show till-7 --json
  syncline fleet bind till-7 --user ann --user ben       a device that two people share
  syncline fleet bind till-7 --any                       everybody may use it
  syncline fleet forget till-7                           a device that is gone")]
pub(crate) struct FleetOptions {
    #[command(subcommand)]
    pub(crate) action: FleetAction,
}

/// What to do with remotes.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetAction {
    /// Lists all remotes: to whom they belong, when they synchronized, what they are owed
    List {
        #[command(flatten)]
        dir: Dir,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows one remote
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
    /// Says to whom a remote belongs from now on, instead of whom it belonged to
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
        /// Every user may
        #[arg(long, conflicts_with = "users")]
        any: bool,
        #[command(flatten)]
        dir: Dir,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Forgets a remote, what it is owed, and to whom it belongs; comes it back, it is compared
    Forget {
        /// The remote ID
        #[arg(value_name = "ID", value_parser = parse_remote_id)]
        id: RemoteId,
        #[command(flatten)]
        dir: Dir,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Says that the consolidated database was restored from a backup.
///
/// Most restores are noticed without a word: by the database itself, or by the next remote that was
/// there later. After this command every remote is compared at its next synchronization, and what
/// it has to give up is kept in its reject table.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  syncline declare-restored --dir sales")]
pub(crate) struct DeclareRestoredOptions {
    #[command(flatten)]
    pub(crate) dir: Dir,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Draws new keys for session tokens and receipts.
///
/// For the day on which somebody may have read the consolidated database who should not. Every
/// session token is void at once, so each remote needs its password again. Servers that run go on;
/// restart them, so that they sign with the new key. Receipts stay valid.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  syncline rotate-keys --dir sales")]
pub(crate) struct RotateKeysOptions {
    #[command(flatten)]
    pub(crate) dir: Dir,
}
