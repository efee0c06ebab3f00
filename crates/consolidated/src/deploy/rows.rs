//! The rows that say what is deployed, each as the statement that inserts it.

use super::plan::{Plan, VersionPlan};
use super::schema::Schema;
use crate::catalog::{ACKNOWLEDGE, CANCEL, ON_ERROR, SESSION};
use crate::quote::literal;
use crate::sql::{Sql, TextRow, Words};
use model::Failure;
use std::collections::BTreeSet;

/// The system tables that say it, with their columns. Where there is a position, it is read last.
const TABLES: [(&str, &str, bool); 5] = [
    ("syncline_script_version", "script_version, CAST(position AS text)", true),
    ("syncline_option", "script_version, name, value", false),
    ("syncline_publication", "script_version, publication, table_name", false),
    (
        "syncline_table",
        "script_version, table_name, published, conflict_rule, details, CAST(position AS text)",
        true,
    ),
    ("syncline_script", "script_version, table_name, event, script", false),
];

/// What is deployed.
pub(crate) fn stored<Q: Sql>(sql: &mut Q) -> Result<BTreeSet<String>, Failure> {
    let mut rows = BTreeSet::new();
    for (table, columns, has_position) in TABLES {
        let query = format!("SELECT {columns} FROM {{}}{table}");
        for row in sql.bookkeep("read what is deployed", &query, &[])? {
            let mut values: TextRow = row;
            let position = if has_position { values.pop().flatten() } else { None };
            let values: Vec<&str> =
                values.iter().map(|value| value.as_deref().unwrap_or_default()).collect();
            rows.insert(insert(Q::Words::PREFIX, table, &values, position.as_deref()));
        }
    }
    Ok(rows)
}

/// What is to be deployed.
pub(crate) fn planned<S: Schema>(plan: &Plan<S>, prefix: &str) -> BTreeSet<String> {
    let versions = plan.versions.iter().enumerate();
    versions.flat_map(|(position, version)| version_rows(position, version, prefix)).collect()
}

/// The statements that make of the `stored` rows the `planned` ones; none if they are the same.
pub(crate) fn replacement(
    stored: &BTreeSet<String>,
    planned: BTreeSet<String>,
    prefix: &str,
) -> Vec<String> {
    if *stored == planned {
        return Vec::new();
    }
    let emptied = TABLES.iter().map(|(table, ..)| format!("DELETE FROM {prefix}{table}"));
    emptied.chain(planned).collect()
}

fn version_rows<S: Schema>(position: usize, version: &VersionPlan<S>, prefix: &str) -> Vec<String> {
    let insert = |table: &str, values: &[&str], position: Option<usize>| {
        let position = position.map(|position| position.to_string());
        insert(prefix, table, values, position.as_deref())
    };
    let name = version.script_version.as_str();
    let mut rows = vec![insert("syncline_script_version", &[name], Some(position))];
    if version.acknowledge {
        rows.push(insert("syncline_option", &[name, ACKNOWLEDGE, "true"], None));
    }
    if version.cancels {
        rows.push(insert("syncline_option", &[name, ON_ERROR, CANCEL], None));
    }
    if version.session {
        rows.push(insert("syncline_option", &[name, SESSION, "true"], None));
    }
    for script in &version.scripts {
        let values = [name, "", script.event.name(), &script.stored()];
        rows.push(insert("syncline_script", &values, None));
    }
    for (publication, tables) in &version.publications {
        for table in tables {
            rows.push(insert("syncline_publication", &[name, publication.as_str(), table], None));
        }
    }
    for (position, table) in version.tables.iter().enumerate() {
        let published = serde_json::json!(table.outward).to_string();
        let details = serde_json::json!(table.details).to_string();
        let values = [name, &table.published.name, &published, &table.conflict_rule, &details];
        rows.push(insert("syncline_table", &values, Some(position)));
        for script in &table.scripts {
            let stored = script.stored();
            let values = [name, &table.published.name, script.event.name(), &stored];
            rows.push(insert("syncline_script", &values, None));
        }
    }
    rows
}

/// The statement that inserts a row; `position` is the last column, or the third of a table.
fn insert(prefix: &str, table: &str, values: &[&str], position: Option<&str>) -> String {
    let mut values: Vec<String> = values.iter().map(|value| literal(value)).collect();
    let at = values.len().min(2);
    values.splice(at..at, position.map(str::to_owned));
    format!("INSERT INTO {prefix}{table} VALUES ({})", values.join(", "))
}
