//! Changes the database to what a plan says, and removes it again.
//!
//! It is one transaction, so a killed `deploy` leaves the database as it was. It is idempotent: if
//! everything is as planned, no statement runs and the deployment number stays.

use super::errors::failed;
use super::firing;
use super::migration;
use super::moves;
use super::plan::{Plan, VersionPlan};
use super::shapes::Succeed;
use super::tracking::Object;
use crate::admin::Undeployment;
use crate::quote::{ident, literal};
use model::{Code, Failure};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use std::collections::{BTreeMap, BTreeSet};

/// The layout of the system tables that this program makes and understands.
pub(super) const SYSTEM_FORMAT: i64 = 4;

pub(super) const SYSTEM_TABLES: &str = include_str!("system_tables.sql");

/// Runs what is missing, or only says what it would run. Returns the statements.
pub(super) fn deploy(
    connection: &mut Connection,
    plan: &mut Plan,
    dry_run: bool,
    succeed: &Succeed<'_>,
) -> Result<Vec<String>, Failure> {
    require_known_format(connection)?;
    let journal_mode: String = connection
        .query_row("PRAGMA journal_mode", [], |row| row.get(0))
        .map_err(failed("read the journal mode"))?;
    let statements = in_transaction(connection, dry_run, |work| {
        work.system_tables(&journal_mode)?;
        succeed(&work.transaction, plan)?;
        work.objects(plan)?;
        work.versions(plan)?;
        plan.shapes.iter().try_for_each(|statement| work.run(statement))?;
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
        if let Some(format) = format(&self.transaction)? {
            return self.migrate(format);
        }
        for statement in SYSTEM_TABLES.lines().filter(|line| !line.is_empty()) {
            self.run(statement.trim_end_matches(';'))?;
        }
        for (name, value) in [
            ("format", SYSTEM_FORMAT.to_string()),
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

    /// Brings system tables that an older program made to today's format.
    fn migrate(&mut self, format: i64) -> Result<(), Failure> {
        for statement in migration::missing(&self.transaction, format)? {
            self.run(&statement)?;
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
            plan.objects.iter().map(|object| (object.name.as_str(), object)).collect();
        let (mut renewed, mut empty) = (BTreeSet::new(), BTreeSet::new());
        for (name, (kind, table, _)) in &recorded {
            if !planned.contains_key(name.as_str()) {
                if actual.contains_key(name) {
                    self.run(&format!("DROP {kind} {}", ident(name)))?;
                }
                self.run(&format!("DELETE FROM syncline_object WHERE name = {}", literal(name)))?;
                if kind == "TABLE" {
                    let forget = "DELETE FROM syncline_log_state WHERE table_name";
                    self.run(&format!("{forget} = {}", literal(table)))?;
                }
            }
        }
        for object in &plan.objects {
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
            if only_late || moves::is_beside_the_log(object) {
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
                "INSERT OR REPLACE INTO syncline_log_state VALUES ({}, random(), 0)",
                literal(table)
            ))?;
        }
        Ok(())
    }

    fn versions(&mut self, plan: &Plan) -> Result<(), Failure> {
        let mut wanted: Vec<String> = Vec::new();
        for (position, version) in plan.versions.iter().enumerate() {
            wanted.extend(version_rows(position, version));
        }
        wanted.sort();
        let mut actual = deployed_rows(&self.transaction)?;
        actual.sort();
        if wanted == actual {
            return Ok(());
        }
        for table in
            ["syncline_script_version", "syncline_publication", "syncline_table", "syncline_script"]
        {
            self.run(&format!("DELETE FROM {table}"))?;
        }
        for row in wanted {
            self.run(&row)?;
        }
        Ok(())
    }
}

/// The rows of a version as the statements that insert them.
fn version_rows(position: usize, version: &VersionPlan) -> Vec<String> {
    let name = version.script_version.as_str();
    let mut rows = vec![row("syncline_script_version", &[name], Some(position as i64))];
    for (publication, tables) in &version.publications {
        for table in tables {
            rows.push(row("syncline_publication", &[name, publication.as_str(), table], None));
        }
    }
    for (position, table) in version.tables.iter().enumerate() {
        let published = serde_json::json!(table.outward).to_string();
        rows.push(format!(
            "INSERT INTO syncline_table VALUES ({}, {}, {position}, {}, {}, {})",
            literal(name),
            literal(&table.published.name),
            literal(&published),
            literal(&table.conflict_rule),
            literal(&serde_json::json!(table.details).to_string())
        ));
        for (event, script) in &table.scripts {
            let values = [name, &table.published.name, event.name(), script];
            rows.push(row("syncline_script", &values, None));
        }
    }
    rows
}

fn row(table: &str, values: &[&str], number: Option<i64>) -> String {
    let mut values: Vec<String> = values.iter().map(|value| literal(value)).collect();
    values.extend(number.map(|number| number.to_string()));
    format!("INSERT INTO {table} VALUES ({})", values.join(", "))
}

/// What is deployed, in the form of [`version_rows`].
fn deployed_rows(connection: &Connection) -> Result<Vec<String>, Failure> {
    let sql = "
        SELECT 'INSERT INTO syncline_script_version VALUES (' || quote(script_version) || ', '
               || position || ')' FROM syncline_script_version
        UNION ALL
        SELECT 'INSERT INTO syncline_publication VALUES (' || quote(script_version) || ', '
               || quote(publication) || ', ' || quote(table_name) || ')' FROM syncline_publication
        UNION ALL
        SELECT 'INSERT INTO syncline_table VALUES (' || quote(script_version) || ', '
               || quote(table_name) || ', ' || position || ', ' || quote(published) || ', '
               || quote(conflict_rule) || ', ' || quote(details) || ')' FROM syncline_table
        UNION ALL
        SELECT 'INSERT INTO syncline_script VALUES (' || quote(script_version) || ', '
               || quote(table_name) || ', ' || quote(event) || ', ' || quote(script) || ')'
        FROM syncline_script";
    let mut statement = connection.prepare(sql).map_err(failed("read the deployed models"))?;
    statement
        .query_map([], |row| row.get(0))
        .and_then(Iterator::collect)
        .map_err(failed("read the deployed models"))
}

/// Removes every object of Syncline.
pub(super) fn undeploy(connection: &mut Connection) -> Result<Undeployment, Failure> {
    if !table_exists(connection, "syncline_system")? {
        return Ok(Undeployment::default());
    }
    require_known_format(connection)?;
    let before: Option<String> = connection
        .query_row(
            "SELECT value FROM syncline_system WHERE name = 'journal_mode_before'",
            [],
            |row| row.get(0),
        )
        .optional()
        .map_err(failed("read the former journal mode"))?;
    let statements = in_transaction(connection, false, |work| {
        for (kind, name) in our_objects(&work.transaction)? {
            work.run(&format!("DROP {kind} {}", ident(&name)))?;
        }
        Ok(())
    })?;
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
    let mut statement = connection
        .prepare(
            "SELECT upper(type), name FROM sqlite_schema
             WHERE type IN ('trigger', 'table') AND name LIKE 'syncline\\_%' ESCAPE '\\'
             ORDER BY type DESC, name",
        )
        .map_err(failed("list the objects"))?;
    statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .and_then(Iterator::collect)
        .map_err(failed("list the objects"))
}

/// Refuses a remote, and system tables that a newer program made (trap 18).
pub(super) fn require_known_format(connection: &Connection) -> Result<(), Failure> {
    if table_exists(connection, "syncline_state")? {
        return Err(Failure::new(Code::RemoteFile, "the file is a remote database"));
    }
    match format(connection)? {
        Some(format) if format > SYSTEM_FORMAT => Err(Failure::new(
            Code::DeployedByNewer,
            format!("the system tables have format {format}; this program knows {SYSTEM_FORMAT}"),
        )),
        _ => Ok(()),
    }
}

/// The same for commands that work with the system tables: those of an older program need a deploy.
pub(super) fn require_present_format(connection: &Connection) -> Result<(), Failure> {
    require_known_format(connection)?;
    match format(connection)? {
        Some(format) if format < SYSTEM_FORMAT => Err(Failure::new(
            Code::NotDeployed,
            format!("the system tables have format {format}; this program needs {SYSTEM_FORMAT}"),
        )),
        _ => Ok(()),
    }
}

/// The layout of the system tables, if there are any.
fn format(connection: &Connection) -> Result<Option<i64>, Failure> {
    if !table_exists(connection, "syncline_system")? {
        return Ok(None);
    }
    connection
        .query_row("SELECT value FROM syncline_system WHERE name = 'format'", [], |row| row.get(0))
        .optional()
        .map_err(failed("read the format of the system tables"))
}

pub(super) fn table_exists(connection: &Connection, name: &str) -> Result<bool, Failure> {
    connection
        .query_row(
            "SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name = ?1",
            [name],
            |row| row.get(0),
        )
        .map_err(failed("look for the system tables"))
}

/// Our logs and triggers as they are in the database: name and text.
pub(super) fn actual_objects(connection: &Connection) -> Result<BTreeMap<String, String>, Failure> {
    let mut statement = connection
        .prepare(
            "SELECT name, sql FROM sqlite_schema
             WHERE type IN ('table', 'trigger') AND name LIKE 'syncline\\_%' ESCAPE '\\'",
        )
        .map_err(failed("list the objects"))?;
    statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .and_then(Iterator::collect)
        .map_err(failed("list the objects"))
}

/// What was deployed: name, kind, table and text.
fn recorded_objects(
    connection: &Connection,
) -> Result<BTreeMap<String, (String, String, String)>, Failure> {
    let mut statement = connection
        .prepare("SELECT name, kind, table_name, sql FROM syncline_object")
        .map_err(failed("list the deployed objects"))?;
    statement
        .query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?, row.get(3)?))))
        .and_then(Iterator::collect)
        .map_err(failed("list the deployed objects"))
}
