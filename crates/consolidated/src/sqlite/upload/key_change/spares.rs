//! Spare keys: those that rows had for a while, so that others could have theirs.
//!
//! The log of a table has entries of them. No remote ever had a row under such a key, so none is to
//! delete one.

use crate::quote::{ident, join};
use crate::sqlite::details::CatalogTable;
use crate::sqlite::errors::failed;
use crate::sqlite::links::Links;
use crate::sqlite::tracking::log_table::log_name;
use crate::sqlite::upload::own_entries::end_of_log;
use crate::sqlite::values::Bind;
use model::{Failure, PublishedTable, Value};
use rusqlite::Connection;
use std::sync::Arc;

/// The values by which keys are spare.
#[derive(Default)]
pub(in crate::sqlite) struct Spares(Vec<Spare>);

#[derive(PartialEq)]
struct Spare {
    table: usize,
    column: String,
    value: Value,
}

impl Spares {
    /// Takes note that a row of the table got a key with `value` in `column`. There are few values:
    /// the next ring has the spare key of the one before.
    pub(super) fn note(&mut self, table: usize, column: &str, value: &Value) {
        let spare = Spare { table, column: column.to_owned(), value: value.clone() };
        if !self.0.contains(&spare) {
            self.0.push(spare);
        }
    }

    /// Removes their entries from the logs, which had so many when the upload began.
    pub(super) fn forget(
        &self,
        connection: &Connection,
        tables: &[Arc<CatalogTable>],
        links: &Links,
        begins: &[i64],
    ) -> Result<(), Failure> {
        for Spare { table, column, value } in &self.0 {
            for (name, column) in with_children(links, &tables[*table].published.name, column) {
                let Some(at) = tables.iter().position(|it| it.published.name == name) else {
                    continue;
                };
                let published = &tables[at].published;
                if published.direction.downloads() && key_names(published).any(|it| it == column) {
                    remove(connection, published, &column, value, begins[at])?;
                }
            }
        }
        Ok(())
    }
}

/// A column of a table, and the columns that the foreign keys of others set to what it is set to.
fn with_children(links: &Links, table: &str, column: &str) -> Vec<(String, String)> {
    let mut found = vec![(table.to_owned(), column.to_owned())];
    let mut next = 0;
    while let Some((parent, referred)) = found.get(next).cloned() {
        for child in links.user_tables.values() {
            let keys = child.foreign_keys.iter().filter(|key| key.parent == parent);
            let columns = keys.flat_map(|key| &key.columns).filter(|(_, to)| *to == referred);
            for (from, _) in columns {
                let one = (child.name.clone(), from.clone());
                if !found.contains(&one) {
                    found.push(one);
                }
            }
        }
        next += 1;
    }
    found
}

/// Removes the entries behind `begin` whose key has `value` in `column`, where no row has it now.
fn remove(
    connection: &Connection,
    table: &PublishedTable,
    column: &str,
    value: &Value,
    begin: i64,
) -> Result<(), Failure> {
    let forgetting = failed("forget spare keys");
    let last = end_of_log(connection, &table.name)?;
    let names: Vec<&str> = key_names(table).collect();
    let sql = format!(
        "DELETE FROM {log} AS l WHERE sequence > ?1 AND {} = ?2
           AND NOT EXISTS (SELECT 1 FROM {} AS t WHERE {})",
        ident(column),
        ident(&table.name),
        join(&names, " AND ", |name| format!("t.{} = l.{}", ident(name), ident(name))),
        log = ident(&log_name(&table.name)),
    );
    let mut statement = connection.prepare_cached(&sql).map_err(&forgetting)?;
    statement
        .raw_bind_parameter(1, begin)
        .and_then(|()| statement.raw_bind_parameter(2, Bind(value.as_ref())))
        .and_then(|()| statement.raw_execute())
        .map_err(&forgetting)?;
    // The number of the last entry must never be given out again.
    connection
        .prepare_cached(&format!(
            "UPDATE {log} SET sequence = ?1
             WHERE sequence = (SELECT max(sequence) FROM {log}) AND sequence < ?1",
            log = ident(&log_name(&table.name)),
        ))
        .and_then(|mut statement| statement.execute([last]))
        .map(|_| ())
        .map_err(&forgetting)
}

fn key_names(table: &PublishedTable) -> impl Iterator<Item = &str> {
    table.key.iter().map(|column| table.columns[usize::from(*column)].as_str())
}
