//! What the server needs to ask a directory of LDAP who a user is.

use std::path::{Path, PathBuf};

/// The directory that knows the users, in place of passwords in the database. Without a URL there
/// is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryOptions {
    /// Where it is: `ldaps://`, or `ldap://` with StartTLS or on this machine.
    pub url: Option<String>,
    /// Whether a connection to `ldap://` is encrypted once the directory agrees.
    pub start_tls: bool,
    /// A file with the authorities of its certificate; none: those of the machine.
    pub ca_file: Option<PathBuf>,
    /// The distinguished name of a user, with `{s.username}` for the name.
    pub user_dn: Option<String>,
    /// Where the entry of a user is searched, in place of `user_dn`.
    pub search_base: Option<String>,
    /// How it is found.
    pub search_filter: String,
    /// Who searches; none: nobody in particular.
    pub bind_dn: Option<String>,
    /// A file with the password of `bind_dn`.
    pub bind_password_file: Option<PathBuf>,
    /// The claims that become claims of the user: `CLAIM`, or `CLAIM=ATTRIBUTE`.
    pub claims: Vec<String>,
    /// Whether users are added that the directory knows and the database does not.
    pub register: bool,
    /// Seconds for which it need not be asked again; 0: it is asked each time.
    pub answer_s: u64,
    /// Seconds that it has to answer.
    pub timeout_s: u64,
    /// Questions at once, each with a connection of its own.
    pub requests_max: usize,
}

impl Default for DirectoryOptions {
    fn default() -> DirectoryOptions {
        DirectoryOptions {
            url: None,
            start_tls: false,
            ca_file: None,
            user_dn: None,
            search_base: None,
            search_filter: "(uid={s.username})".to_owned(),
            bind_dn: None,
            bind_password_file: None,
            claims: Vec::new(),
            register: false,
            answer_s: 0,
            timeout_s: 10,
            requests_max: 32,
        }
    }
}

impl DirectoryOptions {
    /// Understands its paths from `dir`.
    pub fn resolve(&mut self, dir: &Path) {
        for path in [&mut self.ca_file, &mut self.bind_password_file].into_iter().flatten() {
            *path = dir.join(&path);
        }
    }
}
