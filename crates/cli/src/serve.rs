//! `syncline serve`: runs the server until a signal ends it.

use crate::args::ServeOptions;
use crate::config::Config;
use crate::log;
use consolidated::Url;
use model::{Code, Failure, ServerUrl};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::time::Duration;
use terminal::output;

/// How often it is seen whether somebody has replaced the certificates.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A day.
const WARN_EVERY_LOOKS: u64 = 24 * 60 * 60;

/// Starts the server, says where it listens, waits for a signal, drains.
pub(crate) fn run(options: &ServeOptions) -> Result<(), Failure> {
    let config = Config::read(&options.dir.dir)?;
    let settings = settings(&config, options);
    log::follow(config.server.log);
    if options.trace_events {
        consolidated::trace_events();
    }
    warn_of_open_listeners(&settings.listen)?;
    warn_of_readable_database(&config.consolidated);

    // Before the server starts, so that a signal is never met by its default action. Until it has
    // started nothing has to be drained: a signal ends it at once, even where its database hangs.
    let (mut signals, at_once) = end_on_signals()?;
    let components = server::Components::system(&settings)?;
    let mut server = server::start(settings, &config.consolidated, components)?;
    at_once.store(false, Ordering::SeqCst);
    for address in server.addresses() {
        output::line(&format!("listening on {address}"))?;
    }

    // Either a signal comes, or the server cannot work any more and ends the wait for one.
    let (failures, ending) = (server.failures(), signals.handle());
    let watching = std::thread::spawn(move || {
        let failure = failures.recv().ok();
        ending.close();
        failure
    });
    let reloads = reload_aside(server.reloader(), options.clone(), config.consolidated.clone());
    let ending = signals.forever().find(|signal| match *signal {
        SIGHUP => {
            // Where one waits already, it reads what is there then.
            let _ = reloads.try_send(());
            false
        }
        _ => true,
    });
    if ending.is_none()
        && let Ok(Some(failure)) = watching.join()
        && failure.code() != Code::ServerDrained
    {
        // Nothing is drained: waiting for a stage that cannot work would keep the process.
        tracing::error!(error = %failure.full_message(), "the server cannot continue and ends");
        return Err(failure);
    }
    if ending.is_none() {
        tracing::error!("the script handle_error ends the server");
    }
    at_once.store(true, Ordering::SeqCst);
    let drain_timeout_s = server.drain_timeout_s();
    tracing::info!(drain_timeout_s, "stopping; a second signal ends at once");
    server.drain();
    Ok(())
}

/// What the file means for a server that was started so.
fn settings(config: &Config, options: &ServeOptions) -> server::Config {
    let mut settings = config.server.meaning();
    let dir = &options.dir.dir;
    settings.mark_dir = Some(dir.clone());
    let server::TlsFiles { certificate, key, client_ca, .. } = &mut settings.tls;
    for file in [certificate, key, client_ca].into_iter().flatten() {
        *file = dir.join(&file);
    }
    settings.jwt.resolve(dir);
    settings.service.resolve(dir);
    settings.directory.resolve(dir);
    if !options.listen.is_empty() {
        settings.listen.clone_from(&options.listen);
    }
    settings
}

/// Opens the log file again, which somebody may have moved, and reads the configuration again, each
/// time that it is asked to. This is a separate thread: the database may hang, and
/// a signal must still end the server.
fn reload_aside(
    reloader: server::Reloader,
    options: ServeOptions,
    consolidated: Url,
) -> SyncSender<()> {
    let (ask, asked) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut endings = Endings::default();
        loop {
            endings.warn(&reloader);
            match asked.recv_timeout(LOOK_EVERY) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => {
                    look_at_certificates(&reloader);
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
            log::reopen();
            let reloaded = Config::read(&options.dir.dir).and_then(|config| {
                let mut later = reloader.reload(&settings(&config, &options))?;
                later.extend((config.consolidated != consolidated).then_some("consolidated"));
                log::follow(config.server.log);
                Ok(later)
            });
            match reloaded {
                Ok(later) if later.is_empty() => tracing::info!("configuration reloaded"),
                Ok(later) => tracing::warn!(
                    need_a_restart = later.join(", "),
                    "configuration reloaded, except for options that need a restart"
                ),
                Err(failure) => tracing::error!(
                    code = %failure.code(),
                    error = %failure.full_message(),
                    "configuration not reloaded; the old one stays in use"
                ),
            }
        }
    });
    ask
}

/// Reads certificates that somebody has replaced.
fn look_at_certificates(reloader: &server::Reloader) {
    match reloader.look_at_certificates() {
        Ok(false) => {}
        Ok(true) => tracing::info!("certificates reloaded"),
        Err(failure) => tracing::error!(
            code = %failure.code(),
            error = %failure.full_message(),
            "certificates not reloaded; the old ones stay in use"
        ),
    }
}

/// Warns of a certificate that ends soon, once a day.
#[derive(Default)]
struct Endings {
    /// Looks since the last warning.
    quiet: u64,
}

impl Endings {
    fn warn(&mut self, reloader: &server::Reloader) {
        let quiet = self.quiet;
        self.quiet = (quiet + 1) % WARN_EVERY_LOOKS;
        if quiet == 0
            && let Some(failure) = reloader.certificate_ending()
        {
            let (code, hint) = (failure.code(), failure.hint_text());
            tracing::warn!(%code, hint, "{}", failure.message());
        }
    }
}

/// The signals that a server heeds, and the switch that makes those that end it do so at once, exit
/// code 0.
fn end_on_signals() -> Result<(Signals, Arc<AtomicBool>), Failure> {
    let failed =
        |error| Failure::new(Code::Bug, "cannot receive signals of the system").source(error);
    let at_once = Arc::new(AtomicBool::new(true));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register_conditional_shutdown(signal, 0, at_once.clone())
            .map_err(failed)?;
    }
    Ok((Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(failed)?, at_once))
}

fn warn_of_open_listeners(listen: &[String]) -> Result<(), Failure> {
    for url in listen {
        let url = ServerUrl::parse(url)?;
        if !url.is_loopback() && !url.scheme().is_encrypted() {
            tracing::warn!(listen = %url, "passwords and rows cross the network in clear text");
        }
    }
    Ok(())
}

/// A consolidated database that is a file holds the hashes of passwords and the key of session
/// tokens. Its group may read it on purpose, but not all users.
fn warn_of_readable_database(consolidated: &Url) {
    #[cfg(unix)]
    if let Url::Sqlite(path) = consolidated
        && std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o004 != 0)
    {
        let file = crate::args::quoted(&path.display().to_string());
        tracing::warn!(
            "every user of this machine may read the database and its keys: chmod o-rwx {file}"
        );
    }
}
