//! Rows without their parent are left out at remotes until it comes, and named by `check`.
//!
//! They exist because foreign keys were not checked when the rows were written (trap 26).

use crate::administration::{Finding, Severity};
use crate::deploy::{ForeignKey, Plan, Schema, TableFacts};
use model::Failure;
use std::collections::{BTreeMap, BTreeSet};

/// One finding for each foreign key between published tables that some rows break. `count` counts
/// the rows of a child that refer to nothing in a parent.
pub(crate) fn findings<S: Schema>(
    user_tables: &BTreeMap<String, S::Table>,
    plan: &Plan<S>,
    mut count: impl FnMut(&S::Table, &S::Table, &ForeignKey) -> Result<i64, Failure>,
) -> Result<Vec<Finding>, Failure> {
    let published: BTreeSet<&str> =
        plan.tables().map(|table| table.published.name.as_str()).collect();
    let mut findings = Vec::new();
    for (name, child) in user_tables.iter().filter(|(name, _)| published.contains(name.as_str())) {
        for key in child.foreign_keys().iter().filter(|key| published.contains(&*key.parent)) {
            let Some(parent) = user_tables.get(&key.parent) else { continue };
            let rows = count(child, parent, key)?;
            if rows > 0 {
                findings.push(finding(name, &key.parent, rows));
            }
        }
    }
    Ok(findings)
}

/// What `check` says of the rows of `child` that refer to nothing in `parent`.
fn finding(child: &str, parent: &str, rows: i64) -> Finding {
    let message = match rows {
        1 => format!("1 row of {child} refers to a missing row of {parent}"),
        _ => format!("{rows} rows of {child} refer to missing rows of {parent}"),
    };
    Finding {
        severity: Severity::Notice,
        table: Some(child.to_owned()),
        message: format!("{message}; remotes do not receive such rows until the parent exists"),
    }
}
