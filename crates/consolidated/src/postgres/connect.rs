//! Makes a connection to a primary and gives its session the settings that scripts rely on.

use super::errors::of_error;
use super::tls::{self, Check};
use super::watermark::Place;
use crate::url::{Host, PostgresUrl, SslMode};
use model::{Code, Failure};
use std::path::PathBuf;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_postgres::config::{self, TargetSessionAttrs};
use tokio_postgres::{Client, Config};

/// How long one host may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// When the operating system begins to ask a silent host whether it still lives.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);

/// How long sent bytes may stay unconfirmed before the connection counts as lost.
const UNCONFIRMED_MAX: Duration = Duration::from_secs(30);

/// The oldest release that has `pg_current_snapshot()`.
const SERVER_VERSION_MIN: i32 = 130_000;

/// What every session needs, so that values as text look the same everywhere, and nothing is
/// acknowledged that a crash could undo (S1).
const SETTINGS: &str = "SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
SET IntervalStyle = 'iso_8601';
SET extra_float_digits = 3;
SET bytea_output = 'hex';
SET standard_conforming_strings = on;
SET lock_timeout = '5s';
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off';";

/// What a synchronization needs besides: rows are found by an index.
///
/// PostgreSQL keeps plans: those of our own small statements, of foreign keys, of statements inside
/// of triggers. One made while a table was nearly empty would read all of it, and go on doing so
/// while the table grows, were there a choice. Scripts are planned each time (decision 0008).
const BY_INDEX: &str = "SET plan_cache_mode = 'auto'; SET enable_seqscan = off; SET jit = off";

/// Ends a statement whose client is gone; not every platform has it.
const NOTICE_LOST_CLIENT: &str = "SET client_connection_check_interval = '5s'";

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Deploys; may take its time.
    Administer,
    /// Fetches downloads.
    Read,
    /// Applies uploads; a dead server must not lock out its remotes for longer than this (S8).
    Apply,
}

impl Role {
    fn plans(self) -> &'static str {
        match self {
            Role::Administer => "",
            Role::Read | Role::Apply => BY_INDEX,
        }
    }

    fn idle_in_transaction(self) -> &'static str {
        match self {
            Role::Administer => "SET idle_in_transaction_session_timeout = '60s'",
            Role::Read => "SET idle_in_transaction_session_timeout = '30s'",
            Role::Apply => "SET idle_in_transaction_session_timeout = '5s'",
        }
    }
}

/// Where to connect and as whom.
#[derive(Clone)]
pub(super) struct Options {
    config: Config,
    /// None: no TLS.
    check: Option<Check>,
    root: Option<PathBuf>,
}

impl Options {
    pub(super) fn of(url: &PostgresUrl) -> Options {
        let mut config = Config::new();
        for host in &url.hosts {
            match host {
                Host::Tcp(name, port) => config.host(name).port(*port),
                Host::Socket(folder, port) => {
                    config.host(folder.to_string_lossy().into_owned()).port(*port)
                }
            };
        }
        config
            .user(&url.user)
            .dbname(&url.database)
            .application_name(url.application_name.as_deref().unwrap_or("syncline"))
            .connect_timeout(url.connect_timeout.unwrap_or(CONNECT_TIMEOUT))
            .tcp_user_timeout(UNCONFIRMED_MAX)
            .keepalives_idle(KEEPALIVE_IDLE);
        if let Some(password) = &url.password {
            config.password(password.reveal());
        }
        if let Some(settings) = &url.options {
            config.options(settings);
        }
        if url.hosts.len() > 1 {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let (mode, check) = match (url.sslmode, &url.sslrootcert) {
            (SslMode::Disable, _) => (config::SslMode::Disable, None),
            (SslMode::Prefer, _) => (config::SslMode::Prefer, Some(Check::Nothing)),
            (SslMode::Require, None) => (config::SslMode::Require, Some(Check::Nothing)),
            (SslMode::Require, Some(_)) | (SslMode::VerifyCa, _) => {
                (config::SslMode::Require, Some(Check::Authority))
            }
            (SslMode::VerifyFull, _) => (config::SslMode::Require, Some(Check::Full)),
        };
        config.ssl_mode(mode);
        Options { config, check, root: url.sslrootcert.clone() }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("host", &self.config.get_hosts()).finish_non_exhaustive()
    }
}

/// A live connection. The task moves its bytes and ends with it.
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) task: JoinHandle<()>,
    pub(super) place: Place,
}

/// Connects, or tells why not. Runs inside the runtime of the link.
pub(super) async fn connect(options: &Options, role: Role) -> Result<Connected, Failure> {
    let config = &options.config;
    let connecting = |error| of_error(error, "cannot connect to PostgreSQL".to_owned());
    // On this very thread, whenever it waits for an answer.
    let runtime = Handle::current();
    let (client, task) = match options.check {
        None => {
            let (client, connection) =
                config.connect(tokio_postgres::NoTls).await.map_err(connecting)?;
            (client, runtime.spawn(async move { drop(connection.await) }))
        }
        Some(check) => {
            let tls = tls::connector(check, options.root.as_deref())?;
            let (client, connection) = config.connect(tls).await.map_err(connecting)?;
            (client, runtime.spawn(async move { drop(connection.await) }))
        }
    };
    let place = set_up(&client, role).await?;
    Ok(Connected { client, task, place })
}

const FACTS: &str = "SELECT pg_is_in_recovery(), current_setting('server_version_num')::int4,
    (SELECT system_identifier FROM pg_control_system()),
    CASE WHEN NOT pg_is_in_recovery() THEN pg_walfile_name(pg_current_wal_insert_lsn()) END";

async fn set_up(client: &Client, role: Role) -> Result<Place, Failure> {
    let setting = |error| of_error(error, "cannot set up the session".to_owned());
    let settings = client.batch_execute(SETTINGS);
    let idle = client.batch_execute(role.idle_in_transaction());
    let plans = client.batch_execute(role.plans());
    let notice = client.batch_execute(NOTICE_LOST_CLIENT);
    let facts = client.query_typed_one(FACTS, &[]);
    // Together: one round trip.
    let (settings, plans, idle, _, facts) = tokio::join!(settings, plans, idle, notice, facts);
    settings.map_err(setting)?;
    plans.map_err(setting)?;
    idle.map_err(setting)?;
    let facts = facts.map_err(setting)?;
    let version: i32 = facts.try_get(1).map_err(setting)?;
    if version < SERVER_VERSION_MIN {
        let message = format!("PostgreSQL {} is too old", version / 10_000);
        return Err(Failure::new(Code::DatabaseUnavailable, message)
            .hint("Syncline needs PostgreSQL 13 or later"));
    }
    let system: i64 = facts.try_get(2).map_err(setting)?;
    let segment: Option<&str> = facts.try_get(3).map_err(setting)?;
    // The name of a segment begins with its timeline. The control file would tell the old one
    // for a while after a promotion.
    let timeline = segment.and_then(|name| u32::from_str_radix(name.get(..8)?, 16).ok());
    match timeline {
        Some(timeline) => Ok(Place { system: system.cast_unsigned(), timeline }),
        // The snapshots of a standby do not list the transactions in flight (trap 1).
        None => Err(Failure::new(Code::NotPrimary, "the PostgreSQL server is a standby")),
    }
}
