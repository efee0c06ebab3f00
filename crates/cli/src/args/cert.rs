//! The options of `syncline cert`, and what `syncline sync` has to know of certificates.

use super::name::parse_user;
use certificates::Pin;
use clap::{Args, Subcommand};
use model::UserName;
use std::path::PathBuf;

/// Makes certificates for encrypted connections.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  syncline cert dev --dir sales                         for tests on this machine
  syncline cert dev --dir sales --host sync.example     also for remotes in other places
  syncline cert client --dir sales --user ann           a certificate for one more user
They print what to write into syncline.toml, and how remotes synchronize.")]
pub(crate) struct CertOptions {
    #[command(subcommand)]
    pub(crate) action: CertAction,
}

/// What to do with certificates.
#[derive(Debug, Subcommand)]
pub(crate) enum CertAction {
    /// Makes an authority of your own, with certificates for a server and for remotes
    ///
    /// Writes ca.pem, server.pem and client-NAME.pem, which are valid for a year, each with its
    /// key. Keep ca.key secret: who has it can make certificates for any user.
    Dev {
        /// The folder to write to; created if it does not exist
        #[arg(long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
        /// A name or address of the server (repeatable), beside localhost, 127.0.0.1 and ::1
        #[arg(long = "host", value_name = "NAME")]
        hosts: Vec<String>,
        /// The user of a certificate for remotes (repeatable)
        #[arg(long = "user", value_name = "NAME", value_parser = parse_user, default_value = "dev")]
        users: Vec<UserName>,
        /// Overwrite existing files: certificates of the former authority become void
        #[arg(long)]
        force: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Makes further certificates for remotes, by the authority of `cert dev`
    Client {
        /// The folder with ca.pem and ca.key
        #[arg(long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
        /// The user of a certificate (repeatable)
        #[arg(long = "user", value_name = "NAME", value_parser = parse_user, required = true)]
        users: Vec<UserName>,
        /// Overwrite existing files
        #[arg(long)]
        force: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Which servers a remote believes, and what it shows them.
#[derive(Debug, Clone, Args)]
pub(crate) struct TrustOptions {
    /// Believe servers whose certificates come from the authorities in this file, in place of the
    /// system's
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,

    /// Believe the server that has the key with this SHA-256; without --ca-file the key alone
    /// decides
    #[arg(long, value_name = "SHA256", value_parser = parse_pin)]
    pub(crate) pin: Option<Pin>,

    /// Show the server this certificate; without a password or token it stands for them
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub(crate) client_certificate: Option<PathBuf>,

    /// The key of the certificate, which only its owner may read
    #[arg(long, value_name = "FILE", requires = "client_certificate")]
    pub(crate) client_key: Option<PathBuf>,

    /// Refuse to send anything to other machines in clear text
    #[arg(long)]
    pub(crate) require_tls: bool,

    /// Forget what the file remembers of --ca-file, --pin, --client-certificate, --client-key and
    /// --require-tls
    #[arg(long)]
    pub(crate) forget_trust: bool,
}

fn parse_pin(text: &str) -> Result<Pin, String> {
    text.parse().map_err(|failure: model::Failure| {
        format!("{}; {}", failure.message(), failure.hint_text())
    })
}
