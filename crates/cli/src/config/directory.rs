//! The options of `[server]` for a directory of LDAP that knows the users.

use super::spelled::SpelledOption;
use serde::{Deserialize, Serialize};
use server::DirectoryOptions;
use std::path::PathBuf;

/// The options that are no numbers, exactly as in the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct DirectoryFileOptions {
    /// Where the directory is.
    #[serde(skip_serializing_if = "Option::is_none")]
    ldap_url: Option<String>,
    ldap_start_tls: bool,
    /// A file with the authorities of its certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    ldap_ca_file: Option<String>,
    /// The distinguished names of users.
    #[serde(skip_serializing_if = "Option::is_none")]
    ldap_user_dn: Option<String>,
    /// Where users are searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    ldap_search_base: Option<String>,
    ldap_search_filter: String,
    /// Who searches.
    #[serde(skip_serializing_if = "Option::is_none")]
    ldap_bind_dn: Option<String>,
    /// A file with the password of the one who searches.
    #[serde(skip_serializing_if = "Option::is_none")]
    ldap_bind_password_file: Option<String>,
    ldap_claims: Vec<String>,
    ldap_register: bool,
}

/// The options in the order of the sample file.
pub(crate) const DIRECTORY_OPTIONS: &[SpelledOption] = &[
    SpelledOption {
        name: "ldap_url",
        value: "\"ldaps://directory.example.com\"",
        why: "(ldaps://HOST:PORT, or ldap://HOST:PORT with ldap_start_tls or on this machine): a \
              directory that knows the users. With it the server verifies no password itself: one \
              is right if the directory lets its user in with it (simple bind).",
    },
    SpelledOption {
        name: "ldap_start_tls",
        value: "false",
        why: "(true, false): whether a connection to ldap:// is encrypted by StartTLS.",
    },
    SpelledOption {
        name: "ldap_ca_file",
        value: "\"ca.pem\"",
        why: "(a file, relative to this one): the authorities of the certificate of the directory. \
              Default: those of the system.",
    },
    SpelledOption {
        name: "ldap_user_dn",
        value: "\"uid={s.username},ou=people,dc=example,dc=com\"",
        why: "(a distinguished name with {s.username}): the entry of a user. It and \
              ldap_search_base exclude each other.",
    },
    SpelledOption {
        name: "ldap_search_base",
        value: "\"ou=people,dc=example,dc=com\"",
        why: "(a distinguished name): where the entry of a user is searched, if its name does not \
              follow from the name of the user.",
    },
    SpelledOption {
        name: "ldap_search_filter",
        value: "\"(uid={s.username})\"",
        why: "(a filter): how the entry is found. It must find one entry.",
    },
    SpelledOption {
        name: "ldap_bind_dn",
        value: "\"cn=syncline,ou=services,dc=example,dc=com\"",
        why: "(a distinguished name): who searches. Default: the search is anonymous.",
    },
    SpelledOption {
        name: "ldap_bind_password_file",
        value: "\"ldap.secret\"",
        why: "(a file, relative to this one): its first line is the password of ldap_bind_dn. Only \
              its owner may read it.",
    },
    SpelledOption {
        name: "ldap_claims",
        value: "[\"region=l\"]",
        why: "(CLAIM=ATTRIBUTE, or the one name of both): attributes of the entry that become \
              {u.CLAIM} in scripts and partitions. The directory alone says them: what `syncline \
              user` says of them does not count. Several values become a list.",
    },
    SpelledOption {
        name: "ldap_register",
        value: "true",
        why: "(true or false): add users that the directory knows and the database does not. \
              Default: false.",
    },
];

impl Default for DirectoryFileOptions {
    fn default() -> DirectoryFileOptions {
        DirectoryFileOptions {
            ldap_url: None,
            ldap_start_tls: false,
            ldap_ca_file: None,
            ldap_user_dn: None,
            ldap_search_base: None,
            ldap_search_filter: DirectoryOptions::default().search_filter,
            ldap_bind_dn: None,
            ldap_bind_password_file: None,
            ldap_claims: Vec::new(),
            ldap_register: false,
        }
    }
}

impl DirectoryFileOptions {
    /// What the options mean to the server.
    pub(crate) fn meaning(
        &self,
        answer_s: u64,
        timeout_s: u64,
        requests_max: usize,
    ) -> DirectoryOptions {
        DirectoryOptions {
            url: self.ldap_url.clone(),
            start_tls: self.ldap_start_tls,
            ca_file: self.ldap_ca_file.as_ref().map(PathBuf::from),
            user_dn: self.ldap_user_dn.clone(),
            search_base: self.ldap_search_base.clone(),
            search_filter: self.ldap_search_filter.clone(),
            bind_dn: self.ldap_bind_dn.clone(),
            bind_password_file: self.ldap_bind_password_file.as_ref().map(PathBuf::from),
            claims: self.ldap_claims.clone(),
            register: self.ldap_register,
            answer_s,
            timeout_s,
            requests_max,
        }
    }
}
