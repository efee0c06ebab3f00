//! Starts all stages, the last one first, and stops them in the opposite order.

use crate::authenticate::Authenticator;
use crate::clock::SystemClock;
use crate::config::{Config, Settings};
use crate::files::TemporaryFiles;
use crate::jitter::Jitter;
use crate::lease::Leases;
use crate::network::{self, Listener, raise_descriptor_limit};
use crate::pace::Pace;
use crate::random;
use crate::session::Shared;
use crate::stage;
use crate::transfers::Transfers;
use crate::turns::Turns;
use crate::worker;
use consolidated::{Cancellation, ServeLock, Serving, Url};
use model::{Clock, Code, Failure, Files, Random, Spills};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};

/// How long threads have to end whose work was cancelled. A database that hangs takes longer.
const CANCEL_MAX: Duration = Duration::from_secs(2);

/// How often their work is cancelled meanwhile: a statement may just have begun.
const CANCEL_EVERY: Duration = Duration::from_millis(500);

/// How often it is seen whether they have ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The part of the connections that is not for synchronizations under way: one of so many.
const NEWCOMERS_SHARE: usize = 8;

/// What a server takes from the outside world.
pub struct Components {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// The files behind the spill.
    pub files: Arc<dyn Files>,
    /// Chance.
    pub random: Random,
}

impl Components {
    /// The machine's own.
    pub fn system(config: &Config) -> Result<Components, Failure> {
        let folder = config.spill_dir.clone().unwrap_or_else(std::env::temp_dir);
        Ok(Components {
            clock: Arc::new(SystemClock::new()),
            files: Arc::new(TemporaryFiles::new(folder)),
            random: random::from_system()?,
        })
    }
}

/// A running server.
pub struct Server {
    runtime: Runtime,
    addresses: Vec<String>,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    /// Closed when the last connection has ended.
    connections: Arc<Semaphore>,
    connections_max: u32,
    threads: Vec<JoinHandle<()>>,
    /// Why it cannot work any more, if it came to that.
    failures: Receiver<Failure>,
    serving: Serving,
    url: Url,
    clock: Arc<dyn Clock>,
    lock: ServeLock,
}

/// Starts a server for the database at `url`.
pub fn start(config: Config, url: &Url, components: Components) -> Result<Server, Failure> {
    let lock = consolidated::lock_for_serving(url, config.mark_dir.as_deref())?;
    let spills =
        Spills::new(components.files, config.stream_memory_bytes_max, config.spill_bytes_max);
    let clock = components.clock;
    let timeouts = config.timeouts();
    let serving = Serving { timeouts, spills: spills.clone(), ..Serving::default() };
    let (ended, failures) = mpsc::sync_channel(1);
    let worker::Started { worker, token_key, mut threads } =
        worker::start(&config, url, &spills, &clock, &serving, &ended)?;
    let (authenticator, more) = Authenticator::start(&config, token_key, clock.clone())?;
    threads.extend(more);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("network")
        .build()
        .map_err(|error| Failure::new(Code::Bug, "cannot start the runtime").source(error))?;
    let connections_max = connections_max(&config);
    let transfers_max = transfers_max(&config, connections_max as usize);
    let pace = || Pace::new(clock.clone());
    let (at_once, waiting) = (config.sessions_max, transfers_max);
    let shared = Arc::new(Shared {
        worker,
        authenticator,
        leases: Leases::new(clock.clone(), config.takeover_after_s),
        spills,
        connections_pace: pace(),
        transfers: Transfers::new(transfers_max, pace()),
        admissions: Turns::new("admissions", config.queue_len_max, waiting, pace()),
        sessions: Turns::new("synchronizations", at_once, waiting, pace()),
        jitter: Jitter::new(components.random),
        stopping: AtomicBool::new(false),
        config: Settings::new(config),
    });
    let config = shared.config.now();
    let connections = Arc::new(Semaphore::new(connections_max as usize));
    let (stop, stopped) = watch::channel(false);
    let mut addresses = Vec::new();
    for address in &config.listen {
        let listener = {
            let _inside = runtime.enter();
            Listener::bind(address)?
        };
        addresses.push(listener.url.clone());
        let accept = network::Accept {
            listener,
            shared: shared.clone(),
            connections: connections.clone(),
            clock: clock.clone(),
            stopped: stopped.clone(),
        };
        network::start(&runtime, accept);
    }
    tracing::info!(database = %url, connections_max, ?addresses, "server started");
    network::notify("READY=1");
    Ok(Server {
        runtime,
        addresses,
        shared,
        stop,
        connections,
        connections_max,
        threads,
        failures,
        serving,
        url: url.clone(),
        clock,
        lock,
    })
}

/// As many connections as wanted and as the descriptor limit allows.
fn connections_max(config: &Config) -> u32 {
    let descriptors = raise_descriptor_limit();
    let connections_max = match config.connections_max {
        0 => descriptors,
        wanted => wanted.min(descriptors),
    };
    u32::try_from(connections_max).unwrap_or(u32::MAX >> 4).min(u32::MAX >> 4)
}

/// Leaves connections for newcomers: only who has said its name can be given the place of another.
fn transfers_max(config: &Config, connections_max: usize) -> usize {
    config.transfers_max.min(connections_max - connections_max / NEWCOMERS_SHARE)
}

/// Changes the settings of a running server.
pub struct Reloader {
    shared: Weak<Shared>,
    serving: Serving,
    url: Url,
}

impl Reloader {
    /// Reads the key of session tokens again, and takes from `wanted` what can be changed. Returns
    /// the names of the options that take effect with the next start. Where it fails, all is as it
    /// was.
    pub fn reload(&self, wanted: &Config) -> Result<Vec<&'static str>, Failure> {
        let token_key = self.serving.open_reader(&self.url)?.token_key()?;
        // One that has ended meanwhile has no settings.
        let Some(shared) = self.shared.upgrade() else { return Ok(Vec::new()) };
        let (config, later) = shared.config.now().reloaded(wanted);
        shared.authenticator.reload(token_key, &config);
        shared.config.set(config);
        Ok(later)
    }
}

impl Server {
    /// Where it listens, as `tcp://HOST:PORT` with real ports.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// How long synchronizations under way have when it stops.
    pub fn drain_timeout_s(&self) -> u64 {
        self.shared.config.now().drain_timeout_s
    }

    /// Changes its settings while it runs, from any thread.
    pub fn reloader(&self) -> Reloader {
        let (shared, serving) = (Arc::downgrade(&self.shared), self.serving.clone());
        Reloader { shared, serving, url: self.url.clone() }
    }

    /// Signals that the server cannot work any more. The program should then end, as in a crash,
    /// with a status that says so.
    pub fn failures(&mut self) -> Receiver<Failure> {
        std::mem::replace(&mut self.failures, mpsc::sync_channel(1).1)
    }

    /// Stops: accepts nothing more, lets synchronizations under way finish for at most
    /// `drain_timeout_s`, then ends the rest, which learn of it by their next Hello. What runs at
    /// the database then is cancelled; what does not end even so is left to the end of the process.
    pub fn drain(self) {
        let drain_timeout = Duration::from_secs(self.drain_timeout_s());
        let begun_us = self.clock.monotonic_us();
        self.shared.stopping.store(true, Ordering::Relaxed);
        network::notify("STOPPING=1");
        // No listener is left if all have failed.
        let _ = self.stop.send(true);
        let drained = self.runtime.block_on(async {
            let all = self.connections.acquire_many(self.connections_max);
            tokio::time::timeout(drain_timeout, all).await.is_ok()
        });
        self.shared.worker.abandon();
        self.shared.authenticator.abandon();
        self.runtime.shutdown_timeout(Duration::from_millis(100));
        // With the last session gone the queues close, and the workers end when they are empty.
        drop(self.shared);
        let taken = Duration::from_micros(self.clock.monotonic_us().saturating_sub(begun_us));
        let rest = drain_timeout.saturating_sub(taken);
        let left = stop_threads(self.threads, rest, &self.serving.cancellation);
        if left > 0 {
            tracing::warn!(
                threads = left,
                "the database does not answer; its statements are abandoned"
            );
            // A thread that still writes keeps the right to do so, until the process ends.
            std::mem::forget(self.lock);
        }
        tracing::info!(drained, "server stopped");
    }
}

/// Waits for the end of the threads: for `patience` as they are, then cancelling what they do.
/// Returns how many have not ended even so.
fn stop_threads(
    mut threads: Vec<JoinHandle<()>>,
    patience: Duration,
    cancellation: &Cancellation,
) -> usize {
    let (mut waited, mut cancel_at) = (Duration::ZERO, patience);
    loop {
        for thread in threads.extract_if(.., |thread| thread.is_finished()) {
            if thread.join().is_err() {
                tracing::error!("a worker ended by a panic");
            }
        }
        if threads.is_empty() || waited >= patience + CANCEL_MAX {
            return threads.len();
        }
        if waited >= cancel_at {
            for cancel in cancellation.cancel() {
                stage::aside("cancel", cancel);
            }
            cancel_at = waited + CANCEL_EVERY;
        }
        std::thread::sleep(LOOK_EVERY);
        waited += LOOK_EVERY;
    }
}
