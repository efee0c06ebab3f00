//! Rows that foreign keys and triggers changed because of the key changes of an upload.
//!
//! While key changes are applied, triggers of the connection itself record every row of a published
//! table that is updated or deleted, before and after the change. Later rows of the upload are
//! rebased onto the result. What the center's `ON UPDATE` did to a child is not a conflict with the
//! remote, whose own database did the same, or does not have the foreign key.
//!
//! The triggers fire before their event, so that a row is recorded before the further effects of
//! its change. Key changes run under `ABORT`, which also undoes the records if the change fails. A
//! row that a rule inserts in this time is recorded too, because it is not the row that the upload
//! means by this key.

use crate::quote::{ident, join};
use crate::sqlite::details::CatalogTable;
use crate::sqlite::errors::failed;
use crate::sqlite::values::{Bind, write_row};
use model::{Failure, ValueRef};
use rusqlite::{Connection, OptionalExtension};
use std::sync::Arc;

/// Most steps that one row is followed; more are a loop of triggers.
const STEPS_MAX: usize = 1000;

/// The tables that the database has, with their positions.
fn known(tables: &[Arc<CatalogTable>]) -> impl Iterator<Item = (usize, &Arc<CatalogTable>)> {
    tables.iter().enumerate().filter(|(_, table)| table.is_known())
}

/// What is noted of the tables of an upload.
pub(in crate::sqlite) struct Effects {
    noting: bool,
}

/// What became of a row.
#[derive(Debug, PartialEq)]
pub(in crate::sqlite) enum Effect {
    /// It was changed: all of its columns before the first step and after the last.
    Changed { before: Vec<u8>, after: Vec<u8> },
    /// It is gone.
    Gone,
}

fn table_name(position: usize) -> String {
    format!("syncline_effects_{position}")
}

fn trigger_names(position: usize) -> [String; 3] {
    ["insert", "update", "delete"].map(|event| format!("syncline_noted_{event}_{position}"))
}

/// The column with the value from before, or from after, of the column at `place`.
fn before(place: usize) -> String {
    format!("before_{place}")
}

fn after(place: usize) -> String {
    format!("after_{place}")
}

impl Effects {
    /// Begins to note what happens to rows of `tables`. Inside a savepoint that is undone or
    /// followed by [`Effects::forget`].
    pub(in crate::sqlite) fn begin(
        connection: &Connection,
        tables: &[Arc<CatalogTable>],
    ) -> Result<Effects, Failure> {
        for (position, table) in known(tables) {
            connection
                .execute_batch(&notes(position, table))
                .map_err(failed("note what key changes set off"))?;
        }
        let mut effects = Effects { noting: false };
        effects.resume(connection, tables)?;
        Ok(effects)
    }

    /// Notes again.
    pub(in crate::sqlite) fn resume(
        &mut self,
        connection: &Connection,
        tables: &[Arc<CatalogTable>],
    ) -> Result<(), Failure> {
        if std::mem::replace(&mut self.noting, true) {
            return Ok(());
        }
        let triggers: String =
            known(tables).map(|(position, table)| triggers(position, table)).collect();
        connection.execute_batch(&triggers).map_err(failed("note what key changes set off"))
    }

    /// Stops noting; what was noted stays.
    pub(in crate::sqlite) fn end(
        &mut self,
        connection: &Connection,
        tables: &[Arc<CatalogTable>],
    ) -> Result<(), Failure> {
        if !std::mem::take(&mut self.noting) {
            return Ok(());
        }
        let triggers = known(tables).flat_map(|(position, _)| trigger_names(position));
        let drop: String = triggers.map(|name| format!("DROP TRIGGER temp.{name};")).collect();
        connection.execute_batch(&drop).map_err(failed("note no more of what key changes set off"))
    }

    /// Leaves nothing behind.
    pub(in crate::sqlite) fn forget(
        mut self,
        connection: &Connection,
        tables: &[Arc<CatalogTable>],
    ) -> Result<(), Failure> {
        self.end(connection, tables)?;
        let names = known(tables).map(|(position, _)| table_name(position));
        let drop: String = names.map(|name| format!("DROP TABLE temp.{name};")).collect();
        connection.execute_batch(&drop).map_err(failed("forget what key changes set off"))
    }

    /// What became of the row that had `key` when the upload began; none if nothing.
    pub(in crate::sqlite) fn of(
        &self,
        connection: &Connection,
        table: &CatalogTable,
        position: usize,
        key: &[ValueRef<'_>],
    ) -> Result<Option<Effect>, Failure> {
        let following = failed("follow what key changes set off");
        let width = table.published.width();
        let names = |form: fn(usize) -> String| {
            let same = places(table).into_iter();
            let same = same.map(|(place, number)| format!("{} IS ?{number}", form(place)));
            same.collect::<Vec<_>>().join(" AND ")
        };
        let log = format!("temp.{}", table_name(position));
        let columns =
            |form: fn(usize) -> String| (0..width).map(form).collect::<Vec<_>>().join(", ");
        // A row that took this key before any row left it is another row.
        let number = key.len() + 1;
        let arrived = format!(
            "SELECT 1 FROM {log} WHERE {} AND id < ?{number} AND NOT ({})",
            names(after),
            names(before),
        );
        let step = format!(
            "SELECT id, gone, {}, {} FROM {log} WHERE {} AND id > ?{number} ORDER BY id LIMIT 1",
            columns(before),
            columns(after),
            names(before),
        );
        let mut image: Option<(Vec<u8>, Vec<u8>)> = None;
        let (mut last, mut at): (i64, Vec<u8>) = (0, Vec::new());
        key.iter().for_each(|value| model::write_value(&mut at, *value));
        for _ in 0..STEPS_MAX {
            let values = crate::upload::rebase::values(&at)?;
            let read = |row: &rusqlite::Row<'_>| {
                let mut images = Vec::new();
                write_row(&mut images, row, 2 + width * 2)?;
                Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?, images))
            };
            let found = query(connection, &step, &values, last, read).map_err(&following)?;
            if image.is_none() {
                let before = found.as_ref().map_or(i64::MAX, |(id, ..)| *id);
                let came = query(connection, &arrived, &values, before, |_| Ok(()));
                if came.map_err(&following)?.is_some() {
                    return Ok(Some(Effect::Gone));
                }
            }
            let Some((id, gone, row)) = found else { break };
            if gone {
                return Ok(Some(Effect::Gone));
            }
            let begin = row.len() - model::skip_row(&row, 2)?.len();
            let middle = row.len() - model::skip_row(&row, 2 + width)?.len();
            let becomes = row[middle..].to_vec();
            at.clear();
            for (place, _) in places(table) {
                let values = crate::upload::rebase::values(&becomes)?;
                model::write_value(&mut at, values[place]);
            }
            let was = image.take().map_or_else(|| row[begin..middle].to_vec(), |(was, _)| was);
            (image, last) = (Some((was, becomes)), id);
        }
        Ok(image.map(|(before, after)| Effect::Changed { before, after }))
    }
}

/// The columns of the key, each with the number of its parameter.
fn places(table: &CatalogTable) -> Vec<(usize, usize)> {
    let key = table.published.key.iter().enumerate();
    key.map(|(number, column)| (usize::from(*column), number + 1)).collect()
}

fn query<T>(
    connection: &Connection,
    sql: &str,
    key: &[ValueRef<'_>],
    id: i64,
    read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    for (index, value) in key.iter().enumerate() {
        statement.raw_bind_parameter(index + 1, Bind(*value))?;
    }
    statement.raw_bind_parameter(key.len() + 1, id)?;
    let mut rows = statement.raw_query();
    let found = rows.next()?;
    found.map(read).transpose().optional().map(Option::flatten)
}

/// The statements that make the notes of one table.
fn notes(position: usize, table: &CatalogTable) -> String {
    let (name, width) = (table_name(position), table.published.width());
    let columns = |form: fn(usize) -> String| (0..width).map(form).collect::<Vec<_>>().join(", ");
    let key = |form: fn(usize) -> String| {
        let columns = places(table).into_iter().map(|(place, _)| form(place));
        columns.collect::<Vec<_>>().join(", ")
    };
    format!(
        "CREATE TEMP TABLE {name} (id INTEGER PRIMARY KEY, gone INTEGER, {}, {});
         CREATE INDEX temp.{name}_before ON {name} ({});
         CREATE INDEX temp.{name}_after ON {name} ({});",
        columns(before),
        columns(after),
        key(before),
        key(after),
    )
}

/// The statements that make its triggers.
fn triggers(position: usize, table: &CatalogTable) -> String {
    let published = &table.published;
    let (name, width) = (table_name(position), published.width());
    let columns = |form: fn(usize) -> String| (0..width).map(form).collect::<Vec<_>>().join(", ");
    let values = |row: &str| join(&published.columns, ", ", |c| format!("{row}.{}", ident(c)));
    let [on_insert, on_update, on_delete] = trigger_names(position);
    let target = ident(&published.name);
    let (was, becomes) = (columns(before), columns(after));
    format!(
        "CREATE TEMP TRIGGER {on_insert} AFTER INSERT ON main.{target} BEGIN
             INSERT INTO {name} (gone, {becomes}) VALUES (0, {});
         END;
         CREATE TEMP TRIGGER {on_update} BEFORE UPDATE ON main.{target} BEGIN
             INSERT INTO {name} (gone, {was}, {becomes}) VALUES (0, {}, {});
         END;
         CREATE TEMP TRIGGER {on_delete} BEFORE DELETE ON main.{target} BEGIN
             INSERT INTO {name} (gone, {was}) VALUES (1, {});
         END;",
        values("NEW"),
        values("OLD"),
        values("NEW"),
        values("OLD"),
    )
}
