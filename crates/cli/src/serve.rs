//! `syncline serve`: runs the server until a signal ends it.

use crate::args::ServeOptions;
use crate::config::Config;
use crate::output;
use crate::server_url::ServerUrl;
use consolidated::Url;
use model::{Code, Failure};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Starts the server, says where it listens, waits for a signal, drains.
pub(crate) fn run(options: &ServeOptions) -> Result<(), Failure> {
    let config = Config::read(&options.dir.dir)?;
    let mut settings = config.server.meaning();
    settings.mark_dir = Some(options.dir.dir.clone());
    if !options.listen.is_empty() {
        settings.listen.clone_from(&options.listen);
    }
    warn_of_open_listeners(&settings.listen)?;
    warn_of_readable_database(&config.consolidated);
    let drain_timeout_s = settings.drain_timeout_s;

    // Before the server starts, so that a signal is never met by its default action. Until it has
    // started nothing has to be drained: a signal ends it at once, even where its database hangs.
    let (mut signals, at_once) = end_on_signals()?;
    let components = server::Components::system(&settings);
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
    if signals.forever().next().is_none()
        && let Ok(Some(failure)) = watching.join()
    {
        // Nothing is drained: who waits for what cannot work would keep the process.
        tracing::error!(error = %failure.full_message(), "the server cannot work and ends");
        return Err(failure);
    }
    at_once.store(true, Ordering::SeqCst);
    tracing::info!(drain_timeout_s, "stopping; a second signal ends at once");
    server.drain();
    Ok(())
}

/// The signals that end the server, and the switch that makes them end it at once, exit code 0.
fn end_on_signals() -> Result<(Signals, Arc<AtomicBool>), Failure> {
    let failed =
        |error| Failure::new(Code::Bug, "cannot receive signals of the system").source(error);
    let at_once = Arc::new(AtomicBool::new(true));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register_conditional_shutdown(signal, 0, at_once.clone())
            .map_err(failed)?;
    }
    Ok((Signals::new([SIGTERM, SIGINT]).map_err(failed)?, at_once))
}

fn warn_of_open_listeners(listen: &[String]) -> Result<(), Failure> {
    for url in listen {
        let url = ServerUrl::parse(url)?;
        if !url.is_loopback() {
            tracing::warn!(listen = %url, "passwords and rows cross the network in clear");
        }
    }
    Ok(())
}

/// A consolidated database that is a file holds the hashes of passwords and the key of session
/// tokens. Its group may be meant to read it, everybody is not.
fn warn_of_readable_database(consolidated: &Url) {
    #[cfg(unix)]
    if let Url::Sqlite(path) = consolidated
        && std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o004 != 0)
    {
        let path = path.display();
        tracing::warn!(
            "every user of this machine may read {path} and the keys in it: chmod o-rwx"
        );
    }
}
