//! Makes a connection to a primary and gives its session the settings that scripts rely on.

pub(super) mod mark;

use super::encoding::Encoding;
use super::errors::{Fault, FaultKind};
use crate::postgres::download::watermark::NumberSpace;
use crate::postgres::link::line::Receiver;
use crate::serving::Timeouts;
use crate::url::{PostgresUrl, SslMode};
use model::{Code, Failure};
use postgres_driver::{Call, CallResult, Check, Encryption, Host, Options, Row, RowRef, Session};
use std::ops::ControlFlow;
use std::time::Duration;

/// How long one host may take to accept a connection, and for each step until it is ready.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The oldest release that has `pg_current_snapshot()`.
const SERVER_VERSION_MIN: i32 = 130_000;

/// What every session needs, whatever is set for the database or the role: values as text look the
/// same everywhere, our own statements mean the same, and nothing is acknowledged that a crash
/// could undo (S1).
const SETTINGS: &str = "SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
SET IntervalStyle = 'iso_8601';
SET extra_float_digits = 3;
SET bytea_output = 'hex';
SET standard_conforming_strings = on;
SET array_nulls = on;
SET quote_all_identifiers = off;
SET xmloption = content;
SET row_security = on;
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off';
SELECT set_config(name, '0', false) FROM pg_settings
WHERE name IN ('idle_session_timeout', 'transaction_timeout') AND setting <> '0';";

/// What a synchronization needs besides: rows are found by an index.
///
/// PostgreSQL keeps plans: those of our own small statements, of foreign keys, of statements inside
/// of triggers. One made while a table was nearly empty would read all of it, and go on doing so
/// while the table grows, were there a choice. Scripts are planned each time (decision 0010).
const BY_INDEX: &str = "SET plan_cache_mode = 'auto'; SET enable_seqscan = off; SET jit = off";

/// What reads keeps all its plans, from the first run on. They go through a bitmap: rows in a
/// partition that outgrew all others are found as well as those of a small one, and each page is
/// read once. What is not fit for this is read with other settings (`download/cursor.rs`).
const BY_BITMAP: &str = "SET plan_cache_mode = 'force_generic_plan'; SET enable_seqscan = off;
SET enable_indexscan = off; SET jit = off; SET max_parallel_workers_per_gather = 0";

/// The same where a writer reads a download: only in its transaction. Nothing here takes a
/// snapshot.
pub(super) const BY_BITMAP_LOCALLY: [&str; 3] = [
    "SET LOCAL plan_cache_mode = 'force_generic_plan'",
    "SET LOCAL enable_indexscan = off",
    "SET LOCAL max_parallel_workers_per_gather = 0",
];

/// What reads the catalog runs once. To compile it takes seconds, and to run it milliseconds.
const NOT_COMPILED: &str = "SET jit = off";

/// For administration: from here on every name is written with its schema, by us and by the
/// database.
pub(super) const NO_SEARCH_PATH: &str = "SET search_path = pg_catalog";

/// Ends a statement whose client is gone; not every platform has it.
const NOTICE_LOST_CLIENT: &str = "SET client_connection_check_interval = '5s'";

/// Its place among the first statements.
const NOTICE_AT: usize = 1;

/// A replica fires no trigger and checks no foreign key. Not every role may set this.
const BE_ORIGIN: &str = "SELECT set_config('session_replication_role', 'origin', false)
WHERE current_setting('session_replication_role') = 'replica'";

/// Its place among the first statements.
const ORIGIN_AT: usize = 4;

/// Where the mark is read back among them.
const MARK_AT: usize = 3;

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
            Role::Administer => NOT_COMPILED,
            Role::Read => BY_BITMAP,
            Role::Apply => BY_INDEX,
        }
    }

    /// The timeouts of the session. Administration commands have no statement timeout, because the
    /// user may end the program.
    fn waits(self, timeouts: &Timeouts) -> String {
        let (statement, lock) = (timeouts.statement.as_millis(), timeouts.lock.as_millis());
        let idle = self.idle_in_transaction(timeouts).as_millis();
        let limits = match self {
            Role::Administer => [0, 5_000, idle],
            Role::Read | Role::Apply => [statement, lock, idle],
        };
        let names = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"];
        let set = names.iter().zip(limits);
        set.map(|(name, limit)| format!("SET {name} = {limit};")).collect()
    }

    /// After so long a silence the database ends a transaction.
    pub(super) fn idle_in_transaction(self, timeouts: &Timeouts) -> Duration {
        match self {
            Role::Administer => Duration::from_secs(60),
            Role::Read => READ_IDLE_TIMES * timeouts.idle_in_transaction,
            Role::Apply => timeouts.idle_in_transaction,
        }
    }
}

/// A download that stands idle holds no row, and may wait for the disk of its server.
const READ_IDLE_TIMES: u32 = 6;

/// How much longer than its own limit the database may be silent: it answers late where it or the
/// network has much to do.
const GRACE: Duration = Duration::from_secs(15);

/// Where to connect, as whom and for how long.
#[derive(Debug, Clone)]
pub(super) struct Destination {
    /// To try in this order.
    hosts: Vec<Host>,
    pub(super) options: Options,
    pub(super) timeouts: Timeouts,
}

impl Destination {
    pub(super) fn of(url: &PostgresUrl, role: Role, timeouts: Timeouts) -> Destination {
        let silence_max = match role {
            Role::Administer => None,
            Role::Read | Role::Apply => Some(timeouts.statement + GRACE),
        };
        let required = |check| Some(Encryption { required: true, check });
        let encryption = match (url.sslmode, &url.sslrootcert) {
            (SslMode::Disable, _) => None,
            (SslMode::Prefer, _) => Some(Encryption { required: false, check: Check::Nothing }),
            (SslMode::Require, None) => required(Check::Nothing),
            (SslMode::Require, Some(_)) | (SslMode::VerifyCa, _) => required(Check::Authority),
            (SslMode::VerifyFull, _) => required(Check::Full),
        };
        let options = Options {
            user: url.user.clone(),
            password: url.password.as_ref().map(|password| password.reveal().to_owned()),
            database: url.database.clone(),
            application_name: url.application_name.as_deref().unwrap_or("syncline").to_owned(),
            settings: url.options.clone(),
            connect_timeout: url.connect_timeout.unwrap_or(CONNECT_TIMEOUT),
            silence_max,
            encryption,
            root: url.sslrootcert.clone(),
            proof: url.proof.clone(),
        };
        Destination { hosts: url.hosts.clone(), options, timeouts }
    }
}

/// Connects to the first host that will do, or tells what was wrong with the last.
pub(super) fn connect(destination: &Destination, role: Role) -> Result<(Session, Facts), Failure> {
    let Destination { hosts, options, timeouts } = destination;
    let waits = role.waits(timeouts);
    let mut last = None;
    for host in hosts {
        match connect_to(host, options).and_then(|mut session| {
            let facts = set_up(&mut session, role, &waits, hosts.len() > 1)?;
            Ok((session, facts))
        }) {
            Ok(connected) => return Ok(connected),
            Err(failure) => last = Some(failure),
        }
    }
    Err(last.unwrap_or_else(|| Failure::new(Code::BadUrl, "the URL names no host")))
}

fn connect_to(host: &Host, options: &Options) -> Result<Session, Failure> {
    let failed = |kind: FaultKind| kind.failure("cannot connect to PostgreSQL".to_owned());
    let mark = mark::draw().map_err(|failure| failed(FaultKind::Failure(failure)))?;
    Session::open(host, options, &mark).map_err(|error| failed(error.into()))
}

/// What a connection learns of its server once.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Facts {
    pub(super) space: NumberSpace,
    /// After so long a wait for a lock the server looks for a deadlock, in milliseconds.
    pub(super) deadlock_timeout_ms: u64,
    /// A transaction keeps the snapshot that it took first.
    pub(super) keeps_snapshots: bool,
    pub(super) encoding: Encoding,
}

const FACTS: &str = "SELECT pg_is_in_recovery(), current_setting('server_version_num')::int4,
    (SELECT system_identifier FROM pg_control_system()),
    CASE WHEN NOT pg_is_in_recovery() THEN pg_walfile_name(pg_current_wal_insert_lsn()) END,
    current_setting('transaction_read_only') = 'on',
    (SELECT setting::int8 FROM pg_settings WHERE name = 'deadlock_timeout'),
    current_setting('default_transaction_isolation') IN ('repeatable read', 'serializable'),
    getdatabaseencoding()::text,
    CASE current_setting('session_replication_role') WHEN 'replica' THEN (
        SELECT CASE source
            WHEN 'database' THEN format('ALTER DATABASE %I RESET', current_database())
            WHEN 'user' THEN format('ALTER ROLE %I RESET', session_user)
            WHEN 'database user'
            THEN format('ALTER ROLE %I IN DATABASE %I RESET', session_user, current_database())
            WHEN 'global' THEN 'ALTER ROLE ALL RESET'
            WHEN 'configuration file' THEN 'ALTER SYSTEM RESET'
        END FROM pg_settings WHERE name = 'session_replication_role') END,
    current_setting('session_replication_role') = 'replica'";

/// Gives the session its settings and its mark.
fn begin(session: &mut Session, settings: &str) -> Result<(), FaultKind> {
    let outcomes = session.run(&[Call::Simple(settings)], &mut |_, _| ControlFlow::Continue(()));
    let refused =
        outcomes.map_err(|fault| fault.error)?.into_iter().find_map(|outcome| match outcome {
            CallResult::Refused(refusal) => Some(FaultKind::Refused(refusal)),
            CallResult::Done(_) | CallResult::Skipped => None,
        });
    refused.map_or(Ok(()), Err)
}

/// `must_write`: there are other hosts to try where this one only reads.
fn set_up(
    session: &mut Session,
    role: Role,
    waits: &str,
    must_write: bool,
) -> Result<Facts, Failure> {
    let doing = || "cannot set up the session".to_owned();
    let mark = session.mark();
    // One text, so that a pooler gives it to one session.
    let settings = format!("{SETTINGS}\n{}", mark::set(&mark));
    // On its own: what reads the mark back can be prepared only where there is one.
    begin(session, &settings).map_err(|kind| kind.failure(doing()))?;
    let calls = [
        Call::Simple(waits),
        Call::Simple(NOTICE_LOST_CLIENT),
        Call::Simple(role.plans()),
        Call::new(mark::READ, &[]),
        Call::Simple(BE_ORIGIN),
        Call::new(FACTS, &[]),
    ];
    let mut facts = None;
    let mut take = |call, row: RowRef<'_>| {
        if call == MARK_AT {
            return mark::compare(row, &mark);
        }
        facts = Some(row.to_row());
        Ok(())
    };
    let mut receiver = Receiver::new(&mut take);
    let outcomes = session
        .run(&calls, &mut |call, row| receiver.take(call, row))
        .map_err(|fault| mark::judge_first(receiver.fault(fault), MARK_AT).kind.failure(doing()))?;
    for (position, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            CallResult::Refused(refusal) if ![NOTICE_AT, ORIGIN_AT].contains(&position) => {
                let fault = Fault { call: position, kind: FaultKind::Refused(refusal) };
                return Err(mark::judge(fault, MARK_AT).kind.failure(doing()));
            }
            _ => {}
        }
    }
    let unreadable = || Failure::new(Code::DatabaseUnavailable, doing());
    facts_of(&facts.ok_or_else(unreadable)?, must_write, &unreadable)
}

/// What a server has said of itself, unless it will not do.
fn facts_of(
    facts: &Row,
    must_write: bool,
    unreadable: &dyn Fn() -> Failure,
) -> Result<Facts, Failure> {
    let unreadable = |error| unreadable().source(error);
    let version: i32 = facts.try_get(1).map_err(unreadable)?;
    if version < SERVER_VERSION_MIN {
        let message = format!("PostgreSQL {} is too old", version / 10_000);
        return Err(Failure::new(Code::DatabaseUnavailable, message)
            .hint("Syncline needs PostgreSQL 13 or later"));
    }
    let system: i64 = facts.try_get(2).map_err(unreadable)?;
    let segment: Option<&str> = facts.try_get(3).map_err(unreadable)?;
    // The name of a segment begins with its timeline. The control file would tell the old one
    // for a while after a promotion.
    let timeline = segment.and_then(|name| u32::from_str_radix(name.get(..8)?, 16).ok());
    let Some(timeline) = timeline else {
        // The snapshots of a standby do not list the transactions in flight (trap 1).
        return Err(Failure::new(Code::NotPrimary, "the PostgreSQL server is a standby"));
    };
    if must_write && facts.try_get(4).map_err(unreadable)? {
        return Err(Failure::new(Code::NotPrimary, "the PostgreSQL server is read-only"));
    }
    if facts.try_get(9).map_err(unreadable)? {
        return Err(replica(facts.try_get(8).map_err(unreadable)?));
    }
    let deadlock_timeout_ms: i64 = facts.try_get(5).map_err(unreadable)?;
    Ok(Facts {
        space: NumberSpace { system: system.cast_unsigned(), timeline },
        deadlock_timeout_ms: deadlock_timeout_ms.cast_unsigned(),
        keeps_snapshots: facts.try_get(6).map_err(unreadable)?,
        encoding: Encoding::named(facts.try_get(7).map_err(unreadable)?)?,
    })
}

/// Nothing would be captured, checked or owed in such a session. `reset` begins the statement that
/// mends it, where that is known.
fn replica(reset: Option<&str>) -> Failure {
    const NAME: &str = "session_replication_role";
    let message = format!(
        "{NAME} is replica for this database or role, and the role may not change it: no trigger \
         would fire, and no foreign key would be checked"
    );
    let hint = match reset {
        Some(reset) => format!("as a superuser: {reset} {NAME}; then try again"),
        None => format!("take {NAME} out of what the connection or the server is started with"),
    };
    Failure::new(Code::DatabaseUnavailable, message).hint(hint)
}
