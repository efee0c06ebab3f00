//! Broken foreign keys that SQLite does not count.
//!
//! While foreign keys are deferred, SQLite only counts the broken ones, and the commit checks that
//! the count is zero. A row that was broken before the transaction is not in the count, but
//! repairing it subtracts one if the count is above zero. Applications may break rows, because
//! foreign keys of SQLite are off by default. So a new orphan and a repaired row together allow the
//! commit, and the orphan would stay in its table forever (S3, S4, trap 26).
//!
//! So each row that a download wrote is checked once more: whether its parent exists, and whether
//! any rows refer to deleted rows. This costs a look-up for each row in tables with foreign keys,
//! and nothing in other tables.

use super::circumstances::Circumstances;
use super::download::Download;
use crate::connection::{bind, explain};
use crate::schema::reference::Reference;
use crate::schema::{RemoteTable, reference};
use crate::sql::{all, ident};
use model::{Failure, RowReader, Spill, ValueRef};
use protocol::{DownloadMode, Operation, RowsFrame};
use rusqlite::{CachedStatement, Connection};

/// Whether a row of this download, or one that refers to a row that it took away, may refer to
/// nothing.
pub(super) fn any(
    connection: &Connection,
    download: &Download,
    circumstances: &Circumstances<'_>,
) -> Result<bool, Failure> {
    let tables = circumstances.tables;
    let touched: Vec<Touched> = tables.iter().map(|table| Touched::of(download, table)).collect();
    if !touched.iter().any(|touched| touched.is_any()) {
        return Ok(false);
    }
    let references = references(connection, tables, &touched)?;
    let look = Look { connection, tables, touched, references };
    if look.whole_tables()? {
        return Ok(true);
    }
    let frames = std::iter::once(&download.upserts).chain(&download.deletes);
    for frames in frames {
        if look.each_row(frames)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a download does to a table in foreign keys.
#[derive(Debug, Clone, Copy, Default)]
struct Touched {
    /// The whole table is sent: rows are deleted that the download does not name.
    refreshed: bool,
    /// Rows come, or get other values.
    written: bool,
    /// Keys go, with their rows or without.
    vacated: bool,
    /// Others may refer to something else than its key.
    has_unique: bool,
}

impl Touched {
    fn of(download: &Download, table: &RemoteTable) -> Touched {
        let at = usize::from(table.position);
        if !table.in_foreign_keys {
            return Touched::default();
        }
        Touched {
            refreshed: download.mode(table) == DownloadMode::Refresh,
            written: download.came[at].rows,
            vacated: !download.deletes[at].is_empty(),
            has_unique: !table.unique.is_empty(),
        }
    }

    fn is_any(self) -> bool {
        self.refreshed || self.written || self.vacated
    }

    /// What others refer to in it may be gone.
    fn may_lack(self) -> bool {
        self.refreshed || self.vacated || (self.written && self.has_unique)
    }
}

/// The foreign keys of the tables that rows came for, and those that refer to what may be gone.
fn references(
    connection: &Connection,
    tables: &[RemoteTable],
    touched: &[Touched],
) -> Result<Vec<Reference>, Failure> {
    if touched.iter().any(|touched| touched.may_lack()) {
        return reference::references(connection, tables).map_err(explain);
    }
    let mut found = Vec::new();
    for (at, touched) in touched.iter().enumerate() {
        if touched.is_any() {
            found.extend(reference::references_from(connection, tables, at).map_err(explain)?);
        }
    }
    Ok(found)
}

struct Look<'a> {
    connection: &'a Connection,
    tables: &'a [RemoteTable],
    touched: Vec<Touched>,
    references: Vec<Reference>,
}

impl Look<'_> {
    /// Checks all rows of a foreign key if they cannot be named one by one: if the whole table was
    /// sent, or if children do not refer to the primary key.
    fn whole_tables(&self) -> Result<bool, Failure> {
        for reference in &self.references {
            let parent = reference.parent_at.map(|at| (&self.tables[at], self.touched[at]));
            let whole = self.touched[reference.child].refreshed
                || parent.is_some_and(|(table, touched)| {
                    let unnamed = touched.is_any() && reference.by_key(table).is_none();
                    touched.refreshed || unnamed
                });
            let sql = format!(
                "SELECT EXISTS (SELECT 1 FROM {} AS c WHERE {})",
                self.tables[reference.child].table_sql(),
                reference.is_broken()
            );
            if whole && self.connection.query_row(&sql, [], |row| row.get(0)).map_err(explain)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The statement that checks one downloaded row by its key.
    fn child_sql(&self, table: &RemoteTable) -> Option<String> {
        let at = usize::from(table.position);
        let references = self.references.iter().filter(|reference| reference.child == at);
        let broken: Vec<String> =
            references.map(|reference| format!("({})", reference.is_broken())).collect();
        (!broken.is_empty()).then(|| {
            format!(
                "SELECT 1 FROM {} AS c WHERE {} AND ({})",
                table.table_sql(),
                table.key_is_parameter("c.", 1),
                broken.join(" OR ")
            )
        })
    }

    /// The statement that looks for rows that refer to a key that is gone.
    fn parent_sql(&self, table: &RemoteTable) -> Option<String> {
        let at = usize::from(table.position);
        let references = self.references.iter().filter(|reference| reference.parent_at == Some(at));
        let referring: Vec<String> = references
            .filter_map(|reference| {
                let child = self.tables[reference.child].table_sql();
                let refers = all(reference.by_key(table)?.into_iter().map(|(from, n)| {
                    format!("c.{} = ?{}{}", ident(from), n + 1, table.key[n].collate())
                }));
                Some(format!("EXISTS (SELECT 1 FROM {child} AS c WHERE {refers})"))
            })
            .collect();
        (!referring.is_empty()).then(|| {
            format!(
                "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM {} AS p WHERE {}) AND ({})",
                table.table_sql(),
                table.key_is_parameter("p.", 1),
                referring.join(" OR ")
            )
        })
    }

    /// Looks at the rows of all frames.
    fn each_row(&self, frames: &Spill) -> Result<bool, Failure> {
        let mut reader = frames.reader();
        while let Some(payload) = reader.next_chunk()? {
            let (table, operation, count) = RowsFrame::split(&payload)?;
            let at = usize::from(table);
            let Some((table, touched)) = self.tables.get(at).zip(self.touched.get(at)) else {
                continue;
            };
            // All rows of a table that was sent as a whole are checked already.
            if touched.is_any()
                && !touched.refreshed
                && self.frame(table, operation, &payload[RowsFrame::PREFIX_BYTES..], count)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn frame(
        &self,
        table: &RemoteTable,
        operation: Operation,
        rows: &[u8],
        count: u32,
    ) -> Result<bool, Failure> {
        let has_row = operation != Operation::Delete;
        let has_old_key = operation != Operation::Upsert;
        let prepare = |wanted: bool, sql: Option<String>| {
            let sql = sql.filter(|_| wanted);
            sql.map(|sql| self.connection.prepare_cached(&sql).map_err(explain)).transpose()
        };
        let mut child = prepare(has_row, self.child_sql(table))?;
        let mut parent = prepare(has_old_key, self.parent_sql(table))?;
        if child.is_none() && parent.is_none() {
            return Ok(false);
        }
        let mut reader = RowReader::new(rows);
        let (mut key, mut row) = (Vec::new(), Vec::new());
        for _ in 0..count {
            if has_old_key {
                protocol::read_values(&mut reader, table.key.len(), &mut key)?;
                if is_found(&mut parent, &key)? {
                    return Ok(true);
                }
            }
            if has_row {
                protocol::read_values(&mut reader, table.width(), &mut row)?;
                key.clear();
                key.extend(table.key.iter().map(|key| row[key.position]));
                if is_found(&mut child, &key)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

fn is_found(
    statement: &mut Option<CachedStatement<'_>>,
    key: &[ValueRef<'_>],
) -> Result<bool, Failure> {
    let Some(statement) = statement else { return Ok(false) };
    for (n, value) in key.iter().enumerate() {
        bind(statement, n + 1, *value).map_err(explain)?;
    }
    Ok(statement.raw_query().next().map_err(explain)?.is_some())
}

#[cfg(test)]
mod tests;
