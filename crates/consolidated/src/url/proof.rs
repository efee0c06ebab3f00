//! What a URL says about proofs: how each side authenticates itself to the other.

use super::environment::Variable;
use super::malformed::bad;
use model::Failure;
use postgres_driver::{ChannelBinding, ClientCertificate, Method, Methods, Proof};
use std::path::PathBuf;

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
    let require_auth = get("require_auth", "PGREQUIREAUTH").map(|text| methods(&text));
    Ok(Proof { channel_binding, require_auth: require_auth.transpose()?, certificate })
}

/// The options that say the same, not encoded; nothing where it is the default.
pub(super) fn options(proof: &Proof) -> Vec<(&'static str, String)> {
    let mut options = Vec::new();
    if proof.channel_binding != ChannelBinding::default() {
        options.push(("channel_binding", proof.channel_binding.name().to_owned()));
    }
    if let Some(methods) = &proof.require_auth {
        options.push(("require_auth", methods.to_string()));
    }
    if let Some(certificate) = &proof.certificate {
        options.push(("sslcert", certificate.chain.to_string_lossy().into_owned()));
        options.push(("sslkey", certificate.key.to_string_lossy().into_owned()));
    }
    options
}

/// As in libpq either all have a `!` in front of them or none has.
fn methods(text: &str) -> Result<Methods, Failure> {
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
    Ok(Methods::new(listed, negated))
}
