//! What the file says of the certificates of remotes.

use serde::{Deserialize, Serialize};
use server::{ClientCertificates, NameKind};

/// Whether remotes show certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TlsClient {
    /// They are not asked.
    Off,
    /// One that is shown can stand for the password.
    Optional,
    /// No remote is served without.
    Required,
}

/// Where such a certificate names its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TlsClientUser {
    /// A URI among the alternative names.
    SanUri,
    /// A DNS name among them.
    SanDns,
    /// An address of mail among them.
    SanEmail,
    /// The common name.
    Cn,
}

impl TlsClient {
    /// What it means to the server.
    pub(crate) fn meaning(self) -> ClientCertificates {
        match self {
            TlsClient::Off => ClientCertificates::Off,
            TlsClient::Optional => ClientCertificates::Optional,
            TlsClient::Required => ClientCertificates::Required,
        }
    }
}

impl TlsClientUser {
    /// What it means to the server.
    pub(crate) fn meaning(self) -> NameKind {
        match self {
            TlsClientUser::SanUri => NameKind::SanUri,
            TlsClientUser::SanDns => NameKind::SanDns,
            TlsClientUser::SanEmail => NameKind::SanEmail,
            TlsClientUser::Cn => NameKind::Cn,
        }
    }
}
