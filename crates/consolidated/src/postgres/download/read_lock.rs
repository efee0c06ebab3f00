//! The lock on all tables that a download reads, taken before its snapshot.
//!
//! Some statements rewrite a table (ALTER TABLE, TRUNCATE, SET UNLOGGED, a swap by renaming). To
//! older snapshots the table is empty then, without an error (trap 20). The download would send
//! nothing, and its watermark would say that the remote has everything.
//!
//! Invariants:
//! RL1. LOCK takes no snapshot. A change that was committed before the lock was granted is in the
//!     later snapshot. A later rewrite of one of the tables waits for the end of the download.
//! RL2. In a deadlock, PostgreSQL ends the session that has waited for `deadlock_timeout`. A
//!     download waits for half of that, for all its tables together, then releases its locks and
//!     tries again. So the statement of the owner is never ended. Nearly always the locks are free.
//!     So the first attempt does not wait at all: this needs no timeout, and setting and resetting
//!     a timeout would cost as much as the lock.

use crate::postgres::catalog::table::Table;
use crate::postgres::errors::{Fault, FaultKind, script_failed};
use crate::postgres::link::line::is_collision;
use crate::postgres::link::{Call, Link};
use model::{Code, Failure};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// How often a download tries to get its lock, where `deadlock_timeout` is long enough for
/// [`WAIT_MS_MAX`] to matter.
const ATTEMPTS_MIN: u32 = 4;

/// About so long all attempts wait together, in milliseconds.
const WAIT_MS_MAX: u64 = 5_000;

/// Between two attempts at most so many, however short `deadlock_timeout` is.
const ATTEMPTS_MAX: u32 = 100;

/// When a remote should try again whose tables are locked, in seconds.
const RETRY_AFTER_S: u32 = 5;

/// Every download reads these.
const SYSTEM_TABLES: [&str; 4] = [
    "syncline.syncline_logs",
    "syncline.syncline_owed",
    "syncline.syncline_remote",
    "syncline.syncline_system",
];

/// What this transaction has locked: the tables that scripts name, in whatever way, as the
/// database itself understands them. What functions read inside is not among it.
const NAMED: &str = "SELECT format('%I.%I', n.nspname, c.relname)
FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation'
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
  AND n.nspname NOT LIKE 'pg\\_toast%' AND n.nspname NOT LIKE 'pg\\_temp\\_%'
  AND has_table_privilege(c.oid, 'SELECT')";

/// Which tables the scripts of each table name, as one connection has learned it.
#[derive(Debug, Default)]
pub(in crate::postgres) struct ReadLocks {
    /// By script version and published name.
    named: HashMap<(String, String), BTreeSet<String>>,
}

/// The statements that lock.
#[derive(Debug)]
pub(in crate::postgres) struct ReadLock {
    begin_limit: String,
    /// Behind the lock the limit of the session counts again. Its default would be the database's.
    end_limit: String,
    lock: String,
    lock_at_once: String,
}

/// How many attempts there are at most, the first of which does not wait.
pub(in crate::postgres) fn attempts_max(link: &Link) -> u32 {
    let attempts = u32::try_from(WAIT_MS_MAX / limit_ms(link)).unwrap_or(ATTEMPTS_MAX);
    attempts.clamp(ATTEMPTS_MIN, ATTEMPTS_MAX) + 1
}

/// Half of what makes a deadlock.
fn limit_ms(link: &Link) -> u64 {
    (link.deadlock_timeout_ms() / 2).clamp(1, WAIT_MS_MAX)
}

impl ReadLocks {
    /// What to lock for a download of `tables`.
    pub(in crate::postgres) fn of(
        &mut self,
        link: &mut Link,
        script_version: &str,
        tables: &[Arc<Table>],
    ) -> Result<ReadLock, Fault> {
        // Tables that are not downloaded are not read, and may be missing.
        let tables = tables.iter().filter(|it| it.deployed.published.direction.downloads());
        let tables: Vec<&Arc<Table>> = tables.collect();
        self.learn(link, script_version, &tables)?;
        let named = tables.iter().filter_map(|table| self.named.get(&id(script_version, table)));
        let mut all: BTreeSet<&str> = named.flatten().map(String::as_str).collect();
        all.extend(SYSTEM_TABLES);
        // All sessions lock in the same order.
        let all: Vec<&str> = all.into_iter().collect();
        let lock = format!("LOCK TABLE {} IN ACCESS SHARE MODE", all.join(", "));
        Ok(ReadLock {
            begin_limit: format!("SET LOCAL statement_timeout = {}", limit_ms(link)),
            end_limit: format!("SET LOCAL statement_timeout = {}", link.statement_timeout_ms()),
            lock_at_once: format!("{lock} NOWAIT"),
            lock,
        })
    }

    /// Another deployment has other scripts.
    pub(in crate::postgres) fn forget(&mut self) {
        self.named.clear();
    }

    /// Lets the database understand the scripts that are new to this connection, and asks what it
    /// had to lock for that.
    fn learn(
        &mut self,
        link: &mut Link,
        script_version: &str,
        tables: &[&Arc<Table>],
    ) -> Result<(), Fault> {
        for table in tables {
            let id = id(script_version, table);
            if self.named.contains_key(&id) {
                continue;
            }
            let limit = limit_ms(link);
            let mut text = format!("BEGIN; SET LOCAL statement_timeout = {limit}");
            for statement in table.reads() {
                let sql = &statement.sql;
                // A user's cursor may end with a comment.
                text.push_str(&format!(
                    "; PREPARE syncline_reads AS {sql}\n; DEALLOCATE syncline_reads"
                ));
            }
            let answers = link.begin(&[Call::Simple(&text), Call::new(NAMED, &[])]);
            link.roll_back();
            let name = &table.deployed.published.name;
            let answers = answers.map_err(|fault| named_failed(fault, name))?;
            let rows = answers.iter().flat_map(|answer| &answer.rows);
            let names = rows.filter_map(|row| row.try_get(0).ok()).collect();
            self.named.insert(id, names);
        }
        Ok(())
    }
}

/// A script that does not run any more is reported as such; a wait, or something that is not there,
/// is for the caller to judge.
fn named_failed(fault: Fault, table: &str) -> Fault {
    if fault.db().is_none() || has_waited(&fault) || is_missing(&fault) {
        return fault;
    }
    let call = fault.call;
    let failure = script_failed(table, "the scripts of a download")(fault);
    Fault { call, kind: FaultKind::Failure(failure) }
}

fn id(script_version: &str, table: &Table) -> (String, String) {
    (script_version.to_owned(), table.deployed.published.name.clone())
}

impl ReadLock {
    /// The calls after BEGIN and before the statement that takes the snapshot. `waits`: a table was
    /// locked in the attempt before.
    pub(in crate::postgres) fn calls(&self, waits: bool) -> Vec<Call<'_>> {
        match waits {
            true => {
                let calls = [&self.begin_limit, &self.lock, &self.end_limit];
                calls.map(|sql| Call::new(sql, &[])).into()
            }
            false => vec![Call::new(&self.lock_at_once, &[])],
        }
    }
}

/// Whether a lock of another session was not released in time.
pub(in crate::postgres) fn has_waited(fault: &Fault) -> bool {
    let state = fault.sqlstate();
    state.is_some_and(|state| matches!(state, "57014" | "55P03") || is_collision(state))
}

/// Whether something is not there that was deployed: it may be for a new deployment.
pub(in crate::postgres) fn is_missing(fault: &Fault) -> bool {
    // Table, column, schema, function; and a table that may not be read counts as missing.
    fault.sqlstate().is_some_and(|s| matches!(s, "42P01" | "42703" | "3F000" | "42883" | "42501"))
}

/// The failure of a download whose tables another session keeps locked.
pub(in crate::postgres) fn locked() -> Failure {
    Failure::new(
        Code::DatabaseBusy,
        "another program holds a lock on a table that a download reads",
    )
    .retry_after_s(RETRY_AFTER_S)
}
