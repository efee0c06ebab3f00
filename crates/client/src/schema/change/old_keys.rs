//! Keys to which tables of the user's own refer.
//!
//! A table that is no longer published stays with its foreign keys. Where its parent has another
//! key by now, SQLite refuses every change of both tables, the user's and ours, unless the columns
//! to which it refers stay unique.

use super::succession::Heir;
use crate::connection::explain;
use crate::schema::foreign_keys::{self, ForeignKey};
use crate::schema::{IndexColumn, LocalTable};
use crate::sql::{ident, list, literal};
use model::Failure;
use rusqlite::Connection;

/// Keeps them unique. Where rows have equal values in them already, nothing can help.
pub(super) fn keep(connection: &Connection, heirs: &[Heir<'_>]) -> Result<(), Failure> {
    for table in own_tables(connection, heirs).map_err(explain)? {
        // It is compiled and never run: that tells whether the keys of the parents fit.
        let check = format!("PRAGMA foreign_key_check({})", literal(&table));
        if connection.prepare(&check).is_ok() {
            continue;
        }
        for key in foreign_keys::of(connection, &table).map_err(explain)? {
            let ForeignKey { number, parent, columns, .. } = key;
            let columns: Vec<String> = columns.into_iter().filter_map(|(_, to)| to).collect();
            // It refers to the primary key, whatever that is.
            if columns.is_empty() {
                continue;
            }
            let local = LocalTable::read(connection, &parent).map_err(explain)?;
            if local.is_none_or(|local| is_unique(&local, &columns)) {
                continue;
            }
            let name = ident(&format!("former_key_{table}_{number}"));
            let columns = list(columns.iter().map(|column| ident(column)));
            let create = format!(
                "CREATE UNIQUE INDEX IF NOT EXISTS {name} ON {}({columns})",
                ident(&parent)
            );
            let _ = connection.execute_batch(&create);
        }
    }
    Ok(())
}

fn is_unique(table: &LocalTable, columns: &[String]) -> bool {
    let of = |key: &Vec<IndexColumn>| {
        let is = |wanted: &String| key.iter().any(|it| it.name.eq_ignore_ascii_case(wanted));
        key.len() == columns.len() && columns.iter().all(is)
    };
    of(&table.key) || table.unique.iter().any(of)
}

fn own_tables(connection: &Connection, heirs: &[Heir<'_>]) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table'
               AND name NOT LIKE 'syncline\\_%' ESCAPE '\\'";
    let mut statement = connection.prepare(sql)?;
    let names = statement.query_map([], |row| row.get(0))?;
    let mut names: Vec<String> = names.collect::<rusqlite::Result<_>>()?;
    names.retain(|name| !heirs.iter().any(|it| it.published.name.eq_ignore_ascii_case(name)));
    Ok(names)
}
