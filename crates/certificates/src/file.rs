//! Certificates and keys in files, PEM format.

use crate::provider;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{Code, Failure};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, RootCertStore};
use std::fs::{File, Metadata};
use std::io::Read;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use x509_cert::Certificate;
use x509_cert::der::{Decode, Encode};

/// Largest file that is read (S9). The certificates of all authorities of a system take 250 KB.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The certificates of a file, at least one: one's own first, then those of the authorities between
/// it and the root.
pub fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let unreadable = || unusable(format!("cannot read the certificates in {}", path.display()));
    let file = File::open(path).map_err(|error| unreadable().source(error))?;
    let bytes = contents(file).map_err(|error| unreadable().source(error))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let chain = chain.map_err(|error| unreadable().source(error))?;
    if chain.is_empty() {
        return Err(unusable(format!("{} holds no certificate", path.display())));
    }
    Ok(chain)
}

/// The authorities of a file.
pub fn read_roots(path: &Path) -> Result<RootCertStore, Failure> {
    let mut roots = RootCertStore::empty();
    for certificate in read_chain(path)? {
        let added = roots.add(certificate);
        let refused =
            || unusable(format!("{} holds a certificate of no authority", path.display()));
        added.map_err(|error| refused().source(error))?;
    }
    Ok(roots)
}

/// A certificate, those that lead to its root, and its key.
pub fn read_own(chain: &Path, key: &Path) -> Result<Arc<CertifiedKey>, Failure> {
    let certificates = read_chain(chain)?;
    let mismatch = |error: rustls::Error| {
        let (chain, key) = (chain.display(), key.display());
        unusable(format!("the certificate {chain} cannot be used with the key {key}"))
            .source(error)
            .hint("name the key that belongs to the certificate")
    };
    let key = provider().key_provider.load_private_key(read_key(key)?).map_err(mismatch)?;
    let certified = CertifiedKey::new(certificates, key);
    if !is_key_of(&certified) {
        return Err(mismatch(InconsistentKeys::KeyMismatch.into()));
    }
    Ok(Arc::new(certified))
}

/// A key. One that others may read proves nothing and is refused.
pub fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, Failure> {
    let unreadable = || {
        unusable(format!("cannot read the key {}", path.display()))
            .hint("name a readable file with an unencrypted key in PEM format")
    };
    // The file that is checked is the one that is read.
    let file = File::open(path).map_err(|error| unreadable().source(error))?;
    let metadata = file.metadata().map_err(|error| unreadable().source(error))?;
    if is_exposed(&metadata) {
        let message = format!("other users may read the key {}", path.display());
        let hint = format!("chmod 600 {}", path.display());
        return Err(Failure::new(Code::SecretExposed, message).hint(hint));
    }
    let bytes = contents(file).map_err(|error| unreadable().source(error))?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| unreadable().source(error))
}

/// The group may read a key that belongs to root, as it is where a service has a user of its own.
#[cfg(unix)]
fn is_exposed(metadata: &Metadata) -> bool {
    let admitted = if metadata.uid() == 0 { 0o640 } else { 0o600 };
    metadata.mode() & 0o077 & !admitted != 0
}

#[cfg(not(unix))]
fn is_exposed(_metadata: &Metadata) -> bool {
    false
}

/// The text of one entry of a file in PEM format.
pub fn pem(label: &str, der: &[u8]) -> String {
    let base64 = STANDARD.encode(der);
    let lines = base64.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let lines: String = lines.map(|line| format!("{line}\n")).collect();
    format!("-----BEGIN {label}-----\n{lines}-----END {label}-----\n")
}

fn contents(file: File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// rustls has the same check, and refuses certificates of the first version with it, which many an
/// authority signs for clients.
fn is_key_of(certified: &CertifiedKey) -> bool {
    let Some(public) = certified.key.public_key() else { return true };
    let own = certified.cert.first().and_then(|own| Certificate::from_der(own).ok());
    let named = own.and_then(|own| own.tbs_certificate.subject_public_key_info.to_der().ok());
    named.is_some_and(|named| named == public.as_ref())
}

fn unusable(message: String) -> Failure {
    Failure::new(Code::CertificateUnusable, message)
}
