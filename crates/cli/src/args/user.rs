//! The options of `syncline user`.

use super::expiry::{Expires, parse_expiry};
use super::name::{parse_claim, parse_user};
use super::{Consent, Dir};
use clap::{Args, Subcommand};
use model::UserName;
use std::path::PathBuf;

/// Manages the users who may synchronize.
///
/// Passwords come from a file or from the terminal, never from the command line, where other users
/// of the machine could read them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  syncline user add ann --dir sales                        asks for the password twice
  syncline user add ben --password-file ben.secret --claim region=north
  syncline user set ben --claim region=south --claim team= changes one claim, removes another
  syncline user password ann                               revokes ann's session tokens too
  syncline user set ann --password-expires now             ann has to change it
  syncline user lock ann                                   ann cannot synchronize until `unlock`
  syncline user list --json")]
pub(crate) struct UserOptions {
    #[command(subcommand)]
    pub(crate) action: UserAction,
}

/// What to do with a user.
#[derive(Debug, Subcommand)]
pub(crate) enum UserAction {
    /// Adds a user
    Add {
        /// The name of the user
        #[arg(value_name = "NAME", value_parser = parse_user)]
        name: UserName,
        #[command(flatten)]
        dir: Dir,
        /// Read the password from the first line of this file, which only its owner may read
        #[arg(long, value_name = "F")]
        password_file: Option<PathBuf>,
        /// Accept a password of fewer than 8 characters
        #[arg(long)]
        weak: bool,
        /// A fact about the user, which partitions may use (repeatable)
        #[arg(long = "claim", value_name = "KEY=VALUE", value_parser = parse_claim)]
        claims: Vec<(String, String)>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Changes claims of a user, or when the password expires
    ///
    /// An empty value removes a claim. Other claims stay.
    Set {
        /// The name of the user
        #[arg(value_name = "NAME", value_parser = parse_user)]
        name: UserName,
        #[command(flatten)]
        dir: Dir,
        /// A fact about the user, which partitions may use (repeatable)
        #[arg(
            long = "claim",
            value_name = "KEY=VALUE",
            value_parser = parse_claim,
            required_unless_present = "password_expires"
        )]
        claims: Vec<(String, String)>,
        /// When the password expires: YYYY-MM-DD, `now`, `never`, or `by-age` for what the server
        /// is configured to do
        #[arg(long, value_name = "WHEN", value_parser = parse_expiry)]
        password_expires: Option<Expires>,
    },
    /// Changes the password and revokes all session tokens of the user
    Password {
        /// The name of the user
        #[arg(value_name = "NAME", value_parser = parse_user)]
        name: UserName,
        #[command(flatten)]
        dir: Dir,
        /// Read the password from the first line of this file, which only its owner may read
        #[arg(long, value_name = "F")]
        password_file: Option<PathBuf>,
        /// Accept a password of fewer than 8 characters
        #[arg(long)]
        weak: bool,
    },
    /// Locks a user: revokes all session tokens and refuses the password, until `unlock`
    Lock {
        /// The name of the user
        #[arg(value_name = "NAME", value_parser = parse_user)]
        name: UserName,
        #[command(flatten)]
        dir: Dir,
    },
    /// Unlocks a user, with the same password as before
    Unlock {
        /// The name of the user
        #[arg(value_name = "NAME", value_parser = parse_user)]
        name: UserName,
        #[command(flatten)]
        dir: Dir,
    },
    /// Removes a user
    Remove {
        /// The name of the user
        #[arg(value_name = "NAME", value_parser = parse_user)]
        name: UserName,
        #[command(flatten)]
        dir: Dir,
        #[command(flatten)]
        consent: Consent,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Lists all users with their claims
    List {
        #[command(flatten)]
        dir: Dir,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
