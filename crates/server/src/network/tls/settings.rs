//! How TLS is spoken: the certificate, the versions, what is spoken inside.

use super::files::Stamp;
use crate::config::{ClientCertificates, TlsFiles};
use certificates::{ends_unix_s, provider};
use model::{Code, Failure};
use rustls::ServerConfig;
use rustls::crypto::ring::Ticketer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use std::sync::{Arc, Mutex, PoisonError};

/// What is spoken inside. A peer that asks for something else is refused (ALPN); one that asks for
/// nothing is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocols {
    /// Our own frames.
    Frames,
    /// HTTP/2 and HTTP/1.1.
    Http,
}

impl Protocols {
    fn names(self) -> &'static [&'static str] {
        match self {
            Protocols::Frames => &["syncline/1"],
            Protocols::Http => &["h2", "http/1.1"],
        }
    }
}

/// The settings of a running server. Connections take what holds when their first byte comes.
pub(crate) struct TlsSettings(Mutex<Held>);

/// What holds, and what it was read from.
struct Held {
    files: TlsFiles,
    stamp: Stamp,
    /// Seen once, and different from `stamp`: somebody may still be writing.
    changing: Option<Stamp>,
    /// Who vouches for remotes. What was proven to another one counts for nothing.
    authorities: Authorities,
    /// What lets a session be resumed without keeping anything of it here.
    tickets: Arc<dyn ProducesTickets>,
    frames: Arc<ServerConfig>,
    http: Arc<ServerConfig>,
    ends_unix_s: i64,
}

/// The authorities of remotes, as they are written, and what is made of them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Authorities(ClientCertificates, Vec<Vec<u8>>);

impl TlsSettings {
    /// Reads the files; none where there are none.
    pub(crate) fn read(files: &TlsFiles) -> Result<Option<Arc<TlsSettings>>, Failure> {
        Ok(Held::read(files, None)?.map(|held| Arc::new(TlsSettings(Mutex::new(held)))))
    }

    /// Reads the files again. Where it fails, all is as it was.
    pub(crate) fn reload(&self, files: &TlsFiles) -> Result<(), Failure> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Not read again until they change, where they are no good.
        (held.stamp, held.changing) = (Stamp::of(files), None);
        if let Some(new) = Held::read(files, Some(&held))? {
            *held = new;
        }
        Ok(())
    }

    /// Reads the files again if they have changed and are as they were when this was asked last.
    /// True if they were read.
    pub(crate) fn look(&self) -> Result<bool, Failure> {
        let files = {
            let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Stamp::of(&held.files);
            if now == held.stamp {
                held.changing = None;
                return Ok(false);
            }
            if held.changing.as_ref() != Some(&now) {
                held.changing = Some(now);
                return Ok(false);
            }
            held.files.clone()
        };
        self.reload(&files).map(|()| true)
    }

    /// As they are at this moment.
    pub(crate) fn now(&self, protocols: Protocols) -> Arc<ServerConfig> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match protocols {
            Protocols::Frames => held.frames.clone(),
            Protocols::Http => held.http.clone(),
        }
    }

    /// When the certificate ends, in seconds since 1970.
    pub(crate) fn ends_unix_s(&self) -> i64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).ends_unix_s
    }
}

impl Held {
    fn read(files: &TlsFiles, former: Option<&Held>) -> Result<Option<Held>, Failure> {
        let stamp = Stamp::of(files);
        let Some(own) = own(files)? else { return Ok(None) };
        let (authorities, verifier) = authorities(files)?;
        let tickets = match former {
            Some(former) if former.authorities == authorities => former.tickets.clone(),
            _ => Ticketer::new().map_err(misuse)?,
        };
        let of = |protocols| build(&own, protocols, &tickets, verifier.clone()).map(Arc::new);
        let (frames, http) = (of(Protocols::Frames)?, of(Protocols::Http)?);
        let ends_unix_s = own.end_entity_cert().map_err(misuse).and_then(ends_unix_s)?;
        let files = files.clone();
        let changing = None;
        Ok(Some(Held { files, stamp, changing, authorities, tickets, frames, http, ends_unix_s }))
    }
}

fn own(files: &TlsFiles) -> Result<Option<Arc<CertifiedKey>>, Failure> {
    match (&files.certificate, &files.key) {
        (Some(certificate), Some(key)) => certificates::read_own(certificate, key).map(Some),
        (None, None) => Ok(None),
        _ => Err(unsaid("`tls_certificate` and `tls_key` need each other")),
    }
}

/// Who vouches for remotes, and who asks them.
fn authorities(
    files: &TlsFiles,
) -> Result<(Authorities, Option<Arc<dyn ClientCertVerifier>>), Failure> {
    let path = match (files.client, &files.client_ca) {
        (ClientCertificates::Off, _) => return Ok((Authorities(files.client, Vec::new()), None)),
        (_, None) => return Err(unsaid("`tls_client` needs `tls_client_ca`")),
        (_, Some(path)) => path,
    };
    let roots = Arc::new(certificates::read_roots(path)?);
    let written = certificates::read_chain(path)?.iter().map(|one| one.to_vec()).collect();
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider());
    let builder = match files.client {
        ClientCertificates::Required => builder,
        _ => builder.allow_unauthenticated(),
    };
    let verifier = builder.build().map_err(|error| {
        let message = format!("{} holds no authority", path.display());
        Failure::new(Code::CertificateUnusable, message).source(error)
    })?;
    Ok((Authorities(files.client, written), Some(verifier)))
}

/// TLS 1.2 and 1.3, without early data: what it carries can be sent again by others.
fn build(
    own: &Arc<CertifiedKey>,
    protocols: Protocols,
    tickets: &Arc<dyn ProducesTickets>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<ServerConfig, Failure> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(misuse)?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(own.clone())));
    config.alpn_protocols = protocols.names().iter().map(|name| name.as_bytes().into()).collect();
    config.ticketer = tickets.clone();
    // Tickets need no memory here, and other servers' sessions are no use to this one.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 1;
    Ok(config)
}

fn unsaid(message: &str) -> Failure {
    Failure::new(Code::ConfigInvalid, message).hint("name all the files in [server], or none")
}

fn misuse(error: rustls::Error) -> Failure {
    Failure::new(Code::Bug, "cannot set up TLS").source(error)
}
