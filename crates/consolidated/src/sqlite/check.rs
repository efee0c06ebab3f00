//! Compares the models, the deployment and the database.

use super::deploy::{actual_objects, table_exists};
use super::errors::failed;
use super::firing;
use super::plan::Plan;
use super::scripts::UNJOURNALED;
use super::tables::{self, has_user_triggers};
use super::tracking;
use crate::admin::{Finding, NOT_DEPLOYED, Severity, table_gone};
use model::Failure;
use rusqlite::Connection;
use std::collections::BTreeSet;

/// What `check` has to say about a database where `pending` statements would be deployed.
pub(super) fn findings(
    connection: &Connection,
    plan: &Plan,
    pending: usize,
) -> Result<Vec<Finding>, Failure> {
    let mut findings = drift(connection)?;
    if findings.is_empty() && pending > 0 {
        findings.push(Finding {
            severity: Severity::Error,
            table: None,
            message: format!("{NOT_DEPLOYED}; deploy would run {pending} statements"),
        });
    }
    findings.extend(plan.notices.iter().map(|notice| Finding {
        severity: Severity::Notice,
        table: None,
        message: notice.clone(),
    }));
    Ok(findings)
}

/// Deployed objects that are missing or have changed.
pub(super) fn drift(connection: &Connection) -> Result<Vec<Finding>, Failure> {
    let actual = actual_objects(connection)?;
    let mut statement = connection
        .prepare("SELECT name, kind, table_name, sql FROM syncline_object ORDER BY name")
        .map_err(failed("list the deployed objects"))?;
    let mut rows = statement.query([]).map_err(failed("list the deployed objects"))?;
    let (mut findings, mut deployed) = (Vec::new(), BTreeSet::new());
    let (mut tracked, mut gone) = (BTreeSet::new(), BTreeSet::new());
    while let Some(row) = rows.next().map_err(failed("list the deployed objects"))? {
        let read = |column| row.get::<_, String>(column).map_err(failed("read an object"));
        let (name, kind, table, sql) = (read(0)?, read(1)?, read(2)?, read(3)?);
        tracked.insert(table.clone());
        let actual = actual.get(&name);
        if actual == Some(&sql) {
            deployed.insert(sql);
            continue;
        }
        if gone.contains(&table) {
            continue;
        }
        if !table.is_empty() && !table_exists(connection, &table)? {
            gone.insert(table.clone());
            findings.push(table_gone(table));
            continue;
        }
        let fault = if actual.is_none() { "is missing" } else { "was changed" };
        findings.push(Finding {
            severity: Severity::Error,
            message: format!(
                "the {} {name} {fault}: changes of {table} may be missed",
                kind.to_lowercase()
            ),
            table: Some(table),
        });
    }
    if findings.is_empty() {
        findings.extend(not_followed(connection, &tracked, &deployed)?);
    }
    findings.extend(new_triggers(connection)?);
    findings.extend(fire_first(connection, &tracked)?);
    Ok(findings)
}

/// Triggers of the owner that may hide changes from ours.
fn fire_first(
    connection: &Connection,
    tracked: &BTreeSet<String>,
) -> Result<Vec<Finding>, Failure> {
    let ahead = firing::ahead(connection)?.into_iter().filter(|theirs| theirs.hides);
    Ok(ahead
        .filter(|theirs| tracked.contains(&theirs.table))
        .map(|theirs| Finding {
            severity: Severity::Error,
            message: format!(
                "the trigger {} fires before the triggers of Syncline and may stop them: changes \
                 of {} may be missed",
                theirs.trigger, theirs.table
            ),
            table: Some(theirs.table),
        })
        .collect())
}

/// Tables whose triggers are there, but would be others today: a UNIQUE index that came later
/// lets `REPLACE` remove rows that no trigger notes (trap 9).
fn not_followed(
    connection: &Connection,
    tracked: &BTreeSet<String>,
    deployed: &BTreeSet<String>,
) -> Result<Vec<Finding>, Failure> {
    let user_tables = tables::read(connection)?;
    let mut findings = Vec::new();
    for name in tracked {
        let Some(table) = user_tables.get(name) else { continue };
        let kept = tracking::deployed(connection, table)?;
        let wanted = tracking::objects(table, kept.as_ref());
        if wanted.iter().any(|object| !deployed.contains(&object.sql)) {
            let message =
                format!("the key or a unique index of {name} was changed: changes may be missed");
            let table = Some(name.clone());
            findings.push(Finding { severity: Severity::Error, table, message });
        }
    }
    Ok(findings)
}

/// Triggers of the user's on tables whose scripts were generated when there was none: they need
/// scripts that undo what a trigger did when a row is refused.
fn new_triggers(connection: &Connection) -> Result<Vec<Finding>, Failure> {
    let reading = failed("look for new triggers");
    let mut statement = connection
        .prepare(
            "SELECT DISTINCT table_name FROM syncline_script
             WHERE script LIKE 'INSERT OR ' || ?1 || ' %' OR script LIKE 'UPDATE OR ' || ?1 || ' %'
             ORDER BY table_name",
        )
        .map_err(&reading)?;
    let tables = statement
        .query_map([UNJOURNALED], |row| row.get(0))
        .and_then(Iterator::collect::<rusqlite::Result<Vec<String>>>)
        .map_err(&reading)?;
    let mut findings = Vec::new();
    for table in tables {
        if has_user_triggers(connection, &table).map_err(&reading)? {
            findings.push(Finding {
                severity: Severity::Error,
                message: format!(
                    "table {table} has a new trigger; its scripts must be generated again"
                ),
                table: Some(table),
            });
        }
    }
    Ok(findings)
}
