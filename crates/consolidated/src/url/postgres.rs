//! Connection URLs of PostgreSQL, with the meaning that libpq gives them.
//!
//! `postgres://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?OPTION=VALUE&…`; every part may be left
//! out. The host of an option may be the folder of a Unix socket: `postgres:///db?host=/run/pg`.
//! A URL is complete once it is parsed, so that a file that keeps it does not depend on the
//! environment of its creator.

use super::environment::{SOCKET_FOLDERS, Variable};
use super::malformed::bad;
use super::secret::Secret;
use super::{percent, proof};
use model::Failure;
use postgres_driver::{Host, Proof};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PORT_DEFAULT: u16 = 5432;

/// Most hosts of one URL (S9).
const HOSTS_MAX: usize = 16;

/// The options that are understood.
const OPTIONS: [&str; 14] = [
    "application_name",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "host",
    "options",
    "password",
    "port",
    "require_auth",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "user",
];

/// All that is needed to connect to a database of a PostgreSQL server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    /// The servers to try, in this order; at least one.
    pub hosts: Vec<Host>,
    /// The name of the database.
    pub database: String,
    /// Whom to connect as.
    pub user: String,
    /// The password, if one is known.
    pub password: Option<Secret>,
    /// Whether and how far TLS is asked for; means nothing for a Unix socket.
    pub sslmode: SslMode,
    /// The file with the authorities to trust, instead of the system's.
    pub sslrootcert: Option<PathBuf>,
    /// How each side proves who it is.
    pub proof: Proof,
    /// How long one host may take.
    pub connect_timeout: Option<Duration>,
    /// What the server shows as the name of the program, instead of `syncline`.
    pub application_name: Option<String>,
    /// Settings of every session, as `-c name=value`.
    pub options: Option<String>,
    /// Whether the password was in the text of the URL.
    pub(super) password_in_text: bool,
}

/// What is asked of TLS, as libpq calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SslMode {
    /// None.
    Disable,
    /// TLS where the server has it, without checking its certificate.
    #[default]
    Prefer,
    /// TLS; the certificate is checked only where `sslrootcert` names an authority.
    Require,
    /// TLS, and an authority that is trusted signed the certificate.
    VerifyCa,
    /// The same, and the certificate is for this host.
    VerifyFull,
}

impl SslMode {
    const ALL: [SslMode; 5] = [
        SslMode::Disable,
        SslMode::Prefer,
        SslMode::Require,
        SslMode::VerifyCa,
        SslMode::VerifyFull,
    ];

    fn name(self) -> &'static str {
        match self {
            SslMode::Disable => "disable",
            SslMode::Prefer => "prefer",
            SslMode::Require => "require",
            SslMode::VerifyCa => "verify-ca",
            SslMode::VerifyFull => "verify-full",
        }
    }
}

/// What a text says, before anything is filled in.
#[derive(Default)]
struct Parts {
    /// Host and port of each server, both perhaps empty.
    hosts: Vec<(String, String)>,
    options: Vec<(&'static str, String)>,
}

impl Parts {
    /// What the text says about an option, or else the environment.
    fn get(&self, name: &str, variable: Variable<'_>, variable_name: &str) -> Option<String> {
        self.text(name).map(str::to_owned).or_else(|| variable(variable_name))
    }

    fn text(&self, name: &str) -> Option<&str> {
        // As in libpq, what is said last counts.
        let found = self.options.iter().rev().find(|(option, _)| *option == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

/// Understands what follows `postgres://`, and fills in what it leaves out; the password only
/// from the text.
pub(super) fn parse(text: &str, variable: Variable<'_>) -> Result<PostgresUrl, Failure> {
    let parts = split(text)?;
    let get = |name: &str, variable_name: &str| parts.get(name, variable, variable_name);
    let user = get("user", "PGUSER").or_else(|| variable("USER")).or_else(|| variable("LOGNAME"));
    let user = user.ok_or_else(|| bad("the URL names no user".to_owned()))?;
    let database = get("dbname", "PGDATABASE").unwrap_or_else(|| user.clone());
    let password = parts.text("password").map(|text| Secret::new(text.to_owned()));
    if password.as_ref().is_some_and(|secret| secret.reveal().contains(['\n', '\r'])) {
        return Err(bad("the password in the URL has more than one line".to_owned()));
    }
    let sslmode = match get("sslmode", "PGSSLMODE") {
        Some(name) => parse_sslmode(&name)?,
        None => SslMode::default(),
    };
    let connect_timeout = match get("connect_timeout", "PGCONNECT_TIMEOUT") {
        Some(seconds) => parse_timeout(&seconds)?,
        None => None,
    };
    let text = |name: &str| parts.text(name).map(str::to_owned);
    Ok(PostgresUrl {
        proof: proof::parse(&text, variable)?,
        hosts: hosts(&parts, variable)?,
        database,
        user,
        password_in_text: password.is_some(),
        password,
        sslmode,
        sslrootcert: root_certificate(get("sslrootcert", "PGSSLROOTCERT"), sslmode, variable)?,
        connect_timeout,
        application_name: get("application_name", "PGAPPNAME"),
        options: get("options", "PGOPTIONS"),
    })
}

fn split(text: &str) -> Result<Parts, Failure> {
    let (before, query) = text.split_once('?').unwrap_or((text, ""));
    let (authority, database) = before.split_once('/').unwrap_or((before, ""));
    let (user_info, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
    let mut parts = Parts::default();
    for (name, value) in [("user", user), ("password", password), ("dbname", database)] {
        parts.options.push((name, decode(name, value)?));
    }
    if !hosts.is_empty() {
        for host in hosts.split(',') {
            let (name, port) = split_port(host)?;
            parts.hosts.push((decode("host", name)?, port.to_owned()));
        }
    }
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let Some(known) = OPTIONS.iter().find(|known| **known == name) else {
            let message = format!("`{name}` is not a known option of a PostgreSQL URL");
            return Err(bad(message).hint(format!("these are: {}", OPTIONS.join(", "))));
        };
        parts.options.push((known, decode(name, value)?));
    }
    Ok(parts)
}

/// `host:port`, where the host may be an IPv6 address in brackets.
fn split_port(host: &str) -> Result<(&str, &str), Failure> {
    if let Some(bracketed) = host.strip_prefix('[') {
        let wrong = || bad("an IPv6 address in the URL has no `]`".to_owned());
        let (address, after) = bracketed.split_once(']').ok_or_else(wrong)?;
        return Ok((address, after.strip_prefix(':').unwrap_or(after)));
    }
    Ok(host.rsplit_once(':').unwrap_or((host, "")))
}

/// The value is not shown: it may be part of a password.
fn decode(name: &str, value: &str) -> Result<String, Failure> {
    percent::decode(value).ok_or_else(|| {
        bad(format!("the {name} in the URL is not percent-encoded UTF-8"))
            .hint("write a `%` as %25 and an `@` as %40")
    })
}

fn parse_sslmode(name: &str) -> Result<SslMode, Failure> {
    SslMode::ALL.into_iter().find(|mode| mode.name() == name).ok_or_else(|| {
        let names = SslMode::ALL.map(SslMode::name).join(", ");
        bad(format!("`{name}` is not a known sslmode")).hint(format!("use {names}"))
    })
}

/// Zero and below mean to wait for as long as it takes, as in libpq.
fn parse_timeout(seconds: &str) -> Result<Option<Duration>, Failure> {
    let seconds: i32 = seconds.parse().map_err(|_| {
        bad(format!("connect_timeout is `{seconds}`, which is not a number of seconds"))
    })?;
    Ok(u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs))
}

fn hosts(parts: &Parts, variable: Variable<'_>) -> Result<Vec<Host>, Failure> {
    let list = |text: String| -> Vec<String> { text.split(',').map(str::to_owned).collect() };
    // As in libpq, an option replaces the part before the path.
    let names = match parts.text("host") {
        Some(text) => list(text.to_owned()),
        None if parts.hosts.is_empty() => variable("PGHOST").map(list).unwrap_or_default(),
        None => parts.hosts.iter().map(|(name, _)| name.clone()).collect(),
    };
    let names = if names.is_empty() { vec![String::new()] } else { names };
    let in_front: Vec<String> = parts.hosts.iter().map(|(_, port)| port.clone()).collect();
    let ports = match parts.text("port") {
        Some(text) => list(text.to_owned()),
        None if in_front.iter().any(|port| !port.is_empty()) => in_front,
        None => variable("PGPORT").map(list).unwrap_or_default(),
    };
    if names.len() > HOSTS_MAX || (ports.len() > 1 && ports.len() != names.len()) {
        let message = format!("the URL has {} hosts and {} ports", names.len(), ports.len());
        return Err(bad(message).hint(format!(
            "name at most {HOSTS_MAX} hosts, and one port for all or one for each"
        )));
    }
    let port = |index: usize| -> Result<u16, Failure> {
        let text = ports.get(index).or(ports.first()).map_or("", String::as_str);
        match text {
            "" => Ok(PORT_DEFAULT),
            text => text.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
                bad("a port in the URL is not a number between 1 and 65535".to_owned())
            }),
        }
    };
    let host = |(index, name): (usize, String)| Ok(host(name, port(index)?));
    names.into_iter().enumerate().map(host).collect()
}

fn host(name: String, port: u16) -> Host {
    if name.starts_with('/') {
        return Host::Socket(PathBuf::from(name), port);
    }
    if !name.is_empty() {
        return Host::Tcp(name, port);
    }
    let socket = |folder: &&&str| Path::new(folder).join(format!(".s.PGSQL.{port}")).exists();
    match SOCKET_FOLDERS.iter().find(socket) {
        Some(folder) => Host::Socket(PathBuf::from(folder), port),
        None => Host::Tcp("localhost".to_owned(), port),
    }
}

/// The file of the authorities, absolute; none means the system's. Where a check is asked for,
/// libpq looks into the home folder first.
fn root_certificate(
    named: Option<String>,
    sslmode: SslMode,
    variable: Variable<'_>,
) -> Result<Option<PathBuf>, Failure> {
    let checks = matches!(sslmode, SslMode::VerifyCa | SslMode::VerifyFull);
    match named {
        Some(name) if name == "system" => Ok(None),
        Some(name) => std::path::absolute(&name)
            .map(Some)
            .map_err(|error| bad(format!("sslrootcert `{name}` is not a path")).source(error)),
        None if checks => {
            let home = variable("HOME").map(|home| Path::new(&home).join(".postgresql/root.crt"));
            Ok(home.filter(|path| path.is_file()))
        }
        None => Ok(None),
    }
}

/// The shortest form that means the same without any environment; never with a password.
impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (user, database) = (percent::encode(&self.user), percent::encode(&self.database));
        let mut options = Vec::new();
        let by_tcp = self.hosts.iter().all(|host| matches!(host, Host::Tcp(..)));
        if by_tcp {
            let hosts: Vec<String> = self.hosts.iter().map(in_front).collect();
            write!(f, "postgres://{user}@{}/{database}", hosts.join(","))?;
        } else {
            let list = |part: fn(&Host) -> String| -> String {
                self.hosts.iter().map(part).collect::<Vec<_>>().join(",")
            };
            options.push(("host", list(|host| percent::encode(&host.name()))));
            options.push(("port", list(|host| host.port().to_string())));
            options.push(("user", user));
            write!(f, "postgres:///{database}")?;
        }
        if self.sslmode != SslMode::default() {
            options.push(("sslmode", self.sslmode.name().to_owned()));
        }
        if let Some(path) = &self.sslrootcert {
            options.push(("sslrootcert", percent::encode(&path.to_string_lossy())));
        }
        for (name, value) in proof::options(&self.proof) {
            options.push((name, percent::encode(&value)));
        }
        if let Some(timeout) = self.connect_timeout {
            options.push(("connect_timeout", timeout.as_secs().to_string()));
        }
        if let Some(name) = &self.application_name {
            options.push(("application_name", percent::encode(name)));
        }
        if let Some(settings) = &self.options {
            options.push(("options", percent::encode(settings)));
        }
        for (index, (name, value)) in options.iter().enumerate() {
            let mark = if index == 0 { '?' } else { '&' };
            write!(f, "{mark}{name}={value}")?;
        }
        Ok(())
    }
}

/// A host as in front of a path.
fn in_front(host: &Host) -> String {
    let (name, port) = (host.name(), host.port());
    match name.contains(':') {
        true => format!("[{name}]:{port}"),
        false => format!("{}:{port}", percent::encode(&name)),
    }
}

#[cfg(test)]
mod tests;
