//! What the server needs to ask a service of the company who a user is.

use std::path::{Path, PathBuf};

/// The service that knows the users, in place of passwords in the database. Without a URL there is
/// none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceOptions {
    /// Where it is asked: `https://`, or `http://` on this machine.
    pub url: Option<String>,
    /// A file with a secret by which the service knows the server.
    pub secret_file: Option<PathBuf>,
    /// A file with the authorities of its certificate; none: those of the machine.
    pub ca_file: Option<PathBuf>,
    /// The claims that become claims of the user. The service alone says them.
    pub claims: Vec<String>,
    /// Whether users are added that the service knows and the database does not.
    pub register: bool,
    /// Seconds that it has to answer.
    pub timeout_s: u64,
    /// Questions at once.
    pub requests_max: usize,
}

impl Default for ServiceOptions {
    fn default() -> ServiceOptions {
        ServiceOptions {
            url: None,
            secret_file: None,
            ca_file: None,
            claims: Vec::new(),
            register: false,
            timeout_s: 10,
            requests_max: 32,
        }
    }
}

impl ServiceOptions {
    /// Understands its paths from `dir`.
    pub fn resolve(&mut self, dir: &Path) {
        for path in [&mut self.secret_file, &mut self.ca_file].into_iter().flatten() {
            *path = dir.join(&path);
        }
    }
}
