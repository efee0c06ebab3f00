//! `syncline cert`: an authority of one's own, for tests and first steps.

use crate::args::{CertAction, CertOptions, quoted};
use certificates::{NameKind, Pin};
use model::{Code, Failure, UserName, civil_date};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use terminal::{output, secret};

/// By these a server on the same machine is reached.
const HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

const VALID_DAYS: i64 = 365;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Also how the authority is found again by which further certificates are made.
const AUTHORITY: &str = "Syncline development authority";

/// Carries out the action.
pub(crate) fn run(options: &CertOptions) -> Result<(), Failure> {
    let clock = client::Components::system(&std::env::temp_dir())?.clock;
    let today = clock.unix_ms().div_euclid(DAY_MS);
    match &options.action {
        CertAction::Dev { dir, hosts, users, force, json } => {
            let authority = Authority::new(today)?;
            let server = authority.server(hosts)?;
            let pin = Pin::of(server.0.der())
                .ok_or_else(|| Failure::new(Code::Bug, "the certificate cannot be read again"))?;
            let mut files = authority.files();
            files.extend(own_files("server", server));
            files.extend(authority.clients(users)?);
            fs::create_dir_all(dir).map_err(|error| cannot_write(dir).source(error))?;
            if *force && dir.join("ca.pem").exists() {
                output::warning(
                    "the authority is a new one: certificates of the former one, and remotes that \
                     believe it or its server (--ca-file, --pin), are refused from now on",
                );
            }
            let written = write(dir, &files, *force, *json)?;
            if *json {
                let told = json!({
                    "files": written, "server": server_url(hosts), "pin": pin.to_string()
                });
                return output::json(&told);
            }
            tell(dir, &server_url(hosts), users, &pin)
        }
        CertAction::Client { dir, users, force, json } => {
            let authority = Authority::read(dir, today)?;
            let written = write(dir, &authority.clients(users)?, *force, *json)?;
            if *json { output::json(&json!({ "files": written })) } else { Ok(()) }
        }
    }
}

/// A file to write: its name, its text, and whether it is a key.
type Made = (String, String, bool);

/// Writes all files, or none where one is there already. Their paths.
fn write(dir: &Path, files: &[Made], force: bool, json: bool) -> Result<Vec<PathBuf>, Failure> {
    let paths: Vec<PathBuf> = files.iter().map(|(name, ..)| dir.join(name)).collect();
    if !force {
        // All are looked for before any is written, so that a refusal leaves no file.
        if let Some(path) = paths.iter().find(|path| path.symlink_metadata().is_ok()) {
            return Err(Failure::new(Code::FileExists, format!("{} exists", path.display())));
        }
    }
    for ((_, text, is_key), path) in files.iter().zip(&paths) {
        match is_key {
            true => secret::write_file(path, "key", text)?,
            false => fs::write(path, text).map_err(|error| cannot_write(path).source(error))?,
        }
        if !json {
            output::line(&format!("wrote {}", path.display()))?;
        }
    }
    Ok(paths)
}

/// By the first name that was given; on this machine where there is none.
fn server_url(hosts: &[String]) -> String {
    let host = hosts.first().map_or(HOSTS[0], String::as_str);
    // An address of IPv6 has colons of its own.
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    format!("tls://{host}:2439")
}

/// Says how server and remotes use the files: lines for `syncline.toml`, and a command.
fn tell(dir: &Path, server: &str, users: &[UserName], pin: &Pin) -> Result<(), Failure> {
    let in_config = |name| in_config(dir, name).display().to_string();
    output::line("# for [server] in syncline.toml:")?;
    output::line("listen = [\"tls://0.0.0.0:2439\"]")?;
    for (option, name) in [("tls_certificate", "server.pem"), ("tls_key", "server.key")] {
        output::line(&format!("{option} = {}", Value::from(in_config(name))))?;
    }
    let user = users.first().map_or("dev", UserName::as_str);
    let (file, path) = (file_name(user), |name: &str| quoted(&dir.join(name).to_string_lossy()));
    let mut proof = String::new();
    if !users.is_empty() {
        output::line("# so that a user with a certificate needs no password:")?;
        output::line(&format!("tls_client_ca = {}", Value::from(in_config("ca.pem"))))?;
        output::line("tls_client = \"optional\"")?;
        let [certificate, key] = ["pem", "key"].map(|kind| path(&format!("client-{file}.{kind}")));
        proof = format!(" --client-certificate {certificate} --client-key {key}");
    }
    output::line("# for remotes:")?;
    let (authority, remote) = (path("ca.pem"), quoted(&format!("{file}.db")));
    output::line(&format!(
        "syncline sync {remote} --user {} --server {server} --ca-file {authority}{proof}",
        quoted(user)
    ))?;
    output::line(&format!("# or, in place of --ca-file, --pin {pin}"))
}

/// The path as `syncline.toml` has it: relative to its folder, which is the one with the
/// certificates, or else this one if it has a configuration.
fn in_config(dir: &Path, name: &str) -> PathBuf {
    let beside = dir.join("syncline.toml").exists() || !Path::new("syncline.toml").exists();
    if beside { PathBuf::from(name) } else { dir.join(name) }
}

/// An authority that signs.
struct Authority {
    certificate: String,
    key: String,
    issuer: Issuer<'static, KeyPair>,
    today: i64,
}

impl Authority {
    fn new(today: i64) -> Result<Authority, Failure> {
        Authority::of(KeyPair::generate().map_err(not_made)?, today).map(|(authority, _)| authority)
    }

    /// The one whose certificate and key are in the folder.
    fn read(dir: &Path, today: i64) -> Result<Authority, Failure> {
        let (path, key) = (dir.join("ca.pem"), dir.join("ca.key"));
        let unusable = || {
            let message = format!("{} is not what `cert dev` has made", path.display());
            Failure::new(Code::CertificateUnusable, message)
                .hint("`syncline cert dev` makes an authority")
        };
        let chain = certificates::read_chain(&path)?;
        let own = chain.first().ok_or_else(unusable)?;
        let key = certificates::read_key(&key)?;
        let key = KeyPair::try_from(key.secret_der()).map_err(|error| unusable().source(error))?;
        let (mut authority, pin) = Authority::of(key, today)?;
        let named = certificates::names(own, NameKind::Cn)?;
        if named != [AUTHORITY] || Pin::of(own) != Some(pin) {
            return Err(unusable());
        }
        authority.certificate = certificates::pem("CERTIFICATE", own);
        Ok(authority)
    }

    fn of(key: KeyPair, today: i64) -> Result<(Authority, Pin), Failure> {
        let mut params = params(today, AUTHORITY, Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let own = params.self_signed(&key).map_err(not_made)?;
        let pin = Pin::of(own.der())
            .ok_or_else(|| Failure::new(Code::Bug, "the certificate cannot be read again"))?;
        let certificate = certificates::pem("CERTIFICATE", own.der());
        let text = certificates::pem("PRIVATE KEY", &key.serialize_der());
        let issuer = Issuer::new(params, key);
        Ok((Authority { certificate, key: text, issuer, today }, pin))
    }

    fn files(&self) -> Vec<Made> {
        vec![
            ("ca.pem".to_owned(), self.certificate.clone(), false),
            ("ca.key".to_owned(), self.key.clone(), true),
        ]
    }

    fn server(&self, hosts: &[String]) -> Result<(Certificate, KeyPair), Failure> {
        let wanted = HOSTS.iter().map(ToString::to_string).chain(hosts.iter().cloned());
        let mut names: Vec<String> = Vec::new();
        for name in wanted {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let params = params(self.today, "Syncline development server", names)?;
        signed(params, ExtendedKeyUsagePurpose::ServerAuth, &self.issuer)
    }

    /// A certificate and a key for each user.
    fn clients(&self, users: &[UserName]) -> Result<Vec<Made>, Failure> {
        let mut files = Vec::new();
        for user in users {
            let mut client = params(self.today, user.as_str(), Vec::new())?;
            if let (true, Ok(mail)) = (user.as_str().contains('@'), user.as_str().try_into()) {
                client.subject_alt_names.push(SanType::Rfc822Name(mail));
            }
            let client = signed(client, ExtendedKeyUsagePurpose::ClientAuth, &self.issuer)?;
            files.extend(own_files(&format!("client-{}", file_name(user.as_str())), client));
        }
        Ok(files)
    }
}

/// A name may have characters that a file cannot have in its name.
fn file_name(user: &str) -> String {
    utf8_percent_encode(user, IN_NO_FILE_NAME).to_string()
}

const IN_NO_FILE_NAME: &AsciiSet =
    &CONTROLS.add(b'/').add(b'\\').add(b':').add(b'%').add(b'*').add(b'?').add(b'"');

fn own_files(name: &str, (certificate, key): (Certificate, KeyPair)) -> [Made; 2] {
    let certificate = certificates::pem("CERTIFICATE", certificate.der());
    let key = certificates::pem("PRIVATE KEY", &key.serialize_der());
    [(format!("{name}.pem"), certificate, false), (format!("{name}.key"), key, true)]
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
