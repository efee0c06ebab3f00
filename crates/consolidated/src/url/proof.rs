//! What a URL says about proofs: how each side authenticates itself to the other.

use super::bad;
use super::postgres::Variable;
use model::Failure;
use std::fmt;
use std::path::PathBuf;

/// What a URL says about proofs; by default nothing.
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
    const ALL: [ChannelBinding; 3] =
        [ChannelBinding::Disable, ChannelBinding::Prefer, ChannelBinding::Require];

    fn name(self) -> &'static str {
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
    const ALL: [Method; 6] = [
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

    /// As in libpq either all have a `!` in front of them or none has.
    fn parse(text: &str) -> Result<Methods, Failure> {
        let negated = text.starts_with('!');
        let mut listed = Vec::new();
        for part in text.split(',') {
            let name = part.strip_prefix('!').unwrap_or(part);
            if part.starts_with('!') != negated {
                let message = "require_auth has methods with a `!` and others without";
                return Err(
                    bad(message.to_owned()).hint("name the methods to allow, or those to forbid")
                );
            }
            let Some(method) = Method::ALL.into_iter().find(|method| method.name() == name) else {
                let names = Method::ALL.map(Method::name).join(", ");
                let message = format!("`{name}` is not a known method of require_auth");
                return Err(bad(message).hint(format!("use {names}")));
            };
            if listed.contains(&method) {
                return Err(bad(format!("require_auth names `{name}` twice")));
            }
            listed.push(method);
        }
        Ok(Methods { listed, negated })
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

impl Proof {
    /// What the text of a URL says, or else the environment: `text` answers for an option.
    pub(super) fn parse(
        text: &dyn Fn(&str) -> Option<String>,
        variable: Variable<'_>,
    ) -> Result<Proof, Failure> {
        let get = |name: &str, variable_name: &str| text(name).or_else(|| variable(variable_name));
        let channel_binding = match get("channel_binding", "PGCHANNELBINDING") {
            None => ChannelBinding::default(),
            Some(name) => {
                let found = ChannelBinding::ALL.into_iter().find(|known| known.name() == name);
                found.ok_or_else(|| {
                    let names = ChannelBinding::ALL.map(ChannelBinding::name).join(", ");
                    bad(format!("`{name}` is not a known value of channel_binding"))
                        .hint(format!("use {names}"))
                })?
            }
        };
        let path = |name: &str, variable_name: &str| -> Result<Option<PathBuf>, Failure> {
            let Some(text) = get(name, variable_name) else { return Ok(None) };
            let absolute = std::path::absolute(&text);
            absolute
                .map(Some)
                .map_err(|error| bad(format!("{name} `{text}` is not a path")).source(error))
        };
        let certificate = match (path("sslcert", "PGSSLCERT")?, path("sslkey", "PGSSLKEY")?) {
            (Some(chain), Some(key)) => Some(ClientCertificate { chain, key }),
            (None, None) => None,
            (Some(_), None) => return Err(bad("the URL has an sslcert and no sslkey".to_owned())),
            (None, Some(_)) => return Err(bad("the URL has an sslkey and no sslcert".to_owned())),
        };
        let methods = get("require_auth", "PGREQUIREAUTH").map(|text| Methods::parse(&text));
        Ok(Proof { channel_binding, require_auth: methods.transpose()?, certificate })
    }

    /// The options that say the same, not encoded; nothing where it is the default.
    pub(super) fn options(&self) -> Vec<(&'static str, String)> {
        let mut options = Vec::new();
        if self.channel_binding != ChannelBinding::default() {
            options.push(("channel_binding", self.channel_binding.name().to_owned()));
        }
        if let Some(methods) = &self.require_auth {
            options.push(("require_auth", methods.to_string()));
        }
        if let Some(certificate) = &self.certificate {
            options.push(("sslcert", certificate.chain.to_string_lossy().into_owned()));
            options.push(("sslkey", certificate.key.to_string_lossy().into_owned()));
        }
        options
    }
}
