//! One remote that synchronizes, once or again and again.

use super::secrets::Secrets;
use super::summary::Summary;
use crate::args::SyncOptions;
use crate::remote::pending_total;
use crate::sync::progress::Progress;
use client::transport::tcp::Timeouts;
use client::transport::{Connector, Trust};
use client::{Components, Credential, Mode, Parameters, Remote, Report, Request, Settings};
use model::{Clock, Code, Failure, ServerUrl, UserName};
use std::path::Path;
use std::sync::Arc;
use terminal::output;

/// One remote, its server, and what opens the server's door.
pub(super) struct Synchronizer {
    pub(super) remote: Remote,
    server: Connector,
    user: UserName,
    secrets: Secrets,
    pub(super) mode: Mode,
    pub(super) clock: Arc<dyn Clock>,
}

impl Synchronizer {
    /// Opens or creates the remote, once it is certain that it can be synchronized.
    pub(super) fn open(
        options: &SyncOptions,
        summary: &mut Summary,
    ) -> Result<Synchronizer, Failure> {
        let given = options.server.as_deref().map(ServerUrl::parse).transpose()?;
        let secrets = Secrets::read(options)?;
        let parameters = Parameters::new(options.auth_parameters.clone())?;
        // Nothing is created for a command that cannot succeed.
        if !options.file.exists() && (given.is_none() || options.user.is_none()) {
            return Err(server_unknown(&options.file));
        }
        let components = Components::system(&std::env::temp_dir())?;
        let clock = components.clock.clone();
        let mut remote = Remote::open_or_create(&options.file, components)?;

        let known = remote.settings()?;
        let server = match (given, &known.server) {
            (Some(given), _) => given,
            (None, Some(remembered)) => ServerUrl::parse(remembered)?,
            (None, None) => return Err(server_unknown(&options.file)),
        };
        let Some(user) = options.user.clone().or_else(|| known.user.clone()) else {
            return Err(server_unknown(&options.file));
        };
        let trust = trust(options);
        let server = Connector::new(server, &trust, Timeouts::default())?;
        let wanted = wanted(&known, options, server.url());
        summary.known(&wanted);
        if wanted != known {
            remote.propose(&wanted)?;
        }
        let url = server.url();
        if !url.is_loopback() && !url.scheme().is_encrypted() {
            output::warning(&format!("{url} sends passwords and rows in clear text"));
        }
        remote.say(parameters);
        remote.compress(options.compression.methods(url.is_loopback()));
        let mode = mode(options);
        Ok(Synchronizer { remote, server, user, secrets, mode, clock })
    }

    /// What the application has changed since it was uploaded last.
    pub(super) fn pending(&self) -> Result<u64, Failure> {
        Ok(pending_total(&self.remote.status()?))
    }

    /// Synchronizes with the token while it is valid, else with the password.
    pub(super) fn synchronize(&mut self) -> Result<Report, Failure> {
        if let Some(token) = self.secrets.token() {
            match self.attempt(Credential::Token(token)) {
                Err(failure) if failure.code() == Code::TokenRefused => {
                    self.secrets.token_refused(&self.user, failure)?;
                }
                other => return other,
            }
        }
        if self.secrets.is_certificate() {
            return self.attempt(Credential::Certificate);
        }
        let password = self.secrets.password(&self.user)?;
        let report = self.attempt(Credential::Password(password))?;
        if let Some(token) = &report.token
            && let Err(failure) = self.secrets.keep_token(token)
        {
            // The rows are where they should be; next time the password is needed again.
            output::warning(&format!("{}: {}", failure.code(), failure.full_message()));
        }
        Ok(report)
    }

    fn attempt(&mut self, credential: Credential) -> Result<Report, Failure> {
        let request = Request {
            mode: self.mode,
            credential,
            client: concat!("syncline ", env!("CARGO_PKG_VERSION")).to_owned(),
        };
        let server = &self.server;
        let mut progress = Progress::new();
        self.remote
            .synchronize(&request, &mut || server.connect(), &mut |step| progress.show(&step))
    }
}

fn trust(options: &SyncOptions) -> Trust {
    let options = &options.trust;
    Trust {
        ca_file: options.ca_file.clone(),
        pin: options.pin,
        own: options.client_certificate.clone().zip(options.client_key.clone()),
        require_tls: options.require_tls,
    }
}

/// What the file remembers, with what the options say instead.
fn wanted(known: &Settings, options: &SyncOptions, server: &ServerUrl) -> Settings {
    let mut wanted = known.clone();
    wanted.server = Some(server.to_string());
    wanted.user = options.user.clone().or(wanted.user);
    wanted.remote_id = options.remote_id.clone().or(wanted.remote_id);
    wanted.script_version = options.script_version.clone().or(wanted.script_version);
    if !options.publications.is_empty() {
        wanted.publications.clone_from(&options.publications);
    }
    wanted
}

fn mode(options: &SyncOptions) -> Mode {
    match (options.upload_only, options.download_only, options.ping) {
        (true, _, _) => Mode::UploadOnly,
        (_, true, _) => Mode::DownloadOnly,
        (_, _, true) => Mode::Ping,
        _ => Mode::Full,
    }
}

fn server_unknown(file: &Path) -> Failure {
    Failure::new(
        Code::ServerUnknown,
        format!(
            "{} was not synchronized yet, so its server and user are not known",
            file.display()
        ),
    )
}
