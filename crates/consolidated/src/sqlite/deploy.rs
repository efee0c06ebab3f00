//! Changes the database to what a plan says, and removes it again.
//!
//! It is one transaction, so a killed `deploy` leaves the database as it was. It is idempotent: if
//! everything is as planned, no statement runs and the deployment number stays.

pub(super) mod check;
pub(super) mod installed;
pub(super) mod plan;
pub(super) mod remote_ddl;
pub(super) mod scripts;
pub(super) mod system_tables;
pub(super) mod tables;
mod validate;

use super::errors::failed;
use crate::administration::Undeployment;
use crate::deploy::{self, Intent, format, own};
use crate::quote::{ident, literal};
use crate::sqlite::deploy::plan::{Plan, SqliteSchema};
use crate::sqlite::deploy::system_tables::SYSTEM;
use crate::sqlite::query;
use crate::sqlite::tracking::firing;
use crate::sqlite::tracking::object::Object;
use installed::{actual_objects, recorded_objects, require_known_format};
use model::{Code, Failure};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::collections::{BTreeMap, BTreeSet};

/// Runs what is missing, or only says what it would run. Returns the statements.
pub(super) fn deploy(
    connection: &mut Connection,
    plan: &mut Plan,
    dry_run: bool,
    intent: &Intent<'_, SqliteSchema>,
) -> Result<Vec<String>, Failure> {
    require_known_format(connection)?;
    let journal_mode: String =
        query::value(connection, "read the journal mode", "PRAGMA journal_mode", [])?;
    let statements = in_transaction(connection, dry_run, |work| {
        work.system_tables(&journal_mode)?;
        intent.complete(&mut &*work.transaction, plan)?;
        work.objects(plan)?;
        work.versions(plan)?;
        plan.shapes.iter().try_for_each(|statement| work.run(statement))?;
        // Only now all objects exist that scripts name.
        let mut mistakes = std::mem::take(&mut plan.mistakes);
        mistakes.extend(validate::mistakes(&work.transaction, plan)?);
        mistakes.extend(validate::unreadable(&work.transaction, plan)?);
        own::refused(&mistakes)?;
        plan.notices.extend(validate::warnings(&work.transaction, plan)?);
        plan.notices.extend(validate::unwritable(&work.transaction, plan)?);
        match work.statements.is_empty() {
            true => Ok(()),
            false => {
                work.run("UPDATE syncline_system SET value = value + 1 WHERE name = 'deployment'")
            }
        }
    })?;
    if dry_run {
        return Ok(statements);
    }
    // Readers beside the writer need a write-ahead log; `undeploy` restores what was before.
    connection
        .query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))
        .map_err(failed("switch to a write-ahead log"))?;
    Ok(statements)
}

/// Runs `work` in one transaction, which a dry run gives up, and returns its statements.
fn in_transaction(
    connection: &mut Connection,
    dry_run: bool,
    work: impl FnOnce(&mut Work<'_>) -> Result<(), Failure>,
) -> Result<Vec<String>, Failure> {
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed("begin a transaction"))?;
    let mut under_way = Work { transaction, statements: Vec::new() };
    work(&mut under_way)?;
    let Work { transaction, statements } = under_way;
    match dry_run {
        true => transaction.rollback(),
        false => transaction.commit(),
    }
    .map_err(failed("end the transaction"))?;
    Ok(statements)
}

struct Work<'a> {
    transaction: Transaction<'a>,
    statements: Vec<String>,
}

impl Work<'_> {
    fn run(&mut self, sql: &str) -> Result<(), Failure> {
        self.transaction
            .execute_batch(sql)
            .map_err(|error| failed("deploy")(error).hint(format!("the statement was: {sql}")))?;
        self.statements.push(sql.to_owned());
        Ok(())
    }

    fn system_tables(&mut self, journal_mode: &str) -> Result<(), Failure> {
        if format::is_known(&mut &*self.transaction)? {
            let upgrade = format::upgrade(&mut &*self.transaction)?;
            return upgrade.iter().try_for_each(|statement| self.run(statement));
        }
        SYSTEM.statements().iter().try_for_each(|statement| self.run(statement))?;
        for (name, value) in [
            ("format", SYSTEM.format.to_string()),
            ("deployment", "0".into()),
            ("database_id", "lower(hex(randomblob(16)))".into()),
            ("generation", "random()".into()),
            ("incarnation", "random()".into()),
            ("receipt_key", "randomblob(32)".into()),
            ("token_key", "randomblob(32)".into()),
            ("journal_mode_before", literal(journal_mode)),
        ] {
            self.run(&format!("INSERT INTO syncline_system VALUES ({}, {value})", literal(name)))?;
        }
        Ok(())
    }

    /// Drops what is no longer planned, creates what is missing or different, or fires too late.
    fn objects(&mut self, plan: &Plan) -> Result<(), Failure> {
        let actual = actual_objects(&self.transaction)?;
        let recorded = recorded_objects(&self.transaction)?;
        let ahead = firing::ahead(&self.transaction)?;
        let late: BTreeSet<&String> = ahead.iter().flat_map(|theirs| &theirs.ours).collect();
        let hiding = ahead.iter().filter(|theirs| theirs.hides);
        let hidden: BTreeSet<&String> = hiding.flat_map(|theirs| &theirs.ours).collect();
        let planned: BTreeMap<&str, &Object> =
            plan.tracking.iter().flatten().map(|object| (object.name.as_str(), object)).collect();
        let (mut renewed, mut empty) = (BTreeSet::new(), BTreeSet::new());
        for (name, (kind, table, _)) in &recorded {
            if !planned.contains_key(name.as_str()) {
                if actual.contains_key(name) {
                    self.run(&format!("DROP {kind} {}", ident(name)))?;
                }
                self.run(&format!("DELETE FROM syncline_object WHERE name = {}", literal(name)))?;
                if kind == "TABLE" {
                    let forget = "DELETE FROM syncline_logs WHERE table_name";
                    self.run(&format!("{forget} = {}", literal(table)))?;
                }
            }
        }
        for object in plan.tracking.iter().flatten() {
            let same = actual.get(&object.name).is_some_and(|sql| *sql == object.sql);
            // Runs of entries that are gone would be taken for those of the new ones.
            let same = same && !(object.kind == "TABLE" && empty.contains(&object.table));
            // SQLite itself rewrites a trigger whose column is renamed, maybe to what is planned.
            let same =
                same && recorded.get(&object.name).is_some_and(|(.., sql)| *sql == object.sql);
            if same && !late.contains(&object.name) {
                continue;
            }
            if actual.contains_key(&object.name) {
                self.run(&format!("DROP {} {}", object.kind, ident(&object.name)))?;
            }
            self.run(&object.sql)?;
            self.run(&format!(
                "INSERT OR REPLACE INTO syncline_object VALUES ({}, {}, {}, {})",
                literal(&object.name),
                literal(object.kind),
                literal(&object.table),
                literal(&object.sql)
            ))?;
            // One that is made again only to fire first has missed nothing, unless it was ended.
            let only_late = same && !hidden.contains(&object.name);
            if only_late {
                continue;
            }
            renewed.insert(&object.table);
            if object.kind == "TABLE" {
                empty.insert(&object.table);
            }
        }
        for table in renewed {
            // Changes may have gone unnoticed: every remote receives the whole table again.
            self.run(&format!(
                "INSERT OR REPLACE INTO syncline_logs VALUES ({}, random(), 0)",
                literal(table)
            ))?;
        }
        Ok(())
    }

    fn versions(&mut self, plan: &Plan) -> Result<(), Failure> {
        let stored = deploy::stored_rows(&mut &*self.transaction)?;
        let statements = deploy::row_replacement(&stored, deploy::planned_rows(plan, ""), "");
        statements.iter().try_for_each(|statement| self.run(statement))
    }
}

/// Removes every object of Syncline, or only says what it would run.
pub(super) fn undeploy(
    connection: &mut Connection,
    dry_run: bool,
) -> Result<Undeployment, Failure> {
    if !format::is_deployed(&mut &*connection)? {
        return Ok(Undeployment::default());
    }
    require_known_format(connection)?;
    let sql = "SELECT value FROM syncline_system WHERE name = 'journal_mode_before'";
    let before: Option<String> = query::maybe(connection, "read the former journal mode", sql, [])?;
    let statements = in_transaction(connection, dry_run, |work| {
        for (kind, name) in our_objects(&work.transaction)? {
            work.run(&format!("DROP {kind} {}", ident(&name)))?;
        }
        Ok(())
    })?;
    if dry_run {
        return Ok(Undeployment { statements, left: Vec::new() });
    }
    let left = match before.filter(|mode| mode != "wal") {
        Some(mode) => restore_journal_mode(connection, &mode)?,
        None => None,
    };
    Ok(Undeployment { statements, left: left.into_iter().collect() })
}

/// This needs the file to itself. While another program has it open, the write-ahead log stays, as
/// two files beside the database. The result reports this.
fn restore_journal_mode(connection: &Connection, mode: &str) -> Result<Option<String>, Failure> {
    let sql = format!("PRAGMA journal_mode = {mode}");
    let failure = match connection.query_row(&sql, [], |row| row.get::<_, String>(0)) {
        Ok(now) if now == mode => return Ok(None),
        Ok(_) => None,
        Err(error) => Some(failed("restore the journal mode")(error)),
    };
    match failure {
        Some(failure) if failure.code() != Code::DatabaseBusy => Err(failure),
        _ => Ok(Some(format!(
            "the database keeps its write-ahead log, because another program has it open; when no \
             program has it open, `{sql}` restores the former journal mode"
        ))),
    }
}

/// Everything named like ours, triggers before tables: kind and name.
fn our_objects(connection: &Connection) -> Result<Vec<(String, String)>, Failure> {
    let sql = "SELECT upper(type), name FROM sqlite_schema
        WHERE type IN ('trigger', 'table') AND name LIKE 'syncline\\_%' ESCAPE '\\'
        ORDER BY type DESC, name";
    query::all(connection, "list the objects", sql, |row| Ok((row.get(0)?, row.get(1)?)))
}
