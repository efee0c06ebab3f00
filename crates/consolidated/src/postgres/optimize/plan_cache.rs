//! Which scripts run with a plan that PostgreSQL keeps (decision 0011).
//!
//! PostgreSQL may have made the plan when the tables were empty or very different. So only those
//! generated scripts qualify for which every possible plan is good for any later content:
//!
//! PC1. An insert that reads no table. There is only the batch to plan.
//! PC2. A download of one table, of all rows or by the value of one column. It has no join. Its
//!     only conditions are on that column and on the version. Every index that could be used begins
//!     with the column, or with the version if there is no such column. It uses a bitmap
//!     (`connect.rs`), which finds few rows without reading others, and reads no page twice if it
//!     finds all rows.
//!
//! All other scripts are planned each time, and so are downloads of a whole table.

use crate::deploy::TableFacts;
use crate::digest::digest;
use crate::postgres::deploy::tables::{UserTable, VERSION};
use crate::script::{Event, Script};
use crate::selection::{Rows, Selection};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Digests of those of the generated `scripts` of `table`, which has this selection.
pub(in crate::postgres) fn scripts(
    table: &UserTable,
    selection: &Selection,
    scripts: &BTreeMap<Event, Script>,
) -> Vec<String> {
    // A policy may look at anything.
    if table.row_security {
        return Vec::new();
    }
    let (alone, found) = match &selection.rows {
        Rows::All => (true, true),
        Rows::Column { column, .. } => (true, finds_only_by(table, column)),
        Rows::Mapping { .. } | Rows::Parent { .. } | Rows::Custom(_) => (false, false),
    };
    [(Event::UploadInsert, alone), (Event::DownloadCursor, found)]
        .into_iter()
        .filter(|(_, kept)| *kept)
        .filter_map(|(event, _)| scripts.get(&event).map(name))
        .collect()
}

/// A query before a generated script: if it returns no row, the script would find nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::postgres) struct Probe {
    text: String,
    /// Digest of the script.
    about: String,
}

impl Probe {
    pub(in crate::postgres) fn new(text: String, script: &Script) -> Probe {
        Probe { text, about: name(script) }
    }

    /// The question, if it is about `script`.
    pub(in crate::postgres) fn about(&self, script: &Script) -> Option<&str> {
        (self.about == name(script)).then_some(self.text.as_str())
    }
}

/// Whether `script` is one of those with these digests, and not one that a person wrote.
pub(in crate::postgres) fn is_kept(kept: &[String], script: &Script) -> bool {
    !kept.is_empty() && kept.contains(&name(script))
}

fn name(script: &Script) -> String {
    digest(&[&script.sql])
}

/// Whether rows are found by the value of `column` with an index, and by no other way.
fn finds_only_by(table: &UserTable, column: &str) -> bool {
    let is = |wanted: &'static str| move |name: &Option<String>| name.as_deref() == Some(wanted);
    let has = |name: &Option<String>| name.as_deref() == Some(column);
    let other_way = table.indexes.iter().any(|index| {
        let begins = index.tree && index.columns.first().is_some_and(has);
        index.columns.iter().any(has) && !begins || index.columns.iter().any(is(VERSION))
    });
    let key_is_one = table.key.iter().skip(1).any(|name| name == column);
    !other_way && !key_is_one && table.finds_by(&[column])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(key: &[&str], indexes: &[(&[&str], bool)]) -> UserTable {
        let indexes = indexes.iter().map(|(columns, tree)| {
            serde_json::json!({"name": "i", "unique": false, "columns": columns,
                "partial": false, "tree": tree})
        });
        let indexes: Vec<_> = indexes.collect();
        serde_json::from_value(serde_json::json!({
            "schema": "s", "name": "t", "kind": "r", "bytes": 0, "unlogged": false,
            "path_position": 1, "of_extension": false, "inherits": false, "rules": false,
            "row_security": false, "triggers": [], "columns": [], "key": key,
            "key_deferrable": false, "indexes": indexes, "foreign_keys": [],
        }))
        .unwrap()
    }

    #[test]
    fn a_plan_is_kept_only_where_no_other_index_could_have_been_chosen() {
        for (key, indexes, kept) in [
            (&["id"][..], &[(&["rep"][..], true)][..], true),
            (&["rep", "id"], &[], true),
            (&["id"], &[(&["rep", "note"], true), (&["note"], true)], true),
            (&["id"], &[], false),
            (&["id", "rep"], &[(&["rep"], true)], false),
            (&["id"], &[(&["rep"], true), (&["note", "rep"], true)], false),
            (&["id"], &[(&["rep"], true), (&["rep"], false)], false),
            (&["id"], &[(&["rep"], true), (&["rep", VERSION], true)], false),
        ] {
            assert_eq!(finds_only_by(&table(key, indexes), "rep"), kept, "{key:?} {indexes:?}");
        }
    }
}
