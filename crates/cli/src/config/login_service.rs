//! The options of `[server]` for a service of the company that knows its users.

use super::spelled::SpelledOption;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The options that are no numbers, exactly as in the file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ServiceFileOptions {
    /// Where the service is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    authenticate_user_url: Option<String>,
    /// A file with the secret by which it knows the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    authenticate_user_secret_file: Option<String>,
    /// A file with the authorities of its certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    authenticate_user_ca_file: Option<String>,
    authenticate_user_claims: Vec<String>,
    authenticate_user_register: bool,
}

/// The options in the order of the sample file.
pub(crate) const SERVICE_OPTIONS: &[SpelledOption] = &[
    SpelledOption {
        name: "authenticate_user_url",
        value: "\"https://login.example.com/syncline\"",
        why: "(an https:// URL, or http:// on this machine): a service that knows the users. With \
              it the server asks this service about each password, by one POST with JSON, and \
              verifies none itself. It follows no redirect and uses no proxy.",
    },
    SpelledOption {
        name: "authenticate_user_secret_file",
        value: "\"service.secret\"",
        why: "(a file, relative to this one): its first line is sent to the service as a bearer \
              token, so that the service knows the server. Only its owner may read it.",
    },
    SpelledOption {
        name: "authenticate_user_ca_file",
        value: "\"ca.pem\"",
        why: "(a file, relative to this one): the authorities of the certificate of the service. \
              Default: those of the system.",
    },
    SpelledOption {
        name: "authenticate_user_claims",
        value: "[\"region\"]",
        why: "(claims): these become {u.NAME} in scripts and partitions. The service alone says \
              them: what `syncline user` says of them does not count. A list becomes a list.",
    },
    SpelledOption {
        name: "authenticate_user_register",
        value: "true",
        why: "(true or false): add users that the service knows and the database does not. \
              Default: false.",
    },
];

impl ServiceFileOptions {
    /// What the options mean to the server.
    pub(crate) fn meaning(&self, timeout_s: u64, requests_max: usize) -> server::ServiceOptions {
        server::ServiceOptions {
            url: self.authenticate_user_url.clone(),
            secret_file: self.authenticate_user_secret_file.as_ref().map(PathBuf::from),
            ca_file: self.authenticate_user_ca_file.as_ref().map(PathBuf::from),
            claims: self.authenticate_user_claims.clone(),
            register: self.authenticate_user_register,
            timeout_s,
            requests_max,
        }
    }
}
