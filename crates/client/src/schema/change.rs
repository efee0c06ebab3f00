//! Fits the remote to the tables that the server publishes now, in one transaction.
//!
//! What the user has is never destroyed: a table that we did not create is used as it is or the
//! change is refused; a table that is published no more keeps its rows; rows that lie in a table
//! when it is first published are changes to upload. Changes that can be uploaded no more, because
//! their table is not published upwards any longer, are recorded in the reject table.

use super::{
    LocalTable, RemoteTable, StoredTable, drop_table_objects, large_columns, stored_tables,
};
use crate::apply::rejects;
use crate::capture::{change_log, triggers};
use crate::connection::{begin_immediate, explain, triggers_off};
use crate::progress::{self, State};
use crate::sql::{ident, list, literal};
use model::{Code, Failure, PublishedTable, RemoteSchema};
use rusqlite::Connection;

/// Makes the remote hold `schema`. No generation is frozen, or one that is sent again under the
/// new schema.
pub(crate) fn apply(
    connection: &Connection,
    schema: &RemoteSchema,
    at: &str,
) -> Result<(), Failure> {
    // Building a table anew drops the old one, which must not count as deleting its rows.
    connection.pragma_update(None, "foreign_keys", false).map_err(explain)?;
    let changed = change(connection, schema, at);
    connection.pragma_update(None, "foreign_keys", true).map_err(explain)?;
    changed
}

fn change(connection: &Connection, schema: &RemoteSchema, at: &str) -> Result<(), Failure> {
    triggers_off(connection)?;
    let transaction = begin_immediate(connection)?;
    let state = State::read(connection)?;
    let stored = stored_tables(connection)?;
    let change = Change { connection, state: &state, at };
    for old in &stored {
        if !schema.tables.iter().any(|table| same_name(table, &old.published)) {
            change.withdraw(old, Code::TableNotPublished)?;
        }
    }
    let mut tables = Vec::new();
    for published in &schema.tables {
        let old = stored.iter().find(|old| same_name(published, &old.published));
        tables.push(change.publish(published, old)?);
    }
    store(connection, &tables).map_err(explain)?;
    progress::set(connection, "schema_fingerprint", &schema.fingerprint).map_err(explain)?;
    transaction.commit().map_err(explain)
}

fn same_name(a: &PublishedTable, b: &PublishedTable) -> bool {
    a.name.eq_ignore_ascii_case(&b.name)
}

fn store(connection: &Connection, tables: &[StoredTable]) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM syncline_table", [])?;
    let json_failed =
        |error: serde_json::Error| rusqlite::Error::ToSqlConversionFailure(error.into());
    for (position, table) in tables.iter().enumerate() {
        let published = serde_json::to_string(&table.published).map_err(json_failed)?;
        let large = serde_json::to_string(&table.large).map_err(json_failed)?;
        connection.execute(
            "INSERT INTO syncline_table VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            rusqlite::params![
                position as i64,
                table.published.name,
                published,
                table.watermark.as_ref().map(model::Watermark::as_bytes),
                table.created,
                large,
            ],
        )?;
    }
    Ok(())
}

struct Change<'a> {
    connection: &'a Connection,
    state: &'a State,
    at: &'a str,
}

impl Change<'_> {
    /// Takes our objects from a table that is published no more, or not upwards.
    fn withdraw(&self, old: &StoredTable, code: Code) -> Result<(), Failure> {
        let name = &old.published.name;
        // A table that the user dropped, or changed beyond recognition, has no changes to save.
        let local = LocalTable::read(self.connection, name).map_err(explain)?;
        let table = local.and_then(|local| RemoteTable::new(0, old.clone(), &local).ok());
        if let Some(table) = table.filter(RemoteTable::uploads) {
            let frozen = self.state.frozen.map(|frozen| frozen.generation);
            for generation in frozen.into_iter().chain([self.state.open_generation]) {
                rejects::record_stranded_changes(
                    self.connection,
                    &table,
                    generation,
                    code,
                    self.at,
                )?;
            }
        }
        drop_table_objects(self.connection, name).map_err(explain)
    }

    /// Makes one table what is published.
    fn publish(
        &self,
        published: &PublishedTable,
        old: Option<&StoredTable>,
    ) -> Result<StoredTable, Failure> {
        let name = &published.name;
        if let Some(old) = old.filter(|old| old.created) {
            self.follow_indexes(published, &old.published).map_err(explain)?;
        }
        let local = LocalTable::read(self.connection, name).map_err(explain)?;
        let (local, created) = match local {
            Some(local) if lacks_columns(published, &local) => {
                (self.build_anew(published, old, &local)?, true)
            }
            Some(local) => (local, old.is_some_and(|old| old.created)),
            None => {
                // Where the user dropped the table, what was captured of it means nothing now.
                drop_table_objects(self.connection, name).map_err(explain)?;
                self.create(published)?;
                (self.created(published)?, true)
            }
        };
        let same = |old: &&StoredTable| old.published.fingerprint == published.fingerprint;
        let mut stored = StoredTable {
            published: published.clone(),
            watermark: old.filter(same).and_then(|old| old.watermark.clone()),
            created,
            large: large_columns(published, &local),
        };
        let captured = old.filter(|old| is_captured(self.connection, &old.published));
        match captured {
            Some(old) if !published.direction.uploads() => {
                self.withdraw(old, Code::DirectionNotPublished)?;
            }
            Some(old) if key_names(&old.published) != key_names(published) => {
                self.withdraw(old, Code::RemoteSchemaDiffers)?;
            }
            Some(old) if old.published.columns == published.columns => {
                // The change table was made for these, whatever the columns are declared now.
                stored.large.clone_from(&old.large);
            }
            Some(old) => {
                let table = RemoteTable::new(0, stored.clone(), &local)?;
                self.carry_over_changes(&table, old).map_err(explain)?;
            }
            None => {}
        }
        let table = RemoteTable::new(0, stored.clone(), &local)?;
        self.capture(&table, old.is_some() || created)?;
        Ok(stored)
    }

    /// Drops the indexes of ours that the consolidated database has dropped, because a UNIQUE one
    /// would refuse what is allowed now, and adds new ones. One that does not fit is left out:
    /// rows that arrive only later may make it fit, and the consolidated database has it anyway.
    fn follow_indexes(
        &self,
        published: &PublishedTable,
        old: &PublishedTable,
    ) -> rusqlite::Result<()> {
        let find = "SELECT name FROM sqlite_schema
                    WHERE type = 'index' AND tbl_name = ?1 COLLATE NOCASE AND sql = ?2";
        for statement in old.create.iter().filter(|it| !published.create.contains(it)) {
            let mut statements = self.connection.prepare_cached(find)?;
            let names = statements.query_map([&old.name, statement], |row| row.get(0))?;
            for name in names.collect::<rusqlite::Result<Vec<String>>>()? {
                self.connection.execute_batch(&format!("DROP INDEX {}", ident(&name)))?;
            }
        }
        let new = published.create.iter().skip(1).filter(|it| !old.create.contains(it));
        for statement in new {
            let _ = self.connection.execute_batch(statement);
        }
        Ok(())
    }

    fn create(&self, published: &PublishedTable) -> Result<(), Failure> {
        for statement in &published.create {
            self.connection.execute_batch(statement).map_err(|error| {
                let message = format!("cannot create table {}", published.name);
                Failure::new(Code::RemoteSchemaDiffers, message)
                    .table(&published.name)
                    .source(error)
            })?;
        }
        Ok(())
    }

    fn created(&self, published: &PublishedTable) -> Result<LocalTable, Failure> {
        LocalTable::read(self.connection, &published.name).map_err(explain)?.ok_or_else(|| {
            let message = format!("the published SQL does not create table {}", published.name);
            Failure::new(Code::RemoteSchemaDiffers, message).table(&published.name)
        })
    }

    /// Builds a table of ours again, with the columns it lacks, and takes its rows over. Indexes
    /// and triggers that others added come along.
    fn build_anew(
        &self,
        published: &PublishedTable,
        old: Option<&StoredTable>,
        local: &LocalTable,
    ) -> Result<LocalTable, Failure> {
        let name = &published.name;
        let differs = |message: String| {
            Failure::new(Code::RemoteSchemaDiffers, message)
                .table(name)
                .hint("add the columns, or rename the table and synchronize again")
        };
        let Some(old) = old.filter(|old| old.created) else {
            return Err(differs(format!("table {name} lacks published columns")));
        };
        let known = |column: &str| {
            let has = |table: &PublishedTable| {
                table.columns.iter().any(|name| name.eq_ignore_ascii_case(column))
            };
            has(published) || has(&old.published)
        };
        let foreign = local.columns.iter().find(|column| !column.generated && !known(&column.name));
        if let Some(column) = foreign {
            return Err(differs(format!(
                "table {name} lacks published columns and has a column {} of its own",
                column.name
            )));
        }
        let kept: Vec<String> = published
            .columns
            .iter()
            .filter(|name| local.column(name).is_some_and(|column| !column.generated))
            .map(|name| ident(name))
            .collect();
        self.rebuild(published, &list(kept))
            .map_err(|error| differs(format!("cannot build table {name} anew")).source(error))?;
        self.created(published)
    }

    fn rebuild(&self, published: &PublishedTable, kept: &str) -> rusqlite::Result<()> {
        let connection = self.connection;
        let table = ident(&published.name);
        triggers::drop_all(connection, &published.name)?;
        let additions: Vec<(String, String, String)> = connection
            .prepare(
                "SELECT type, name, sql FROM sqlite_schema WHERE tbl_name = ?1 COLLATE NOCASE
                 AND type IN ('index', 'trigger') AND sql IS NOT NULL",
            )?
            .query_map([&published.name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect::<rusqlite::Result<_>>()?;
        connection.execute_batch(&format!(
            "CREATE TEMP TABLE syncline_rebuilt AS SELECT {kept} FROM {table};
             DROP TABLE {table};"
        ))?;
        for statement in &published.create {
            connection.execute_batch(statement)?;
        }
        connection.execute_batch(&format!(
            "INSERT INTO {table}({kept}) SELECT {kept} FROM temp.syncline_rebuilt;
             DROP TABLE temp.syncline_rebuilt;"
        ))?;
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

    /// Begins, or goes on, to capture the table. Rows in a table that is new to us are changes.
    fn capture(&self, table: &RemoteTable, known: bool) -> Result<(), Failure> {
        let (connection, name) = (self.connection, table.name());
        if table.uploads() {
            change_log::create(connection, table).map_err(explain)?;
            if !known {
                let generation = self.state.open_generation;
                change_log::record_all_rows(connection, table, generation).map_err(explain)?;
            }
        } else if !known {
            let sql = format!("SELECT EXISTS (SELECT 1 FROM {})", table.table_sql());
            if connection.query_row(&sql, [], |row| row.get(0)).map_err(explain)? {
                let message =
                    format!("table {name} has rows of its own, and is published for download only");
                return Err(Failure::new(Code::RemoteSchemaDiffers, message).table(name));
            }
        }
        triggers::ensure(connection, table).map_err(explain)
    }

    /// Gives the change table the new columns and keeps what it holds. A column that was not
    /// published before has not been captured; as far as anybody can tell it did not change.
    fn carry_over_changes(&self, table: &RemoteTable, old: &StoredTable) -> rusqlite::Result<()> {
        let connection = self.connection;
        let (change, live) = (table.change_sql(), table.table_sql());
        let stale = ident(&format!("syncline_stale_{}", table.name()));
        triggers::drop_all(connection, table.name())?;
        connection.execute_batch(&format!(
            "ALTER TABLE {change} RENAME TO {stale}; DROP TABLE {};",
            table.incoming_sql()
        ))?;
        change_log::create(connection, table)?;
        let (mut into, mut from) = (Vec::new(), Vec::new());
        for name in &table.published.columns {
            let image = super::Image::Old.column(name);
            let unchanged = format!(
                "(SELECT t.{} FROM {live} AS t WHERE {})",
                ident(name),
                table.same_key("t.", "s.")
            );
            let captured_bit = old.large.iter().position(|large| large == name);
            from.push(match captured_bit {
                _ if !old.published.columns.contains(name) => unchanged,
                None => format!("s.{image}"),
                Some(bit) => format!(
                    "CASE WHEN s.\"captured\" & {} THEN s.{image} ELSE {unchanged} END",
                    1u64 << bit
                ),
            });
            into.push(image);
        }
        if table.large_bits() != 0 {
            into.push("\"captured\"".into());
            from.push(table.large_bits().to_string());
        }
        connection.execute_batch(&format!(
            "INSERT INTO {change}(\"generation\", {}, \"existed\", {}) \
             SELECT s.\"generation\", {}, s.\"existed\", {} FROM {stale} AS s;
             DROP TABLE {stale};",
            table.our_keys_sql(""),
            list(into),
            table.our_keys_sql("s."),
            list(from),
        ))
    }
}

fn key_names(table: &PublishedTable) -> Vec<String> {
    let name = |&at: &u16| table.columns.get(usize::from(at)).map(|name| name.to_lowercase());
    table.key.iter().filter_map(name).collect()
}

/// The table has a change table: it was published upwards, and was not dropped meanwhile.
fn is_captured(connection: &Connection, table: &PublishedTable) -> bool {
    let change = format!("syncline_change_{}", table.name);
    table.direction.uploads()
        && connection.table_exists(Some("main"), change.as_str()).unwrap_or(false)
}

fn lacks_columns(published: &PublishedTable, local: &LocalTable) -> bool {
    published.columns.iter().any(|name| local.column(name).is_none())
}

#[cfg(test)]
mod tests;
