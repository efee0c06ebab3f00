//! A server that is known by its key.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{Code, Failure, hex, unhex};
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use x509_cert::Certificate;
use x509_cert::der::{Decode, Encode};

/// The SHA-256 of a public key, in the form in which certificates have it (SubjectPublicKeyInfo).
/// It stays the same when a certificate is renewed with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin([u8; 32]);

impl Pin {
    /// Of the key in this certificate; none if it has none that can be read.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Pin> {
        let certificate = Certificate::from_der(certificate).ok()?;
        let key = certificate.tbs_certificate.subject_public_key_info.to_der().ok()?;
        Some(Pin(Sha256::digest(key).into()))
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex(&self.0))
    }
}

/// As 64 hexadecimal digits or in Base64, with or without `sha256:` or `sha256//` in front.
impl FromStr for Pin {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Pin, Failure> {
        let digits = text.strip_prefix("sha256").unwrap_or(text);
        let digits = digits.trim_start_matches(':');
        let digits = digits.strip_prefix("//").unwrap_or(digits);
        let compact: String = digits.chars().filter(|c| *c != ':').collect();
        let bytes = unhex(&compact).or_else(|| STANDARD.decode(digits).ok());
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Pin).ok_or_else(|| {
            Failure::new(Code::BadUrl, format!("`{text}` is no SHA-256 of a public key"))
                .hint("write sha256: and 64 hexadecimal digits, as `syncline cert dev` prints them")
        })
    }
}
