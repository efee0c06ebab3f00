//! Columns by which it is decided which rows of a table a remote has.
//!
//! They need not be published, and their table need not be: a mapping table seldom is. A deployment
//! notes them, so that a server knows what is missing when somebody has renamed one.

use crate::selection::Selection;
use model::PublishedTable;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Columns of one table that decide about rows of a published one, which may be the same.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Deciding {
    /// As people know the table.
    pub(crate) table: String,
    /// As statements name it.
    pub(crate) relation: String,
    pub(crate) columns: BTreeSet<String>,
}

/// What a backend knows of a published table.
pub(crate) trait Decided {
    /// The columns that decide about its rows, without those of its own that are published.
    fn deciding(&self) -> &[Deciding];
}

/// The columns that decide about the rows of `published`. `relation` says how statements name a
/// table.
pub(crate) fn of(
    selection: &Selection,
    published: &PublishedTable,
    relation: impl Fn(&str) -> String,
) -> Vec<Deciding> {
    let mut by_table: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (table, columns) in selection.deciding() {
        let is_published = |column: &&str| {
            table.name == published.name && published.columns.iter().any(|it| it == column)
        };
        let columns = columns.into_iter().filter(|column| !is_published(column));
        by_table.entry(&table.name).or_default().extend(columns.map(str::to_owned));
    }
    by_table.retain(|_, columns| !columns.is_empty());
    let deciding = by_table.into_iter().map(|(table, columns)| Deciding {
        table: table.to_owned(),
        relation: relation(table),
        columns,
    });
    deciding.collect()
}
