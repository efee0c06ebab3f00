//! Every limit of the server, with its unit and default.

mod directory;
mod jwt;
mod login_service;
mod proxies;

pub use directory::DirectoryOptions;
pub use jwt::{JwtKeys, JwtOptions};
pub use login_service::ServiceOptions;
pub use proxies::Proxies;

use certificates::NameKind;
use protocol::Compression;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// The server's settings. All limits are per process.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The folder of the configuration, where each start leaves a mark: a database that lacks the
    /// mark was restored. None: nothing is left.
    pub mark_dir: Option<PathBuf>,
    /// Where to listen: `tcp://HOST:PORT` or `tls://HOST:PORT`, or `http://HOST:PORT/PREFIX` or
    /// `https://HOST:PORT/PREFIX`, also with `ws` and `wss`; port 0 takes a free one.
    pub listen: Vec<String>,
    /// Origins of the pages that may synchronize over HTTP or WebSocket, as `https://HOST`; `*` is
    /// all.
    pub allowed_origins: Vec<String>,
    /// The proxies through which remotes come.
    pub proxies: Proxies,
    /// What encrypted connections need.
    pub tls: TlsFiles,
    /// Nothing but loopback is served in clear text.
    pub require_tls: bool,
    /// The script `handle_error` may end the server.
    pub allow_drain: bool,
    /// Connections at once; 0: as many as the descriptor limit allows.
    pub connections_max: usize,
    /// Synchronizations under way at once; more are sent the time to come back.
    pub transfers_max: usize,
    /// Of these, the ones for which the database works, or that stand in its queues; more wait for
    /// their turn.
    pub sessions_max: usize,
    /// Connections that fetch downloads; 0: one per core.
    pub workers: usize,
    /// Connections that apply uploads, where the database has more than one writer; 0: two per
    /// core.
    pub upload_appliers: usize,
    /// Requests that wait for the writers, and for the readers.
    pub queue_len_max: usize,
    /// Uploads applied in one transaction.
    pub group_commit_len_max: usize,
    /// Memory for uploads and downloads under way, in bytes; beyond it they go to disk.
    pub stream_memory_bytes_max: u64,
    /// Disk for uploads and downloads under way, in bytes.
    pub spill_bytes_max: u64,
    /// Folder for what goes to disk; none: the system's temporary folder.
    pub spill_dir: Option<PathBuf>,
    /// How rows may be compressed on their way, in both directions: the first that a remote reads
    /// is used.
    pub compression: Vec<Compression>,
    /// Largest upload, in bytes.
    pub upload_bytes_max: u64,
    /// Largest frame, in bytes.
    pub frame_bytes_max: usize,
    /// Seconds that one statement may take at a PostgreSQL center, and that it may be silent.
    pub statement_timeout_s: u64,
    /// Seconds that a statement waits there for another session's lock.
    pub lock_timeout_s: u64,
    /// Seconds after which the database ends the transaction of a server that says nothing more.
    pub idle_in_transaction_timeout_s: u64,
    /// Bytes read from a peer before it is known.
    pub unauthenticated_bytes_max: usize,
    /// Rows of one downloaded batch.
    pub batch_rows: u32,
    /// Bytes of one downloaded batch.
    pub batch_bytes: usize,
    /// Seconds that a peer has for its first message, beside the time that the announced bytes of
    /// it take at `progress_bytes_per_s_min`.
    pub hello_timeout_s: u64,
    /// Seconds without a byte from a peer after which it is given up.
    pub idle_timeout_s: u64,
    /// Bytes a second that a peer has to move on average over `progress_window_s`, unless it sends
    /// heartbeats meanwhile.
    pub progress_bytes_per_s_min: u64,
    /// Seconds over which that is seen.
    pub progress_window_s: u64,
    /// Seconds that the server waits for a peer in all, beside the time that its bytes take at
    /// `progress_bytes_per_s_min`. As long do heartbeats count.
    pub patience_s: u64,
    /// Seconds between signs of life while a remote has to wait.
    pub heartbeat_interval_s: u64,
    /// Seconds without progress after which a synchronization gives way to its successor.
    pub takeover_after_s: u64,
    /// Seconds that synchronizations under way have when the server stops.
    pub drain_timeout_s: u64,
    /// Seconds that a session token is valid.
    pub token_lifetime_s: u64,
    /// The JWTs that are accepted in place of passwords.
    pub jwt: JwtOptions,
    /// Who is asked about users and their passwords, in place of the database.
    pub service: ServiceOptions,
    /// The directory that is asked instead.
    pub directory: DirectoryOptions,
    /// Passwords verified at once; 0: one per core.
    pub password_hashes_max: usize,
    /// Passwords that wait to be verified.
    pub password_queue_len_max: usize,
    /// The longest delay after wrong passwords of one user from one address, in seconds.
    pub password_delay_max_s: u64,
    /// Days after which a password in the database expires; 0: never.
    pub password_days_max: u64,
    /// Days before that, from which on the user is warned.
    pub password_warning_days: u64,
    /// Users, each with an address, whose wrong passwords are remembered.
    pub password_failures_max: usize,
    /// Entries kept in each table's change log.
    pub log_rows_max: i64,
    /// Days that the consolidated database keeps the rejects of which their remotes know.
    pub rejects_kept_days: u64,
}

/// The files of encrypted connections. They are read at the start and whenever the server is asked
/// to read its configuration again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the server, then those that lead to its root.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// The authorities of the certificates of remotes.
    pub client_ca: Option<PathBuf>,
    /// Whether remotes show certificates.
    pub client: ClientCertificates,
    /// Where a certificate names its user.
    pub client_user: NameKind,
}

/// Whether remotes show certificates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They are not asked.
    #[default]
    Off,
    /// They are asked. One that is shown can stand for the password.
    Optional,
    /// No remote is served without.
    Required,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            mark_dir: None,
            listen: vec!["tcp://127.0.0.1:2439".into()],
            allowed_origins: Vec::new(),
            proxies: Proxies::default(),
            tls: TlsFiles::default(),
            require_tls: false,
            allow_drain: false,
            connections_max: 0,
            transfers_max: 10_000,
            sessions_max: 1000,
            workers: 0,
            upload_appliers: 0,
            queue_len_max: 1000,
            group_commit_len_max: 64,
            stream_memory_bytes_max: 256 << 20,
            spill_bytes_max: 16 << 30,
            spill_dir: None,
            compression: Compression::ALL.to_vec(),
            upload_bytes_max: 1 << 30,
            frame_bytes_max: protocol::FRAME_BYTES_MAX,
            statement_timeout_s: 300,
            lock_timeout_s: 5,
            idle_in_transaction_timeout_s: 5,
            unauthenticated_bytes_max: 64 << 10,
            batch_rows: 10_000,
            batch_bytes: 256 << 10,
            hello_timeout_s: 10,
            idle_timeout_s: 60,
            progress_bytes_per_s_min: 64,
            progress_window_s: 120,
            patience_s: 600,
            heartbeat_interval_s: 15,
            takeover_after_s: 5,
            drain_timeout_s: 10,
            token_lifetime_s: 24 * 3600,
            jwt: JwtOptions::default(),
            service: ServiceOptions::default(),
            directory: DirectoryOptions::default(),
            password_hashes_max: 0,
            password_queue_len_max: 1000,
            password_delay_max_s: 60,
            password_days_max: 0,
            password_warning_days: 14,
            password_failures_max: 10_000,
            log_rows_max: 1_000_000,
            rejects_kept_days: 90,
        }
    }
}

/// The settings of a running server, some of which may change.
#[derive(Debug)]
pub(crate) struct Settings(RwLock<Arc<Config>>);

impl Settings {
    pub(crate) fn new(config: Config) -> Settings {
        Settings(RwLock::new(Arc::new(config)))
    }

    /// As they are at this moment.
    pub(crate) fn now(&self) -> Arc<Config> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, config: Config) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }
}

/// The names of those fields in which two configurations differ.
macro_rules! differences {
    ($one:expr, $other:expr, $($field:ident)+) => {
        [$(($one.$field != $other.$field).then_some(stringify!($field)),)+].into_iter().flatten()
    };
}

impl Config {
    /// This one with what `wanted` can change while a server runs, and the names of the options
    /// that differ besides and take effect with its next start.
    pub fn reloaded(&self, wanted: &Config) -> (Config, Vec<&'static str>) {
        let config = Config {
            compression: wanted.compression.clone(),
            allowed_origins: wanted.allowed_origins.clone(),
            proxies: wanted.proxies.clone(),
            upload_bytes_max: wanted.upload_bytes_max,
            unauthenticated_bytes_max: wanted.unauthenticated_bytes_max,
            hello_timeout_s: wanted.hello_timeout_s,
            idle_timeout_s: wanted.idle_timeout_s,
            progress_bytes_per_s_min: wanted.progress_bytes_per_s_min,
            progress_window_s: wanted.progress_window_s,
            patience_s: wanted.patience_s,
            heartbeat_interval_s: wanted.heartbeat_interval_s,
            drain_timeout_s: wanted.drain_timeout_s,
            token_lifetime_s: wanted.token_lifetime_s,
            password_days_max: wanted.password_days_max,
            password_warning_days: wanted.password_warning_days,
            tls: wanted.tls.clone(),
            jwt: wanted.jwt.clone(),
            service: wanted.service.clone(),
            directory: wanted.directory.clone(),
            ..self.clone()
        };
        // What holds memory, connections or threads was measured out at the start.
        let later = differences!(config, wanted,
            listen require_tls allow_drain connections_max transfers_max sessions_max workers
            upload_appliers queue_len_max
            group_commit_len_max stream_memory_bytes_max spill_bytes_max spill_dir
            frame_bytes_max batch_rows batch_bytes takeover_after_s password_hashes_max
            password_delay_max_s password_failures_max password_queue_len_max log_rows_max
            rejects_kept_days statement_timeout_s
            lock_timeout_s idle_in_transaction_timeout_s);
        let (ours, theirs) = (&self.service, &self.directory);
        let questions = [
            (wanted.service.requests_max != ours.requests_max, "authenticate_user_requests_max"),
            (wanted.directory.requests_max != theirs.requests_max, "ldap_requests_max"),
        ];
        let later = later.chain(questions.iter().filter(|(differs, _)| *differs).map(|it| it.1));
        (config, later.collect())
    }

    /// Questions at once to the service that knows the users.
    pub(crate) fn questions_max(&self) -> usize {
        match self.directory.url {
            Some(_) => self.directory.requests_max,
            None => self.service.requests_max,
        }
    }

    /// How many writers a server of the database at `url` has.
    pub(crate) fn upload_appliers_for(&self, url: &consolidated::Url) -> usize {
        // More than one per core, because a writer waits for the disk and for its database.
        let wanted = match self.upload_appliers {
            0 => 2 * Config::or_cores(0),
            wanted => wanted,
        };
        consolidated::writers_max(url).map_or(wanted, |most| most.min(wanted))
    }

    /// How long the connections to the database wait.
    pub(crate) fn timeouts(&self) -> consolidated::Timeouts {
        consolidated::Timeouts {
            statement: Duration::from_secs(self.statement_timeout_s),
            lock: Duration::from_secs(self.lock_timeout_s),
            idle_in_transaction: Duration::from_secs(self.idle_in_transaction_timeout_s),
        }
    }

    /// `wanted`, or the number of cores where it is 0.
    pub(crate) fn or_cores(wanted: usize) -> usize {
        match wanted {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            wanted => wanted,
        }
    }
}
