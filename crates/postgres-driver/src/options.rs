//! As whom to connect, and what is asked of the connection.

use crate::proof::Proof;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// As whom to connect, and what is asked of the connection.
#[derive(Clone)]
pub struct Options {
    /// The role.
    pub user: String,
    /// Its password, if one is known.
    pub password: Option<String>,
    /// The database.
    pub database: String,
    /// What the server shows as the name of the program.
    pub application_name: String,
    /// Settings of the session, as `-c name=value`.
    pub settings: Option<String>,
    /// How long each step may take until the session is there.
    pub connect_timeout: Duration,
    /// How long the server may be silent when it was asked something; none: without an end.
    pub silence_max: Option<Duration>,
    /// None: no TLS.
    pub encryption: Option<Encryption>,
    /// The file with the authorities to trust, instead of the system's.
    pub root: Option<PathBuf>,
    /// How each side proves who it is.
    pub proof: Proof,
}

/// What is asked of TLS.
#[derive(Debug, Clone, Copy)]
pub struct Encryption {
    /// Not only where the server has it.
    pub required: bool,
    /// How the server's certificate is checked.
    pub check: Check,
}

/// How the server's certificate is checked, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Not at all.
    Nothing,
    /// Signed by a trusted authority, whatever the name.
    Authority,
    /// Signed by a trusted authority, for this host.
    Full,
}

impl Options {
    /// What the server is sent at the very beginning.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        let fixed = [
            ("client_encoding", "UTF8"),
            ("user", self.user.as_str()),
            ("database", self.database.as_str()),
            ("application_name", self.application_name.as_str()),
        ];
        fixed.into_iter().chain(self.settings.as_deref().map(|settings| ("options", settings)))
    }
}

/// Never shows the password.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("user", &self.user)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}
