//! Pending changes are carried over to new tables by the names of their columns.
//!
//! This is done after a reset, when the server does not know what the remote holds. It cannot say
//! what was renamed, so what such a change loses is recorded in the reject table, with the whole
//! row. It is also done if the tables change once more before a download has completed the changes.

use super::captured::{is_captured, readable};
use super::rebuild;
use super::succession::{Heir, Held};
use super::transition::Change;
use super::waiting::{Names, Waiting};
use crate::apply::rejects;
use crate::capture::change_log::{self, Change as RowChange, Entry, Reading};
use crate::capture::triggers;
use crate::connection::explain;
use crate::schema::stored_table::StoredTable;
use crate::schema::{Image, RemoteTable};
use crate::sql::{ident, list};
use model::{Code, Failure, PublishedTable, Value, ValueRef};
use rusqlite::Connection;

/// What becomes of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is uploaded.
    Carried,
    /// It is uploaded without the columns that are gone, and reported.
    CarriedInPart,
    /// It is not uploaded, but reported.
    Told(Code),
}

/// Changes of the held table are kept for the new one.
pub(super) fn carries(
    connection: &Connection,
    heir: &Heir<'_>,
    held: &Held<'_>,
    waiting: Waiting,
) -> bool {
    matches!(waiting, Waiting::CarriedOver(_))
        && is_captured(connection, held.stored)
        && obstacle(heir, held).is_none()
}

/// Why no change of the held table can be one of the new table.
fn obstacle(heir: &Heir<'_>, held: &Held<'_>) -> Option<Code> {
    let (old, new) = (&held.stored.published, heir.published);
    if !new.direction.uploads() {
        return Some(Code::DirectionNotPublished);
    }
    let key = |at: &u16| held.columns.get(usize::from(*at)).copied().flatten();
    let same_key = key_names(old) == key_names(new)
        && new.key.iter().map(key).eq(old.key.iter().map(|at| Some(usize::from(*at))));
    let same = old.name.eq_ignore_ascii_case(&new.name) && same_key;
    let doubtful = new.key.iter().any(|at| held.origin(usize::from(*at)).is_none());
    match same {
        false => Some(Code::RemoteSchemaDiffers),
        true => doubtful.then_some(Code::ColumnLost),
    }
}

fn key_names(table: &PublishedTable) -> Vec<String> {
    let name = |&at: &u16| table.columns.get(usize::from(at)).map(|name| name.to_ascii_lowercase());
    table.key.iter().filter_map(name).collect()
}

impl Change<'_> {
    /// Records as rejects what no upload will say any more.
    pub(super) fn tell_what_cannot_be_carried(
        &mut self,
        gone: &[&StoredTable],
        heirs: &[Heir<'_>],
        names: Names,
    ) -> Result<(), Failure> {
        for old in gone {
            self.tell_all(old, Code::TableNotPublished)?;
        }
        for heir in heirs.iter().filter(|heir| heir.changes()) {
            let Some(held) = &heir.held else { continue };
            if let Some(code) = obstacle(heir, held) {
                self.tell_all(held.stored, code)?;
                continue;
            }
            let lost = held.not_carried();
            // Half of a change whose other half may have another name would be a guess.
            let doubtful = held.doubtful.contains(&true);
            let guess =
                names == Names::Guessed && (doubtful || !held.added(heir.published).is_empty());
            let loses = if guess { Fate::Told(Code::ColumnLost) } else { Fate::CarriedInPart };
            self.tell(held.stored, &|entry| {
                Ok(if says(entry, &lost)? { loses } else { Fate::Carried })
            })?;
        }
        Ok(())
    }

    /// Records rows that are new here, where the table has got columns that may not be empty:
    /// what stands in them is no value that anybody has chosen.
    pub(super) fn tell_rows_without_values(
        &mut self,
        stored: &StoredTable,
        added: &[&str],
    ) -> Result<(), Failure> {
        let name = &stored.published.name;
        if !rebuild::has_fillers(self.connection, name, added).map_err(explain)? {
            return Ok(());
        }
        self.tell(stored, &|entry| {
            Ok(if entry.existed { Fate::Carried } else { Fate::Told(Code::RowRefused) })
        })
    }

    /// Records every change of the table, and forgets it.
    pub(super) fn tell_all(&mut self, old: &StoredTable, code: Code) -> Result<(), Failure> {
        self.tell(old, &|_| Ok(Fate::Told(code)))?;
        if !is_captured(self.connection, old) {
            return Ok(());
        }
        let Some(table) = readable(self.connection, old)? else { return Ok(()) };
        // What is left says of rows only that they are as they were.
        let forget = format!("DELETE FROM {} WHERE \"generation\" = ?1", table.change_sql());
        self.connection.execute(&forget, [self.open_generation]).map_err(explain)?;
        Ok(())
    }

    fn tell(
        &mut self,
        old: &StoredTable,
        fate: &dyn Fn(&Entry<'_>) -> rusqlite::Result<Fate>,
    ) -> Result<(), Failure> {
        if !is_captured(self.connection, old) {
            return Ok(());
        }
        let Some(table) = readable(self.connection, old)? else { return Ok(()) };
        let mut told: Vec<(Vec<Value>, Fate)> = Vec::new();
        let (connection, generation) = (self.connection, self.open_generation);
        let reading = Reading { generation, newer: None };
        change_log::for_each(connection, &table, reading, &mut |entry| {
            if entry.change().map_err(explain)? == RowChange::None {
                return Ok(());
            }
            let fate = fate(entry).map_err(explain)?;
            if fate != Fate::Carried {
                told.push((entry.key_values().map_err(explain)?, fate));
            }
            Ok(())
        })?;
        for (key, fate) in told {
            let code = match fate {
                Fate::Told(code) => code,
                Fate::Carried | Fate::CarriedInPart => Code::ColumnLost,
            };
            rejects::record_stranded(connection, &table, &key, code, self.at).map_err(explain)?;
            self.rejects += 1;
            if fate != Fate::CarriedInPart {
                change_log::forget(connection, &table, generation, &key).map_err(explain)?;
            }
        }
        Ok(())
    }
}

/// The change gives one of these columns a value.
fn says(entry: &Entry<'_>, columns: &[usize]) -> rusqlite::Result<bool> {
    for column in columns {
        let says = match entry.change()? {
            RowChange::Insert => entry.after(*column)? != ValueRef::Null,
            RowChange::Update => entry.changed(*column)?,
            RowChange::Delete | RowChange::None => false,
        };
        if says {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Gives the change table the new columns and keeps what it holds. A column that was not
/// published before has not been captured; as far as anybody can tell it did not change.
pub(super) fn carry_over(
    connection: &Connection,
    table: &RemoteTable,
    held: &Held<'_>,
) -> rusqlite::Result<()> {
    let old = held.stored;
    let (change, live) = (table.change_sql(), table.table_sql());
    let stale = ident(&format!("syncline_stale_{}", table.name()));
    triggers::drop_all(connection, table.name())?;
    connection.execute_batch(&format!(
        "ALTER TABLE {change} RENAME TO {stale}; DROP TABLE {};",
        table.incoming_sql()
    ))?;
    change_log::create(connection, table)?;
    let (mut into, mut from) = (Vec::new(), Vec::new());
    for (at, name) in table.published.columns.iter().enumerate() {
        let image = Image::Old.column(name);
        let unchanged = format!(
            "(SELECT t.{} FROM {live} AS t WHERE {})",
            ident(name),
            table.same_key("t.", "s.")
        );
        let held_name = held.origin(at).and_then(|at| old.published.columns.get(at));
        from.push(match held_name {
            None => unchanged,
            Some(held_name) => {
                let held_image = Image::Old.column(held_name);
                match old.large.iter().position(|large| large == held_name) {
                    None => format!("s.{held_image}"),
                    Some(bit) => format!(
                        "CASE WHEN s.\"captured\" & {} THEN s.{held_image} ELSE {unchanged} END",
                        1u64 << bit
                    ),
                }
            }
        });
        into.push(image);
    }
    if table.large_bits() != 0 {
        into.push("\"captured\"".into());
        from.push(table.large_bits().to_string());
    }
    connection.execute_batch(&format!(
        "INSERT INTO {change}(\"generation\", {}, \"existed\", \"again\", {}) \
         SELECT s.\"generation\", {}, s.\"existed\", s.\"again\", {} FROM {stale} AS s;
         DROP TABLE {stale};",
        table.our_keys_sql(""),
        list(into),
        table.our_keys_sql("s."),
        list(from),
    ))
}
