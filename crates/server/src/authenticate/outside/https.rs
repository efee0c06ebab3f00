//! Requests to other servers over HTTPS, each with an end.

use model::{Code, Failure};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use ureq::Agent;
use ureq::config::ConfigBuilder;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::typestate::AgentScope;

/// How long a provider has to send its keys.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

const USER_AGENT: &str = concat!("syncline/", env!("CARGO_PKG_VERSION"));

/// A server that can be asked, and nobody else who asks it.
pub(super) struct Endpoint {
    agent: Agent,
    url: String,
}

impl Endpoint {
    /// The one at this URL. The authorities are those of the file, or of the machine. What is sent
    /// is for it alone, so it passes no proxy.
    pub(super) fn new(
        option: &str,
        url: &str,
        ca_file: Option<&Path>,
        timeout: Duration,
    ) -> Result<Endpoint, Failure> {
        require_private(option, url)?;
        let roots = match ca_file {
            None => RootCerts::PlatformVerifier,
            Some(path) => RootCerts::Specific(Arc::new(roots(path)?)),
        };
        let agent = builder(roots, timeout).proxy(None).http_status_as_error(false).build().into();
        Ok(Endpoint { agent, url: url.to_owned() })
    }

    /// Posts JSON, and gives the body of a 200. Fails with what was in the way.
    pub(super) fn post(
        &self,
        secret: Option<&str>,
        body: &[u8],
        answer_bytes_max: u64,
    ) -> Result<Vec<u8>, String> {
        let said = |error: ureq::Error| format!("{}: {error}", self.url);
        let mut request = self.agent.post(&self.url).content_type("application/json");
        if let Some(secret) = secret {
            request = request.header("authorization", format!("Bearer {secret}"));
        }
        let mut response = request.send(body).map_err(said)?;
        if response.status() != 200 {
            return Err(format!("{}: status {} in place of 200", self.url, response.status()));
        }
        response.body_mut().with_config().limit(answer_bytes_max).read_to_vec().map_err(said)
    }
}

/// What is at this URL, of at most so many bytes.
pub(in crate::authenticate) fn fetch(url: &str, bytes_max: u64) -> Result<Vec<u8>, ureq::Error> {
    let agent: Agent = builder(RootCerts::PlatformVerifier, FETCH_TIMEOUT).build().into();
    let mut response = agent.get(url).call()?;
    response.body_mut().with_config().limit(bytes_max).read_to_vec()
}

/// Redirects are not followed: they could lead to another server.
fn builder(roots: RootCerts, timeout: Duration) -> ConfigBuilder<AgentScope> {
    let tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(certificates::provider())
        .root_certs(roots)
        .build();
    Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(timeout))
        .user_agent(USER_AGENT)
        .max_redirects(0)
        .max_redirects_will_error(true)
}

fn roots(path: &Path) -> Result<Vec<Certificate<'static>>, Failure> {
    let chain = certificates::read_chain(path)?;
    Ok(chain.iter().map(|der| Certificate::from_der(der).to_owned()).collect())
}

/// Passwords cross no network in clear text, and a URL holds none.
fn require_private(option: &str, url: &str) -> Result<(), Failure> {
    let refused = |why: &str| {
        let message = format!("{option} {why}");
        Err(Failure::new(Code::ConfigInvalid, message).hint("name an https:// URL without a user"))
    };
    let Ok(uri) = url.parse::<Uri>() else { return refused("is no URL") };
    let Some(authority) = uri.authority() else { return refused("names no server") };
    if authority.as_str().contains('@') {
        return refused("names a user; a secret belongs into a file");
    }
    match uri.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if is_loopback(authority.host()) => Ok(()),
        Some("http") => refused("would send passwords in clear text"),
        _ => refused("is no https:// URL"),
    }
}

/// Whether what is sent to this host stays within the machine.
pub(super) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
