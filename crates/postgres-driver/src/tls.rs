//! TLS to PostgreSQL, with the meanings that libpq gives to `sslmode`.
//!
//! | mode | encrypted | certificate | name |
//! |---|---|---|---|
//! | `disable` | never | | |
//! | `allow`, `prefer` | when the server can | not checked | not checked |
//! | `require` | always | only with `sslrootcert` | not checked |
//! | `verify-ca` | always | checked | not checked |
//! | `verify-full` | always | checked | checked |

use crate::objection::{Ground, Objection};
use crate::options::Check;
use crate::proof::ClientCertificate;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    ClientConfig, DigitallySignedStruct, InconsistentKeys, RootCertStore, SignatureScheme,
};
use sha2::{Digest, Sha256, Sha384, Sha512};
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use x509_cert::Certificate;
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::oid::db::rfc5912;
use x509_cert::der::{Decode, Encode};

/// Largest file of a key that is read (S9).
const KEY_BYTES_MAX: u64 = 64 * 1024;

/// Where distributions keep the system's certificates.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// How TLS is spoken. Without `root` the system's certificates are trusted; `own` is shown to a
/// server that asks for a certificate.
pub(crate) fn config(
    check: Check,
    root: Option<&Path>,
    own: Option<&ClientCertificate>,
) -> Result<Arc<ClientConfig>, Objection> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| Objection::new(Ground::Misuse, "cannot set up TLS").because(error))?;
    let builder = match check {
        Check::Full => builder.with_root_certificates(roots(root)?),
        Check::Nothing | Check::Authority => {
            let roots = match check {
                Check::Nothing => None,
                _ => Some(roots(root)?),
            };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Nameless {
                provider: provider.clone(),
                roots,
            }))
        }
    };
    let Some(own) = own else { return Ok(Arc::new(builder.with_no_client_auth())) };
    let key = provider.key_provider.load_private_key(private_key(&own.key)?);
    let unusable = |error: rustls::Error| {
        let (chain, key) = (own.chain.display(), own.key.display());
        let message = format!("the certificate {chain} cannot be used with the key {key}");
        Objection::new(Ground::FileUnusable, message)
            .because(error)
            .hinted("name the key of this certificate with sslkey=")
    };
    let certified = CertifiedKey::new(certificates(&own.chain)?, key.map_err(unusable)?);
    if !is_key_of(&certified) {
        return Err(unusable(InconsistentKeys::KeyMismatch.into()));
    }
    let resolver = Arc::new(SingleCertAndKey::from(certified));
    Ok(Arc::new(builder.with_client_cert_resolver(resolver)))
}

/// Whether the key belongs to the certificate. rustls has the same check, and refuses certificates
/// of the first version with it, which many an authority signs for clients.
fn is_key_of(certified: &CertifiedKey) -> bool {
    let Some(public) = certified.key.public_key() else { return true };
    let own = certified.cert.first().and_then(|own| Certificate::from_der(own).ok());
    let named = own.and_then(|own| own.tbs_certificate.subject_public_key_info.to_der().ok());
    named.is_some_and(|named| named == public.as_ref())
}

/// All certificates of a file; at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Objection> {
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates = certificates.map_err(|error| {
        let message = format!("cannot read the certificates in {}", path.display());
        Objection::new(Ground::FileUnusable, message)
            .because(error)
            .hinted("check the file and its permissions")
    })?;
    if certificates.is_empty() {
        let message = format!("{} holds no certificate", path.display());
        return Err(Objection::new(Ground::FileUnusable, message)
            .hinted("name a file in PEM format with sslcert="));
    }
    Ok(certificates)
}

/// A key that others may read proves nothing.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Objection> {
    let unreadable = || {
        let message = format!("cannot read the key {}", path.display());
        Objection::new(Ground::FileUnusable, message)
            .hinted("name a readable file with an unencrypted key in PEM format with sslkey=")
    };
    // The file that is checked is the one that is read.
    let file = File::open(path).map_err(|error| unreadable().because(error))?;
    let metadata = file.metadata().map_err(|error| unreadable().because(error))?;
    if !metadata.is_file() {
        return Err(unreadable());
    }
    if is_exposed(&metadata) {
        let message = format!("other users may read the key {}", path.display());
        return Err(Objection::new(Ground::KeyExposed, message)
            .hinted(format!("chmod 600 {}", path.display())));
    }
    let mut bytes = Vec::new();
    let read = file.take(KEY_BYTES_MAX).read_to_end(&mut bytes);
    read.map_err(|error| unreadable().because(error))?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| unreadable().because(error))
}

/// As in libpq, the group may read a key that belongs to root.
fn is_exposed(metadata: &Metadata) -> bool {
    let admitted = if metadata.uid() == 0 { 0o640 } else { 0o600 };
    metadata.mode() & 0o077 & !admitted != 0
}

/// What binds a password to this very connection: the digest of the server's certificate that
/// RFC 5929 calls `tls-server-end-point`. None where the certificate's signature names no digest.
pub(crate) fn end_point(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    const SHA_256: [ObjectIdentifier; 5] = [
        // For these two the stronger one, says the RFC.
        rfc5912::ID_SHA_1,
        rfc5912::SHA_1_WITH_RSA_ENCRYPTION,
        rfc5912::ID_SHA_256,
        rfc5912::SHA_256_WITH_RSA_ENCRYPTION,
        rfc5912::ECDSA_WITH_SHA_256,
    ];
    const SHA_384: [ObjectIdentifier; 3] =
        [rfc5912::ID_SHA_384, rfc5912::SHA_384_WITH_RSA_ENCRYPTION, rfc5912::ECDSA_WITH_SHA_384];
    const SHA_512: [ObjectIdentifier; 2] =
        [rfc5912::ID_SHA_512, rfc5912::SHA_512_WITH_RSA_ENCRYPTION];
    let signed = Certificate::from_der(certificate).ok()?.signature_algorithm.oid;
    if SHA_256.contains(&signed) {
        Some(Sha256::digest(certificate).to_vec())
    } else if SHA_384.contains(&signed) {
        Some(Sha384::digest(certificate).to_vec())
    } else if SHA_512.contains(&signed) {
        Some(Sha512::digest(certificate).to_vec())
    } else {
        None
    }
}

fn roots(root: Option<&Path>) -> Result<RootCertStore, Objection> {
    let path = match root {
        Some(path) => path.to_owned(),
        None => system_bundle()?,
    };
    let unreadable = |error: rustls::pki_types::pem::Error| {
        let message = format!("cannot read the certificates in {}", path.display());
        Objection::new(Ground::FileUnusable, message).because(error)
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(&path).map_err(unreadable)? {
        // Systems have certificates that cannot be parsed. The others are still used.
        let _ = roots.add(certificate.map_err(unreadable)?);
    }
    if roots.is_empty() {
        let message = format!("{} holds no certificate", path.display());
        return Err(Objection::new(Ground::FileUnusable, message));
    }
    Ok(roots)
}

fn system_bundle() -> Result<PathBuf, Objection> {
    SYSTEM_BUNDLES.iter().map(PathBuf::from).find(|path| path.is_file()).ok_or_else(|| {
        Objection::new(Ground::FileUnusable, "the system's certificates are not found")
            .hinted("name the file of the authority with sslrootcert=")
    })
}

/// Checks the signatures of the handshake, the authority where there are roots, never the name.
#[derive(Debug)]
struct Nameless {
    provider: Arc<CryptoProvider>,
    roots: Option<RootCertStore>,
}

impl ServerCertVerifier for Nameless {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                roots,
                intermediates,
                now,
                algorithms,
            )?;
        }
        Ok(ServerCertVerified::assertion())
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
