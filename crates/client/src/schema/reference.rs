//! Foreign keys that begin at published tables, or end at them.

use super::foreign_keys::ForeignKey;
use super::{LocalTable, RemoteTable, foreign_keys};
use crate::connection::explain;
use crate::sql::{all, ident};
use model::Failure;
use rusqlite::Connection;

/// A foreign key of a published table.
pub(crate) struct Reference {
    /// Position of the table that refers.
    pub(crate) child: usize,
    pub(crate) parent: String,
    /// Position of the parent, where it is published.
    pub(crate) parent_at: Option<usize>,
    /// Referring columns and those that they refer to.
    pub(crate) columns: Vec<(String, String)>,
}

impl Reference {
    /// Per column that refers, which part of the parent's key it refers to; none where it refers to
    /// anything else than the whole key.
    pub(crate) fn by_key(&self, parent: &RemoteTable) -> Option<Vec<(&str, usize)>> {
        let part =
            |name: &str| parent.key.iter().position(|key| key.name.eq_ignore_ascii_case(name));
        let parts = self.columns.iter().map(|(from, to)| Some((from.as_str(), part(to)?)));
        parts.collect::<Option<Vec<_>>>().filter(|parts| parts.len() == parent.key.len())
    }

    /// The parent `p` is the one that the child `c` refers to, as SQLite compares them: under the
    /// parent's collation.
    pub(crate) fn same(&self) -> String {
        all(self.columns.iter().map(|(from, to)| format!("p.{} = c.{}", ident(to), ident(from))))
    }

    /// The child `c` refers to nothing.
    pub(crate) fn is_broken(&self) -> String {
        format!(
            "{} AND NOT EXISTS (SELECT 1 FROM {} AS p WHERE {})",
            all(self.columns.iter().map(|(from, _)| format!("c.{} IS NOT NULL", ident(from)))),
            ident(&self.parent),
            self.same(),
        )
    }
}

/// Every foreign key of the published tables, as this file declares them.
pub(crate) fn references(
    connection: &Connection,
    tables: &[RemoteTable],
) -> rusqlite::Result<Vec<Reference>> {
    let mut references = Vec::new();
    for child in 0..tables.len() {
        references.extend(references_from(connection, tables, child)?);
    }
    Ok(references)
}

/// Those of the published table at this position.
pub(crate) fn references_from(
    connection: &Connection,
    tables: &[RemoteTable],
    child: usize,
) -> rusqlite::Result<Vec<Reference>> {
    let found = references_of(connection, tables, tables[child].name(), child)?;
    Ok(found.into_iter().map(|(reference, _)| reference).collect())
}

/// A foreign key that refuses what happens to a row, of a table from which no download deletes
/// rows.
pub(crate) struct Clinging {
    /// The table that refers.
    pub(crate) child: String,
    /// To what. It has no position of its own.
    pub(crate) reference: Reference,
}

/// The foreign keys of tables that are not published, and that let no published row go.
pub(crate) fn unpublished_references(
    connection: &Connection,
    tables: &[RemoteTable],
) -> Result<Vec<Clinging>, Failure> {
    let find = || -> rusqlite::Result<Vec<Clinging>> {
        let mut statement = connection.prepare_cached(
            "SELECT name FROM sqlite_schema
             WHERE type = 'table' AND name NOT LIKE 'syncline\\_%' ESCAPE '\\'",
        )?;
        let names: Vec<String> =
            statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let mut found = Vec::new();
        for child in names {
            if tables.iter().any(|table| table.name().eq_ignore_ascii_case(&child)) {
                continue;
            }
            for (reference, on_delete) in references_of(connection, tables, &child, tables.len())? {
                let lets_go = ["CASCADE", "SET NULL"].contains(&on_delete.as_str());
                if reference.parent_at.is_some() && !lets_go {
                    found.push(Clinging { child: child.clone(), reference });
                }
            }
        }
        Ok(found)
    };
    find().map_err(explain)
}

/// The foreign keys of one table, each with what it does when a row goes to which it refers.
fn references_of(
    connection: &Connection,
    tables: &[RemoteTable],
    name: &str,
    child: usize,
) -> rusqlite::Result<Vec<(Reference, String)>> {
    let position = |name: &str| tables.iter().position(|t| t.name().eq_ignore_ascii_case(name));
    let mut references: Vec<(Reference, String)> = Vec::new();
    for key in foreign_keys::of(connection, name)? {
        let ForeignKey { parent, columns, on_delete, .. } = key;
        let Some(local) = LocalTable::read(connection, &parent)? else { continue };
        // Without columns it refers to the primary key.
        let named = |(at, (from, to)): (usize, (String, Option<String>))| {
            let to = to.or_else(|| local.key.get(at).map(|key| key.name.clone()))?;
            Some((from, to))
        };
        let columns = columns.into_iter().enumerate().filter_map(named).collect();
        let parent_at = position(&parent);
        references.push((Reference { child, parent, parent_at, columns }, on_delete));
    }
    references.retain(|(reference, _)| !reference.columns.is_empty());
    Ok(references)
}
