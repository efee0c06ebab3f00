//! Rows that got another key at the center get it here, before anything else is written.
//!
//! The row stays the same row, so children follow it by the foreign keys of this file, also
//! children that only this file has. Children that the center has not moved stay
//! (`key_changes/staying.rs`). The other columns are written later, with all other rows. The order
//! is:
//!
//! 1. Children whose own key contains a part of the changed key are deleted if the center deleted
//!    them, because their keys will change.
//! 2. Keys change, the first table first. If a new key is taken, the row waits.
//! 3. All rows that waited get temporary keys, and then their new ones. So chains and exchanges
//!    work. If another row still has the key, the center replaced it, and it becomes the moved row.
//!
//! A pending change under the old key moves to the new one, with its base, so that it is uploaded
//! under the new key. So does a pending change of a child (`key_changes/followers.rs`).

use super::circumstances::Circumstances;
use super::constraint::is_constraint;
use super::download::Download;
use super::rejects::Withheld;
use super::values::{bind_all, execute};
use super::{circumstances, frame, guarded, kept_back, orphans};
use crate::apply::key_changes::followers::Followers;
use crate::apply::key_changes::frames::for_each_frame;
use crate::apply::key_changes::shift::Shift;
use crate::apply::rows::waiting::WaitingRows;
use crate::connection::explain;
use crate::schema::{Affinity, Image, RemoteTable};
use crate::sql::{all, ident, list, parameters};
use model::{Failure, RowReader, Value, ValueRef, write_value};
use protocol::RowsFrame;
use rusqlite::Connection;

/// Gives the rows of a download their new keys.
pub(super) fn apply(
    connection: &Connection,
    download: &Download,
    circumstances: &Circumstances<'_>,
    withheld: &[Withheld],
) -> Result<(), Failure> {
    if download.key_change_rows == 0 {
        return Ok(());
    }
    let mut moving = vec![false; circumstances.tables.len()];
    for_each_frame(download, &mut |position, _, _| {
        moving[position] = true;
        Ok(())
    })?;
    let mut followers = Followers::read(connection, download, circumstances, withheld, &moving)?;
    for table in circumstances.tables {
        if followers.has_key_of(table, &moving) {
            delete_early(connection, download, circumstances, table)?;
        }
    }
    for (position, table) in circumstances.tables.iter().enumerate().filter(|(at, _)| moving[*at]) {
        let mut mover = Mover::new(connection, circumstances, table)?;
        for_each_frame(download, &mut |at, rows, count| match at == position {
            true => mover.hear(rows, count, &mut followers),
            false => Ok(()),
        })?;
        mover.resolve(&mut followers)?;
    }
    followers.finish()
}

type Key<'a> = [ValueRef<'a>];
type VisitKeys<'a> = dyn FnMut(&Key<'_>, &Key<'_>, &Key<'_>) -> Result<(), Failure> + 'a;

/// Deletes the rows that the center deleted, under the keys that they still have.
fn delete_early(
    connection: &Connection,
    download: &Download,
    circumstances: &Circumstances<'_>,
    table: &RemoteTable,
) -> Result<(), Failure> {
    let unchanged = match table.uploads() {
        _ if circumstances.guards => format!(
            " AND NOT EXISTS (SELECT 1 FROM temp.{} AS g WHERE {})",
            guarded::guarded_sql(table),
            table.same_key("t.", "g."),
        ),
        true => format!(
            " AND NOT EXISTS (SELECT 1 FROM {} AS c WHERE c.\"generation\" = {} AND {})",
            table.change_sql(),
            circumstances.open_generation,
            table.same_key("t.", "c."),
        ),
        false => String::new(),
    };
    let delete = format!(
        "DELETE FROM {} AS t WHERE {}{unchanged}",
        table.table_sql(),
        table.key_is_parameter("t.", 1)
    );
    let mut reader = download.deletes[usize::from(table.position)].reader();
    while let Some(payload) = reader.next_chunk()? {
        let mut keys = RowReader::new(&payload[RowsFrame::PREFIX_BYTES..]);
        while !keys.is_at_end() {
            let key = read(&mut keys, table.key.len())?;
            execute(connection, &delete, &key).map_err(explain)?;
        }
    }
    Ok(())
}

/// Deletes a row whose key another one has. Children by its key have gone along, or are gone. Those
/// by another value of it wait until a row has it.
fn delete(
    connection: &Connection,
    circumstances: &Circumstances<'_>,
    table: &RemoteTable,
    key: &[ValueRef<'_>],
) -> Result<(), Failure> {
    if table.referred_by_value {
        let mut encoded = Vec::new();
        key.iter().for_each(|value| write_value(&mut encoded, *value));
        orphans::set_aside_children(connection, circumstances.into(), table, &encoded)?;
    }
    let sql = format!("DELETE FROM {} WHERE {}", table.table_sql(), table.key_is_parameter("", 1));
    execute(connection, &sql, key).map(drop).map_err(explain)
}

/// One table whose rows get other keys.
struct Mover<'a> {
    connection: &'a Connection,
    circumstances: &'a Circumstances<'a>,
    table: &'a RemoteTable,
    /// Local changes of the table wait, so nothing is moved before all is known.
    has_changes: bool,
    /// Something is kept back of the table.
    keeps_back: bool,
    /// Old and new key of rows that could not be moved at once.
    waiting: WaitingRows,
    any_waits: bool,
}

/// The pending change of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Nothing,
    /// A pending change of the row that the center means.
    Change,
    /// The row there was made at this remote, or the row moved away: the row that the center means
    /// is not there.
    Another,
}

impl<'a> Mover<'a> {
    fn new(
        connection: &'a Connection,
        circumstances: &'a Circumstances<'a>,
        table: &'a RemoteTable,
    ) -> Result<Mover<'a>, Failure> {
        let generation = circumstances.open_generation;
        let has_changes = crate::capture::change_log::has_entries(connection, table, generation)
            .map_err(explain)?;
        connection
            .execute_batch(&format!(
                "CREATE TEMP TABLE IF NOT EXISTS {} ({}, PRIMARY KEY ({})) WITHOUT ROWID",
                arrived_sql(table),
                table.our_keys_declared(),
                table.our_keys_sql(""),
            ))
            .map_err(explain)?;
        let waiting = WaitingRows::new(circumstances.spills);
        let keeps_back = kept_back::has_any(connection, table).map_err(explain)?;
        let any_waits = false;
        Ok(Mover { connection, circumstances, table, has_changes, keeps_back, waiting, any_waits })
    }

    fn hear(
        &mut self,
        rows: &[u8],
        count: u32,
        followers: &mut Followers<'_>,
    ) -> Result<(), Failure> {
        let table = self.table;
        let mut rest = rows;
        for _ in 0..count {
            let mut reader = RowReader::new(rest);
            let told = read(&mut reader, table.key.len())?;
            let row = read(&mut reader, table.width())?;
            rest = reader.rest();
            let new: Vec<ValueRef<'_>> = table.key.iter().map(|key| row[key.position]).collect();
            // A row that has followed its parent already has another key now.
            let old = followers.key_by_now(table, &told, &new)?;
            let old: Vec<ValueRef<'_>> = old.iter().map(Value::as_ref).collect();
            if self.stays(&old)? {
                kept_back::keep_delete(self.connection, table, &old)?;
                continue;
            }
            if self.keeps_back && self.waiting_under(&old)? == Waiting::Nothing {
                // It was of the row that has left this key.
                kept_back::forget(self.connection, table, &old)?;
            }
            if identical(&old, &new) {
                self.note_arrived(&new)?;
                let shift = Shift { old: &told, new: &new, last: &new, from_spare: false };
                followers.follow(table, &shift)?;
                continue;
            }
            if self.has_changes || !self.move_at_once(&old, &new, followers)? {
                self.any_waits = true;
                self.waiting.push_with(|out| {
                    old.iter().chain(&new).for_each(|value| write_value(out, *value));
                    Ok(())
                })?;
            }
        }
        frame::expect_end(rest)
    }

    /// The row keeps its key for now. What it has become comes under the new one.
    fn stays(&self, old: &[ValueRef<'_>]) -> Result<bool, Failure> {
        if !self.circumstances.guards {
            return Ok(false);
        }
        let sql = guarded::is_guarded_sql(self.table);
        let mut statement = self.connection.prepare_cached(&sql).map_err(explain)?;
        bind_all(&mut statement, old).map_err(explain)?;
        statement
            .raw_bind_parameter(old.len() + 1, self.circumstances.open_generation)
            .map_err(explain)?;
        Ok(statement.raw_query().next().map_err(explain)?.is_some())
    }

    /// False where the new key is taken.
    fn move_at_once(
        &self,
        old: &[ValueRef<'_>],
        new: &[ValueRef<'_>],
        followers: &mut Followers<'_>,
    ) -> Result<bool, Failure> {
        if self.has_arrived(old)? {
            return Ok(true);
        }
        let shift = Shift { old, new, last: new, from_spare: false };
        let act = || self.update_key(old, new);
        match followers.act_upon_others(self.table, &shift, act)? {
            Ok(moved) => {
                self.note_arrived(new)?;
                if moved > 0 {
                    followers.follow(self.table, &shift)?;
                }
                Ok(true)
            }
            Err(error) if is_constraint(&error) => Ok(false),
            Err(error) => Err(explain(error)),
        }
    }

    /// Moves the rows that waited: to spare keys, and from there to their own.
    fn resolve(&self, followers: &mut Followers<'_>) -> Result<(), Failure> {
        if !self.any_waits {
            return Ok(());
        }
        // No row has the temporary keys. The center has checked the real ones.
        let checks = |off: bool| {
            self.connection.pragma_update(None, "ignore_check_constraints", off).map_err(explain)
        };
        checks(true)?;
        let resolved = self.step_aside(followers).and_then(|()| self.arrive(followers));
        checks(false)?;
        resolved
    }

    fn step_aside(&self, followers: &mut Followers<'_>) -> Result<(), Failure> {
        self.for_each_waiting(&mut |spare, old, new| {
            if self.has_arrived(old)? {
                return Ok(());
            }
            if followers.is_same_key(self.table, old, new)? {
                return self.respell(old, new, followers);
            }
            match self.waiting_under(old)? {
                Waiting::Another => return Ok(()),
                Waiting::Change => {
                    let ours = self.table.our_key_is_parameter(1);
                    let incoming = self.table.incoming_sql();
                    self.run(&format!("DELETE FROM {incoming} WHERE {ours}"), old)?;
                    self.move_entry(old, spare)?;
                }
                Waiting::Nothing => {}
            }
            let shift = Shift { old, new: spare, last: new, from_spare: false };
            let act = || self.update_key(old, spare);
            let moved = followers.act_upon_others(self.table, &shift, act)?;
            if moved.map_err(explain)? > 0 {
                followers.follow(self.table, &shift)?;
            }
            Ok(())
        })
    }

    fn arrive(&self, followers: &mut Followers<'_>) -> Result<(), Failure> {
        self.for_each_waiting(&mut |spare, old, new| {
            if followers.is_same_key(self.table, old, new)? {
                return Ok(());
            }
            let comes_changed = self.waiting_under(spare)? == Waiting::Change;
            self.forget_without_effect(new)?;
            let taken = self.waiting_under(new)? != Waiting::Nothing;
            if taken && comes_changed {
                return Err(self.blocked("two changes wait for one key of a downloaded row"));
            }
            let shift = Shift { old: spare, new, last: new, from_spare: true };
            if taken {
                followers.take_along(self.table, &shift)?;
                delete(self.connection, self.circumstances, self.table, spare)?;
            } else {
                if comes_changed {
                    self.move_entry(spare, new)?;
                }
                match self.update_key(spare, new) {
                    Ok(_) => {}
                    Err(error) if is_constraint(&error) && !comes_changed => {
                        followers.take_along(self.table, &shift)?;
                        delete(self.connection, self.circumstances, self.table, spare)?;
                    }
                    Err(error) if is_constraint(&error) => {
                        return Err(self.blocked("a downloaded key of a changed row is taken"));
                    }
                    Err(error) => return Err(explain(error)),
                }
            }
            followers.follow(self.table, &shift)?;
            self.note_arrived(new)
        })
    }

    /// The center spells an equal key differently.
    fn respell(
        &self,
        old: &[ValueRef<'_>],
        new: &[ValueRef<'_>],
        followers: &mut Followers<'_>,
    ) -> Result<(), Failure> {
        let table = self.table;
        let both: Vec<ValueRef<'_>> = old.iter().chain(new).copied().collect();
        let from = |column: String, n: usize| {
            format!("{column} COLLATE BINARY = ?{n} AND typeof({column}) = typeof(?{n})", n = n + 1)
        };
        // A spelling that was changed here waits to be uploaded.
        let exactly = all(table.key.iter().enumerate().map(|(n, key)| from(ident(&key.name), n)));
        let sets = list(
            table
                .key
                .iter()
                .enumerate()
                .map(|(n, key)| format!("{} = ?{}", ident(&key.name), n + old.len() + 1)),
        );
        let live = format!("UPDATE {} SET {sets} WHERE {exactly}", table.table_sql());
        let shift = Shift { old, new, last: new, from_spare: false };
        let act = || execute(self.connection, &live, &both);
        let moved = followers.act_upon_others(table, &shift, act)?.map_err(explain)?;
        if self.waiting_under(old)? == Waiting::Change {
            self.move_entry(old, new)?;
        }
        if moved > 0 {
            followers.follow(table, &shift)?;
        }
        Ok(())
    }

    /// Shows `visit` each row that waits: its spare key, the old one and the new one.
    fn for_each_waiting(&self, visit: &mut VisitKeys<'_>) -> Result<(), Failure> {
        let len = self.table.key.len();
        let mut number = 0;
        self.waiting.for_each_chunk(&mut |chunk| {
            let mut reader = RowReader::new(chunk);
            while !reader.is_at_end() {
                number += 1;
                let old = read(&mut reader, len)?;
                let new = read(&mut reader, len)?;
                let spare_value = self.spare(number);
                let mut spare = old.clone();
                if let (Some(last), Some(value)) = (spare.last_mut(), &spare_value) {
                    *last = value.as_ref();
                }
                visit(&spare, &old, &new)?;
            }
            Ok(())
        })
    }

    /// A value for the last column of the key that no row has.
    fn spare(&self, number: i64) -> Option<Value> {
        let text = format!("\u{1}syncline key {number}");
        Some(match self.table.key.last()?.affinity {
            Affinity::Integer | Affinity::Numeric => {
                Value::Integer(-4_200_000_000_000_000_000 - number)
            }
            Affinity::Real => Value::Real((-4_200_000_000_000_000 - number) as f64),
            Affinity::Text => Value::Text(text.into_bytes()),
            Affinity::Blob => Value::Blob(text.into_bytes()),
        })
    }

    fn waiting_under(&self, key: &[ValueRef<'_>]) -> Result<Waiting, Failure> {
        if !self.has_changes {
            return Ok(Waiting::Nothing);
        }
        let table = self.table;
        let generation = self.circumstances.open_generation;
        let is_key = |column: fn(&crate::schema::KeyColumn) -> String| {
            all(table
                .key
                .iter()
                .enumerate()
                .map(|(n, key)| format!("{} = ?{}", column(key), n + 1)))
        };
        let (ours, from) =
            (is_key(crate::schema::KeyColumn::ours), is_key(crate::schema::KeyColumn::from));
        let sql = format!(
            "SELECT \"existed\" AND NOT EXISTS (SELECT 1 FROM {moved} \
             WHERE \"generation\" = {generation} AND ({ours} OR {from})) \
             FROM {} WHERE \"generation\" = {generation} AND {ours}",
            table.change_sql(),
            moved = table.moved_sql(),
        );
        let mut statement = self.connection.prepare_cached(&sql).map_err(explain)?;
        bind_all(&mut statement, key).map_err(explain)?;
        let mut rows = statement.raw_query();
        Ok(match rows.next().map_err(explain)? {
            None => Waiting::Nothing,
            Some(row) if row.get::<_, bool>(0).map_err(explain)? => Waiting::Change,
            Some(_) => Waiting::Another,
        })
    }

    /// Forgets that a row was inserted and deleted again under this key.
    fn forget_without_effect(&self, key: &[ValueRef<'_>]) -> Result<(), Failure> {
        if !self.has_changes {
            return Ok(());
        }
        let table = self.table;
        let sql = format!(
            "DELETE FROM {} WHERE \"generation\" = {} AND {} AND \"existed\" = 0 \
             AND NOT EXISTS (SELECT 1 FROM {} AS t WHERE {})",
            table.change_sql(),
            self.circumstances.open_generation,
            table.our_key_is_parameter(1),
            table.table_sql(),
            table.key_is_parameter("t.", 1),
        );
        self.run(&sql, key).map(drop)
    }

    /// The change under a key goes to another one, and so does the key of its base.
    fn move_entry(&self, old: &[ValueRef<'_>], new: &[ValueRef<'_>]) -> Result<(), Failure> {
        let table = self.table;
        let mut sets = Vec::new();
        for (n, key) in table.key.iter().enumerate() {
            let at = n + old.len() + 1;
            let image = Image::Old.column(&key.name);
            sets.push(format!("{} = ?{at}, {image} = ?{at}", key.ours()));
        }
        let sql = format!(
            "UPDATE {} SET {} WHERE \"generation\" = {} AND {}",
            table.change_sql(),
            list(sets),
            self.circumstances.open_generation,
            table.our_key_is_parameter(1),
        );
        let both: Vec<ValueRef<'_>> = old.iter().chain(new).copied().collect();
        self.run(&sql, &both).map(drop)
    }

    fn update_key(&self, old: &[ValueRef<'_>], new: &[ValueRef<'_>]) -> rusqlite::Result<usize> {
        let table = self.table;
        let sets = table.key.iter().enumerate();
        let sets = sets.map(|(n, key)| format!("{} = ?{}", ident(&key.name), n + old.len() + 1));
        let sql = format!(
            "UPDATE OR ABORT {} SET {} WHERE {}",
            table.table_sql(),
            list(sets),
            table.key_is_parameter("", 1)
        );
        let both: Vec<ValueRef<'_>> = old.iter().chain(new).copied().collect();
        execute(self.connection, &sql, &both)
    }

    /// A row came to this key in this download, so the one that left it is not there.
    fn has_arrived(&self, key: &[ValueRef<'_>]) -> Result<bool, Failure> {
        let sql = format!(
            "SELECT 1 FROM {} WHERE {}",
            arrived_sql(self.table),
            self.table.our_key_is_parameter(1)
        );
        let mut statement = self.connection.prepare_cached(&sql).map_err(explain)?;
        bind_all(&mut statement, key).map_err(explain)?;
        Ok(statement.raw_query().next().map_err(explain)?.is_some())
    }

    fn note_arrived(&self, key: &[ValueRef<'_>]) -> Result<(), Failure> {
        let values = parameters(1, key.len());
        let sql = format!("INSERT OR IGNORE INTO {} VALUES ({values})", arrived_sql(self.table));
        self.run(&sql, key).map(drop)
    }

    fn run(&self, sql: &str, values: &[ValueRef<'_>]) -> Result<usize, Failure> {
        execute(self.connection, sql, values).map_err(explain)
    }

    fn blocked(&self, message: &str) -> Failure {
        circumstances::blocked(self.connection, self.circumstances, message)
            .table(self.table.name())
    }
}

impl Drop for Mover<'_> {
    fn drop(&mut self) {
        let sql = format!("DROP TABLE IF EXISTS temp.{}", arrived_sql(self.table));
        let _ = self.connection.execute_batch(&sql);
    }
}

fn arrived_sql(table: &RemoteTable) -> String {
    ident(&format!("syncline_arrived_{}", table.position))
}

fn identical(left: &[ValueRef<'_>], right: &[ValueRef<'_>]) -> bool {
    left.iter().zip(right).all(|(left, right)| left.identical(*right))
}

fn read<'b>(reader: &mut RowReader<'b>, count: usize) -> Result<Vec<ValueRef<'b>>, Failure> {
    (0..count).map(|_| reader.value()).collect()
}

pub(crate) mod followers;
pub(super) mod frames;
pub(crate) mod moved_rows;
mod replaced;
pub(super) mod shift;
pub(super) mod staying;
#[cfg(test)]
mod tests;
