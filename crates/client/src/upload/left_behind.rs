//! Rows that no frame takes stay behind, so that everything else is uploaded.
//!
//! They move from the generation that was just frozen into the open one, in the same transaction,
//! so they are pending as if they had been changed a moment later. With them stays what the center
//! would reject without them: rows that refer to one of them that is new, and so on.

use super::images;
use crate::capture::change_log::{self, Entry, Reading};
use crate::connection::{bind, explain};
use crate::schema::RemoteTable;
use crate::schema::reference::{Reference, references};
use model::{Failure, MESSAGE_BYTES_MAX, RowReader, Spill, Spills, cut, write_value};
use protocol::FRAME_BYTES_MAX;
use rusqlite::Connection;
use std::sync::Arc;

/// The smallest frame that a server can be told to take. One that names less is not believed.
const FRAME_BYTES_MIN: usize = 64 << 10;

/// What a frame needs beside its rows.
const FRAMING_BYTES: usize = 64;

/// So many rows are named.
const NAMED_MAX: usize = 100;

/// What stays pending because no frame takes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftBehind {
    /// The rows that are too large, of which the first hundred are named.
    pub rows: Vec<LargeRow>,
    /// Further ones.
    pub unnamed: u64,
    /// Rows that refer to them and wait with them.
    pub others: u64,
}

/// A changed row that no frame takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargeRow {
    /// Its table.
    pub table: String,
    /// Its key, readable.
    pub key: String,
    /// Its bytes as they would be sent; an update has the row before and the row now.
    pub bytes: u64,
    /// The most that the server takes.
    pub bytes_max: u64,
}

impl LeftBehind {
    /// Nothing stays behind.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn add(&mut self, row: LargeRow) {
        match self.rows.len() < NAMED_MAX {
            true => self.rows.push(row),
            false => self.unnamed += 1,
        }
    }
}

/// The largest row, in bytes as encoded, where a frame may have so many.
pub(crate) fn row_bytes_max(frame_bytes_max: u64) -> usize {
    let frame = usize::try_from(frame_bytes_max).unwrap_or(usize::MAX);
    frame.clamp(FRAME_BYTES_MIN, FRAME_BYTES_MAX) - FRAMING_BYTES
}

/// Which rows have to stay behind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fitting<'a> {
    pub(crate) row_bytes_max: usize,
    pub(crate) spills: &'a Arc<Spills>,
}

/// Moves what stays behind from the generation `frozen` into `open`, which has no entries yet.
pub(crate) fn leave(
    connection: &Connection,
    tables: &[RemoteTable],
    (frozen, open): (i64, i64),
    fitting: Fitting<'_>,
) -> Result<LeftBehind, Failure> {
    let mut left = LeftBehind::default();
    for table in tables.iter().filter(|table| table.uploads()) {
        let mut keys = fitting.spills.open();
        let reading = Reading { generation: frozen, newer: None };
        for_each_large(connection, table, reading, fitting.row_bytes_max, &mut |entry, row| {
            left.add(row);
            keys.append(key_bytes(table, entry).map_err(explain)?)
        })?;
        move_rows(connection, table, (frozen, open), keys)?;
    }
    if !left.is_empty() {
        left.others = move_children(connection, tables, (frozen, open)).map_err(explain)?;
    }
    Ok(left)
}

/// Shows every change of the table that no frame takes.
pub(crate) fn for_each_large(
    connection: &Connection,
    table: &RemoteTable,
    reading: Reading,
    row_bytes_max: usize,
    visit: &mut dyn FnMut(&Entry<'_>, LargeRow) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    change_log::for_each(connection, table, reading, &mut |entry| {
        let Some(operation) = images::operation(entry).map_err(explain)? else { return Ok(()) };
        bytes.clear();
        let changed = images::write(table, operation, entry, &mut bytes).map_err(explain)?;
        if !changed || bytes.len() <= row_bytes_max {
            return Ok(());
        }
        let key = entry.key_text().map_err(explain)?;
        let row = LargeRow {
            table: table.name().to_owned(),
            key: cut(&key, MESSAGE_BYTES_MAX).into_owned(),
            bytes: bytes.len() as u64,
            bytes_max: row_bytes_max as u64,
        };
        visit(entry, row)
    })
}

fn key_bytes(table: &RemoteTable, entry: &Entry<'_>) -> rusqlite::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for n in 0..table.key.len() {
        write_value(&mut bytes, entry.key(n)?);
    }
    Ok(bytes)
}

fn move_rows(
    connection: &Connection,
    table: &RemoteTable,
    (frozen, open): (i64, i64),
    keys: Spill,
) -> Result<(), Failure> {
    let sql = format!(
        "UPDATE {} SET \"generation\" = {open} WHERE \"generation\" = {frozen} AND {}",
        table.change_sql(),
        table.our_key_is_parameter(1),
    );
    let mut statement = connection.prepare_cached(&sql).map_err(explain)?;
    let mut keys = keys.drain();
    while let Some(key) = keys.next_chunk()? {
        let mut key = RowReader::new(&key);
        for n in 1..=table.key.len() {
            bind(&mut statement, n, key.value()?).map_err(explain)?;
        }
        statement.raw_execute().map_err(explain)?;
    }
    Ok(())
}

/// Moves what refers to a new row that was moved, until nothing does; yields how many rows.
fn move_children(
    connection: &Connection,
    tables: &[RemoteTable],
    generations: (i64, i64),
) -> rusqlite::Result<u64> {
    let moves: Vec<String> = references(connection, tables)?
        .iter()
        .filter_map(|reference| {
            let (child, parent) = (&tables[reference.child], &tables[reference.parent_at?]);
            let upload = child.uploads() && parent.uploads();
            upload.then(|| children_sql(child, parent, reference, generations))
        })
        .collect();
    let mut all = 0;
    loop {
        let mut moved = 0;
        for sql in &moves {
            moved += connection.execute(sql, [])? as u64;
        }
        if moved == 0 {
            return Ok(all);
        }
        all += moved;
    }
}

fn children_sql(
    child: &RemoteTable,
    parent: &RemoteTable,
    reference: &Reference,
    (frozen, open): (i64, i64),
) -> String {
    let change = child.change_sql();
    format!(
        "UPDATE {change} SET \"generation\" = {open} WHERE \"generation\" = {frozen} AND EXISTS \
         (SELECT 1 FROM {} AS c CROSS JOIN {} AS p ON {} CROSS JOIN {} AS g ON {} \
         WHERE {} AND g.\"generation\" = {open} AND NOT g.\"existed\")",
        child.table_sql(),
        parent.table_sql(),
        reference.same(),
        parent.change_sql(),
        parent.same_key("p.", "g."),
        child.same_key("c.", &format!("{change}.")),
    )
}
