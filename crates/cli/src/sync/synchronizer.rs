//! One remote that synchronizes, once or again and again.

use super::secrets::Secrets;
use super::summary::Summary;
use super::trust;
use crate::args::SyncOptions;
use crate::sync::progress::Progress;
use client::transport::tcp::Timeouts;
use client::transport::{Connector, Trust};
use client::{
    Components, Credential, Mode, Parameters, Remote, Report, Request, Settings, Step,
    Verification, VerifyRequest,
};
use model::{Clock, Code, Failure, ServerUrl, UserName};
use std::path::Path;
use std::sync::Arc;
use terminal::output;

/// Who asks, for the server's log.
const CLIENT: &str = concat!("syncline ", env!("CARGO_PKG_VERSION"));

/// One remote, its server, and what opens the server's door.
pub(crate) struct Synchronizer {
    pub(crate) remote: Remote,
    server: Connector,
    user: UserName,
    secrets: Secrets,
    pub(super) mode: Mode,
    pub(super) clock: Arc<dyn Clock>,
}

impl Synchronizer {
    /// Opens or creates the remote, once it is certain that it can be synchronized.
    pub(crate) fn open(
        options: &SyncOptions,
        summary: &mut Summary,
    ) -> Result<Synchronizer, Failure> {
        let given = options.server.as_deref().map(ServerUrl::parse).transpose()?;
        let parameters = Parameters::new(options.auth_parameters.clone())?;
        // Nothing is created for a command that cannot succeed.
        let told = given.is_some() && options.credential.user.is_some();
        if !told && !options.file.exists() {
            let message = format!("there is no file `{}`", options.file.display());
            let hint = "correct the name; a new remote needs --server and --user";
            return Err(Failure::new(Code::ServerUnknown, message).hint(hint));
        }
        let opened = opened(&options.file)?;
        if !told && opened.is_none() {
            let message = format!("`{}` is no remote yet", options.file.display());
            let hint = "give --server and --user to make it one";
            return Err(Failure::new(Code::ServerUnknown, message).hint(hint));
        }
        let remembered = opened.as_ref().map(Remote::settings).transpose()?.unwrap_or_default();
        let trust = trust::of(&options.trust, remembered.trust)?;
        let secrets = Secrets::read(options, trust.own.is_some())?;
        let components = components()?;
        let clock = components.clock.clone();
        let mut remote = match opened {
            Some(remote) => remote,
            None => Remote::open_or_create(&options.file, components)?,
        };

        let known = remote.settings()?;
        let server = match (given, &known.server) {
            (Some(given), _) => given,
            (None, Some(remembered)) => ServerUrl::parse(remembered)?,
            (None, None) => return Err(server_unknown(&options.file)),
        };
        let Some(user) = options.credential.user.clone().or_else(|| known.user.clone()) else {
            return Err(server_unknown(&options.file));
        };
        let server = Connector::new(server, &trust, Timeouts::default())?;
        let wanted = wanted(&known, options, server.url(), trust);
        summary.known(&wanted);
        if wanted != known {
            remote.propose(&wanted)?;
        }
        let url = server.url();
        if !url.is_loopback() && !url.scheme().is_encrypted() {
            output::warning(&format!("{url} sends passwords and rows in clear text"));
        }
        remote.say(parameters);
        if options.no_retry {
            remote.fail_when_cut();
        }
        remote.compress(options.compression.methods(url.is_loopback()));
        let mode = mode(options);
        Ok(Synchronizer { remote, server, user, secrets, mode, clock })
    }

    /// What the application has changed since it was uploaded last.
    pub(super) fn pending(&self) -> Result<u64, Failure> {
        Ok(self.remote.status()?.pending())
    }

    /// Whether a server has accepted this user in this file before, and nobody types the password:
    /// then a refusal is no typing error.
    pub(super) fn was_accepted(&self, options: &SyncOptions) -> Result<bool, Failure> {
        let is_typed = options.credential.password_file.is_none()
            && self.secrets.token().is_none()
            && !self.secrets.is_certificate();
        Ok(!is_typed && self.remote.settings()?.user.as_ref() == Some(&self.user))
    }

    /// Reads the files of password and token again.
    pub(super) fn read_secrets(&mut self, options: &SyncOptions) -> Result<(), Failure> {
        self.secrets.read_again(options)
    }

    /// Synchronizes with the token while it is valid, else with the password.
    pub(crate) fn synchronize(&mut self) -> Result<Report, Failure> {
        self.proven(&mut Synchronizer::attempt, |report| report.token.as_deref())
    }

    /// Compares the rows of the remote with those that it should have, likewise.
    pub(crate) fn verify(&mut self, named_max: usize) -> Result<Verification, Failure> {
        let compare = &mut |this: &mut Synchronizer, credential| {
            let request = VerifyRequest { credential, client: CLIENT.to_owned(), named_max };
            let server = this.server.connections();
            this.remote.verify(&request, &mut || server.connect())
        };
        self.proven(compare, |verification| verification.token.as_deref())
    }

    /// Does it with the token while that is valid, else with the password, and keeps the token that
    /// comes of it.
    fn proven<T>(
        &mut self,
        attempt: &mut dyn FnMut(&mut Synchronizer, Credential) -> Result<T, Failure>,
        token_of: impl Fn(&T) -> Option<&str>,
    ) -> Result<T, Failure> {
        if let Some(token) = self.secrets.token() {
            match attempt(self, Credential::Token(token)) {
                Err(failure) if failure.code() == Code::TokenRefused => {
                    self.secrets.token_refused(&self.user, failure)?;
                }
                other => return other,
            }
        }
        if self.secrets.is_certificate() {
            return attempt(self, Credential::Certificate);
        }
        let password = self.secrets.password(&self.user)?;
        let done = attempt(self, Credential::Password(password))?;
        if let Some(token) = token_of(&done)
            && let Err(failure) = self.secrets.keep_token(token)
        {
            // The rows are where they should be; next time the password is needed again.
            output::warning(&format!("{}: {}", failure.code(), failure.full_message()));
        }
        Ok(done)
    }

    fn attempt(&mut self, credential: Credential) -> Result<Report, Failure> {
        let request = Request { mode: self.mode, credential, client: CLIENT.to_owned() };
        let server = self.server.connections();
        let mut progress = Progress::new();
        let mut changed = false;
        self.remote.change_password(self.secrets.new_password());
        let report = self.remote.synchronize(&request, &mut || server.connect(), &mut |step| {
            changed |= matches!(step, Step::PasswordChanged);
            progress.show(&step);
        });
        drop(progress);
        if changed {
            // Also where the synchronization failed: this much of it is done.
            output::notice(&format!("changed the password of user {}", self.user));
            self.secrets.password_changed();
        }
        report
    }
}

/// Whether the file is a remote already, or may be one.
pub(super) fn may_be_remote(file: &Path) -> bool {
    !matches!(opened(file), Ok(None))
}

/// Removes what was made for a synchronization which no server has accepted: the file, or what is
/// ours in a file that was there.
pub(super) fn leave_nothing(file: &Path, was_there: bool) {
    // What failed before is what matters; a file that is left does no harm.
    if let Ok(Some(remote)) = opened(file) {
        let _ = remote.remove_unaccepted(was_there);
    }
}

fn components() -> Result<Components, Failure> {
    Components::system(&std::env::temp_dir())
}

/// The remote in a file that is one already.
fn opened(file: &Path) -> Result<Option<Remote>, Failure> {
    match Remote::open(file, components()?) {
        Ok(remote) => Ok(Some(remote)),
        Err(failure) if failure.code() == Code::NotARemote => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// What the file remembers, with what the options say instead.
fn wanted(known: &Settings, options: &SyncOptions, server: &ServerUrl, trust: Trust) -> Settings {
    let mut wanted = known.clone();
    if trust != known.trust.clone().unwrap_or_default() {
        wanted.trust = Some(trust);
    }
    wanted.server = Some(server.to_string());
    wanted.user = options.credential.user.clone().or(wanted.user);
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
