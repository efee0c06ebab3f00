//! Compares the models, the deployment and the database.

use super::errors::failed;
use super::link::Link;
use super::orphans::Guard;
use super::plan::Plan;
use super::present::{OBJECTS, Present, text};
use super::tables::{UserTable, VERSION};
use crate::admin::{Finding, NOT_DEPLOYED, Severity, table_gone};
use crate::catalog::Unserved;
use crate::orphans;
use model::{Code, Failure};
use std::collections::{BTreeMap, BTreeSet};

/// What `check` has to say about a database where `pending` statements would be deployed.
pub(super) fn findings(
    link: &mut Link,
    user_tables: &BTreeMap<String, UserTable>,
    plan: &Plan,
    pending: usize,
) -> Result<Vec<Finding>, Failure> {
    let mut findings = drift(link)?;
    let present = Present::read(link)?;
    findings.extend(present.from_the_future.iter().map(|table| Finding {
        severity: Severity::Error,
        table: Some(table.clone()),
        message: format!(
            "{table} has row versions of another server: it was restored; deploy replaces them"
        ),
    }));
    if findings.is_empty() && pending > 0 {
        findings.push(Finding {
            severity: Severity::Error,
            table: None,
            message: format!("{NOT_DEPLOYED}; deploy would run {pending} statements"),
        });
    }
    findings.extend(bypassed(link, user_tables, plan)?);
    findings.extend(plan.notices.iter().map(|notice| notice_of(None, notice.clone())));
    let published = plan.versions.iter().flat_map(|version| &version.tables);
    for table in published {
        let name = &table.published.name;
        let writers = writers(user_tables, name);
        if !writers.is_empty() {
            let message = format!(
                "uploaded rows are read back and compared, because {} may change them or other \
                 rows",
                writers.join(", ")
            );
            findings.push(notice_of(Some(name.clone()), message));
        }
    }
    Ok(findings)
}

/// Rows that refer to a missing row, and tables whose triggers others bypass.
fn bypassed(
    link: &mut Link,
    user_tables: &BTreeMap<String, UserTable>,
    plan: &Plan,
) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    let published = plan.versions.iter().flat_map(|version| &version.tables);
    let names: BTreeSet<&str> = published.map(|table| table.published.name.as_str()).collect();
    for (name, child) in user_tables.iter().filter(|(name, _)| names.contains(name.as_str())) {
        for key in child.foreign_keys.iter().filter(|key| names.contains(key.parent.as_str())) {
            let Some(parent) = user_tables.get(&key.parent) else { continue };
            let count = Guard::of(child, parent, &key.columns).count(link)?;
            if count > 0 {
                findings.push(orphans::finding(name, &key.parent, count.unsigned_abs()));
            }
        }
    }
    let sql = "SELECT table_name FROM syncline.syncline_log_state
               WHERE unstamped IS NOT NULL ORDER BY table_name";
    for row in link.query(sql, &[]).map_err(failed("look for versions that were set back"))? {
        let table = text(&row, 0)?;
        findings.push(notice_of(
            Some(table.clone()),
            format!(
                "a trigger of {table} that fires after syncline_stamp sets row versions back: each \
                 such change sends the whole table to every remote; give the trigger a name that \
                 sorts before, or let it keep {VERSION}"
            ),
        ));
    }
    Ok(findings)
}

/// Objects that are not Syncline's and that write when a row of the table is written (trap 8).
fn writers(user_tables: &BTreeMap<String, UserTable>, name: &str) -> Vec<String> {
    let triggers = user_tables.get(name).map_or(&[][..], |table| &table.triggers);
    let mut writers: Vec<String> =
        triggers.iter().map(|trigger| format!("trigger {trigger}")).collect();
    for (child, table) in user_tables {
        for key in table.foreign_keys.iter().filter(|key| key.parent == name) {
            writers.extend(key.cascades().map(|action| format!("{action} of {child}")));
        }
    }
    writers
}

fn notice_of(table: Option<String>, message: String) -> Finding {
    Finding { severity: Severity::Notice, table, message }
}

/// Deployed objects that are missing or have changed.
pub(super) fn drift(link: &mut Link) -> Result<Vec<Finding>, Failure> {
    let sql = format!(
        "SELECT o.kind, o.table_name, o.name, (a.name IS NULL)::text,\n\
             (o.table_name <> '' AND to_regclass(o.table_name) IS NULL)::text\n\
         FROM syncline.syncline_object AS o\n\
         LEFT JOIN (\n{OBJECTS}) AS a USING (kind, table_name, name)\n\
         WHERE a.definition IS DISTINCT FROM o.definition\n\
         ORDER BY o.table_name COLLATE \"C\", o.kind COLLATE \"C\", o.name COLLATE \"C\""
    );
    let rows = link.query(&sql, &[]).map_err(failed("compare the objects"))?;
    let (mut findings, mut gone) = (Vec::new(), BTreeSet::new());
    for row in rows {
        let (kind, table, name) = (text(&row, 0)?, text(&row, 1)?, text(&row, 2)?);
        if text(&row, 4)? == "true" {
            if gone.insert(table.clone()) {
                findings.push(table_gone(table));
            }
            continue;
        }
        let fault = if text(&row, 3)? == "true" { "is missing" } else { "was changed" };
        let on = if table.is_empty() { String::new() } else { format!(" of {table}") };
        findings.push(Finding {
            severity: Severity::Error,
            message: format!(
                "the {} {name}{on} {fault}: changes may be missed",
                kind.to_lowercase()
            ),
            table: Some(table).filter(|table| !table.is_empty()),
        });
    }
    Ok(findings)
}

/// The tables among `$1`, names in SQL, that are gone or that this role may not read.
const UNREADABLE: &str = "SELECT relation, (to_regclass(relation) IS NULL)::text
    FROM unnest($1::text[]) AS w (relation)
    WHERE has_any_column_privilege(to_regclass(relation)::oid, 'SELECT') IS NOT TRUE";

/// What is told apart of the tables among `$1` that are not as they were deployed, as one text.
const LOOKS: &str = "SELECT string_agg(concat_ws(' ', relation, to_regclass(relation)::oid,
        has_any_column_privilege(to_regclass(relation)::oid, 'SELECT'),
        (SELECT string_agg(concat_ws(' ', t.oid, t.xmin), ' ' ORDER BY t.oid)
         FROM pg_trigger AS t WHERE t.tgrelid = to_regclass(relation))), ';' ORDER BY relation)
    FROM unnest($1::text[]) AS w (relation)";

/// Which of the `deployed` tables, by their names in SQL, are not as they were deployed, and why.
/// Refuses what is wrong with no table in particular.
pub(super) fn unserved(link: &mut Link, deployed: &[String]) -> Result<Unserved, Failure> {
    let mut unserved = Unserved::new();
    for drift in drift(link)? {
        match drift.table {
            Some(table) => drop(unserved.entry(table).or_insert(drift.message)),
            None => return Err(Failure::new(Code::Drift, drift.message)),
        }
    }
    let rows = link.query(UNREADABLE, &[&deployed]).map_err(failed("ask for privileges"))?;
    for row in &rows {
        let table = text(row, 0)?;
        let message = match text(row, 1)?.as_str() {
            "true" => table_gone(table.clone()).message,
            _ => format!("the role of the server may not read table {table}: grant it SELECT"),
        };
        unserved.entry(table).or_insert(message);
    }
    Ok(unserved)
}

/// Changes when something changes about these tables.
pub(super) fn looks(link: &mut Link, tables: &[&String]) -> Result<String, Failure> {
    let rows = link.query(LOOKS, &[&tables]).map_err(failed("look at tables again"))?;
    rows.first().map(|row| text(row, 0)).transpose().map(Option::unwrap_or_default)
}
