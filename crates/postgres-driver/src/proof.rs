//! How each side proves to the other who it is.

use std::fmt;
use std::path::PathBuf;

/// What is asked of proofs; by default nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proof {
    /// Whether SCRAM must be bound to the encrypted connection.
    pub channel_binding: ChannelBinding,
    /// The ways of the server to ask for a proof that are admitted; none named: all.
    pub require_auth: Option<Methods>,
    /// The certificate that is shown to a server that asks for one.
    pub certificate: Option<ClientCertificate>,
}

/// Whether SCRAM must be bound to the encrypted connection, as libpq calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChannelBinding {
    /// Never.
    Disable,
    /// Where the server can.
    #[default]
    Prefer,
    /// Always: a server that cannot, or that asks for another proof or none, is refused.
    Require,
}

impl ChannelBinding {
    /// All of them.
    pub const ALL: [ChannelBinding; 3] =
        [ChannelBinding::Disable, ChannelBinding::Prefer, ChannelBinding::Require];

    /// The name, as libpq calls it.
    pub fn name(self) -> &'static str {
        match self {
            ChannelBinding::Disable => "disable",
            ChannelBinding::Prefer => "prefer",
            ChannelBinding::Require => "require",
        }
    }
}

/// A way in which a server asks for a proof, as libpq calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The password itself.
    Password,
    /// A digest of it, with MD5.
    Md5,
    /// SCRAM-SHA-256, bound to the connection or not.
    ScramSha256,
    /// Kerberos, which we do not speak.
    Gss,
    /// What Windows has of it.
    Sspi,
    /// The server asks for nothing, or for a certificate in the handshake of TLS.
    None,
}

impl Method {
    /// All of them.
    pub const ALL: [Method; 6] = [
        Method::Password,
        Method::Md5,
        Method::ScramSha256,
        Method::Gss,
        Method::Sspi,
        Method::None,
    ];

    /// The name in `require_auth`.
    pub fn name(self) -> &'static str {
        match self {
            Method::Password => "password",
            Method::Md5 => "md5",
            Method::ScramSha256 => "scram-sha-256",
            Method::Gss => "gss",
            Method::Sspi => "sspi",
            Method::None => "none",
        }
    }
}

/// The methods that are admitted, or those that are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Methods {
    listed: Vec<Method>,
    /// All others are admitted.
    negated: bool,
}

impl Methods {
    /// Whether a server may ask in this way.
    pub fn admit(&self, method: Method) -> bool {
        self.listed.contains(&method) != self.negated
    }

    /// These methods, or all others.
    pub fn new(listed: Vec<Method>, negated: bool) -> Methods {
        Methods { listed, negated }
    }
}

impl fmt::Display for Methods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, method) in self.listed.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let mark = if self.negated { "!" } else { "" };
            write!(f, "{comma}{mark}{}", method.name())?;
        }
        Ok(())
    }
}

/// A certificate and its key, in PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, and those between it and its authority.
    pub chain: PathBuf,
    /// Its key, which only its owner may read.
    pub key: PathBuf,
}
