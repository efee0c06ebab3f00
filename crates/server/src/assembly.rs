//! The stages of a server, put together, with nothing of their own to run on.
//!
//! A program gives them threads (`server.rs`). A test may run them all in tasks.

use crate::authenticate::password::Costs;
use crate::authenticate::{Authenticator, Registrar};
use crate::chronicle::Chronicle;
use crate::clock::SystemClock;
use crate::config::{Config, Settings};
use crate::files::TemporaryFiles;
use crate::jitter::Jitter;
use crate::lease::Leases;
use crate::network::{self, Acceptor, TlsSettings, raise_descriptor_limit};
use crate::pace::Pace;
use crate::random;
use crate::session::{Readiness, Shared};
use crate::stage::Execution;
use crate::transfers::Transfers;
use crate::turns::Turns;
use crate::worker;
use consolidated::{Cancellation, Disk, ServeLock, Serving, Url};
use model::{Clock, Failure, Files, Random, Spills};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};

/// The part of the connections that is not for synchronizations under way: one of so many.
const NEWCOMERS_SHARE: usize = 8;

/// How long the last synchronizations have to be noted when the server stops.
const NOTE_LIMIT: Duration = Duration::from_secs(1);

/// What a server takes from the outside world.
pub struct Components {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// The files behind the spill.
    pub files: Arc<dyn Files>,
    /// Where a database of SQLite lies.
    pub disk: Arc<dyn Disk>,
    /// Chance.
    pub random: Random,
    /// What its work runs on.
    pub execution: Execution,
    /// What it costs to verify a password that nobody has.
    pub passwords: Costs,
}

impl Components {
    /// The machine's own.
    pub fn system(config: &Config) -> Result<Components, Failure> {
        let folder = config.spill_dir.clone().unwrap_or_else(std::env::temp_dir);
        Ok(Components {
            clock: Arc::new(SystemClock::new()),
            files: Arc::new(TemporaryFiles::new(folder)),
            disk: Serving::default().disk,
            random: random::from_system()?,
            execution: Execution::Threads,
            passwords: Costs::default(),
        })
    }
}

/// A server without a runtime of its own: it works while the runtime does in which it was
/// assembled.
///
/// A program wants [`crate::start`]. This is for those who decide themselves what runs when.
/// Dropping it closes the way to the workers; tasks that still run are for who runs them to end.
pub struct Assembly {
    shared: Arc<Shared>,
    execution: Execution,
    addresses: Vec<String>,
    stop: watch::Sender<bool>,
    stopped: watch::Receiver<bool>,
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
    /// Only where there is a certificate.
    tls: Option<Arc<TlsSettings>>,
}

/// What is left of an assembly whose sessions have ended.
pub(crate) struct Remains {
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) cancellation: Cancellation,
    pub(crate) lock: ServeLock,
}

impl Assembly {
    /// Starts all stages for the database at `url`, the last one first, and listens to nobody yet.
    /// Must be called inside a runtime.
    pub fn new(config: Config, url: &Url, components: Components) -> Result<Assembly, Failure> {
        let Components { clock, files, disk, random, execution, passwords } = components;
        let spills = Spills::new(files, config.stream_memory_bytes_max, config.spill_bytes_max);
        let timeouts = config.timeouts();
        let (spills_too, may_drain) = (spills.clone(), config.allow_drain);
        let serving =
            Serving { timeouts, spills: spills_too, disk, may_drain, ..Serving::default() };
        let lock = serving.lock(url, config.mark_dir.as_deref())?;
        let tls = TlsSettings::read(&config.tls)?;
        let (ended, failures) = mpsc::sync_channel(1);
        let worker::Started { worker, token_key, mut threads } =
            worker::start(&config, url, &spills, &clock, &serving, &ended, &execution)?;
        let (authenticator, more) =
            Authenticator::start(&config, token_key, clock.clone(), &execution, passwords)?;
        threads.extend(more);
        let connections_max = connections_max(&config);
        let transfers_max = transfers_max(&config, connections_max as usize);
        let pace = || Pace::new(clock.clone());
        let (at_once, waiting) = (config.sessions_max, transfers_max);
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(Shared {
            worker,
            authenticator,
            registrar: Registrar::new(url.clone(), serving.disk.clone()),
            readiness: Readiness::new(url.clone(), serving.disk.clone()),
            leases: Leases::new(clock.clone(), config.takeover_after_s),
            spills,
            connections_pace: pace(),
            transfers: Transfers::new(transfers_max, pace()),
            admissions: Turns::new("admissions", config.queue_len_max, waiting, pace()),
            sessions: Turns::new("synchronizations", at_once, waiting, pace()),
            jitter: Jitter::new(random),
            chronicle: Chronicle::new(clock.clone()),
            ended,
            stopping: AtomicBool::new(false),
            stopped: stopped.clone(),
            config: Settings::new(config),
        });
        execution.start(keep_chronicle(shared.clone()));
        let connections = Arc::new(Semaphore::new(connections_max as usize));
        Ok(Assembly {
            shared,
            execution,
            addresses: Vec::new(),
            stop,
            stopped,
            connections,
            connections_max,
            threads,
            failures,
            serving,
            url: url.clone(),
            clock,
            lock,
            tls,
        })
    }

    /// The machine's own connections at this URL. Must be called inside the runtime.
    pub(crate) fn acceptor(&self, url: &str) -> Result<Box<dyn Acceptor>, Failure> {
        let require_tls = self.shared.config.now().require_tls;
        let surroundings = network::Surroundings {
            shared: self.shared.clone(),
            execution: self.execution.clone(),
            stopped: self.stopped.clone(),
            connections_max: self.connections_max as usize,
        };
        network::listen(url, self.tls.as_ref(), require_tls, surroundings)
    }

    /// Serves the connections of `acceptor`, too. Must be called inside the runtime.
    pub fn listen(&mut self, acceptor: Box<dyn Acceptor>) {
        self.addresses.push(acceptor.url().to_owned());
        let accept = network::Accept {
            acceptor,
            shared: self.shared.clone(),
            connections: self.connections.clone(),
            clock: self.clock.clone(),
            stopped: self.stopped.clone(),
            execution: self.execution.clone(),
        };
        self.execution.start(network::accept(accept));
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// How many connections it has at most.
    pub(crate) fn connections_max(&self) -> u32 {
        self.connections_max
    }

    /// How long synchronizations under way have when it stops.
    pub(crate) fn drain_timeout(&self) -> Duration {
        Duration::from_secs(self.shared.config.now().drain_timeout_s)
    }

    /// Changes its settings while it runs, from any thread.
    pub(crate) fn reloader(&self) -> Reloader {
        let (shared, serving) = (Arc::downgrade(&self.shared), self.serving.clone());
        let (tls, clock) = (self.tls.clone(), self.clock.clone());
        Reloader { shared, serving, url: self.url.clone(), tls, clock }
    }

    /// Signals that it cannot work any more.
    pub(crate) fn failures(&mut self) -> Receiver<Failure> {
        std::mem::replace(&mut self.failures, mpsc::sync_channel(1).1)
    }

    /// Time, as it takes it.
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// Accepts nothing more, and lets synchronizations under way finish for at most
    /// `drain_timeout_s`. Then nothing that waits is begun. True if all have finished.
    pub async fn drain(&self) -> bool {
        self.shared.stopping.store(true, Ordering::Relaxed);
        // No acceptor is left if all have failed.
        let _ = self.stop.send(true);
        let all = self.connections.acquire_many(self.connections_max);
        let drained = tokio::time::timeout(self.drain_timeout(), all).await.is_ok();
        // A database that is away keeps nobody from stopping.
        let flush = self.shared.chronicle.flush(&self.shared.worker);
        let _ = tokio::time::timeout(NOTE_LIMIT, flush).await;
        self.shared.worker.abandon();
        self.shared.authenticator.abandon();
        drained
    }

    /// Ends it. With the last session gone the queues close, and the workers end when they are
    /// empty.
    pub(crate) fn end(self) -> Remains {
        Remains {
            threads: self.threads,
            cancellation: self.serving.cancellation.clone(),
            lock: self.lock,
        }
    }
}

/// Has what ended noted, until the server stops.
async fn keep_chronicle(shared: Arc<Shared>) {
    let mut stopped = shared.stopped.clone();
    loop {
        tokio::select! {
            biased;
            _ = stopped.changed() => return,
            () = shared.chronicle.has_some() => (),
        }
        shared.chronicle.flush(&shared.worker).await;
    }
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
    tls: Option<Arc<TlsSettings>>,
    clock: Arc<dyn Clock>,
}

impl Reloader {
    /// Reads the files of TLS again if they have changed. To be asked every few seconds. True if
    /// they were read; where it fails, the old ones stay in use.
    pub fn look_at_certificates(&self) -> Result<bool, Failure> {
        self.tls.as_ref().map_or(Ok(false), |tls| tls.look())
    }

    /// What to say of a certificate that ends soon.
    pub fn certificate_ending(&self) -> Option<Failure> {
        let ends = self.tls.as_ref()?.ends_unix_s();
        certificates::ending(
            "the certificate of the server",
            ends,
            self.clock.unix_ms().div_euclid(1000),
        )
    }

    /// Reads the key of session tokens and the files of TLS again, and takes from `wanted` what can
    /// be changed. Returns the names of the options that take effect with the next start. Where it
    /// fails, all is as it was.
    pub fn reload(&self, wanted: &Config) -> Result<Vec<&'static str>, Failure> {
        let token_key = self.serving.open_reader(&self.url)?.token_key()?;
        // One that has ended meanwhile has no settings.
        let Some(shared) = self.shared.upgrade() else { return Ok(Vec::new()) };
        let (config, later) = shared.config.now().reloaded(wanted);
        let provider = shared.authenticator.read_provider(&config)?;
        if let Some(tls) = &self.tls {
            tls.reload(&wanted.tls)?;
        }
        shared.authenticator.reload(token_key, &config, provider);
        shared.config.set(config);
        Ok(later)
    }
}
