//! As whom a remote synchronizes, and what proves it.

use super::name::parse_user;
use clap::Args;
use model::UserName;
use std::path::PathBuf;

/// The user, and the files with what proves that it is this user.
#[derive(Debug, Clone, Args)]
pub(crate) struct CredentialOptions {
    /// The user [default: the one that FILE knows]
    #[arg(long, value_name = "NAME", value_parser = parse_user)]
    pub(crate) user: Option<UserName>,

    /// Read the password from the first line of this file, which only its owner may read
    #[arg(long, value_name = "F")]
    pub(crate) password_file: Option<PathBuf>,

    /// Use the session token in this file; if a password is given, renew the token there
    #[arg(long, value_name = "F")]
    pub(crate) token_file: Option<PathBuf>,
}
