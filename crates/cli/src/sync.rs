//! `syncline sync`: makes a file a remote database, if it is not one yet, and synchronizes it.
//!
//! `sync/secrets.rs` chooses between token and password, `sync/watch.rs` repeats, and
//! `sync/summary.rs` prints the result.

mod secrets;
mod summary;
mod watch;

use crate::args::SyncOptions;
use crate::output;
use crate::progress::Progress;
use crate::remote::pending_total;
use crate::server_url::ServerUrl;
use client::transport::tcp::{self, Timeouts};
use client::{Components, Credential, Mode, Remote, Report, Request, Settings, Transport};
use model::{Clock, Code, Failure, UserName};
use secrets::Secrets;
use std::path::Path;
use std::sync::Arc;
use summary::Summary;

/// Synchronizes once, or keeps on.
pub(crate) fn run(options: &SyncOptions) -> Result<(), Failure> {
    let mut summary = Summary::of(options);
    let result = match Synchronizer::open(options, &mut summary) {
        Ok(mut synchronizer) if options.watch => watch::run(&mut synchronizer, options),
        Ok(mut synchronizer) => {
            let started = synchronizer.clock.monotonic_ms();
            let result = synchronizer.synchronize();
            summary.duration_ms = synchronizer.clock.monotonic_ms().saturating_sub(started);
            result.and_then(|report| told(&report, options, &mut summary))
        }
        Err(failure) => Err(failure),
    };
    if let (Err(failure), true) = (&result, options.json) {
        summary.failed(failure);
        // The failure itself matters more than that it could not be printed twice.
        let _ = output::json(&summary.to_json());
    }
    result
}

/// Prints what a synchronization did.
fn told(report: &Report, options: &SyncOptions, summary: &mut Summary) -> Result<(), Failure> {
    summary.succeeded(report);
    if report.took_new_identity {
        output::notice(&format!(
            "this file is a copy of another remote; it is remote {} from now on",
            report.remote_id
        ));
    }
    for waiting in &report.waiting {
        output::warning(&format!(
            "table {} was left out, and what is pending for it stays here: {}",
            waiting.table, waiting.message
        ));
    }
    if options.json {
        output::json(&summary.to_json())
    } else if options.ping {
        output::line(&output::one_line(&format!(
            "the server answers and accepts user {} ({} ms)",
            report.user, summary.duration_ms
        )))
    } else {
        output::line(&output::one_line(&summary.to_text(&options.file)))
    }
}

/// One remote, its server, and what opens the server's door.
struct Synchronizer {
    remote: Remote,
    server: ServerUrl,
    user: UserName,
    secrets: Secrets,
    mode: Mode,
    clock: Arc<dyn Clock>,
}

impl Synchronizer {
    /// Opens or creates the remote, once it is certain that it can be synchronized.
    fn open(options: &SyncOptions, summary: &mut Summary) -> Result<Synchronizer, Failure> {
        let given = options.server.as_deref().map(ServerUrl::parse).transpose()?;
        let secrets = Secrets::read(options)?;
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
        let wanted = wanted(&known, options, &server);
        summary.known(&wanted);
        if wanted != known {
            remote.propose(&wanted)?;
        }
        if !server.is_loopback() {
            output::warning(&format!("{server} sends passwords and rows in clear text"));
        }
        let mode = mode(options);
        Ok(Synchronizer { remote, server, user, secrets, mode, clock })
    }

    /// What the application has changed since it was uploaded last.
    fn pending(&self) -> Result<u64, Failure> {
        Ok(pending_total(&self.remote.status()?))
    }

    /// Synchronizes with the token while it is valid, else with the password.
    fn synchronize(&mut self) -> Result<Report, Failure> {
        if let Some(token) = self.secrets.token() {
            match self.attempt(Credential::Token(token)) {
                Err(failure) if failure.code() == Code::TokenRefused => {
                    self.secrets.token_refused(&self.user, failure)?;
                }
                other => return other,
            }
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
        let address = self.server.to_string();
        let mut connect = || -> Result<Box<dyn Transport>, Failure> {
            Ok(Box::new(tcp::connect(&address, Timeouts::default())?))
        };
        let mut progress = Progress::new();
        self.remote.synchronize(&request, &mut connect, &mut |step| progress.show(&step))
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
