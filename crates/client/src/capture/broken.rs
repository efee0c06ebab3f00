//! Foreign keys that uploaded changes leave broken.
//!
//! Those of SQLite are off unless a program turns them on, so an application may delete the parent
//! of rows, or write a row without a parent. The center need not reject that, nor send anything for
//! it: its own foreign key may delete the rows in a table that is only uploaded, or it has the
//! parent and this remote does not receive it. Foreign keys hold after every download (S4). So the
//! next download sets such rows aside (`apply/orphans.rs`). A fact tells it to, because the upload
//! may be known to be committed long before.

use super::change_log::has_entries;
use crate::progress::facts;
use crate::schema::RemoteTable;
use crate::schema::reference::{Reference, references, references_from};
use crate::sql::{ident, list};
use rusqlite::Connection;

/// The fact that uploaded changes have left a foreign key broken.
const FACT: &str = "broken";

/// Notes whether the changes of this generation, which is committed, leave a foreign key broken.
pub(crate) fn note(
    connection: &Connection,
    tables: &[RemoteTable],
    generation: i64,
) -> rusqlite::Result<()> {
    match any(connection, tables, generation)? {
        true => facts::set(connection, FACT, true),
        false => Ok(()),
    }
}

/// Whether this was noted.
pub(crate) fn is_noted(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(facts::get::<bool>(connection, FACT)?.unwrap_or(false))
}

/// Forgets it.
pub(crate) fn forget(connection: &Connection) -> rusqlite::Result<()> {
    facts::forget(connection, &[FACT])
}

fn any(connection: &Connection, tables: &[RemoteTable], generation: i64) -> rusqlite::Result<bool> {
    let holds = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, bool>(0));
    let mut parents = Vec::new();
    for (at, table) in tables.iter().enumerate() {
        if !table.in_foreign_keys || !has_entries(connection, table, generation)? {
            continue;
        }
        for reference in references_from(connection, tables, at)? {
            if holds(&has_broken_row_sql(table, &reference, generation))? {
                return Ok(true);
            }
        }
        if table.referred_by_value || holds(&lacks_row_sql(table, generation))? {
            parents.push(at);
        }
    }
    if parents.is_empty() {
        return Ok(false);
    }
    for reference in references(connection, tables)? {
        let Some(at) = reference.parent_at.filter(|at| parents.contains(at)) else { continue };
        let (child, parent) = (&tables[reference.child], &tables[at]);
        if holds(&is_missed_sql(child, parent, &reference, generation))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a changed row of the table refers to nothing.
fn has_broken_row_sql(table: &RemoteTable, reference: &Reference, generation: i64) -> String {
    format!(
        "SELECT EXISTS (SELECT 1 FROM {} AS g CROSS JOIN {} AS c ON {} \
         WHERE g.\"generation\" = {generation} AND {})",
        table.change_sql(),
        table.table_sql(),
        table.same_key("c.", "g."),
        reference.is_broken(),
    )
}

/// Whether a changed row of the table is gone.
fn lacks_row_sql(table: &RemoteTable, generation: i64) -> String {
    format!("SELECT EXISTS ({})", gone_sql(table, generation))
}

/// The keys of changed rows that are gone.
fn gone_sql(table: &RemoteTable, generation: i64) -> String {
    format!(
        "SELECT {} FROM {} AS g WHERE g.\"generation\" = {generation} \
         AND NOT EXISTS (SELECT 1 FROM {} AS p WHERE {})",
        table.our_keys_sql("g."),
        table.change_sql(),
        table.table_sql(),
        table.same_key("p.", "g."),
    )
}

/// Whether a row of `child` refers to one of `parent` that is gone. Where it refers to anything
/// else than the key, to nothing.
fn is_missed_sql(
    child: &RemoteTable,
    parent: &RemoteTable,
    reference: &Reference,
    generation: i64,
) -> String {
    let refers = match reference.by_key(parent) {
        Some(mut columns) => {
            columns.sort_by_key(|(_, n)| *n);
            let column =
                |(from, n): (&str, usize)| format!("c.{}{}", ident(from), parent.key[n].collate());
            let columns = list(columns.into_iter().map(column));
            // No join: without an index it would read all of the child for each row.
            format!("({columns}) IN ({})", gone_sql(parent, generation))
        }
        None => reference.is_broken(),
    };
    format!("SELECT EXISTS (SELECT 1 FROM {} AS c WHERE {refers})", child.table_sql())
}
