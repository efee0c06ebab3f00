//! Changes that belong to a new row of this remote that has lost its key (S5).
//!
//! Another row has the key at the center, and comes with this download. Whatever the application
//! has entered here since the upload was meant for its own row: rows that refer to it, and changes
//! of it. They would go on to belong to the row of somebody else. So they are rejected here, before
//! that row comes. What was uploaded with the row, the center has rejected itself.

use super::circumstances::Circumstances;
use super::values::{bind_key, key_of};
use super::{incoming, rejects};
use crate::connection::{explain, triggers_off};
use crate::schema::RemoteTable;
use crate::schema::reference::{Reference, references};
use crate::sql::{any, ident, list};
use model::{Failure, Value, write_value};
use rusqlite::Connection;
use std::collections::BTreeSet;

/// A pending change that is rejected.
struct Belonging {
    table: usize,
    key: Vec<Value>,
    /// The center does not have the row.
    is_new: bool,
}

/// Table and key, encoded.
type RowId = (usize, Vec<u8>);

fn id(table: usize, key: &[Value]) -> RowId {
    let mut bytes = Vec::new();
    key.iter().for_each(|value| write_value(&mut bytes, value.as_ref()));
    (table, bytes)
}

/// Rejects what belongs to `lost` rows: table and key. Returns how many rejects are news.
pub(super) fn reject_what_belongs(
    connection: &Connection,
    circumstances: &Circumstances<'_>,
    lost: &[(usize, Vec<Value>)],
) -> Result<u64, Failure> {
    if lost.is_empty() {
        return Ok(0);
    }
    let Circumstances { tables, open_generation: open, at, .. } = *circumstances;
    triggers_off(connection)?;
    connection.pragma_update(None, "defer_foreign_keys", true).map_err(explain)?;
    let references = references(connection, tables).map_err(explain)?;
    let (mut found, mut told): (Vec<Belonging>, u64) = (Vec::new(), 0);
    let mut seen: BTreeSet<RowId> = lost.iter().map(|(table, key)| id(*table, key)).collect();
    let mut open_parents = lost.to_vec();
    while let Some((parent, key)) = open_parents.pop() {
        let to_it = |reference: &&Reference| reference.parent_at == Some(parent);
        for reference in references.iter().filter(to_it) {
            let children = children(connection, circumstances, reference, (parent, &key));
            for child in children.map_err(explain)? {
                if !seen.insert(id(child.table, &child.key)) {
                    continue;
                }
                let table = &tables[child.table];
                let news = rejects::record_belonging(connection, table, &child.key, at);
                told += u64::from(news.map_err(explain)?);
                if child.is_new {
                    open_parents.push((child.table, child.key.clone()));
                }
                found.push(child);
            }
        }
    }
    // What refers to others goes before them, or an action of a foreign key would take it along.
    for Belonging { table, key, is_new } in found.iter().rev() {
        let table = &tables[*table];
        match is_new {
            true => remove(connection, table, key),
            false => restore(connection, table, open, key),
        }
        .and_then(|()| incoming::write(connection, circumstances, table, key))
        .map_err(explain)?;
    }
    for (table, key) in lost.iter().filter(|(table, _)| tables[*table].uploads()) {
        incoming::write(connection, circumstances, &tables[*table], key).map_err(explain)?;
    }
    Ok(told)
}

/// The pending changes by which rows came to refer to one row.
fn children(
    connection: &Connection,
    circumstances: &Circumstances<'_>,
    reference: &Reference,
    (parent, key): (usize, &[Value]),
) -> rusqlite::Result<Vec<Belonging>> {
    let Circumstances { tables, open_generation, committed, .. } = *circumstances;
    let (child, parent) = (&tables[reference.child], &tables[parent]);
    let column = |(from, _): &(String, String)| {
        child.published.columns.iter().position(|name| name.eq_ignore_ascii_case(from))
    };
    let from: Option<Vec<usize>> = reference.columns.iter().map(column).collect();
    let Some(from) = from.filter(|_| child.uploads()) else { return Ok(Vec::new()) };
    let moved = any(from.iter().map(|at| {
        let now = ident(&child.published.columns[*at]);
        format!("{} IS NOT c.{now} COLLATE BINARY", child.before_sql(*at, "g.", "c."))
    }));
    // The application has gone on with a row that was inserted with the upload.
    let uploaded = committed.map_or(-1, |frozen| frozen.generation);
    let is_new = format!(
        "(NOT g.\"existed\" OR EXISTS (SELECT 1 FROM {} AS f WHERE f.\"generation\" = {uploaded} \
         AND NOT f.\"existed\" AND {}))",
        child.change_sql(),
        child.same_our_key("f.", "g."),
    );
    let sql = format!(
        "SELECT {}, {is_new} FROM {} AS p JOIN {} AS c ON {} JOIN {} AS g ON {} \
         WHERE {} AND g.\"generation\" = {open_generation} AND ({is_new} OR {moved})",
        child.our_keys_sql("g."),
        parent.table_sql(),
        child.table_sql(),
        reference.same(),
        child.change_sql(),
        child.same_key("c.", "g."),
        parent.key_is_parameter("p.", 1),
    );
    let mut statement = connection.prepare_cached(&sql)?;
    bind_key(&mut statement, key)?;
    let (mut rows, mut found) = (statement.raw_query(), Vec::new());
    while let Some(row) = rows.next()? {
        let (key, is_new) = (key_of(child, row)?, row.get(child.key.len())?);
        found.push(Belonging { table: reference.child, key, is_new });
    }
    Ok(found)
}

fn remove(connection: &Connection, table: &RemoteTable, key: &[Value]) -> rusqlite::Result<()> {
    let sql = format!("DELETE FROM {} WHERE {}", table.table_sql(), table.key_is_parameter("", 1));
    let mut statement = connection.prepare_cached(&sql)?;
    bind_key(&mut statement, key)?;
    statement.raw_execute().map(drop)
}

/// Gives a row the values that it had before its pending change.
fn restore(
    connection: &Connection,
    table: &RemoteTable,
    open: i64,
    key: &[Value],
) -> rusqlite::Result<()> {
    let columns = table.published.columns.iter().enumerate();
    let columns = columns.filter(|(at, _)| table.key.iter().all(|key| key.position != *at));
    let sets =
        columns.map(|(at, name)| format!("{} = {}", ident(name), table.before_sql(at, "g.", "t.")));
    let sets = list(sets);
    if sets.is_empty() {
        return Ok(());
    }
    let sql = format!(
        "UPDATE {} AS t SET {} FROM {} AS g WHERE {} AND {} AND g.\"generation\" = ?{}",
        table.table_sql(),
        sets,
        table.change_sql(),
        table.same_key("t.", "g."),
        table.key_is_parameter("t.", 1),
        table.key.len() + 1,
    );
    let mut statement = connection.prepare_cached(&sql)?;
    bind_key(&mut statement, key)?;
    statement.raw_bind_parameter(table.key.len() + 1, open)?;
    statement.raw_execute().map(drop)
}
