//! A range of one of Syncline's tables, copied into a table of the connection's own with an index.

use crate::quote::{ident, idents};
use crate::sqlite::errors::failed;
use model::Failure;
use rusqlite::{Connection, OptionalExtension};

/// From so many rows on, to copy takes less than to read the range for each.
pub(super) const ROWS_COPIED: u64 = 32;

/// A copy, inside a savepoint that is undone or followed by [`Copied::forget`].
pub(super) struct Copied {
    /// Its name, without the schema.
    copy: String,
}

impl Copied {
    /// Copies the entries of `table` behind `since` and up to `until`. The copy has the same
    /// columns, which compare values in the same way, and an index on some. None if the table is
    /// not as Syncline made it.
    pub(super) fn of(
        connection: &Connection,
        (table, copy): (&str, String),
        (since, until): (i64, i64),
        index: &[String],
    ) -> Result<Option<Copied>, Failure> {
        let copying = failed("copy entries of a log");
        let created: Option<String> = connection
            .prepare_cached("SELECT sql FROM main.sqlite_schema WHERE type = 'table' AND name = ?1")
            .and_then(|mut statement| statement.query_row([table], |row| row.get(0)).optional())
            .map_err(&copying)?;
        let source = ident(table);
        let created = created.unwrap_or_default();
        let Some(columns) = created.strip_prefix(&format!("CREATE TABLE {source} ")) else {
            return Ok(None);
        };
        connection
            .execute_batch(&format!(
                "CREATE TEMP TABLE {copy} {columns};
                 INSERT INTO temp.{copy} SELECT * FROM main.{source}
                 WHERE sequence > {since} AND sequence <= {until};
                 CREATE INDEX temp.{copy}_is ON {copy} ({});",
                idents("", index),
            ))
            .map_err(&copying)?;
        Ok(Some(Copied { copy }))
    }

    /// Where the entries are, in SQL.
    pub(super) fn source(&self) -> String {
        format!("temp.{}", self.copy)
    }

    /// Leaves nothing behind.
    pub(super) fn forget(&self, connection: &Connection) -> Result<(), Failure> {
        connection
            .execute_batch(&format!("DROP TABLE {}", self.source()))
            .map_err(failed("forget copied entries of a log"))
    }
}
