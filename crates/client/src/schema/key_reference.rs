//! Foreign keys that refer to the whole key of a published table.

use super::foreign_keys::ForeignKey;
use super::{LocalTable, RemoteTable, foreign_keys};
use crate::sql::all;
use rusqlite::Connection;

/// A foreign key that refers to the whole key of a published table.
pub(crate) struct Reference {
    /// The table that refers, and its position where it is published.
    pub(crate) child: String,
    pub(crate) child_at: Option<usize>,
    pub(crate) parent_at: usize,
    /// Per column of the parent's key, the column that refers to it.
    pub(crate) columns: Vec<String>,
}

impl Reference {
    /// Where its rows refer to is what the center says.
    pub(crate) fn is_governed_by_center(&self, child: &RemoteTable) -> bool {
        let columns = &child.published.columns;
        let published = |name: &String| columns.iter().any(|it| it.eq_ignore_ascii_case(name));
        child.published.direction.downloads() && self.columns.iter().all(published)
    }
}

pub(crate) fn position_in_key(table: &RemoteTable, name: &str) -> Option<usize> {
    table.key.iter().position(|key| key.name.eq_ignore_ascii_case(name))
}

pub(crate) fn in_key(table: &RemoteTable, name: &str) -> bool {
    position_in_key(table, name).is_some()
}

/// The columns have the values of the first parameters, as the parent compares them.
pub(crate) fn matches(
    parent: &RemoteTable,
    columns: &[String],
    spell: impl Fn(&str) -> String,
) -> String {
    all(columns
        .iter()
        .zip(&parent.key)
        .enumerate()
        .map(|(n, (name, key))| format!("{} = ?{}{}", spell(name), n + 1, key.collate())))
}

/// The foreign keys of the file that refer to the whole key of a published table.
pub(crate) fn references(
    connection: &Connection,
    tables: &[RemoteTable],
) -> rusqlite::Result<Vec<Reference>> {
    let at = |name: &str| tables.iter().position(|table| table.name().eq_ignore_ascii_case(name));
    let mut references = Vec::new();
    for ForeignKey { child, parent, columns, .. } in foreign_keys::all(connection)? {
        let Some(parent_at) = at(&parent) else { continue };
        let Some(local) = LocalTable::read(connection, &parent)? else { continue };
        let parent = &tables[parent_at];
        let refers_to = |(n, (_, to)): (usize, &(String, Option<String>))| match to {
            Some(to) => position_in_key(parent, to),
            // Without a name the columns of the primary key are meant, in its order.
            None => local.key.get(n).and_then(|key| position_in_key(parent, &key.name)),
        };
        let order: Option<Vec<usize>> = columns.iter().enumerate().map(refers_to).collect();
        let Some(order) = order.filter(|order| order.len() == parent.key.len()) else { continue };
        let mut by_key = vec![None; order.len()];
        for (at, (from, _)) in order.into_iter().zip(columns) {
            by_key[at] = Some(from);
        }
        let Some(columns) = by_key.into_iter().collect() else { continue };
        let child_at = at(&child);
        references.push(Reference { child, child_at, parent_at, columns });
    }
    Ok(references)
}
