//! The certificate of the server of a run, and the authority that clients believe.

use crate::options::Certificate;
use model::{Code, Failure};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use terminal::secret;

/// A key of RSA with 2,048 bits. Everybody knows it, and it protects nothing but the rows of a
/// run: to make one takes long.
const RSA_KEY: &[u8] = include_bytes!("../../fixtures/rsa.der");

/// The names of the files, beside the configuration of the server.
pub(crate) const CERTIFICATE_FILE_NAME: &str = "server.pem";
pub(crate) const KEY_FILE_NAME: &str = "server.key";

/// Writes the files of a server at this address; the path of the authority's certificate.
pub(crate) fn write(folder: &Path, address: IpAddr, kind: Certificate) -> Result<PathBuf, Failure> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.distinguished_name.push(DnType::CommonName, "authority of a benchmark");
    let authority_key = key(kind)?;
    let own = authority.self_signed(&authority_key).map_err(not_made)?;
    let issuer = Issuer::new(authority, authority_key);

    let mut server = CertificateParams::new([address.to_string()]).map_err(not_made)?;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let server_key = key(kind)?;
    let signed = server.signed_by(&server_key, &issuer).map_err(not_made)?;

    let path = folder.join("ca.pem");
    for (file, der) in
        [(path.clone(), own.der()), (folder.join(CERTIFICATE_FILE_NAME), signed.der())]
    {
        fs::write(&file, certificates::pem("CERTIFICATE", der)).map_err(|error| {
            let message = format!("cannot write {}", file.display());
            Failure::new(Code::CannotWrite, message).source(error)
        })?;
    }
    let pem = certificates::pem("PRIVATE KEY", &server_key.serialize_der());
    secret::write_file(&folder.join(KEY_FILE_NAME), "key", &pem)?;
    Ok(path)
}

fn key(kind: Certificate) -> Result<KeyPair, Failure> {
    match kind {
        Certificate::Ecdsa => KeyPair::generate(),
        Certificate::Rsa => KeyPair::try_from(RSA_KEY),
    }
    .map_err(not_made)
}

fn not_made(error: rcgen::Error) -> Failure {
    Failure::new(Code::Bug, "cannot make a certificate").source(error)
}
