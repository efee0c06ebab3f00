//! Compares three things: the models, what was deployed, and what is there.

use super::deploy::actual_objects;
use super::errors::failed;
use super::plan::Plan;
use crate::admin::{Finding, Severity};
use model::Failure;
use rusqlite::Connection;

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
            message: format!(
                "the model is not what was deployed; deploy would run {pending} statements"
            ),
        });
    }
    findings.extend(plan.notices.iter().map(|notice| Finding {
        severity: Severity::Notice,
        table: None,
        message: notice.clone(),
    }));
    Ok(findings)
}

/// Objects that were deployed and are no longer there, or no longer the same.
pub(super) fn drift(connection: &Connection) -> Result<Vec<Finding>, Failure> {
    let actual = actual_objects(connection)?;
    let mut statement = connection
        .prepare("SELECT name, kind, table_name, sql FROM syncline_object ORDER BY name")
        .map_err(failed("list the deployed objects"))?;
    let mut rows = statement.query([]).map_err(failed("list the deployed objects"))?;
    let mut findings = Vec::new();
    while let Some(row) = rows.next().map_err(failed("list the deployed objects"))? {
        let read = |column| row.get::<_, String>(column).map_err(failed("read an object"));
        let (name, kind, table, sql) = (read(0)?, read(1)?, read(2)?, read(3)?);
        let fault = match actual.get(&name) {
            None => "is missing",
            Some(actual) if *actual != sql => "was changed",
            Some(_) => continue,
        };
        findings.push(Finding {
            severity: Severity::Error,
            message: format!(
                "the {} {name} {fault}: changes of {table} may be missed",
                kind.to_lowercase()
            ),
            table: Some(table),
        });
    }
    Ok(findings)
}
