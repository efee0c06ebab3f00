//! Builds a published table again with its new definition, and keeps its content.
//!
//! The content is its rows, the columns that are no longer published, and indexes and triggers that
//! others have added.

use super::transition::Change;
use crate::apply::rejects;
use crate::capture::triggers;
use crate::connection::{bind, explain, value};
use crate::schema::{Affinity, LocalTable, sequence};
use crate::sql::{ident, list, literal, parameters};
use model::{Code, Failure, PublishedTable};
use rusqlite::{Connection, ErrorCode};

/// What becomes of rows that the new table refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfitting {
    /// Nothing is changed: some of them may wait to be uploaded.
    Refuse,
    /// They are left out, because all rows are received again.
    LeaveOut,
    /// They are left out and recorded, because what was changed in them was never uploaded.
    Record,
}

/// Builds the table again. It has the columns' names of the new schema already.
pub(super) fn rebuild(
    change: &mut Change<'_>,
    published: &PublishedTable,
    unfitting: Unfitting,
) -> Result<LocalTable, Failure> {
    let name = &published.name;
    let differs = |error: rusqlite::Error| {
        let failure = explain(error);
        if ![Code::Bug, Code::RemoteTablesDamaged].contains(&failure.code()) {
            return failure;
        }
        Failure::new(Code::RemoteSchemaDiffers, format!("cannot rebuild table {name}"))
            .table(name)
            .source(failure)
    };
    build(change, published, unfitting).map_err(differs)?;
    change.created(published)
}

fn build(
    change: &mut Change<'_>,
    published: &PublishedTable,
    unfitting: Unfitting,
) -> rusqlite::Result<()> {
    let (connection, table) = (change.connection, ident(&published.name));
    triggers::drop_all(connection, &published.name)?;
    let additions = additions(connection, &published.name)?;
    let columns = columns(connection, &published.name)?;
    let last_key = sequence::read(connection, &published.name)?;
    connection.execute_batch(&format!(
        "CREATE TEMP TABLE syncline_rebuilt AS SELECT {} FROM {table};
         DROP TABLE {table};",
        list(columns.iter().map(|column| ident(&column.name))),
    ))?;
    for statement in &published.create {
        connection.execute_batch(statement)?;
    }
    let own = |column: &&Column| {
        !published.columns.iter().any(|name| name.eq_ignore_ascii_case(&column.name))
    };
    for column in columns.iter().filter(own) {
        let sql = format!("ALTER TABLE {table} ADD COLUMN {}", column.declared());
        connection.execute_batch(&sql)?;
    }
    let filled = filled(connection, published, &columns)?;
    match unfitting {
        Unfitting::Record => {
            change.rejects += take_over_or_record(change, published, &columns, &filled)?;
        }
        _ => take_over(connection, published, &columns, &filled, unfitting)?,
    }
    connection.execute_batch("DROP TABLE temp.syncline_rebuilt")?;
    if let Some(last_key) = last_key {
        sequence::go_on_from(connection, &published.name, last_key)?;
    }
    for (kind, name, sql) in additions {
        let exists: bool = connection.query_row(
            &format!(
                "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = {} AND name = ?1)",
                literal(&kind)
            ),
            [&name],
            |row| row.get(0),
        )?;
        if !exists {
            connection.execute_batch(&sql)?;
        }
    }
    Ok(())
}

/// What is new and may not be NULL has this value until it is received.
fn filled(
    connection: &Connection,
    published: &PublishedTable,
    columns: &[Column],
) -> rusqlite::Result<Vec<(String, &'static str)>> {
    let known =
        |column: &Column| columns.iter().any(|it| it.name.eq_ignore_ascii_case(&column.name));
    let now = self::columns(connection, &published.name)?;
    let new = now.into_iter().filter(|it| !known(it) && it.not_null && it.default.is_none());
    Ok(new.map(|column| (column.name.clone(), column.filler())).collect())
}

/// The columns that are written, and what is written to them.
fn into_from(columns: &[Column], filled: &[(String, &'static str)]) -> (Vec<String>, Vec<String>) {
    let mut into: Vec<String> = columns.iter().map(|column| ident(&column.name)).collect();
    let mut from = into.clone();
    into.extend(filled.iter().map(|(name, _)| ident(name)));
    from.extend(filled.iter().map(|(_, filler)| (*filler).to_owned()));
    (into, from)
}

/// Copies the rows.
fn take_over(
    connection: &Connection,
    published: &PublishedTable,
    columns: &[Column],
    filled: &[(String, &'static str)],
    unfitting: Unfitting,
) -> rusqlite::Result<()> {
    let (into, from) = into_from(columns, filled);
    let or_ignore = if unfitting == Unfitting::LeaveOut { "OR IGNORE " } else { "" };
    let copied = connection.execute_batch(&format!(
        "INSERT {or_ignore}INTO {}({}) SELECT {} FROM temp.syncline_rebuilt",
        ident(&published.name),
        list(into),
        list(from),
    ));
    match copied {
        // A STRICT table refuses even what may be ignored.
        Err(error)
            if unfitting == Unfitting::LeaveOut
                && error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// Copies the rows one by one, and records those that the table refuses. A row without a column of
/// the key could only be compared with an unrelated one.
fn take_over_or_record(
    change: &Change<'_>,
    published: &PublishedTable,
    columns: &[Column],
    filled: &[(String, &'static str)],
) -> rusqlite::Result<u64> {
    let connection = change.connection;
    let (into, from) = into_from(columns, filled);
    let held = |name: &String| columns.iter().any(|it| it.name.eq_ignore_ascii_case(name));
    let mut key = published.key.iter().filter_map(|at| published.columns.get(usize::from(*at)));
    let has_keys = key.all(held);
    let select = format!("SELECT {} FROM temp.syncline_rebuilt", list(from));
    let mut insert = connection.prepare_cached(&format!(
        "INSERT OR IGNORE INTO {}({}) VALUES ({})",
        ident(&published.name),
        list(into.clone()),
        parameters(1, into.len()),
    ))?;
    let mut statement = connection.prepare(&select)?;
    let mut rows = statement.query([])?;
    let mut recorded = 0;
    while let Some(row) = rows.next()? {
        if has_keys {
            for at in 0..into.len() {
                bind(&mut insert, at + 1, value(row, at)?)?;
            }
            match insert.raw_execute() {
                Ok(1) => continue,
                Ok(_) => {}
                // A STRICT table refuses even what may be ignored.
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                }
                Err(error) => return Err(error),
            }
        }
        let mut values = Vec::with_capacity(columns.len());
        for (at, column) in columns.iter().enumerate() {
            values.push((column.name.as_str(), value(row, at)?));
        }
        rejects::record_left_out(connection, published, &values, change.at)?;
        recorded += 1;
    }
    Ok(recorded)
}

/// Whether one of the columns could only be filled with a value that means nothing.
pub(super) fn has_fillers(
    connection: &Connection,
    table: &str,
    names: &[&str],
) -> rusqlite::Result<bool> {
    let filled = |column: &Column| {
        column.not_null
            && column.default.is_none()
            && names.iter().any(|name| name.eq_ignore_ascii_case(&column.name))
    };
    Ok(columns(connection, table)?.iter().any(filled))
}

/// Indexes and triggers on the table: type, name, SQL.
fn additions(
    connection: &Connection,
    table: &str,
) -> rusqlite::Result<Vec<(String, String, String)>> {
    connection
        .prepare(
            "SELECT type, name, sql FROM sqlite_schema WHERE tbl_name = ?1 COLLATE NOCASE
             AND type IN ('index', 'trigger') AND sql IS NOT NULL",
        )?
        .query_map([table], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect()
}

/// A column as it is declared, as far as SQLite tells.
struct Column {
    name: String,
    declared_type: String,
    not_null: bool,
    default: Option<String>,
}

impl Column {
    fn declared(&self) -> String {
        let mut sql = format!("{} {}", ident(&self.name), self.declared_type);
        // Without a default, NOT NULL would refuse every row that is received.
        if let Some(default) = &self.default {
            let not_null = if self.not_null { " NOT NULL" } else { "" };
            sql.push_str(&format!(" DEFAULT ({default}){not_null}"));
        }
        sql
    }

    fn filler(&self) -> &'static str {
        match Affinity::of(&self.declared_type, false) {
            Affinity::Text => "''",
            Affinity::Blob if self.declared_type.to_ascii_uppercase().contains("BLOB") => "x''",
            _ => "0",
        }
    }
}

/// The columns that hold values, in their order.
fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Column>> {
    connection
        .prepare(
            "SELECT name, type, \"notnull\", dflt_value FROM pragma_table_xinfo(?1, 'main')
             WHERE hidden = 0",
        )?
        .query_map([table], |row| {
            Ok(Column {
                name: row.get(0)?,
                declared_type: row.get(1)?,
                not_null: row.get(2)?,
                default: row.get(3)?,
            })
        })?
        .collect()
}
