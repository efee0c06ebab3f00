//! Fits the remote to the tables that the server publishes now, in one transaction.
//!
//! What the user has is never destroyed: a table that we did not create is used as it is or the
//! change is refused; a table that is no longer published keeps its rows, and a column its values;
//! rows that lie in a table when it is first published are changes to upload, those of one that was
//! published before are compared with what comes (`history.rs`).
//!
//! What was captured means something under the tables that it was captured in. So it goes up under
//! those, and the new ones are taken when nothing waits any more ([`Waiting::Uploaded`]). A remote
//! that was reset has no tables that the server knows of; then what waits is carried over by the
//! names of columns, and what has no name any more is recorded in the reject table
//! ([`Waiting::CarriedOver`], `change/carry.rs`).

mod arrivals;
mod captured;
mod carry;
mod names;
mod old_keys;
mod own_table;
mod rebuild;
mod succession;
mod transition;
pub(crate) mod waiting;

use super::history::History;
use super::stored_table::{StoredTable, stored_tables};
use super::{LocalTable, RemoteTable, drop_table_objects, large_columns};
use crate::apply::rejects;
use crate::capture::change_log::{self, Reading};
use crate::capture::triggers::{self, Installed};
use crate::connection::{begin_immediate, explain, triggers_off};
use crate::progress;
use crate::progress::facts;
use crate::progress::state::State;
use crate::sql::ident;
use captured::{is_captured, readable};
use model::{Code, Failure, PublishedTable};
use protocol::SchemaChange;
use rebuild::Unfitting;
use rusqlite::Connection;
use succession::Heir;
use transition::Change;
use waiting::{Names, Waiting};

/// Makes the remote hold the new schema. Yields how many changes went to the reject table.
pub(crate) fn apply(
    connection: &Connection,
    change: &SchemaChange,
    waiting: Waiting,
    at: &str,
) -> Result<u64, Failure> {
    // Rebuilding a table drops the old one, which must not count as deleting its rows.
    connection.pragma_update(None, "foreign_keys", false).map_err(explain)?;
    let changed = follow(connection, change, waiting, at);
    connection.pragma_update(None, "foreign_keys", true).map_err(explain)?;
    changed
}

/// Gives up what waits for held tables, at these positions: it goes to the reject table, for the
/// reason `code`, and the tables are received as a whole. What is frozen has not left, or in vain.
pub(crate) fn give_up(
    connection: &Connection,
    positions: &[u16],
    code: Code,
    at: &str,
) -> Result<(), Failure> {
    let transaction = begin_immediate(connection)?;
    let stored = stored_tables(connection)?;
    let open_generation = settle_frozen(connection, &stored, Waiting::CarriedOver(Names::Guessed))?;
    let mut change = Change { connection, open_generation, at, rejects: 0, uncompared: Vec::new() };
    let mut history = History::read(connection)?;
    for position in positions {
        let Some(old) = stored.get(usize::from(*position)) else { continue };
        change.tell_all(old, code)?;
        // Its rows are not those of the center any more, so they are compared.
        history.keep_watermark(old);
        let forget = "UPDATE syncline_table SET watermark = NULL WHERE position = ?1";
        connection.execute(forget, [position]).map_err(explain)?;
    }
    history.write(connection)?;
    progress::partial::clear(connection).map_err(explain)?;
    transaction.commit().map_err(explain)
}

fn follow(
    connection: &Connection,
    schema_change: &SchemaChange,
    waiting: Waiting,
    at: &str,
) -> Result<u64, Failure> {
    triggers_off(connection)?;
    let transaction = begin_immediate(connection)?;
    let stored = stored_tables(connection)?;
    let State { mut history, database_id, .. } = State::read(connection)?;
    let former = history.former(database_id.as_ref());
    let mut heirs = succession::heirs(schema_change, &stored, &former)?;
    if matches!(waiting, Waiting::CarriedOver(Names::Guessed)) {
        for heir in heirs.iter_mut().filter(|heir| heir.changes()) {
            let published = heir.published;
            let held = heir.held.as_mut().filter(|held| !held.former);
            held.into_iter().for_each(|held| held.doubt(published));
        }
    }
    let open_generation = settle_frozen(connection, &stored, waiting)?;
    let mut change = Change { connection, open_generation, at, rejects: 0, uncompared: Vec::new() };
    let gone: Vec<&StoredTable> = stored.iter().filter(|old| !goes_on(old, &heirs)).collect();
    match waiting {
        Waiting::Uploaded(_) => change.require_nothing(&gone, &heirs, Code::ApplyBlocked)?,
        Waiting::Kept => change.require_nothing(&gone, &heirs, Code::ShapeChangeBlocked)?,
        Waiting::CarriedOver(names) => {
            change.tell_what_cannot_be_carried(&gone, &heirs, names)?;
        }
    }
    for old in &gone {
        drop_table_objects(connection, &old.published.name).map_err(explain)?;
        history.retire(old, database_id.as_ref());
        rejects::say_dropped(connection, &old.published.name).map_err(explain)?;
    }
    for heir in heirs.iter().filter(|heir| heir.changes()) {
        let Some(held) = &heir.held else { continue };
        let name = &held.stored.published.name;
        match carry::carries(connection, heir, held, waiting) {
            true => triggers::drop_all(connection, name).map_err(explain)?,
            false => drop_table_objects(connection, name).map_err(explain)?,
        }
    }
    names::follow(connection, &heirs)?;
    arrivals::expect(connection, &mut history, &heirs)?;
    change.uncompared = history.uncompared();
    history.write(connection)?;
    let mut tables = Vec::new();
    let mut captured = Vec::new();
    for heir in &heirs {
        let (stored, table) = change.publish(heir, waiting)?;
        tables.push(stored);
        captured.push(table);
    }
    // Those of all tables at once: to create one SQLite reads the whole schema of the file.
    let installed = Installed::read(connection).map_err(explain)?;
    installed.ensure(connection, &captured).map_err(explain)?;
    old_keys::keep(connection, &heirs)?;
    store(connection, &tables).map_err(explain)?;
    let fingerprint = &schema_change.schema.fingerprint;
    facts::set(connection, "schema_fingerprint", fingerprint).map_err(explain)?;
    progress::partial::clear(connection).map_err(explain)?;
    let rejects = change.rejects;
    transaction.commit().map_err(explain)?;
    Ok(rejects)
}

fn goes_on(old: &StoredTable, heirs: &[Heir<'_>]) -> bool {
    let held = |heir: &Heir<'_>| {
        heir.held.as_ref().is_some_and(|held| held.stored.published.name == old.published.name)
    };
    heirs.iter().any(held)
}

/// Drops or takes back what is frozen; yields the open generation.
fn settle_frozen(
    connection: &Connection,
    stored: &[StoredTable],
    waiting: Waiting,
) -> Result<i64, Failure> {
    let state = State::read(connection)?;
    let mut tables = Vec::new();
    for old in stored {
        tables.extend(readable(connection, old)?.filter(|_| is_captured(connection, old)));
    }
    match (waiting, state.frozen) {
        (Waiting::Uploaded(Some(frozen)), _) => {
            progress::drop_frozen(connection, &tables, frozen)?;
        }
        (Waiting::CarriedOver(_), Some(frozen)) => {
            progress::merge_back(connection, &tables, frozen, state.open_generation)
                .map_err(explain)?;
        }
        _ => {}
    }
    Ok(state.open_generation)
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

impl Change<'_> {
    /// Nothing may wait in a table that goes or changes.
    fn require_nothing(
        &self,
        gone: &[&StoredTable],
        heirs: &[Heir<'_>],
        code: Code,
    ) -> Result<(), Failure> {
        let changed = heirs.iter().filter(|heir| heir.changes());
        let held = changed.filter_map(|heir| heir.held.as_ref().map(|held| held.stored));
        for old in gone.iter().copied().chain(held) {
            if !is_captured(self.connection, old) {
                continue;
            }
            let Some(table) = readable(self.connection, old)? else { continue };
            let mut waiting = 0u64;
            let generation = self.open_generation;
            let reading = Reading { generation, newer: None };
            change_log::for_each(self.connection, &table, reading, &mut |entry| {
                if entry.change().map_err(explain)? != change_log::Change::None {
                    waiting += 1;
                }
                Ok(())
            })?;
            if waiting > 0 {
                let name = table.name();
                let message = format!(
                    "{waiting} changes are pending in table {name}, whose definition changes"
                );
                return Err(Failure::new(code, message).table(name));
            }
        }
        Ok(())
    }

    /// Makes one table what is published, but for its triggers.
    fn publish(
        &mut self,
        heir: &Heir<'_>,
        waiting: Waiting,
    ) -> Result<(StoredTable, RemoteTable), Failure> {
        let (published, name) = (heir.published, &heir.published.name);
        let held = heir.held.as_ref();
        let ours = held.filter(|held| held.stored.created).map(|held| &held.stored.published);
        if let Some(old) = ours {
            self.follow_indexes(published, old).map_err(explain)?;
        }
        let local = LocalTable::read(self.connection, name).map_err(explain)?;
        let (local, created) = match local {
            Some(local) => (self.fit(heir, local, waiting)?, ours.is_some()),
            None => {
                // Where the user dropped the table, what was captured of it means nothing now.
                drop_table_objects(self.connection, name).map_err(explain)?;
                self.create(published)?;
                (self.created(published)?, true)
            }
        };
        let mut stored = StoredTable {
            published: published.clone(),
            watermark: held
                .filter(|held| held.stored.published.fingerprint == published.fingerprint)
                .and_then(|held| held.stored.watermark.clone()),
            created,
            large: large_columns(published, &local),
        };
        if let Some(held) = held.filter(|held| is_captured(self.connection, held.stored)) {
            if held.stored.published.columns == published.columns && !held.doubtful.contains(&true)
            {
                // The change table was made for these, whatever the columns are declared now.
                stored.large.clone_from(&held.stored.large);
            } else {
                let table = RemoteTable::new(0, stored.clone(), &local)?;
                carry::carry_over(self.connection, &table, held).map_err(explain)?;
                self.tell_rows_without_values(&stored, &held.added(published))?;
            }
        }
        let table = RemoteTable::new(0, stored.clone(), &local)?;
        self.capture(&table, held.is_some() || created)?;
        Ok((stored, table))
    }

    /// Rebuilds a table of Syncline where it is declared otherwise.
    fn fit(
        &mut self,
        heir: &Heir<'_>,
        local: LocalTable,
        waiting: Waiting,
    ) -> Result<LocalTable, Failure> {
        let published = heir.published;
        let lacking: Vec<&str> = published
            .columns
            .iter()
            .filter(|name| local.column(name).is_none())
            .map(String::as_str)
            .collect();
        let lacks = !lacking.is_empty();
        let Some(held) = heir.held.as_ref().filter(|held| held.stored.created) else {
            if lacks {
                return Err(own_table::lacks(published, &lacking));
            }
            if heir.held.is_none() {
                own_table::require_as_many_keys(published, &local)?;
            }
            return Ok(local);
        };
        if !lacks && held.stored.published.create.first() == published.create.first() {
            return Ok(local);
        }
        let unfitting = match held.former || self.uncompared.contains(&published.name) {
            true => Unfitting::Record,
            false => Unfitting::LeaveOut,
        };
        // Of a table that comes back nothing waits.
        if held.former || !matches!(waiting, Waiting::CarriedOver(_)) {
            return rebuild::rebuild(self, published, unfitting);
        }
        self.connection.execute_batch("SAVEPOINT syncline_rebuild").map_err(explain)?;
        let rebuilt = rebuild::rebuild(self, published, Unfitting::Refuse);
        if rebuilt.is_err() {
            self.connection.execute_batch("ROLLBACK TO syncline_rebuild").map_err(explain)?;
        }
        self.connection.execute_batch("RELEASE syncline_rebuild").map_err(explain)?;
        match rebuilt {
            // Pending changes do not fit. The center will say so, row by row.
            Err(failure) if !lacks && failure.code() == Code::RemoteSchemaDiffers => Ok(local),
            Err(failure) if failure.code() == Code::RemoteSchemaDiffers => {
                self.tell_all(held.stored, Code::RemoteSchemaDiffers)?;
                rebuild::rebuild(self, published, unfitting)
            }
            other => other,
        }
    }

    /// Drops the indexes of Syncline that the consolidated database has dropped, because a UNIQUE
    /// one would refuse what is allowed now, and adds new ones. One that does not fit is left out:
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

    /// Makes what captures the table, but for the triggers. Rows in a table that is new to us are
    /// changes.
    fn capture(&self, table: &RemoteTable, known: bool) -> Result<(), Failure> {
        let (connection, name) = (self.connection, table.name());
        if table.uploads() {
            change_log::create(connection, table).map_err(explain)?;
            if !known {
                let generation = self.open_generation;
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
        Ok(())
    }
}

#[cfg(test)]
mod tests;
