//! Key changes: which row has a key that it did not have when the generation began.
//!
//! `syncline_moved_T` has, for a generation, the new key of a row and the old one. It is written
//! only when a key changes, so nearly always it is empty. A record counts if there is a row under
//! the new key when the generation ends, and there was one under the old key when it began. So a
//! row that was moved and deleted is a delete under its old key, and a key that was left and taken
//! again is no key change.
//!
//! Z1. No key is an origin twice, and none is a destination twice. Even if a record is wrong, the
//!     upload converts the former rows into the present ones.
//! Z2. If a key is only written differently, and the table regards both notations as equal, it is
//!     the same key here. The images show the notations.

use super::generation::GENERATION;
use crate::schema::RemoteTable;
use crate::sql::{all, ident, list};
use rusqlite::{Connection, OptionalExtension};

/// Where the records of two generations are put together. No generation has this number.
const SCRATCH: i64 = 0;

/// Creates the table of `table`'s key changes.
pub(crate) fn create(connection: &Connection, table: &RemoteTable) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "CREATE TABLE IF NOT EXISTS {moved} (\"generation\" INTEGER NOT NULL, {}, {}, \
         PRIMARY KEY (\"generation\", {})) WITHOUT ROWID;
         CREATE UNIQUE INDEX IF NOT EXISTS {} ON {moved} (\"generation\", {});",
        table.our_keys_declared(),
        table.origin_keys_declared(),
        table.our_keys_sql(""),
        ident(&format!("syncline_moved_from_{}", table.name())),
        table.origin_keys_sql(""),
        moved = table.moved_sql(),
    ))
}

/// The statements of a trigger after an update of OLD's key to NEW's. `new_has_key` and
/// `old_has_key` are empty where a key cannot be NULL.
pub(super) fn record(table: &RemoteTable, new_has_key: &str, old_has_key: &str) -> Vec<String> {
    let (moved, change) = (table.moved_sql(), table.change_sql());
    let (new_keys, old_keys) = (table.keys_sql("NEW."), table.keys_sql("OLD."));
    let at = |row: &str| format!("\"generation\" = {GENERATION} AND {}", table.our_key_is_of(row));
    let and = |condition: &str| match condition {
        "" => String::new(),
        condition => format!(" AND {condition}"),
    };
    let set = table.key.iter().map(|key| format!("{} = NEW.{}", key.ours(), ident(&key.name)));
    let origin = all(table.key.iter().map(|key| format!("{} = {}", key.from(), key.ours())));
    let mut statements = vec![
        // A row that was under the new key had to go.
        forget(table, "NEW."),
        format!("UPDATE {moved} SET {} WHERE {}{}", list(set), at("OLD."), and(new_has_key)),
        format!(
            "INSERT INTO {moved}(\"generation\", {}, {}) \
             SELECT {GENERATION}, {new_keys}, {old_keys} \
             WHERE NOT EXISTS (SELECT 1 FROM {moved} WHERE {}) \
             AND EXISTS (SELECT 1 FROM {change} WHERE {} AND \"existed\" = 1){}{} \
             ON CONFLICT DO NOTHING",
            table.our_keys_sql(""),
            table.origin_keys_sql(""),
            at("NEW."),
            at("OLD."),
            and(new_has_key),
            and(old_has_key),
        ),
        // It is back where it was.
        format!("DELETE FROM {moved} WHERE {} AND {origin}", at("NEW.")),
    ];
    if !new_has_key.is_empty() {
        // A row without a key is out of sight.
        statements.push(forget(table, "OLD."));
    }
    statements
}

/// The statement that forgets where the row with a key came from, because the row goes.
pub(super) fn forget(table: &RemoteTable, row: &str) -> String {
    format!(
        "DELETE FROM {} WHERE \"generation\" = {GENERATION} AND {}",
        table.moved_sql(),
        table.our_key_is_of(row)
    )
}

/// True when keys were changed in a generation of the table.
pub(crate) fn has_any(
    connection: &Connection,
    table: &RemoteTable,
    generation: i64,
) -> rusqlite::Result<bool> {
    let sql = table
        .moving
        .has_any
        .get_or_init(|| format!("SELECT 1 FROM {} WHERE \"generation\" = ?1", table.moved_sql()));
    let found = connection.prepare_cached(sql)?.query_row([generation], |_| Ok(())).optional()?;
    Ok(found.is_some())
}

/// Forgets the key changes of a generation, and of all before it.
pub(super) fn drop_generation(
    connection: &Connection,
    table: &RemoteTable,
    generation: i64,
) -> rusqlite::Result<()> {
    let sql = table
        .moving
        .forget
        .get_or_init(|| format!("DELETE FROM {} WHERE \"generation\" <= ?1", table.moved_sql()));
    connection.prepare_cached(sql)?.execute([generation])?;
    Ok(())
}

/// The conditions that look at what a generation's key changes lead to. `?1` is the generation,
/// `?2` the one after it where `with_newer`.
#[derive(Clone, Copy)]
pub(super) struct Validity<'a> {
    pub(super) table: &'a RemoteTable,
    pub(super) with_newer: bool,
}

impl Validity<'_> {
    /// There is a row under the key of the record at `moved` when the generation ends, and
    /// something was recorded under that key.
    fn arrives(self, moved: &str) -> String {
        let table = self.table;
        let live = format!(
            "EXISTS (SELECT 1 FROM {} AS live WHERE {})",
            table.table_sql(),
            table.same_key("live.", moved)
        );
        let entry = |alias: &str, what: &str, generation: u32| {
            format!(
                "SELECT {what} FROM {} AS {alias} \
                 WHERE {alias}.\"generation\" = ?{generation} AND {}",
                table.change_sql(),
                table.same_our_key(&format!("{alias}."), moved)
            )
        };
        let exists = match self.with_newer {
            true => format!("coalesce(({}), {live})", entry("later", "later.\"existed\"", 2)),
            false => live,
        };
        format!("{exists} AND EXISTS ({})", entry("here", "1", 1))
    }

    /// There was a row under the key that the record at `moved` names as the origin.
    fn departs(self, moved: &str) -> String {
        format!(
            "EXISTS (SELECT 1 FROM {} AS origin WHERE origin.\"generation\" = ?1 AND {} \
             AND origin.\"existed\" = 1)",
            self.table.change_sql(),
            self.table.came_from(moved, "origin."),
        )
    }

    /// Whether the row that was under the key of the entry at `entry` lies under another one now.
    pub(super) fn has_left(self, entry: &str) -> String {
        format!(
            "EXISTS (SELECT 1 FROM {} AS m WHERE m.\"generation\" = ?1 AND {} AND {})",
            self.table.moved_sql(),
            self.table.came_from("m.", entry),
            self.arrives("m."),
        )
    }

    /// Whether the row that lies under the key of the entry at `entry` now came from another one.
    pub(super) fn has_come(self, entry: &str) -> String {
        format!(
            "EXISTS (SELECT 1 FROM {} AS m WHERE m.\"generation\" = ?1 AND {} AND {})",
            self.table.moved_sql(),
            self.table.same_our_key("m.", entry),
            self.departs("m."),
        )
    }

    /// The record at `moved` is no key change.
    fn fails(self, moved: &str) -> String {
        format!("NOT ({} AND {})", self.departs(moved), self.arrives(moved))
    }
}

/// Puts the key changes of a frozen generation, which was not committed, and those of the open one
/// together: a row that went from X to K and then from K to L has gone from X to L. Comes before
/// the entries of both are put together.
pub(super) fn merge_back(
    connection: &Connection,
    table: &RemoteTable,
    frozen: i64,
    open: i64,
) -> rusqlite::Result<()> {
    if !has_any(connection, table, frozen)? && !has_any(connection, table, open)? {
        return Ok(());
    }
    let (moved, change) = (table.moved_sql(), table.change_sql());
    let (keys, froms) = (table.our_keys_sql(""), table.origin_keys_sql(""));
    // A record that does not count in the frozen generation would count for nothing, or wrongly.
    let fails = Validity { table, with_newer: true }.fails(&format!("{moved}."));
    let run = |sql: &str, parameters: &[i64]| {
        connection.execute(sql, rusqlite::params_from_iter(parameters))
    };
    run(&format!("DELETE FROM {moved} WHERE \"generation\" = ?1 AND {fails}"), &[frozen, open])?;
    let composed = list(table.key.iter().map(|key| format!("coalesce(f.{0}, o.{0})", key.from())));
    let same_place = |left: &str, right: &str| {
        all(table.key.iter().map(|key| format!("{left}{} = {right}{}", key.ours(), key.from())))
    };
    // The row under o's origin was there before the frozen generation, or came from elsewhere in
    // it; otherwise it was inserted in it, and is an insert still.
    run(
        &format!(
            "INSERT INTO {moved}(\"generation\", {keys}, {froms}) \
             SELECT {SCRATCH}, {}, {composed} FROM {moved} AS o \
             LEFT JOIN {moved} AS f ON f.\"generation\" = ?1 AND {} \
             LEFT JOIN {change} AS e ON e.\"generation\" = ?1 AND {} \
             WHERE o.\"generation\" = ?2 AND (f.\"generation\" IS NOT NULL \
             OR e.\"generation\" IS NULL OR e.\"existed\" = 1 AND NOT EXISTS \
             (SELECT 1 FROM {moved} AS x WHERE x.\"generation\" = ?1 AND {}))",
            table.our_keys_sql("o."),
            same_place("f.", "o."),
            same_place("e.", "o."),
            all(table.key.iter().map(|key| format!("x.{0} = o.{0}", key.from()))),
        ),
        &[frozen, open],
    )?;
    // What the frozen one says of rows that have stayed where they came to.
    run(
        &format!(
            "INSERT INTO {moved}(\"generation\", {keys}, {froms}) \
             SELECT {SCRATCH}, {}, {} FROM {moved} AS f WHERE f.\"generation\" = ?1 \
             AND NOT EXISTS (SELECT 1 FROM {moved} AS o WHERE o.\"generation\" = ?2 AND {}) \
             AND NOT EXISTS (SELECT 1 FROM {moved} AS o WHERE o.\"generation\" = ?2 AND {}) \
             ON CONFLICT DO NOTHING",
            table.our_keys_sql("f."),
            table.origin_keys_sql("f."),
            table.same_our_key("o.", "f."),
            table.came_from("o.", "f."),
        ),
        &[frozen, open],
    )?;
    run(&format!("DELETE FROM {moved} WHERE \"generation\" IN (?1, ?2)"), &[frozen, open])?;
    run(
        &format!("DELETE FROM {moved} WHERE \"generation\" = {SCRATCH} AND {}", {
            same_place("", "")
        }),
        &[],
    )?;
    run(
        &format!("UPDATE {moved} SET \"generation\" = ?1 WHERE \"generation\" = {SCRATCH}"),
        &[open],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests;
