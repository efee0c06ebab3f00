//! Rows that refer to a missing row: foreign keys of SQLite are off unless a program turns them on.

use crate::deploy::ForeignKey;
use crate::quote::ident;
use crate::sqlite::deploy::tables::UserTable;
use crate::sqlite::query;
use model::Failure;
use rusqlite::Connection;
use std::collections::BTreeMap;

/// The foreign keys of all tables, in the order of the tables. A parent that is no table here
/// cannot be asked.
pub(super) fn foreign_keys(
    user_tables: &BTreeMap<String, UserTable>,
) -> impl Iterator<Item = (&UserTable, &ForeignKey)> {
    user_tables
        .values()
        .flat_map(|child| child.foreign_keys.iter().map(move |key| (child, key)))
        .filter(|(_, key)| user_tables.contains_key(&key.parent))
}

/// How many rows of `child` refer to nothing.
pub(in crate::sqlite) fn count(
    connection: &Connection,
    child: &UserTable,
    foreign_key: &ForeignKey,
) -> Result<i64, Failure> {
    let sql = format!("SELECT count(*) FROM {}", without_parent(child, foreign_key));
    query::value(connection, "count rows without a parent", &sql, [])
}

/// `"child" AS c WHERE …`: the rows of `child` that refer to nothing.
pub(super) fn without_parent(child: &UserTable, foreign_key: &ForeignKey) -> String {
    let columns = &foreign_key.columns;
    let each = |spell: &dyn Fn(&(String, String)) -> String| {
        columns.iter().map(spell).collect::<Vec<_>>().join(" AND ")
    };
    format!(
        "{} AS c WHERE {} AND NOT EXISTS (SELECT 1 FROM {} AS p WHERE {})",
        ident(&child.name),
        each(&|(from, _)| format!("c.{} IS NOT NULL", ident(from))),
        ident(&foreign_key.parent),
        each(&|(from, to)| format!("p.{} = c.{}", ident(to), ident(from))),
    )
}
