//! Rows that refer to a missing row: foreign keys of SQLite are off unless a program turns them on.

use super::errors::failed;
use super::tables::{ForeignKey, UserTable};
use crate::admin::Finding;
use crate::orphans;
use crate::quote::{ident, join};
use model::Failure;
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};

/// One finding for each foreign key of a published table that some rows break.
pub(super) fn findings(
    connection: &Connection,
    user_tables: &BTreeMap<String, UserTable>,
    published: &BTreeSet<String>,
) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    for table in published.iter().filter_map(|name| user_tables.get(name)) {
        // A parent that is no table here cannot be asked.
        let known = |key: &&ForeignKey| user_tables.contains_key(&key.parent);
        for foreign_key in table.foreign_keys.iter().filter(known) {
            let rows: i64 = connection
                .query_row(&count_sql(&table.name, foreign_key), [], |row| row.get(0))
                .map_err(failed("count rows without a parent"))?;
            if rows > 0 {
                findings.push(orphans::finding(
                    &table.name,
                    &foreign_key.parent,
                    rows.unsigned_abs(),
                ));
            }
        }
    }
    Ok(findings)
}

fn count_sql(child: &str, foreign_key: &ForeignKey) -> String {
    let from: Vec<&str> = foreign_key.columns.iter().map(|(from, _)| from.as_str()).collect();
    let same: Vec<String> = foreign_key
        .columns
        .iter()
        .map(|(from, to)| format!("p.{} = c.{}", ident(to), ident(from)))
        .collect();
    format!(
        "SELECT count(*) FROM {} AS c WHERE {} AND NOT EXISTS (SELECT 1 FROM {} AS p WHERE {})",
        ident(child),
        join(&from, " AND ", |column| format!("c.{} IS NOT NULL", ident(column))),
        ident(&foreign_key.parent),
        same.join(" AND "),
    )
}
