//! Compares the models, the deployment and the database.

use super::installed::{actual_objects, recorded_objects, table_exists};
use crate::administration::drift::{self, Strayed};
use crate::administration::{Finding, Severity};
use crate::sqlite::deploy::scripts::UNJOURNALED;
use crate::sqlite::deploy::tables;
use crate::sqlite::errors::failed;
use crate::sqlite::query;
use crate::sqlite::tracking;
use crate::sqlite::tracking::firing;
use model::Failure;
use rusqlite::Connection;
use std::collections::BTreeSet;

/// Deployed objects that are missing or have changed.
pub(in crate::sqlite) fn drift(connection: &Connection) -> Result<Vec<Finding>, Failure> {
    let actual = actual_objects(connection)?;
    let (mut strayed, mut deployed, mut tracked) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for (name, (kind, table, sql)) in recorded_objects(connection)? {
        tracked.insert(table.clone());
        let actual = actual.get(&name);
        if actual == Some(&sql) {
            deployed.insert(sql);
            continue;
        }
        strayed.push(Strayed {
            kind,
            name,
            table_is_gone: !table.is_empty() && !table_exists(connection, &table)?,
            table: Some(table).filter(|table| !table.is_empty()),
            is_missing: actual.is_none(),
        });
    }
    let mut findings = drift::findings(strayed);
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
    let doing = "look for new triggers";
    let of = |statement: &str| format!("script LIKE '{statement} OR {UNJOURNALED} %'");
    let sql = format!(
        "SELECT DISTINCT table_name FROM syncline_script WHERE {} OR {} ORDER BY table_name",
        of("INSERT"),
        of("UPDATE"),
    );
    let tables: Vec<String> = query::all(connection, doing, &sql, |row| row.get(0))?;
    let triggered = tables::with_user_triggers(connection).map_err(failed(doing))?;
    let new = tables.into_iter().filter(|table| triggered.contains(&table.to_ascii_lowercase()));
    Ok(new
        .map(|table| Finding {
            severity: Severity::Error,
            message: format!(
                "table {table} has a new trigger; its scripts must be generated again"
            ),
            table: Some(table),
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::backend::administer;
    use crate::sync_model::SyncModel;
    use crate::url::Url;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Instructions of SQLite between two calls of its progress handler.
    const STEPS: i32 = 100;

    /// Every connection of a server does this. The schema was read once for each table, so with a
    /// thousand tables it took seconds.
    #[test]
    fn the_work_of_a_comparison_grows_with_the_tables_and_not_with_their_square() {
        let work = |tables: usize| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("c.db");
            let mut own = Connection::open(&path).unwrap();
            let (mut schema, mut text) = (String::new(), "script_version = \"v1\"\n".to_owned());
            for n in 0..tables {
                schema.push_str(&format!("CREATE TABLE t{n} (id INTEGER PRIMARY KEY, a TEXT);"));
                text.push_str(&format!("[table.t{n}]\n"));
            }
            own.execute_batch(&schema).unwrap();
            let model = SyncModel::parse(&text, "model.toml").unwrap();
            let url = Url::parse(&format!("sqlite:{}", path.display())).unwrap();
            administer(&url).unwrap().deploy(&[model], false).unwrap();
            let steps = Arc::new(AtomicUsize::new(0));
            let counted = steps.clone();
            let count = move || {
                counted.fetch_add(1, Ordering::Relaxed);
                false
            };
            own.progress_handler(STEPS, Some(count)).unwrap();
            assert!(drift(&own).unwrap().is_empty());
            own.execute_batch("CREATE TRIGGER late AFTER INSERT ON T1 BEGIN SELECT 1; END")
                .unwrap();
            let [finding] = &new_triggers(&own).unwrap()[..] else { panic!("one table has one") };
            assert_eq!(finding.table.as_deref(), Some("t1"));
            steps.load(Ordering::Relaxed)
        };
        let (few, many) = (work(20), work(160));
        assert!(many < 12 * few, "{few} for 20 tables, {many} for 160");
    }
}
