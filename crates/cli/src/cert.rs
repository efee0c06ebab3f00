//! `syncline cert dev`: an authority of one's own, for tests and first steps.

use crate::args::{CertAction, CertOptions};
use certificates::Pin;
use model::{Clock, Code, Failure, UserName, civil_date};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use std::fs;
use std::path::{Path, PathBuf};
use terminal::{output, secret};

/// By these a server on the same machine is reached.
const HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

const VALID_DAYS: i64 = 365;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Carries out the action.
pub(crate) fn run(options: &CertOptions) -> Result<(), Failure> {
    match &options.action {
        CertAction::Dev { dir, hosts, user, force } => dev(dir, hosts, user, *force),
    }
}

fn dev(dir: &Path, hosts: &[String], user: &UserName, force: bool) -> Result<(), Failure> {
    let clock = client::Components::system(&std::env::temp_dir())?.clock;
    let made = Made::new(clock.as_ref(), hosts, user)?;
    fs::create_dir_all(dir).map_err(|error| cannot_write(dir).source(error))?;
    let paths: Vec<PathBuf> = made.files().iter().map(|(name, ..)| dir.join(name)).collect();
    if !force {
        // All are looked for before any is written, so that a refusal leaves no file.
        if let Some(path) = paths.iter().find(|path| path.symlink_metadata().is_ok()) {
            return Err(Failure::new(Code::FileExists, format!("{} exists", path.display())));
        }
    }
    for ((_, text, is_key), path) in made.files().iter().zip(&paths) {
        match is_key {
            true => secret::write_file(path, "key", text)?,
            false => fs::write(path, text).map_err(|error| cannot_write(path).source(error))?,
        }
        output::line(&format!("wrote {}", path.display()))?;
    }
    let (certificate, key) = (dir.join("server.pem"), dir.join("server.key"));
    output::line(&format!(
        "the server: tls_certificate = \"{}\", tls_key = \"{}\" and listen = \
         [\"tls://HOST:2439\"] in [server]",
        certificate.display(),
        key.display()
    ))?;
    output::line(&format!(
        "a remote: --server tls://HOST:2439 --ca-file {}, or --pin {}",
        dir.join("ca.pem").display(),
        made.pin
    ))
}

/// What was made, in PEM format.
struct Made {
    authority: String,
    server: (String, String),
    client: (String, String),
    pin: Pin,
}

impl Made {
    fn new(clock: &dyn Clock, hosts: &[String], user: &UserName) -> Result<Made, Failure> {
        let today = clock.unix_ms().div_euclid(DAY_MS);
        let wanted = HOSTS.iter().map(ToString::to_string).chain(hosts.iter().cloned());
        let mut names: Vec<String> = Vec::new();
        for name in wanted {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let mut params = params(today, "Syncline development authority", Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(not_made)?;
        let authority = params.self_signed(&key).map_err(not_made)?;
        let issuer = Issuer::new(params, key);

        let server = signed(
            self::params(today, "Syncline development server", names)?,
            ExtendedKeyUsagePurpose::ServerAuth,
            &issuer,
        )?;
        let mut client = self::params(today, user.as_str(), Vec::new())?;
        if let (true, Ok(mail)) = (user.as_str().contains('@'), user.as_str().try_into()) {
            client.subject_alt_names.push(SanType::Rfc822Name(mail));
        }
        let client = signed(client, ExtendedKeyUsagePurpose::ClientAuth, &issuer)?;
        let pin = Pin::of(server.0.der())
            .ok_or_else(|| Failure::new(Code::Bug, "the certificate cannot be read again"))?;
        let pem = |(certificate, key): (Certificate, KeyPair)| {
            let key = certificates::pem("PRIVATE KEY", &key.serialize_der());
            (certificates::pem("CERTIFICATE", certificate.der()), key)
        };
        let authority = certificates::pem("CERTIFICATE", authority.der());
        Ok(Made { authority, server: pem(server), client: pem(client), pin })
    }

    /// Name, text, and whether it is a key.
    fn files(&self) -> [(&'static str, &str, bool); 5] {
        [
            ("ca.pem", &self.authority, false),
            ("server.pem", &self.server.0, false),
            ("server.key", &self.server.1, true),
            ("client.pem", &self.client.0, false),
            ("client.key", &self.client.1, true),
        ]
    }
}

/// A certificate that is valid from yesterday on: clocks differ.
fn params(today: i64, name: &str, hosts: Vec<String>) -> Result<CertificateParams, Failure> {
    let mut params = CertificateParams::new(hosts).map_err(|error| {
        Failure::new(Code::BadUrl, "a name of the server can be in no certificate")
            .hint("write names as in a URL, without scheme and port")
            .source(error)
    })?;
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, name);
    let [from, to] = [today - 1, today + VALID_DAYS].map(|day| {
        let (year, month, day) = civil_date(day);
        let small = |number: i64| u8::try_from(number).unwrap_or(1);
        // A clock that is far off makes certificates that are.
        let year = i32::try_from(year.clamp(1970, 9998)).unwrap_or(1970);
        date_time_ymd(year, small(month), small(day))
    });
    (params.not_before, params.not_after) = (from, to);
    Ok(params)
}

/// A new key with a certificate of it.
fn signed(
    mut params: CertificateParams,
    purpose: ExtendedKeyUsagePurpose,
    issuer: &Issuer<'_, KeyPair>,
) -> Result<(Certificate, KeyPair), Failure> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![purpose];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().map_err(not_made)?;
    let certificate = params.signed_by(&key, issuer).map_err(not_made)?;
    Ok((certificate, key))
}

fn not_made(error: rcgen::Error) -> Failure {
    Failure::new(Code::Bug, "cannot make a certificate").source(error)
}

fn cannot_write(path: &Path) -> Failure {
    Failure::new(Code::CannotWrite, format!("cannot write {}", path.display()))
}
