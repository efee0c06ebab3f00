//! What is between clients and server: transport, encryption, compression.

use clap::ValueEnum;
use model::Scheme;
use serde::{Deserialize, Serialize};

/// How clients reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// Plain TCP
    Tcp,
    /// The same inside of TLS
    Tls,
    /// HTTP/1.1
    Http,
    /// The same inside of TLS
    Https,
    /// WebSocket
    Ws,
    /// The same inside of TLS
    Wss,
}

impl Transport {
    const ALL: [Transport; 6] = [
        Transport::Tcp,
        Transport::Tls,
        Transport::Http,
        Transport::Https,
        Transport::Ws,
        Transport::Wss,
    ];

    /// What its URLs begin with.
    pub(crate) fn scheme(self) -> Scheme {
        match self {
            Transport::Tcp => Scheme::Tcp,
            Transport::Tls => Scheme::Tls,
            Transport::Http => Scheme::Http,
            Transport::Https => Scheme::Https,
            Transport::Ws => Scheme::Ws,
            Transport::Wss => Scheme::Wss,
        }
    }

    /// The one whose URLs begin with this.
    pub(crate) fn of(scheme: Scheme) -> Option<Transport> {
        Transport::ALL.into_iter().find(|transport| transport.scheme() == scheme)
    }

    /// The name, as on the command line.
    pub(crate) fn name(self) -> &'static str {
        self.scheme().name()
    }

    /// Whether nobody between can read what is sent.
    pub(crate) fn is_encrypted(self) -> bool {
        self.scheme().is_encrypted()
    }
}

/// How rows are compressed on the network, in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Compression {
    /// Not at all
    None,
    /// LZ4
    Lz4,
    /// Zstandard
    Zstd,
}

impl Compression {
    /// The name, as on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self.method() {
            Some(method) => method.name(),
            None => "none",
        }
    }

    /// The method; none for rows as they are.
    pub(crate) fn method(self) -> Option<protocol::Compression> {
        match self {
            Compression::None => None,
            Compression::Lz4 => Some(protocol::Compression::Lz4),
            Compression::Zstd => Some(protocol::Compression::Zstd),
        }
    }
}

/// The key of the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Certificate {
    /// ECDSA with the curve P-256
    Ecdsa,
    /// RSA with 2,048 bits
    Rsa,
}

impl Certificate {
    /// The name, as on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Certificate::Ecdsa => "ecdsa",
            Certificate::Rsa => "rsa",
        }
    }
}

/// How encrypted connections begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Handshake {
    /// Each with the server's certificate, as that of a remote that comes once a day
    Full,
    /// Each goes on with the session of the one before
    Resumed,
}

impl Handshake {
    /// The name, as on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Handshake::Full => "full",
            Handshake::Resumed => "resumed",
        }
    }
}

/// What is in the last column of every row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Notes {
    /// Letters and digits that do not compress
    Random,
    /// Words, which compress
    Text,
}

impl Notes {
    /// The name, as on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Notes::Random => "random",
            Notes::Text => "text",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_is_a_transport() {
        for scheme in Scheme::ALL {
            let transport = Transport::of(scheme).unwrap();
            assert_eq!(transport.name(), scheme.name());
            let spelled = transport.to_possible_value().unwrap();
            assert_eq!(spelled.get_name(), scheme.name());
        }
    }
}
