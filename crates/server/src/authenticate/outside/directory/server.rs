//! A server with a directory, and how what is sent to it is kept from others.

use crate::authenticate::outside::https::is_loopback;
use crate::config::DirectoryOptions;
use certificates::provider;
use model::{Code, Failure};
use rustls::ClientConfig;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::Verifier;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use ureq::http::Uri;

const PORT: u16 = 389;
const PORT_OF_TLS: u16 = 636;

/// Where it is.
pub(super) struct DirectoryServer {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) encryption: Encryption,
}

/// How a connection is kept from others.
pub(super) enum Encryption {
    /// It stays within the machine.
    None,
    /// From the first byte on.
    Tls(Tls),
    /// After the directory has agreed.
    StartTls(Tls),
}

/// Whom TLS believes.
pub(super) struct Tls {
    pub(super) config: Arc<ClientConfig>,
    pub(super) server_name: ServerName<'static>,
}

impl DirectoryServer {
    /// Understands the options. A password crosses no network in clear text.
    pub(super) fn read(url: &str, options: &DirectoryOptions) -> Result<DirectoryServer, Failure> {
        let refused = |why: &str| {
            let message = format!("ldap_url {why}");
            Err(Failure::new(Code::ConfigInvalid, message)
                .hint("name ldaps://HOST, or ldap://HOST with ldap_start_tls = true"))
        };
        let Ok(uri) = url.parse::<Uri>() else { return refused("is no URL") };
        let Some(authority) = uri.authority() else { return refused("names no server") };
        if authority.as_str().contains('@') {
            return refused("names a user; that is what ldap_bind_dn is for");
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return refused("has something behind the server");
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = || -> Result<Tls, Failure> {
            let name = ServerName::try_from(host.clone()).map_err(|error| {
                let message = "ldap_url names a server that can be in no certificate";
                Failure::new(Code::ConfigInvalid, message).source(error)
            })?;
            Ok(Tls { config: config(options.ca_file.as_deref())?, server_name: name })
        };
        let (encryption, port) = match (uri.scheme_str(), options.start_tls) {
            (Some("ldaps"), true) => {
                return refused("is encrypted already, without ldap_start_tls");
            }
            (Some("ldaps"), false) => (Encryption::Tls(tls()?), PORT_OF_TLS),
            (Some("ldap"), true) => (Encryption::StartTls(tls()?), PORT),
            (Some("ldap"), false) if is_loopback(&host) => (Encryption::None, PORT),
            (Some("ldap"), false) => return refused("would send passwords in clear text"),
            _ => return refused("is no ldaps:// or ldap:// URL"),
        };
        let port = authority.port_u16().unwrap_or(port);
        Ok(DirectoryServer { host, port, encryption })
    }
}

impl fmt::Display for DirectoryServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, port {}", self.host, self.port)
    }
}

/// TLS 1.2 and 1.3. The authorities are those of the file, or of the machine.
fn config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, Failure> {
    let verifier: Arc<dyn ServerCertVerifier> = match ca_file {
        Some(path) => {
            let roots = Arc::new(certificates::read_roots(path)?);
            let builder = WebPkiServerVerifier::builder_with_provider(roots, provider());
            builder.build().map_err(|error| {
                let message = format!("{} holds no authority", path.display());
                Failure::new(Code::CertificateUnusable, message).source(error)
            })?
        }
        None => Arc::new(Verifier::new(provider()).map_err(|error| {
            let message = "the system has no certificates of authorities";
            Failure::new(Code::CertificateUnusable, message)
                .hint("install them (ca-certificates), or name a file in ldap_ca_file")
                .source(error)
        })?),
    };
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::new(Code::Bug, "cannot set up TLS").source(error))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
