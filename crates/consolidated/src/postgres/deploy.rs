//! Changes the database to what a plan says, and removes it again.
//!
//! Each table is changed in a transaction so short that it hardly delays writers. If it must wait
//! for a lock, it gives up after [`LOCK_WAIT`] and tries again, so that no other statement waits
//! behind it for longer. A deploy that was killed leaves some tables done and others not, and the
//! next one completes it. It is idempotent: if everything is as planned, no statement runs and the
//! deployment number stays.
//!
//! Invariant D1: deploys exclude each other by a lock of a transaction that does nothing else. This
//! transaction has no snapshot and no transaction ID, so it delays neither downloads nor the
//! creation of indexes, and it ends with its connection. Invariant D2: no upload is under way while
//! tables change that uploads use, until the new model is stored (`held.rs`).

pub(super) mod check;
pub(super) mod details;
pub(super) mod installed;
pub(super) mod key_spelling;
pub(super) mod own;
mod own_times;
pub(super) mod plan;
pub(super) mod remote_ddl;
pub(super) mod scripts;
pub(super) mod steps;
pub(super) mod system_tables;
pub(super) mod tables;

use crate::deploy::Intent;
use crate::postgres::connect::Role;
use crate::postgres::deploy::installed::{Installed, one, text};
use crate::postgres::deploy::own::Moment;
use crate::postgres::deploy::plan::{Plan, PostgresSchema};
use crate::postgres::deploy::steps::Step;
use crate::postgres::download::orphans;
use crate::postgres::errors::{Fault, failed, script_failed};
use crate::postgres::link::Link;
use crate::postgres::statement::Statement;
use crate::postgres::upload::held;
use crate::url::PostgresUrl;
use model::Failure;
use std::time::Duration;

/// How long one attempt waits for a lock on a table, in PostgreSQL's notation. Other sessions wait
/// behind it.
const LOCK_WAIT: &str = "250ms";

/// How long a statement may wait that lets others write meanwhile.
const PATIENT_LOCK_WAIT: &str = "60s";

/// Attempts to get a lock, about a minute in all.
const LOCK_ATTEMPTS_MAX: u32 = 80;

/// Between two attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(500);

/// Waits for another deploy.
const EXCLUSION: &str = "BEGIN; SET LOCAL lock_timeout = '60s'; \
     SET LOCAL idle_in_transaction_session_timeout = 0; \
     SELECT pg_advisory_xact_lock(hashtext('syncline deploy'))";

/// Runs what is missing, or only says what it would run. Returns the statements.
pub(super) fn deploy(
    link: &mut Link,
    url: &PostgresUrl,
    plan: &mut Plan,
    dry_run: bool,
    intent: &Intent<'_, PostgresSchema>,
) -> Result<Vec<String>, Failure> {
    own::understand(link, plan, Moment::Before)?;
    if dry_run {
        intent.complete(link, plan)?;
        return Ok(statements(steps::deploy(plan, &Installed::read(link)?).all()));
    }
    exclusively(url, |guard| {
        // Another deployment may have given numbers meanwhile.
        intent.complete(link, plan)?;
        let steps = steps::deploy(plan, &Installed::read(link)?);
        steps.before.iter().try_for_each(|step| run(link, step))?;
        run_held(guard, link, plan, &steps.held)?;
        steps.after.iter().try_for_each(|step| run(link, step))?;
        let tables = plan.versions.iter().flat_map(|version| &version.tables);
        let guards: Vec<_> = tables.flat_map(|table| &table.details.guards).collect();
        orphans::settle(link, &guards)?;
        Ok(statements(steps.all()))
    })
}

/// Runs steps while there is no upload. They come to a new model, which is understood before.
fn run_held(
    guard: &mut Link,
    link: &mut Link,
    plan: &mut Plan,
    steps: &[Step],
) -> Result<(), Failure> {
    let Some((last, before)) = steps.split_last() else { return Ok(()) };
    match before.split_first() {
        // Nothing else is changed: uploads need not wait until the scripts are understood.
        None => {
            prepare_scripts(link, plan)?;
            held::exclude(guard, is_locked, || attempt_once(link, last))?;
        }
        Some((first, others)) => {
            held::exclude(guard, is_locked, || attempt_once(link, first))?;
            others.iter().try_for_each(|step| run(link, step))?;
            // Only now all objects exist that scripts name, and no session runs the scripts yet.
            prepare_scripts(link, plan)?;
            run(link, last)?;
        }
    }
    guard.batch(held::ADMIT).map_err(failed("let uploads go on"))
}

/// Lets the database understand every script, above all conditions that people wrote.
fn prepare_scripts(link: &mut Link, plan: &mut Plan) -> Result<(), Failure> {
    own::understand(link, plan, Moment::Behind)?;
    for table in plan.versions.iter().flat_map(|version| &version.tables) {
        let published = &table.published;
        for script in table.scripts.iter().filter(|script| !script.is_own()) {
            let event = script.event.name();
            let script = script.parse(published)?;
            let statement = Statement::of(&script, published, &table.details.columns);
            link.batch(&format!("PREPARE syncline_script AS {}", statement.sql))
                .map_err(|fault| script_failed(&published.name, event)(fault))?;
            link.batch("DEALLOCATE syncline_script").map_err(failed("forget a script"))?;
        }
    }
    Ok(())
}

/// Removes everything of Syncline, or only says what it would run.
pub(super) fn undeploy(
    link: &mut Link,
    url: &PostgresUrl,
    dry_run: bool,
) -> Result<Vec<String>, Failure> {
    if dry_run {
        return Ok(statements(&removal(link)?));
    }
    exclusively(url, |_| {
        let steps = removal(link)?;
        steps.iter().try_for_each(|step| run(link, step))?;
        Ok(statements(&steps))
    })
}

fn removal(link: &mut Link) -> Result<Vec<Step>, Failure> {
    let present = Installed::read(link)?;
    let objects = system_objects(link)?;
    let sql = "SELECT value FROM syncline.syncline_system WHERE name = 'schema_created'";
    let drops_schema = present.has_system_tables
        && one(link, sql, "read who made the schema")?.as_deref() == Some("1");
    Ok(steps::undeploy(&present, &objects, drops_schema))
}

fn statements<'s>(steps: impl IntoIterator<Item = &'s Step>) -> Vec<String> {
    steps.into_iter().flat_map(Step::statements).collect()
}

fn exclusively<T>(
    url: &PostgresUrl,
    work: impl FnOnce(&mut Link) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut guard = Link::open(url, Role::Administer)?;
    guard.batch(EXCLUSION).map_err(failed("wait for another deploy to end"))?;
    let outcome = work(&mut guard);
    guard.roll_back();
    outcome
}

/// Runs a step, again and again while others hold the lock that it needs.
fn run(link: &mut Link, step: &Step) -> Result<(), Failure> {
    let mut attempt = 1;
    loop {
        let fault = match attempt_once(link, step) {
            Ok(()) => return Ok(()),
            Err(fault) => fault,
        };
        let again = matches!(step, Step::Together(..)) && is_locked(&fault);
        if attempt == LOCK_ATTEMPTS_MAX || !again {
            let doing = match step {
                Step::Together(Some(table), _) => format!("deploy to {table}"),
                _ => "deploy".to_owned(),
            };
            return Err(fault.failure(doing));
        }
        attempt += 1;
        std::thread::sleep(LOCK_PAUSE);
    }
}

/// Another session holds a lock, or waits for one of this session.
fn is_locked(fault: &Fault) -> bool {
    fault.sqlstate().is_some_and(|state| matches!(state, "55P03" | "40P01"))
}

fn attempt_once(link: &mut Link, step: &Step) -> Result<(), Fault> {
    match step {
        Step::Alone(statement) => {
            // It waits for transactions to end, and blocks no other session in the meantime.
            link.batch(&format!("SET lock_timeout = '{PATIENT_LOCK_WAIT}'"))?;
            link.batch(statement)?;
            link.batch("SET lock_timeout = '5s'")
        }
        Step::Together(table, statements) => {
            let mut sql = format!("BEGIN;\nSET LOCAL lock_timeout = '{LOCK_WAIT}';\n");
            if let Some(table) = table {
                // Once and for all: no statement below has to raise a lock that it holds already.
                sql.push_str(&format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE;\n"));
            }
            sql.push_str(&statements.join(";\n"));
            sql.push_str(";\nCOMMIT");
            let outcome = link.batch(&sql);
            if outcome.is_err() {
                link.roll_back();
            }
            outcome
        }
    }
}

/// What is in the schema by our name, as DROP wants to hear it: functions behind the triggers that
/// are gone by then, and tables.
fn system_objects(link: &mut Link) -> Result<Vec<String>, Failure> {
    let sql = "SELECT 'FUNCTION ' || p.oid::regprocedure::text FROM pg_proc AS p
               WHERE p.pronamespace = to_regnamespace('syncline') AND p.proname LIKE 'syncline\\_%'
               UNION ALL
               SELECT 'TABLE ' || c.oid::regclass::text FROM pg_class AS c
               WHERE c.relnamespace = to_regnamespace('syncline') AND c.relkind = 'r'
                 AND c.relname LIKE 'syncline\\_%'
               ORDER BY 1";
    let rows = link.query(sql, &[]).map_err(failed("list the system tables"))?;
    rows.iter().map(|row| text(row, 0)).collect()
}
