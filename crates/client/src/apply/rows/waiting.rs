//! Rows that wait while a download is applied, and temporary values that separate two rows.
//!
//! SQLite cannot defer UNIQUE (trap 10). Two rows that exchange their values block each other, so
//! they wait. When everything else is written and deleted, they are tried again, which
//! resolves chains. Rows that still fail block each other in a ring, so their unique columns first
//! get temporary values. Each of these rows is then written completely, so no temporary value
//! remains.

use crate::connection::{bind, explain};
use crate::schema::{Affinity, RemoteTable, UniqueColumn};
use crate::sql::ident;
use model::{Code, Failure, RowReader, Spill, Spills, ValueRef, row_len};
use rusqlite::Connection;
use std::cell::Cell;
use std::sync::Arc;

/// Rows gathered in memory before they go to the spill, in bytes.
const BATCH_BYTES: usize = 256 * 1024;

/// Encoded rows, or keys, of one table; in memory or, when they are many, on disk.
#[derive(Debug)]
pub(in crate::apply) struct WaitingRows {
    spill: Spill,
    batch: Vec<u8>,
}

impl WaitingRows {
    pub(in crate::apply) fn new(spills: &Arc<Spills>) -> WaitingRows {
        WaitingRows { spill: spills.open(), batch: Vec::new() }
    }

    /// Adds one encoded row.
    pub(in crate::apply) fn push(&mut self, row: &[u8]) -> Result<(), Failure> {
        self.push_with(|batch| {
            batch.extend_from_slice(row);
            Ok(())
        })
    }

    /// Adds one row that `encode` appends.
    pub(in crate::apply) fn push_with(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        encode(&mut self.batch)?;
        if self.batch.len() >= BATCH_BYTES {
            self.spill.append(std::mem::take(&mut self.batch))?;
        }
        Ok(())
    }

    /// Shows `visit` all rows, many at a time.
    pub(in crate::apply) fn for_each_chunk(
        &self,
        visit: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut reader = self.spill.reader();
        while let Some(chunk) = reader.next_chunk()? {
            visit(&chunk)?;
        }
        if self.batch.is_empty() { Ok(()) } else { visit(&self.batch) }
    }
}

/// Puts temporary values into the unique columns of rows. CHECK constraints are off while
/// it exists; the center has checked the real values, which follow.
pub(in crate::apply) struct Placeholders<'a> {
    connection: &'a Connection,
    table: &'a RemoteTable,
    columns: Vec<&'a UniqueColumn>,
    update: String,
    used: Cell<i64>,
}

impl<'a> Placeholders<'a> {
    pub(in crate::apply) fn new(
        connection: &'a Connection,
        table: &'a RemoteTable,
    ) -> Result<Placeholders<'a>, Failure> {
        connection.pragma_update(None, "ignore_check_constraints", true).map_err(explain)?;
        // One column per index parts its rows; NULL, which equals nothing, where it is allowed.
        let choose = |index: &'a Vec<UniqueColumn>| {
            let mut settable = index.iter().filter(|column| column.settable);
            let first = settable.next();
            settable.chain(first).find(|column| column.nullable).or(first)
        };
        let mut columns: Vec<&UniqueColumn> = table.unique.iter().filter_map(choose).collect();
        columns.sort_by(|a, b| a.name.cmp(&b.name));
        columns.dedup_by(|a, b| a.name == b.name);
        let key_len = table.key.len();
        let sets = columns
            .iter()
            .enumerate()
            .map(|(n, column)| format!("{} = ?{}", ident(&column.name), key_len + n + 1));
        let update = format!(
            "UPDATE {} SET {} WHERE {}",
            table.table_sql(),
            crate::sql::list(sets),
            table.key_is_parameter("", 1)
        );
        Ok(Placeholders { connection, table, columns, update, used: Cell::new(0) })
    }

    /// Treats the rows whose keys are in `rows`, as far as they exist.
    pub(in crate::apply) fn put(&self, rows: &[u8]) -> Result<(), Failure> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let mut statement = self.connection.prepare_cached(&self.update).map_err(explain)?;
        let mut rest = rows;
        while !rest.is_empty() {
            let len = row_len(rest, self.table.width())?;
            let mut reader = RowReader::new(&rest[..len]);
            rest = &rest[len..];
            for column in 0..self.table.width() {
                let value = reader.value()?;
                if let Some(n) = self.table.key.iter().position(|key| key.position == column) {
                    bind(&mut statement, n + 1, value).map_err(explain)?;
                }
            }
            for (n, column) in self.columns.iter().enumerate() {
                let parameter = self.table.key.len() + n + 1;
                let used = self.used.get() + 1;
                self.used.set(used);
                let text = format!("\u{1}syncline {used}");
                let value = placeholder(column, used, text.as_bytes());
                bind(&mut statement, parameter, value).map_err(explain)?;
            }
            statement.raw_execute().map_err(|error| {
                Failure::new(Code::ApplyBlocked, "two downloaded rows cannot be parted")
                    .table(self.table.name())
                    .source(error)
            })?;
        }
        Ok(())
    }
}

fn placeholder<'a>(column: &UniqueColumn, used: i64, text: &'a [u8]) -> ValueRef<'a> {
    if column.nullable {
        return ValueRef::Null;
    }
    match column.affinity {
        Affinity::Integer | Affinity::Numeric => {
            ValueRef::Integer(-4_000_000_000_000_000_000 - used)
        }
        // Within 53 bits, so that neighbors stay different.
        Affinity::Real => ValueRef::Real((-4_000_000_000_000_000 - used) as f64),
        Affinity::Text => ValueRef::Text(text),
        Affinity::Blob => ValueRef::Blob(text),
    }
}

impl Drop for Placeholders<'_> {
    fn drop(&mut self) {
        let _ = self.connection.pragma_update(None, "ignore_check_constraints", false);
    }
}
