//! What refers to a row follows it when the row gets another key.
//!
//! Rows follow where the file's own foreign keys say so. What they do not know is done here: a
//! change that waits for a child was captured under the old key of its parent, so its base follows
//! too; a child whose own key has a part of the parent's gets it in any case, as its parent does.

use super::Circumstances;
use super::key_changes::{bind_all, execute, is_constraint};
use crate::capture::change_log;
use crate::connection::{explain, value};
use crate::schema::{Image, LocalTable, RemoteTable};
use crate::sql::{all, ident, list};
use model::{Code, Failure, Value, ValueRef};
use rusqlite::Connection;

/// A row goes from one key to another.
pub(super) struct Shift<'a, 'b> {
    pub(super) old: &'b [ValueRef<'a>],
    pub(super) new: &'b [ValueRef<'a>],
    /// The old key is a spare one: the row has been told under another before.
    pub(super) from_spare: bool,
}

/// A foreign key that refers to the whole key of a published table.
struct Reference {
    /// The table that refers, and its position where it is published.
    child: String,
    child_at: Option<usize>,
    parent_at: usize,
    /// Per column of the parent's key, the column that refers to it.
    columns: Vec<String>,
}

pub(super) struct Followers<'a> {
    connection: &'a Connection,
    circumstances: &'a Circumstances<'a>,
    references: Vec<Reference>,
    /// Per table: its rows that have other keys are noted.
    noted: Vec<bool>,
}

impl<'a> Followers<'a> {
    pub(super) fn read(
        connection: &'a Connection,
        circumstances: &'a Circumstances<'a>,
    ) -> Result<Followers<'a>, Failure> {
        let references = references(connection, circumstances.tables).map_err(explain)?;
        let noted = vec![false; circumstances.tables.len()];
        Ok(Followers { connection, circumstances, references, noted })
    }

    /// The table's key has a part of the key of one that is `moving`.
    pub(super) fn has_key_of(&self, table: &RemoteTable, moving: &[bool]) -> bool {
        let mut up = self.references.iter().filter(|it| refers(it, table));
        up.any(|it| moving[it.parent_at] && it.columns.iter().any(|name| in_key(table, name)))
    }

    /// The key under which a row lies by now whose parents may have got other keys.
    pub(super) fn key_by_now(
        &self,
        table: &RemoteTable,
        told: &[ValueRef<'_>],
    ) -> Result<Vec<Value>, Failure> {
        let mut key: Vec<Value> = told.iter().map(|value| ValueRef::to_owned(*value)).collect();
        for reference in self.references.iter().filter(|it| refers(it, table)) {
            let at = reference.columns.iter().map(|name| position_in_key(table, name));
            let Some(at) = at.collect::<Option<Vec<usize>>>() else { continue };
            if !self.noted[reference.parent_at] {
                continue;
            }
            let parent = &self.circumstances.tables[reference.parent_at];
            let sql = format!(
                "SELECT {} FROM {} WHERE {}",
                parent.origin_keys_sql(""),
                shifts_sql(parent),
                parent.our_key_is_parameter(1)
            );
            let old: Vec<ValueRef<'_>> = at.iter().map(|&at| told[at]).collect();
            let mut statement = self.connection.prepare_cached(&sql).map_err(explain)?;
            bind_all(&mut statement, &old).map_err(explain)?;
            let mut rows = statement.raw_query();
            if let Some(row) = rows.next().map_err(explain)? {
                for (n, &at) in at.iter().enumerate() {
                    key[at] = value(row, n).map_err(explain)?.to_owned();
                }
            }
        }
        Ok(key)
    }

    /// The row of `table` has its new key; what waits for those who refer to it follows.
    pub(super) fn follow(
        &mut self,
        table: &RemoteTable,
        shift: &Shift<'_, '_>,
    ) -> Result<(), Failure> {
        self.note(table, shift)?;
        let at = usize::from(table.position);
        for reference in self.references.iter().filter(|it| it.parent_at == at) {
            let Some(child) = reference.child_at.map(|at| &self.circumstances.tables[at]) else {
                continue;
            };
            let generation = self.circumstances.open_generation;
            let has_changes =
                change_log::has_entries(self.connection, child, generation).map_err(explain)?;
            let follow = Follow { followers: self, table, reference, child, shift };
            let in_key = reference.columns.iter().any(|name| in_key(child, name));
            if in_key || has_changes {
                follow.rows(in_key)?;
            }
            if has_changes {
                follow.changes()?;
            }
        }
        Ok(())
    }

    /// Everything that refers to the row goes along, because the row is about to be deleted in
    /// favour of the one with the new key.
    pub(super) fn take_along(
        &self,
        table: &RemoteTable,
        shift: &Shift<'_, '_>,
    ) -> Result<(), Failure> {
        let at = usize::from(table.position);
        for reference in self.references.iter().filter(|it| it.parent_at == at) {
            let sql = format!(
                "UPDATE OR IGNORE {} SET {} WHERE {}",
                ident(&reference.child),
                sets(&reference.columns, ident, table.key.len()),
                matches(table, &reference.columns, ident)
            );
            self.run(table, &sql, shift)?;
        }
        Ok(())
    }

    /// Forgets what was noted.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let tables = self.circumstances.tables.iter().zip(&self.noted);
        for (table, _) in tables.filter(|(_, noted)| **noted) {
            let sql = format!("DROP TABLE temp.{}", shifts_sql(table));
            self.connection.execute_batch(&sql).map_err(explain)?;
        }
        Ok(())
    }

    /// Notes where a row is by now.
    fn note(&mut self, table: &RemoteTable, shift: &Shift<'_, '_>) -> Result<(), Failure> {
        let at = usize::from(table.position);
        let shifts = shifts_sql(table);
        if !std::mem::replace(&mut self.noted[at], true) {
            let sql = format!(
                "CREATE TEMP TABLE {shifts} ({}, {}, PRIMARY KEY ({})) WITHOUT ROWID",
                table.our_keys_declared(),
                table.origin_keys_declared(),
                table.our_keys_sql(""),
            );
            self.connection.execute_batch(&sql).map_err(explain)?;
        }
        let len = table.key.len();
        let sql = if shift.from_spare {
            let now = table.key.iter().enumerate();
            let is_spare = all(now.map(|(n, key)| format!("{} = ?{}", key.from(), n + 1)));
            let sets = table.key.iter().enumerate();
            let sets = list(sets.map(|(n, key)| format!("{} = ?{}", key.from(), n + len + 1)));
            format!("UPDATE {shifts} SET {sets} WHERE {is_spare}")
        } else {
            let values = crate::sql::parameters(1, 2 * len);
            format!("INSERT OR IGNORE INTO {shifts} VALUES ({values})")
        };
        self.run(table, &sql, shift)
    }

    fn run(&self, table: &RemoteTable, sql: &str, shift: &Shift<'_, '_>) -> Result<(), Failure> {
        let both: Vec<ValueRef<'_>> = shift.old.iter().chain(shift.new).copied().collect();
        match execute(self.connection, sql, &both) {
            Ok(_) => Ok(()),
            Err(error) if is_constraint(&error) => {
                let message =
                    format!("a row that refers to a moved row of {} cannot follow", table.name());
                Err(Failure::new(Code::ApplyBlocked, message).table(table.name()).source(error))
            }
            Err(error) => Err(explain(error)),
        }
    }
}

/// One table that refers to the row that has another key.
struct Follow<'a, 'b> {
    followers: &'b Followers<'a>,
    table: &'b RemoteTable,
    reference: &'b Reference,
    child: &'b RemoteTable,
    shift: &'b Shift<'b, 'b>,
}

impl Follow<'_, '_> {
    fn run(&self, sql: &str) -> Result<(), Failure> {
        self.followers.run(self.table, sql, self.shift)
    }

    /// The children that no foreign key has taken along: all, or those that are changed here.
    fn rows(&self, all_rows: bool) -> Result<(), Failure> {
        let (child, columns) = (self.child, &self.reference.columns);
        let changed = match all_rows {
            true => String::new(),
            false => format!(
                " AND EXISTS (SELECT 1 FROM {} AS c WHERE c.\"generation\" = {} AND {})",
                child.change_sql(),
                self.followers.circumstances.open_generation,
                child.same_key(&format!("{}.", child.table_sql()), "c."),
            ),
        };
        self.run(&format!(
            "UPDATE {} SET {} WHERE {}{changed}",
            child.table_sql(),
            sets(columns, ident, self.table.key.len()),
            matches(self.table, columns, ident),
        ))
    }

    /// What was captured of the children, and what was downloaded for them.
    fn changes(&self) -> Result<(), Failure> {
        let (child, columns, width) = (self.child, &self.reference.columns, self.table.key.len());
        let generation = self.followers.circumstances.open_generation;
        let (change, incoming) = (child.change_sql(), child.incoming_sql());
        let published = columns.iter().all(|name| child.published.columns.contains(name));
        let whole = columns.iter().all(|name| in_key(child, name));
        let old = |name: &str| Image::Old.column(name);
        let new = |name: &str| Image::Incoming.column(name);
        let ours = |name: &str| ident(&format!("key_{name}"));
        let from = |name: &str| ident(&format!("from_{name}"));
        if whole {
            let is = |column: &dyn Fn(&str) -> String| matches(self.table, columns, column);
            let set = |column: &dyn Fn(&str) -> String| sets(columns, column, width);
            let at = format!("\"generation\" = {generation} AND");
            self.run(&format!("UPDATE {change} SET {} WHERE {at} {}", set(&ours), is(&ours)))?;
            self.run(&format!(
                "UPDATE OR IGNORE {incoming} SET {} WHERE {}",
                set(&ours),
                is(&ours)
            ))?;
            self.run(&format!("DELETE FROM {incoming} WHERE {}", is(&ours)))?;
            let moved = child.moved_sql();
            self.run(&format!("UPDATE {moved} SET {} WHERE {at} {}", set(&ours), is(&ours)))?;
            self.run(&format!("UPDATE {moved} SET {} WHERE {at} {}", set(&from), is(&from)))?;
        }
        if published {
            self.run(&format!(
                "UPDATE {change} SET {} \
                 WHERE \"generation\" = {generation} AND \"existed\" = 1 AND {}",
                sets(columns, old, width),
                matches(self.table, columns, old)
            ))?;
            self.run(&format!(
                "UPDATE {incoming} SET {} WHERE \"present\" AND {}",
                sets(columns, new, width),
                matches(self.table, columns, new)
            ))?;
        }
        Ok(())
    }
}

fn refers(reference: &Reference, table: &RemoteTable) -> bool {
    reference.child_at == Some(usize::from(table.position))
}

fn position_in_key(table: &RemoteTable, name: &str) -> Option<usize> {
    table.key.iter().position(|key| key.name.eq_ignore_ascii_case(name))
}

fn in_key(table: &RemoteTable, name: &str) -> bool {
    position_in_key(table, name).is_some()
}

fn shifts_sql(table: &RemoteTable) -> String {
    ident(&format!("syncline_shifted_{}", table.position))
}

/// The columns get the values of the parameters behind the first `width`.
fn sets(columns: &[String], spell: impl Fn(&str) -> String, width: usize) -> String {
    list(
        columns.iter().enumerate().map(|(n, name)| format!("{} = ?{}", spell(name), width + n + 1)),
    )
}

/// The columns have the values of the first parameters, as the parent compares them.
fn matches(parent: &RemoteTable, columns: &[String], spell: impl Fn(&str) -> String) -> String {
    all(columns
        .iter()
        .zip(&parent.key)
        .enumerate()
        .map(|(n, (name, key))| format!("{} = ?{}{}", spell(name), n + 1, key.collate())))
}

/// A foreign key as SQLite lists it: the table that refers, its number there, the table that it
/// refers to, and per column what refers to what.
type Declared = (String, i64, String, Vec<(String, Option<String>)>);

/// The foreign keys of the file that refer to the whole key of a published table.
fn references(connection: &Connection, tables: &[RemoteTable]) -> rusqlite::Result<Vec<Reference>> {
    let mut statement = connection.prepare_cached(
        "SELECT s.name, f.id, f.\"table\", f.\"from\", f.\"to\"
         FROM sqlite_schema AS s, pragma_foreign_key_list(s.name) AS f
         WHERE s.type = 'table' ORDER BY s.name, f.id, f.seq",
    )?;
    let mut found: Vec<Declared> = Vec::new();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (child, id, parent): (String, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let column = (row.get(3)?, row.get(4)?);
        match found.last_mut() {
            Some((name, last, _, columns)) if *name == child && *last == id => columns.push(column),
            _ => found.push((child, id, parent, vec![column])),
        }
    }
    let at = |name: &str| tables.iter().position(|table| table.name().eq_ignore_ascii_case(name));
    let mut references = Vec::new();
    for (child, _, parent, columns) in found {
        let Some(parent_at) = at(&parent) else { continue };
        let Some(local) = LocalTable::read(connection, &parent)? else { continue };
        let parent = &tables[parent_at];
        let refers_to = |(n, (_, to)): (usize, &(String, Option<String>))| match to {
            Some(to) => position_in_key(parent, to),
            // Without a name the columns of the primary key are meant, in its order.
            None => local.key.get(n).and_then(|key| position_in_key(parent, &key.name)),
        };
        let order: Option<Vec<usize>> = columns.iter().enumerate().map(refers_to).collect();
        let Some(order) = order.filter(|order| order.len() == parent.key.len()) else { continue };
        let mut by_key = vec![None; order.len()];
        for (at, (from, _)) in order.into_iter().zip(columns) {
            by_key[at] = Some(from);
        }
        let Some(columns) = by_key.into_iter().collect() else { continue };
        let child_at = at(&child);
        references.push(Reference { child, child_at, parent_at, columns });
    }
    Ok(references)
}
