//! All options of the table `[server]`: name, unit, default and reason.
//!
//! The struct for serde, its defaults, the checked bounds, and the sample file of `syncline init`
//! follow from this list.

use super::compression::{self, Method};
use super::directory::{DIRECTORY_OPTIONS, DirectoryFileOptions};
use super::jwt::{JWT_OPTIONS, JwtFileOptions};
use super::log_level::LogLevel;
use super::login_service::{SERVICE_OPTIONS, ServiceFileOptions};
use super::spelled::{OPTIONS, SpelledOption};
use super::tls::{TlsClient, TlsClientUser};
use super::trusted_proxy::TrustedProxy;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// What is known about one numeric option.
#[derive(Debug)]
pub(crate) struct ServerOption {
    /// The key in the file.
    pub(crate) name: &'static str,
    /// What the number counts.
    pub(crate) unit: &'static str,
    /// The value when the file does not say.
    pub(crate) default: u64,
    /// The values that make sense.
    pub(crate) bounds: RangeInclusive<u64>,
    /// What it limits, and why the default is what it is.
    pub(crate) why: &'static str,
}

/// Where the server listens unless the file or `--listen` says otherwise.
const LISTEN_DEFAULT: &str = "tcp://127.0.0.1:2439";

/// The options that are no numbers, in the order of the sample file.
pub(crate) fn spelled_options() -> impl Iterator<Item = &'static SpelledOption> {
    OPTIONS.iter().chain(JWT_OPTIONS).chain(SERVICE_OPTIONS).chain(DIRECTORY_OPTIONS)
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

macro_rules! server_options {
    ($($name:ident = $default:expr, $bounds:expr, $unit:literal, $why:literal;)+) => {
        /// The table `[server]`, exactly as in the file.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub(crate) struct ServerOptions {
            /// Where to listen.
            pub(crate) listen: Vec<String>,
            /// Origins of the pages that may synchronize over HTTP.
            pub(crate) allowed_origins: Vec<String>,
            /// The proxies in front of the server that are believed.
            pub(crate) trusted_proxies: Vec<TrustedProxy>,
            /// Whether their connections begin with a PROXY header.
            pub(crate) proxy_protocol: bool,
            /// The certificate for encrypted connections, relative to the file.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub(crate) tls_certificate: Option<String>,
            /// Its key.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub(crate) tls_key: Option<String>,
            /// The authorities of the certificates of remotes.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub(crate) tls_client_ca: Option<String>,
            /// Whether remotes show certificates.
            pub(crate) tls_client: TlsClient,
            /// Where such a certificate names its user.
            pub(crate) tls_client_user: TlsClientUser,
            /// Whether clear text is for loopback only.
            pub(crate) require_tls: bool,
            /// Whether the script `handle_error` may end the server.
            pub(crate) allow_drain: bool,
            /// Where rows go that do not fit in memory; the system's temporary folder if none.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub(crate) spill_dir: Option<String>,
            /// How rows may be compressed on their way, the preferred one first.
            pub(crate) compression: Vec<Method>,
            /// How much to log, unless `--log` is given.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub(crate) log: Option<LogLevel>,
            /// Whose JWTs it accepts.
            #[serde(flatten)]
            pub(crate) jwt: JwtFileOptions,
            /// Who else knows the users.
            #[serde(flatten)]
            pub(crate) service: ServiceFileOptions,
            /// The directory that knows them.
            #[serde(flatten)]
            pub(crate) directory: DirectoryFileOptions,
            $(#[doc = $why] pub(crate) $name: u64,)+
        }

        impl Default for ServerOptions {
            fn default() -> ServerOptions {
                ServerOptions {
                    listen: vec![LISTEN_DEFAULT.to_owned()],
                    allowed_origins: Vec::new(),
                    trusted_proxies: Vec::new(),
                    proxy_protocol: false,
                    tls_certificate: None,
                    tls_key: None,
                    tls_client_ca: None,
                    tls_client: TlsClient::Off,
                    tls_client_user: TlsClientUser::Cn,
                    require_tls: false,
                    allow_drain: false,
                    spill_dir: None,
                    compression: compression::DEFAULT.to_vec(),
                    log: None,
                    jwt: JwtFileOptions::default(),
                    service: ServiceFileOptions::default(),
                    directory: DirectoryFileOptions::default(),
                    $($name: $default,)+
                }
            }
        }

        /// The numeric options in the order of the sample file.
        pub(crate) const SERVER_OPTIONS: &[ServerOption] = &[$(ServerOption {
            name: stringify!($name),
            unit: $unit,
            default: $default,
            bounds: $bounds,
            why: $why,
        },)+];
    };
}

server_options! {
    connections_max = 0, 0..=10_000_000, "connections",
        "Open connections, and over HTTP/2 also requests. 0: as many as the limit of open files \
         allows. The server raises that limit to its hard limit when it starts.";
    transfers_max = 10_000, 1..=10_000_000, "synchronizations",
        "Synchronizations that run at the same time. Most of the time they send or receive rows, \
         which needs some memory and a connection, and nothing of the database, so many slow \
         remotes do no harm. At the limit the user with most synchronizations yields one to \
         another user; otherwise the server tells the remote when to try again. It is at most \
         seven eighths of connections_max, so that further remotes can still say who they are.";
    sessions_max = 1000, 1..=1_000_000, "synchronizations",
        "Synchronizations for which the database works, or that are in its queues. Further ones \
         wait, and users take turns. None of these places is held while rows are sent or \
         received.";
    workers = 0, 0..=1024, "connections to the consolidated database",
        "Downloads that are read in parallel. 0: one per core, because reading needs the CPU.";
    upload_appliers = 0, 0..=1024, "connections to the consolidated database",
        "Uploads that are applied in parallel, if the database supports it. 0: two per core, \
         because each waits for the database and the disk.";
    queue_len_max = 1000, 1..=1_000_000, "requests",
        "Requests in the queue before the workers of each kind. Further ones wait until there is \
         room.";
    stream_memory_bytes_max = 256 * MIB, MIB..=1024 * GIB, "bytes",
        "Memory for uploads and downloads, all together, including messages of which only a part \
         has arrived, and rows of an upload that wait, have lost or were refused. Further rows go \
         to disk. Beside it each of the workers and upload_appliers has one message in hand while \
         it reads or writes it: up to five times frame_bytes_max, and usually a few MiB.";
    spill_bytes_max = 16 * GIB, 0..=1024 * 1024 * GIB, "bytes",
        "Disk space for uploads and downloads, all together, so that they never fill the disk.";
    upload_bytes_max = GIB, 64 * 1024..=1024 * GIB, "bytes",
        "Size of one upload. Ten million short rows fit. It limits the damage of a remote with a \
         defect.";
    frame_bytes_max = 64 * MIB, 64 * 1024..=GIB, "bytes",
        "Size of one message, and so of the largest row.";
    unauthenticated_bytes_max = 64 * 1024, 16 * 1024..=GIB, "bytes",
        "Bytes that are read from a peer before it is authenticated. Small uploads are sent with \
         the first message; 64 KiB is enough for both. A remote with a past names its \
         tables in that message, about 110 bytes each, so more than 550 tables need more.";
    idle_timeout_s = 60, 1..=86_400, "seconds",
        "The server closes a connection whose remote should send something and sends nothing for \
         this long.";
    progress_bytes_per_s_min = 64, 1..=1_000_000, "bytes a second",
        "The server ends a synchronization whose remote sends or receives less than this on \
         average over progress_window_s, so that nobody keeps a connection by single bytes. A \
         modem with 4,800 baud moves 480 bytes a second.";
    progress_window_s = 120, 1..=86_400, "seconds",
        "The time over which progress_bytes_per_s_min is measured. Short interruptions of a slow \
         network do no harm.";
    patience_s = 600, 1..=86_400, "seconds",
        "The server waits this long in all for a remote, plus the time that its bytes take at \
         progress_bytes_per_s_min. Signs of life without rows are accepted for as long.";
    batch_rows = 10_000, 1..=1_000_000, "rows",
        "Rows of one downloaded batch: enough to be fast, few enough to show progress.";
    batch_bytes = 256 * 1024, 1024..=64 * MIB, "bytes",
        "Bytes of one downloaded batch. Larger batches are not faster and need more memory.";
    hello_timeout_s = 10, 1..=3600, "seconds",
        "Within this time a new connection must send its first message, which names the user, plus \
         the time that a long first message takes at progress_bytes_per_s_min.";
    heartbeat_interval_s = 15, 1..=3600, "seconds",
        "While a remote waits, the server sends it a sign of life this often. It must be less than \
         idle_timeout_s and than the timeouts of the usual proxies.";
    takeover_after_s = 5, 1..=3600, "seconds",
        "A synchronization without progress for this long is replaced by a new one of the same \
         remote, so that a dead connection does not lock a remote out.";
    drain_timeout_s = 10, 0..=3600, "seconds",
        "After SIGTERM running synchronizations may take this long to end. Then their statements \
         at the database are canceled, and the process ends within two seconds.";
    statement_timeout_s = 300, 1..=86_400, "seconds",
        "At a PostgreSQL center: one statement may take this long, and the database may be silent \
         for this long plus 15 seconds. A synchronization that exceeds it is tried again later, \
         and no row is rejected. The first download of a very large table may need more.";
    lock_timeout_s = 5, 1..=3600, "seconds",
        "At a PostgreSQL center: a statement waits this long for a lock of another session. Then \
         the server tells the remote when to try again, and the worker is free for others.";
    idle_in_transaction_timeout_s = 5, 1..=3600, "seconds",
        "At a PostgreSQL center: the database ends the transaction of an upload if its server is \
         silent for this long, so that a dead server does not hold locks. For a download it is \
         six times this long.";
    token_lifetime_s = 86_400, 60..=31_536_000, "seconds",
        "Session tokens are valid this long. Then the password is verified again, which takes \
         20 ms of CPU.";
    group_commit_len_max = 64, 1..=10_000, "uploads",
        "Uploads that are committed together, because SQLite has one writer and each commit waits \
         for the disk.";
    log_rows_max = 1_000_000, 1000..=1_000_000_000, "rows per table",
        "Changes that the log keeps for each table. A remote whose last download is older \
         downloads the whole table.";
    rejects_kept_days = 90, 0..=36_500, "days",
        "The consolidated database keeps rejected rows until their remotes have received the \
         reject, and for this long, so that an operator can find a missing row. It keeps at most \
         log_rows_max rejects, and as many conflicts.";
    password_hashes_max = 0, 0..=1024, "passwords",
        "Passwords that are verified at the same time. 0: one per core, because each takes a core \
         for 20 ms.";
    password_queue_len_max = 1000, 1..=1_000_000, "passwords",
        "Passwords that wait to be verified. The server tells further remotes when to try again.";
    password_delay_max_s = 60, 0..=86_400, "seconds",
        "From the third wrong password of a user from one address on, the next attempt of this \
         user from this address has to wait: one second, then twice as long each time, up to this \
         limit. This stops guessing, and hardly delays a user who mistypes. Wrong passwords are \
         forgotten after 15 times this long. 0: no delays.";
    password_days_max = 0, 0..=36_500, "days",
        "A password in the database expires when it is this old, unless `syncline user set \
         --password-expires` says otherwise. Then only a synchronization that changes it is \
         accepted, and its tokens are refused. 0: passwords do not expire.";
    password_warning_days = 14, 0..=3650, "days",
        "This long before a password expires, each synchronization warns its user.";
    password_failures_max = 10_000, 1..=10_000_000, "users with an address each",
        "The server remembers wrong passwords for this many, which takes about 2 MB. For a new \
         one the oldest entry of the address with the most entries is removed.";
    authenticate_user_timeout_s = 10, 1..=300, "seconds",
        "The service that knows the users must answer within this time. Otherwise the server tells \
         the remote to come back, and counts no wrong password.";
    authenticate_user_requests_max = 32, 1..=10_000, "questions",
        "Questions to the service at the same time. Further ones wait, at most \
         password_queue_len_max.";
    ldap_answer_s = 0, 0..=31_536_000, "seconds",
        "A password that the directory has accepted is believed this long, at most \
         token_lifetime_s: the server issues a session token. Who is removed from the directory \
         can synchronize until then. 0: the directory is asked each time.";
    ldap_timeout_s = 10, 1..=300, "seconds",
        "The directory must answer within this time, from the connection to the last answer. \
         Otherwise the server tells the remote to come back, and counts no wrong password.";
    ldap_requests_max = 32, 1..=10_000, "connections to the directory",
        "Passwords that the directory is asked about at the same time, each over a connection of \
         its own. Further ones wait, at most password_queue_len_max.";
}

impl ServerOptions {
    /// What the options mean to the server.
    pub(crate) fn meaning(&self) -> server::Config {
        server::Config {
            // Only the reader of the file knows it.
            mark_dir: None,
            listen: self.listen.clone(),
            allowed_origins: self.allowed_origins.clone(),
            proxies: server::Proxies {
                trusted: self.trusted_proxies.iter().map(|proxy| proxy.0).collect(),
                protocol: self.proxy_protocol,
            },
            tls: server::TlsFiles {
                certificate: self.tls_certificate.as_ref().map(PathBuf::from),
                key: self.tls_key.as_ref().map(PathBuf::from),
                client_ca: self.tls_client_ca.as_ref().map(PathBuf::from),
                client: self.tls_client.meaning(),
                client_user: self.tls_client_user.meaning(),
            },
            require_tls: self.require_tls,
            allow_drain: self.allow_drain,
            connections_max: size(self.connections_max),
            transfers_max: size(self.transfers_max),
            sessions_max: size(self.sessions_max),
            workers: size(self.workers),
            upload_appliers: size(self.upload_appliers),
            queue_len_max: size(self.queue_len_max),
            group_commit_len_max: size(self.group_commit_len_max),
            stream_memory_bytes_max: self.stream_memory_bytes_max,
            spill_bytes_max: self.spill_bytes_max,
            spill_dir: self.spill_dir.as_ref().map(PathBuf::from),
            compression: self.compression.iter().map(|method| (*method).into()).collect(),
            upload_bytes_max: self.upload_bytes_max,
            frame_bytes_max: size(self.frame_bytes_max),
            unauthenticated_bytes_max: size(self.unauthenticated_bytes_max),
            batch_rows: u32::try_from(self.batch_rows).unwrap_or(u32::MAX),
            batch_bytes: size(self.batch_bytes),
            hello_timeout_s: self.hello_timeout_s,
            idle_timeout_s: self.idle_timeout_s,
            progress_bytes_per_s_min: self.progress_bytes_per_s_min,
            progress_window_s: self.progress_window_s,
            patience_s: self.patience_s,
            heartbeat_interval_s: self.heartbeat_interval_s,
            takeover_after_s: self.takeover_after_s,
            drain_timeout_s: self.drain_timeout_s,
            statement_timeout_s: self.statement_timeout_s,
            lock_timeout_s: self.lock_timeout_s,
            idle_in_transaction_timeout_s: self.idle_in_transaction_timeout_s,
            token_lifetime_s: self.token_lifetime_s,
            jwt: self.jwt.meaning(),
            service: self.service.meaning(
                self.authenticate_user_timeout_s,
                size(self.authenticate_user_requests_max),
            ),
            directory: self.directory.meaning(
                self.ldap_answer_s,
                self.ldap_timeout_s,
                size(self.ldap_requests_max),
            ),
            password_hashes_max: size(self.password_hashes_max),
            password_queue_len_max: size(self.password_queue_len_max),
            password_delay_max_s: self.password_delay_max_s,
            password_days_max: self.password_days_max,
            password_warning_days: self.password_warning_days,
            password_failures_max: size(self.password_failures_max),
            log_rows_max: i64::try_from(self.log_rows_max).unwrap_or(i64::MAX),
            rejects_kept_days: self.rejects_kept_days,
        }
    }

    /// Every key of the table.
    pub(crate) fn keys() -> impl Iterator<Item = &'static str> {
        let numbers = SERVER_OPTIONS.iter().map(|option| option.name);
        spelled_options().map(|option| option.name).chain(numbers)
    }
}

// The bounds of the options are far below; only a 16-bit machine would cut anything.
fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_of_the_file_are_those_of_the_server() {
        assert_eq!(ServerOptions::default().meaning(), server::Config::default());
    }

    #[test]
    fn every_default_is_within_its_bounds() {
        for option in SERVER_OPTIONS {
            assert!(option.bounds.contains(&option.default), "{}", option.name);
        }
    }
}
