//! Rows that refer to a row follow it when the row gets another key.
//!
//! Rows follow by the foreign keys of the file, except rows that the center has not moved
//! (`staying.rs`). Two cases are not covered by foreign keys. A pending change of a child was
//! captured under the old key of its parent, so its base follows too. And if the key of a child
//! contains a part of its parent's key, the child gets the new part in any case.

use crate::apply::circumstances::Circumstances;
use crate::apply::constraint::is_constraint;
use crate::apply::download::Download;
use crate::apply::key_changes::shift::Shift;
use crate::apply::key_changes::staying::{Staying, Told};
use crate::apply::rejects::Withheld;
use crate::apply::values::{bind_all, execute};
use crate::capture::change_log;
use crate::connection::{explain, value};
use crate::schema::key_reference::{Reference, in_key, matches, position_in_key, references};
use crate::schema::{Image, RemoteTable};
use crate::sql::{all, ident, list};
use model::{Code, Failure, Value, ValueRef};
use rusqlite::Connection;

pub(in crate::apply) struct Followers<'a> {
    pub(super) connection: &'a Connection,
    pub(super) circumstances: &'a Circumstances<'a>,
    references: Vec<Reference>,
    /// Per table: its rows that have other keys are noted.
    noted: Vec<bool>,
    pub(super) told: Told,
}

impl<'a> Followers<'a> {
    pub(in crate::apply) fn read(
        connection: &'a Connection,
        download: &Download,
        circumstances: &'a Circumstances<'a>,
        withheld: &[Withheld],
        moving: &[bool],
    ) -> Result<Followers<'a>, Failure> {
        let references = references(connection, circumstances.tables).map_err(explain)?;
        let noted = vec![false; circumstances.tables.len()];
        let among = (references.as_slice(), moving);
        let told = Told::read(connection, download, circumstances, withheld, among)?;
        Ok(Followers { connection, circumstances, references, noted, told })
    }

    /// Runs what changes the key of a row of `table`. The file's own foreign keys act upon those
    /// children only of which the center does not speak.
    pub(in crate::apply) fn act_upon_others(
        &self,
        table: &RemoteTable,
        shift: &Shift<'_, '_>,
        act: impl FnOnce() -> rusqlite::Result<usize>,
    ) -> Result<rusqlite::Result<usize>, Failure> {
        let at = usize::from(table.position);
        let mut hidden = Vec::new();
        for reference in self.references.iter().filter(|it| it.parent_at == at) {
            if let Some(staying) = self.staying(reference) {
                let spellings = staying.hide(shift)?;
                hidden.push((staying, spellings));
            }
        }
        let done = act();
        for (staying, spellings) in &hidden {
            staying.show(spellings)?;
        }
        Ok(done)
    }

    pub(super) fn staying<'b>(&'b self, reference: &'b Reference) -> Option<Staying<'b>> {
        let tables = self.circumstances.tables;
        let child = reference.child_at.map(|at| &tables[at])?;
        reference.is_governed_by_center(child).then(|| Staying {
            connection: self.connection,
            generation: self.circumstances.open_generation,
            told: &self.told,
            reference,
            parent: &tables[reference.parent_at],
            child,
        })
    }

    /// The table's key has a part of the key of one that is `moving`.
    pub(in crate::apply) fn has_key_of(&self, table: &RemoteTable, moving: &[bool]) -> bool {
        let mut up = self.references.iter().filter(|it| refers(it, table));
        up.any(|it| moving[it.parent_at] && it.columns.iter().any(|name| in_key(table, name)))
    }

    /// The present key of a row that the download names by this key, with its new key. They differ
    /// if its parents have got other keys and the row has followed.
    pub(in crate::apply) fn key_by_now(
        &self,
        table: &RemoteTable,
        told: &[ValueRef<'_>],
        new: &[ValueRef<'_>],
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
                let mut now = Vec::with_capacity(at.len());
                for n in 0..at.len() {
                    now.push(value(row, n).map_err(explain)?.to_owned());
                }
                let now_refs: Vec<ValueRef<'_>> = now.iter().map(Value::as_ref).collect();
                let wanted: Vec<ValueRef<'_>> = at.iter().map(|&at| new[at]).collect();
                if self.is_same_key(parent, &now_refs, &wanted)? {
                    at.iter().zip(now).for_each(|(&at, value)| key[at] = value);
                }
            }
        }
        Ok(key)
    }

    /// Whether the table calls both keys equal.
    pub(in crate::apply) fn is_same_key(
        &self,
        table: &RemoteTable,
        left: &[ValueRef<'_>],
        right: &[ValueRef<'_>],
    ) -> Result<bool, Failure> {
        let columns = table.key.iter().enumerate();
        let same = all(columns
            .map(|(n, key)| format!("?{} = ?{}{}", n + 1, n + left.len() + 1, key.collate())));
        let sql = format!("SELECT 1 WHERE {same}");
        let mut statement = self.connection.prepare_cached(&sql).map_err(explain)?;
        let both: Vec<ValueRef<'_>> = left.iter().chain(right).copied().collect();
        bind_all(&mut statement, &both).map_err(explain)?;
        Ok(statement.raw_query().next().map_err(explain)?.is_some())
    }

    /// The row of `table` has its new key; pending changes of rows that refer to it follow.
    pub(in crate::apply) fn follow(
        &mut self,
        table: &RemoteTable,
        shift: &Shift<'_, '_>,
    ) -> Result<(), Failure> {
        self.note(table, shift)?;
        self.told.follow(self.connection, table, shift)?;
        let at = usize::from(table.position);
        for reference in self.references.iter().filter(|it| it.parent_at == at) {
            let Some(child) = reference.child_at.map(|at| &self.circumstances.tables[at]) else {
                continue;
            };
            let generation = self.circumstances.open_generation;
            let has_changes =
                change_log::has_entries(self.connection, child, generation).map_err(explain)?;
            let follow = Follow { followers: self, table, reference, child, shift };
            let has_part = reference.columns.iter().any(|name| in_key(child, name));
            let all_rows = has_part || reference.is_governed_by_center(child);
            if has_changes || has_part || self.told.speaks_of(child) {
                follow.rows(all_rows)?;
            }
            if has_changes {
                follow.changes()?;
            }
            if reference.columns.iter().all(|name| in_key(child, name)) {
                let spare = shift.from_spare;
                let sql = self.told.follow_parent(reference, table, child, spare);
                sql.map_or(Ok(()), |sql| self.run(table, &sql, shift))?;
            }
        }
        Ok(())
    }

    /// All rows that refer to the row follow, because the row will be deleted and the one with the
    /// new key stays.
    pub(in crate::apply) fn take_along(
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
    pub(in crate::apply) fn finish(self) -> Result<(), Failure> {
        self.told.finish(self.connection, self.circumstances.tables)?;
        let tables = self.circumstances.tables.iter().zip(&self.noted);
        for (table, _) in tables.filter(|(_, noted)| **noted) {
            let sql = format!("DROP TABLE temp.{}", shifts_sql(table));
            self.connection.execute_batch(&sql).map_err(explain)?;
        }
        Ok(())
    }

    /// Notes the present key of a row.
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
        followed(table, execute(self.connection, sql, &shift.values()))
    }
}

/// What became of rows that refer to a moved row of `table`.
fn followed(table: &RemoteTable, done: rusqlite::Result<usize>) -> Result<(), Failure> {
    match done {
        Ok(_) => Ok(()),
        Err(error) if is_constraint(&error) => {
            let message =
                format!("a row that refers to a moved row of {} cannot follow", table.name());
            Err(Failure::new(Code::ApplyBlocked, message).table(table.name()).source(error))
        }
        Err(error) => Err(explain(error)),
    }
}

/// One table that refers to the row that has another key.
pub(super) struct Follow<'a, 'b> {
    pub(super) followers: &'b Followers<'a>,
    pub(super) table: &'b RemoteTable,
    pub(super) reference: &'b Reference,
    pub(super) child: &'b RemoteTable,
    pub(super) shift: &'b Shift<'b, 'b>,
}

impl Follow<'_, '_> {
    fn run(&self, sql: &str) -> Result<(), Failure> {
        self.followers.run(self.table, sql, self.shift)
    }

    /// The children that follow and that no foreign key has moved: all, or those with a pending
    /// change.
    fn rows(&self, all_rows: bool) -> Result<(), Failure> {
        let (child, columns) = (self.child, &self.reference.columns);
        let changed = match all_rows {
            true => String::new(),
            false => format!(
                " AND EXISTS (SELECT 1 FROM {} AS c WHERE c.\"generation\" = {} AND {})",
                child.change_sql(),
                self.followers.circumstances.open_generation,
                child.same_key("t.", "c."),
            ),
        };
        let goes = match self.followers.staying(self.reference) {
            Some(staying) if !self.shift.from_spare => format!(" AND {}", staying.follows()?),
            _ => String::new(),
        };
        let sql = format!(
            "UPDATE {} AS t SET {} WHERE {}{changed}{goes}",
            child.table_sql(),
            sets(columns, ident, self.table.key.len()),
            matches(self.table, columns, |name| format!("t.{}", ident(name))),
        );
        match execute(self.followers.connection, &sql, &self.shift.values()) {
            Err(error) if is_constraint(&error) && self.delete_replaced()? => self.run(&sql),
            done => followed(self.table, done),
        }
    }

    /// The captured changes of the children that follow, and the rows that were downloaded for them
    /// before.
    fn changes(&self) -> Result<(), Failure> {
        let (child, columns, width) = (self.child, &self.reference.columns, self.table.key.len());
        let generation = self.followers.circumstances.open_generation;
        let change = child.change_sql();
        let old = |name: &str| Image::Old.column(name);
        if columns.iter().all(|name| child.published.columns.contains(name)) {
            self.run(&format!(
                "UPDATE {change} AS c SET {} \
                 WHERE c.\"generation\" = {generation} AND c.\"existed\" = 1 AND {}{}",
                sets(columns, old, width),
                matches(self.table, columns, |name| format!("c.{}", old(name))),
                self.who_go(&self.told(&child.same_our_key("s.", "c."))),
            ))?;
        }
        if columns.iter().all(|name| in_key(child, name)) {
            self.keys()?;
        }
        Ok(())
    }

    /// The keys of what was captured and downloaded, which have the parent's.
    fn keys(&self) -> Result<(), Failure> {
        let (child, columns, width) = (self.child, &self.reference.columns, self.table.key.len());
        let at = format!("\"generation\" = {}", self.followers.circumstances.open_generation);
        let (change, moved, incoming) =
            (child.change_sql(), child.moved_sql(), child.incoming_sql());
        let ours = |name: &str| ident(&format!("key_{name}"));
        let from = |name: &str| ident(&format!("from_{name}"));
        let is = |alias: &str, column: &dyn Fn(&str) -> String| {
            matches(self.table, columns, |name| format!("{alias}{}", column(name)))
        };
        let set = |column: &dyn Fn(&str) -> String| sets(columns, column, width);
        // Of a row that was moved here the center speaks under the key that it came from.
        let told_origin = self.told(&child.came_from("m.", "s."));
        let origin = format!("(NOT {} OR {told_origin})", is("m.", &from));
        let here = format!("FROM {moved} AS m WHERE m.{at} AND {}", child.same_our_key("m.", "c."));
        let goes = format!(
            "{} OR (c.\"existed\" = 0 AND NOT EXISTS (SELECT 1 {here})) \
             OR EXISTS (SELECT 1 {here} AND {origin})",
            self.told(&child.same_our_key("s.", "c.")),
        );
        let come = self.who_go(&self.told(&child.same_our_key("s.", "i.")));
        for sql in [
            format!(
                "UPDATE {change} AS c SET {} WHERE c.{at} AND {}{}",
                set(&ours),
                is("c.", &ours),
                self.who_go(&goes)
            ),
            format!(
                "UPDATE {moved} AS m SET {} WHERE m.{at} AND {}{}",
                set(&ours),
                is("m.", &ours),
                self.who_go(&origin)
            ),
            format!(
                "UPDATE {moved} AS m SET {} WHERE m.{at} AND {}{}",
                set(&from),
                is("m.", &from),
                self.who_go(&told_origin)
            ),
            format!(
                "UPDATE OR IGNORE {incoming} AS i SET {} WHERE {}{come}",
                set(&ours),
                is("i.", &ours)
            ),
            format!("DELETE FROM {incoming} AS i WHERE {}{come}", is("i.", &ours)),
        ] {
            self.run(&sql)?;
        }
        Ok(())
    }

    /// The condition that the center has moved the row that `same` finds among those named at `s`.
    fn told(&self, same: &str) -> String {
        let (told, reference) = (&self.followers.told, self.reference);
        told.moved(reference, self.table, self.child, same)
    }

    /// A condition for children that the center publishes. The others always follow, and so do all
    /// that refer to a temporary key.
    fn who_go(&self, condition: &str) -> String {
        match self.followers.staying(self.reference) {
            Some(_) if !self.shift.from_spare => format!(" AND ({condition})"),
            _ => String::new(),
        }
    }
}

fn refers(reference: &Reference, table: &RemoteTable) -> bool {
    reference.child_at == Some(usize::from(table.position))
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
