//! Which servers a remote believes, and how it shows who it is itself.

use certificates::{Pin, provider};
use model::{Code, Failure};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_platform_verifier::Verifier;
use std::path::PathBuf;
use std::sync::Arc;

/// Which servers are believed, and what is shown to them. Without anything: those whose
/// certificates the system trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// The authorities that are believed in place of the system's.
    pub ca_file: Option<PathBuf>,
    /// The key that the server must have. Without `ca_file` the key alone decides: neither the name
    /// nor the dates of the certificate are looked at, which may be signed by itself.
    pub pin: Option<Pin>,
    /// The certificate that this remote shows, and its key.
    pub own: Option<(PathBuf, PathBuf)>,
    /// Nothing crosses a network in clear text.
    pub require_tls: bool,
}

impl Trust {
    /// What TLS needs to know of it, where this protocol is spoken inside.
    pub(super) fn config(&self, spoken: &str) -> Result<Arc<ClientConfig>, Failure> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(misuse)?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier()?);
        let mut config = match &self.own {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let own = SingleCertAndKey::from(certificates::read_own(chain, key)?);
                builder.with_client_cert_resolver(Arc::new(own))
            }
        };
        config.alpn_protocols = vec![spoken.as_bytes().to_vec()];
        Ok(Arc::new(config))
    }

    fn verifier(&self) -> Result<Arc<dyn ServerCertVerifier>, Failure> {
        let by_authority: Option<Arc<dyn ServerCertVerifier>> = match (&self.ca_file, &self.pin) {
            (Some(path), _) => {
                let roots = Arc::new(certificates::read_roots(path)?);
                let builder = WebPkiServerVerifier::builder_with_provider(roots, provider());
                let verifier = builder.build().map_err(|error| {
                    let message = format!("{} holds no authority", path.display());
                    Failure::new(Code::CertificateUnusable, message).source(error)
                })?;
                Some(verifier)
            }
            (None, Some(_)) => None,
            (None, None) => Some(Arc::new(Verifier::new(provider()).map_err(|error| {
                Failure::new(
                    Code::CertificateUnusable,
                    "the system has no certificates of authorities",
                )
                .hint("install them (ca-certificates), or give --ca-file or --pin")
                .source(error)
            })?)),
        };
        Ok(match (by_authority, self.pin) {
            (Some(verifier), None) => verifier,
            (by_authority, Some(pin)) => {
                Arc::new(Pinned { pin, by_authority, provider: provider() })
            }
            (None, None) => return Err(Failure::new(Code::Bug, "nobody is trusted")),
        })
    }
}

fn misuse(error: rustls::Error) -> Failure {
    Failure::new(Code::Bug, "cannot set up TLS").source(error)
}

/// Believes the server that has this key, and all else only where there are authorities.
#[derive(Debug)]
struct Pinned {
    pin: Pin,
    by_authority: Option<Arc<dyn ServerCertVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if Pin::of(end_entity) != Some(self.pin) {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        match &self.by_authority {
            Some(verifier) => verifier.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            ),
            None => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
