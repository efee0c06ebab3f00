//! The application's own triggers fire for downloaded rows where the model lets them.
//!
//! Triggers of the file are off while a download is applied; temporary ones are not. So while one
//! is applied there are temporary copies of the triggers of the file, which end with it:
//!
//! - Those of the application on tables whose model says `remote_triggers = "fire"`. A number in a
//!   temporary table says how many of them run, one within another.
//! - All others fire only while that number is not zero: those of the application on other tables,
//!   as for any statement, and those that capture. So what triggers write is captured, and what
//!   the engine writes is not.
//!
//! The number is part of the transaction. A statement that fails takes back what it has added.
//!
//! Rows are written as the INSERT or UPDATE that they are (`fired/row.rs`). What triggers have
//! entered among the pending changes in the same transaction is none that the download has to
//! spare: `is_older` tells the older ones.

mod reached;
pub(super) mod row;
pub(crate) mod silent;
mod spelling;
pub(super) mod stored;
#[cfg(test)]
mod tests;

use crate::capture::change_log;
use crate::connection::{explain, triggers_off};
use crate::schema::RemoteTable;
use crate::sql::ident;
use model::Failure;
use reached::Reached;
use rusqlite::{Connection, Error, OptionalExtension, ffi};
use silent::SilentTrigger;
use spelling::{Additions, Parts};
use stored::{Stored, has_triggers, stored};

/// How many triggers of the application run, and the table whose changes are not captured.
const DEPTH: &str = "syncline_fired";

/// Whether any of them runs.
const RUNS: &str = "(SELECT depth FROM temp.syncline_fired) > 0";

/// Whether none does.
pub(super) const NONE_RUNS: &str = "(SELECT depth FROM temp.syncline_fired) = 0";

/// The temporary triggers of one application of a download.
#[derive(Debug)]
pub(crate) struct Fired {
    /// Positions of the tables whose triggers fire.
    tables: Vec<u16>,
    /// What they may write to.
    reached: Reached,
    /// Positions of the tables that had pending changes before.
    pending: Vec<u16>,
    copies: Vec<String>,
    /// Those that are not copied as the model wants it.
    silent: Vec<SilentTrigger>,
}

impl Fired {
    /// Within a transaction: from now on the triggers fire. None if there are none that do.
    pub(crate) fn begin(
        connection: &Connection,
        tables: &[RemoteTable],
        open_generation: i64,
    ) -> Result<Option<Fired>, Failure> {
        let mut firing = Vec::new();
        for table in tables {
            if has_triggers(connection, table).map_err(explain)? {
                firing.push(table.position);
            }
        }
        if firing.is_empty() {
            return Ok(None);
        }
        triggers_off(connection)?;
        let stored = stored(connection, tables).map_err(explain)?;
        let fires = |it: &Stored| !it.is_ours && it.at.is_some_and(|at| firing.contains(&at));
        let reached = Reached::from(connection, &stored, &fires)?;
        let sql = format!(
            "CREATE TEMP TABLE {DEPTH} (depth INTEGER NOT NULL, muted INTEGER);
             INSERT INTO {DEPTH} VALUES (0, NULL)"
        );
        connection.execute_batch(&sql).map_err(explain)?;
        let (pending, copies, silent) = (Vec::new(), Vec::new(), Vec::new());
        let mut fired = Fired { tables: Vec::new(), reached, pending, copies, silent };
        for stored in &stored {
            let fires = fires(stored);
            if fires || fired.reached.has(&stored.table) {
                fired.copy(connection, stored, fires)?;
            }
        }
        fired.tables = firing;
        fired.note_pending(connection, tables, open_generation).map_err(explain)?;
        Ok(Some(fired))
    }

    /// Behind the transaction: they are gone. Yields those that could not be copied.
    pub(crate) fn end(self, connection: &Connection) -> Result<Vec<SilentTrigger>, Failure> {
        let triggers =
            self.copies.iter().map(|name| format!("DROP TRIGGER IF EXISTS temp.{name};"));
        let noted = self.pending.iter().map(|table| format!("DROP TABLE {};", older_sql(*table)));
        let sql: String = triggers.chain(noted).collect();
        connection.execute_batch(&format!("{sql}DROP TABLE temp.{DEPTH}")).map_err(explain)?;
        Ok(self.silent)
    }

    /// Whether triggers fire for the table.
    pub(super) fn fires(&self, table: &RemoteTable) -> bool {
        self.tables.contains(&table.position)
    }

    /// Whether triggers may write to the table.
    pub(super) fn reaches(&self, table: &RemoteTable) -> bool {
        self.reached.has(table.name())
    }

    /// Whether changes were pending before.
    pub(super) fn any_older(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The condition for entries `c` of the table that were there before; none if there were none.
    pub(super) fn is_older(&self, table: &RemoteTable) -> Option<String> {
        self.pending.contains(&table.position).then(|| {
            format!(
                "EXISTS (SELECT 1 FROM {} AS o WHERE {})",
                older_sql(table.position),
                table.same_our_key("o.", "c.")
            )
        })
    }

    /// Copies a trigger, if it can be.
    fn copy(
        &mut self,
        connection: &Connection,
        stored: &Stored,
        wanted: bool,
    ) -> Result<(), Failure> {
        let Some(parts) = Parts::read(&stored.sql) else {
            self.tell(stored, "its text was not understood");
            return Ok(());
        };
        if !stored.is_ours && parts.fails_partly() {
            self.tell(stored, "it uses FAIL or ROLLBACK");
            return Ok(());
        }
        if wanted && parts.raises() {
            self.tell(stored, "it uses RAISE");
        }
        // What is refused here may still refuse what other triggers write.
        let fires = wanted && !parts.raises();
        let not_muted = format!("{RUNS} AND (SELECT muted FROM temp.{DEPTH}) IS NOT ");
        let condition = match stored.at.filter(|_| stored.is_ours) {
            Some(at) => format!("{not_muted}{at}"),
            None => RUNS.to_owned(),
        };
        let (first, last) = (
            format!("UPDATE {DEPTH} SET depth = depth + 1;"),
            format!("UPDATE {DEPTH} SET depth = depth - 1;"),
        );
        let added = match fires {
            true => Additions { condition: "", first: &first, last: &last },
            false => Additions { condition: &condition, first: "", last: "" },
        };
        let name = format!("{DEPTH}_{}", self.copies.len());
        let sql = parts.copied(&name, &stored.table, &added);
        match accepted(connection, &name, &sql, (&parts, &stored.table)) {
            Ok(()) => self.copies.push(name),
            // Without it changes would be lost.
            Err(error) if stored.is_ours => return Err(explain(error)),
            Err(error) => self.tell(stored, &not_accepted(error)?),
        }
        Ok(())
    }

    fn tell(&mut self, Stored { table, name, .. }: &Stored, why: &str) {
        let (table, trigger) = (table.clone(), name.clone());
        self.silent.push(SilentTrigger { table, trigger, why: Some(why.to_owned()) });
    }

    /// Notes the keys of pending changes, to which triggers may add some.
    fn note_pending(
        &mut self,
        connection: &Connection,
        tables: &[RemoteTable],
        generation: i64,
    ) -> rusqlite::Result<()> {
        for table in tables {
            if !change_log::has_entries(connection, table, generation)? {
                continue;
            }
            let older = older_sql(table.position);
            connection.execute_batch(&format!(
                "CREATE TABLE {older} ({}, PRIMARY KEY ({keys})) WITHOUT ROWID;
                 INSERT INTO {older} SELECT {keys} FROM {} WHERE \"generation\" = {generation}",
                table.our_keys_declared(),
                table.change_sql(),
                keys = table.our_keys_sql(""),
            ))?;
            self.pending.push(table.position);
        }
        Ok(())
    }
}

/// Runs a statement that may fire triggers. After one that has failed none of them runs.
pub(super) fn attempt<T>(
    connection: &Connection,
    statement: impl FnOnce() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    statement().or_else(|error| {
        if connection.is_autocommit() {
            let message = "a constraint of the file has rolled the download back";
            let code = ffi::Error::new(ffi::SQLITE_ABORT_ROLLBACK);
            return Err(Error::SqliteFailure(code, Some(format!("{message}: {error}"))));
        }
        connection.execute(&format!("UPDATE temp.{DEPTH} SET depth = 0"), [])?;
        Err(error)
    })
}

/// Writes values to rows of the table that are no values of theirs: as long as `write` runs,
/// nothing is captured of it.
pub(super) fn muted(
    connection: &Connection,
    table: &RemoteTable,
    write: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mute = format!("UPDATE temp.{DEPTH} SET muted = ?1");
    connection.execute(&mute, [Some(table.position)]).map_err(explain)?;
    write()?;
    connection.execute(&mute, [None::<u16>]).map_err(explain).map(drop)
}

/// A column that a statement can set, as SQL.
fn a_column(connection: &Connection, table: &str) -> rusqlite::Result<String> {
    let sql = "SELECT name FROM pragma_table_xinfo(?1, 'main') WHERE hidden = 0 LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let name: Option<String> = statement.query_row([table], |row| row.get(0)).optional()?;
    Ok(ident(name.as_deref().unwrap_or("rowid")))
}

/// Creates a temporary trigger. What it names is looked at only for a statement that would fire it.
/// Every such statement would fail then.
fn accepted(
    connection: &Connection,
    name: &str,
    create: &str,
    (parts, table): (&Parts<'_>, &str),
) -> rusqlite::Result<()> {
    connection.execute_batch(create)?;
    let column = a_column(connection, table);
    let fired_by = column.map(|column| parts.fired_by(table, &column));
    fired_by.and_then(|sql| connection.prepare(&sql).map(drop)).or_else(|error| {
        connection.execute_batch(&format!("DROP TRIGGER temp.{name}"))?;
        Err(error)
    })
}

/// What SQLite says against a trigger.
fn not_accepted(error: Error) -> Result<String, Failure> {
    match error {
        Error::SqlInputError { error, msg, .. } if error.extended_code == ffi::SQLITE_ERROR => {
            Ok(msg)
        }
        Error::SqliteFailure(error, Some(message)) if error.extended_code == ffi::SQLITE_ERROR => {
            Ok(message)
        }
        error => Err(explain(error)),
    }
}

fn older_sql(position: u16) -> String {
    format!("temp.syncline_older_{position}")
}
