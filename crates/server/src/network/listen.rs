//! Where a URL says to listen: the acceptor for it, made of those that it needs.

use super::Acceptor;
use super::http::Http;
use super::listener::Listener;
use super::proxied::Proxied;
use super::surroundings::Surroundings;
use super::tls::{Protocols, TlsAcceptor, TlsSettings};
use model::{Code, Failure, ServerUrl};
use std::sync::Arc;

/// Listens at `url`, with what it takes to understand those who come. Must be called inside the
/// runtime.
pub(crate) fn listen(
    url: &str,
    tls: Option<&Arc<TlsSettings>>,
    require_tls: bool,
    surroundings: Surroundings,
) -> Result<Box<dyn Acceptor>, Failure> {
    let url = ServerUrl::parse(url)?;
    let scheme = url.scheme();
    if require_tls && !scheme.is_encrypted() && !url.is_loopback() {
        let message = format!("{url} would serve other machines in clear text");
        return Err(Failure::new(Code::ClearTextRefused, message).hint(
            "listen at tls:// or https://, or at a loopback address, or remove `require_tls`",
        ));
    }
    let encrypted = match (scheme.is_encrypted(), tls) {
        (false, _) => None,
        (true, Some(tls)) => Some(tls.clone()),
        (true, None) => return Err(no_certificate(&url)),
    };
    let listener = Box::new(Listener::bind(&url)?);
    let mut acceptor: Box<dyn Acceptor> =
        Box::new(Proxied::new(listener, surroundings.shared.clone()));
    if let Some(tls) = encrypted {
        let memory = surroundings.shared.spills.memory().clone();
        let protocols = if scheme.is_http() { Protocols::Http } else { Protocols::Frames };
        acceptor = Box::new(TlsAcceptor::new(acceptor, scheme.name(), tls, protocols, memory));
    }
    if scheme.is_http() {
        acceptor = Box::new(Http::new(acceptor, &url, surroundings));
    }
    Ok(acceptor)
}

fn no_certificate(url: &ServerUrl) -> Failure {
    Failure::new(Code::ConfigInvalid, format!("{url} needs a certificate"))
        .hint("name tls_certificate and tls_key in [server]; `syncline cert dev` makes some to try")
}
