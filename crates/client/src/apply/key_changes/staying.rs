//! Children that stay when the row to which they refer gets another key.
//!
//! The center sends every row that it has changed. So a child that it moved together with the
//! parent is in the same download. A child that is not in the download has stayed: foreign keys
//! were off, and it refers to a missing row, or to the row that now has the key (trap 26). The
//! file's own `ON UPDATE` cannot know that. So while a key changes, children that the center
//! publishes refer to a temporary value, and get their own value back afterwards.
//!
//! Other rows follow their parent: rows of tables that are not downloaded, foreign keys of columns
//! that are not published, rows that were inserted here, and rows that were made to refer to the
//! row here.

use crate::apply::circumstances::Circumstances;
use crate::apply::constraint::is_constraint;
use crate::apply::download::Download;
use crate::apply::key_changes::shift::Shift;
use crate::apply::rejects::Withheld;
use crate::apply::values::{bind_all, execute};
use crate::capture::change_log;
use crate::connection::{explain, value};
use crate::schema::key_reference::{Reference, in_key, matches};
use crate::schema::{Affinity, Image, LocalTable, RemoteTable};
use crate::sql::{all, ident, list, parameters};
use model::{Failure, RowReader, Value, ValueRef};
use protocol::{Operation, RowsFrame};
use rusqlite::Connection;

/// The parents of children, in a download that changes keys of parents: by the present key of each
/// child, the parent to which it refers now.
pub(in crate::apply) struct Told {
    noted: Vec<bool>,
}

impl Told {
    /// Reads it, where it decides: of children whose own key has a part of the parent's, and of
    /// children with a pending change. All others are written afterwards as they came.
    pub(in crate::apply) fn read(
        connection: &Connection,
        download: &Download,
        circumstances: &Circumstances<'_>,
        withheld: &[Withheld],
        (references, moving): (&[Reference], &[bool]),
    ) -> Result<Told, Failure> {
        let mut notes = Vec::new();
        for (at, child) in circumstances.tables.iter().enumerate() {
            let references = references.iter().filter(|it| {
                it.child_at == Some(at) && moving[it.parent_at] && it.is_governed_by_center(child)
            });
            let references: Vec<&Reference> = references.collect();
            let is_withheld = withheld.iter().any(|withheld| withheld.table == at);
            notes.push(Note::new(connection, circumstances, (child, is_withheld), &references)?);
        }
        let mut reader = download.upserts.reader();
        while let Some(payload) = reader.next_chunk()? {
            let (table, operation, count) = RowsFrame::split(&payload)?;
            if let Some(Some(note)) = notes.get(usize::from(table)) {
                note.hear(operation, &payload[RowsFrame::PREFIX_BYTES..], count)?;
            }
        }
        for Withheld { table, key } in withheld {
            if let Some(Some(note)) = notes.get(*table) {
                note.withheld(key)?;
            }
        }
        Ok(Told { noted: notes.iter().map(Option::is_some).collect() })
    }

    /// Something is noted of rows of the table.
    pub(in crate::apply) fn speaks_of(&self, table: &RemoteTable) -> bool {
        self.noted[usize::from(table.position)]
    }

    /// A row of `table` lies under another key now.
    pub(in crate::apply) fn follow(
        &self,
        connection: &Connection,
        table: &RemoteTable,
        shift: &Shift<'_, '_>,
    ) -> Result<(), Failure> {
        if !self.speaks_of(table) {
            return Ok(());
        }
        let len = table.key.len();
        let sets = table.key.iter().enumerate();
        let sets = list(sets.map(|(n, key)| format!("{} = ?{}", key.ours(), n + len + 1)));
        let told = told_sql(table);
        let sql = format!("UPDATE {told} SET {sets} WHERE {}", table.our_key_is_parameter(1));
        execute(connection, &sql, &shift.values()).map(drop).map_err(explain)
    }

    /// The condition that the change noted at `told` follows its parent.
    fn goes(&self, reference: &Reference, parent: &RemoteTable) -> String {
        format!("(s.\"withheld\" OR {})", self.is_told(reference, parent))
    }

    /// The condition that the row noted at `s` refers to the parent at the center.
    fn is_told(&self, reference: &Reference, parent: &RemoteTable) -> String {
        let width = parent.key.len();
        let to = reference.columns.iter().zip(&parent.key).enumerate();
        all(to.map(|(n, (name, key))| {
            format!("s.{} = ?{}{}", to_sql(name), 2 * width + n + 1, key.collate())
        }))
    }

    /// The condition that something is noted of the row that `same` finds.
    pub(super) fn speaks_of_row(&self, child: &RemoteTable, same: &str) -> String {
        match self.speaks_of(child) {
            false => "0".into(),
            true => format!("EXISTS (SELECT 1 FROM {} AS s WHERE {same})", told_sql(child)),
        }
    }

    /// The condition that the row that `same` finds has come to the parent at the center, and has
    /// been sent.
    pub(super) fn has_come(
        &self,
        reference: &Reference,
        parent: &RemoteTable,
        child: &RemoteTable,
        same: &str,
    ) -> String {
        let is_told = self.is_told(reference, parent);
        self.speaks_of_row(child, &format!("{same} AND NOT s.\"withheld\" AND {is_told}"))
    }

    /// The condition that the center has moved the row that `same` finds among those named at `s`.
    pub(in crate::apply) fn moved(
        &self,
        reference: &Reference,
        parent: &RemoteTable,
        child: &RemoteTable,
        same: &str,
    ) -> String {
        let goes = self.goes(reference, parent);
        self.speaks_of_row(child, &format!("{same} AND {goes}"))
    }

    /// The key of the noted change follows that of the parent.
    pub(in crate::apply) fn follow_parent(
        &self,
        reference: &Reference,
        parent: &RemoteTable,
        child: &RemoteTable,
        from_spare: bool,
    ) -> Option<String> {
        if !self.speaks_of(child) {
            return None;
        }
        let ours = |name: &str| ident(&format!("key_{name}"));
        let width = parent.key.len();
        let sets = reference.columns.iter().enumerate();
        let sets = list(sets.map(|(n, name)| format!("{} = ?{}", ours(name), width + n + 1)));
        let goes = match from_spare {
            true => String::new(),
            false => format!(" AND {}", self.goes(reference, parent)),
        };
        let is = matches(parent, &reference.columns, ours);
        Some(format!("UPDATE {} AS s SET {sets} WHERE {is}{goes}", told_sql(child)))
    }

    /// Forgets what was noted.
    pub(in crate::apply) fn finish(
        &self,
        connection: &Connection,
        tables: &[RemoteTable],
    ) -> Result<(), Failure> {
        for (table, _) in tables.iter().zip(&self.noted).filter(|(_, noted)| **noted) {
            let sql = format!("DROP TABLE temp.{}", told_sql(table));
            connection.execute_batch(&sql).map_err(explain)?;
        }
        Ok(())
    }
}

/// What is noted of one table.
struct Note<'a> {
    connection: &'a Connection,
    child: &'a RemoteTable,
    /// Positions of the columns that refer to parents.
    columns: Vec<usize>,
    insert: String,
    /// Rows that kept their key are noted too, where a change of them waits.
    has_changes: bool,
}

impl<'a> Note<'a> {
    fn new(
        connection: &'a Connection,
        circumstances: &Circumstances<'_>,
        (child, is_withheld): (&'a RemoteTable, bool),
        references: &[&Reference],
    ) -> Result<Option<Note<'a>>, Failure> {
        let generation = circumstances.open_generation;
        let has_changes =
            change_log::has_entries(connection, child, generation).map_err(explain)?;
        let names: Vec<&String> = references.iter().flat_map(|it| &it.columns).collect();
        let decides = has_changes || is_withheld || names.iter().any(|name| in_key(child, name));
        if names.is_empty() || !decides {
            return Ok(None);
        }
        let is_referring = |name: &String| names.iter().any(|it| it.eq_ignore_ascii_case(name));
        let columns: Vec<usize> =
            (0..child.width()).filter(|at| is_referring(&child.published.columns[*at])).collect();
        let to = columns.iter().map(|at| to_sql(&child.published.columns[*at]));
        let to: String = to.map(|column| format!(", {column}")).collect();
        let told = told_sql(child);
        connection
            .execute_batch(&format!(
                "CREATE TEMP TABLE {told} ({}, \"withheld\" INTEGER NOT NULL{to});
                 CREATE INDEX temp.{} ON {told} ({})",
                child.our_keys_declared(),
                ident(&format!("syncline_told_key_{}", child.position)),
                child.our_keys_sql(""),
            ))
            .map_err(explain)?;
        let width = child.key.len() + 1 + columns.len();
        let always = width + 1;
        let insert = format!(
            "INSERT INTO {told} SELECT {} WHERE ?{always} OR EXISTS (SELECT 1 FROM {} \
             WHERE \"generation\" = {generation} AND {})",
            parameters(1, width),
            child.change_sql(),
            child.our_key_is_parameter(1),
        );
        let insert = match child.uploads() {
            true => insert,
            false => format!("INSERT INTO {told} SELECT {} WHERE ?{always}", parameters(1, width)),
        };
        Ok(Some(Note { connection, child, columns, insert, has_changes }))
    }

    fn hear(&self, operation: Operation, rows: &[u8], count: u32) -> Result<(), Failure> {
        let child = self.child;
        let changes_key = operation == Operation::KeyChange;
        if !changes_key && !self.has_changes {
            return Ok(());
        }
        let mut reader = RowReader::new(rows);
        for _ in 0..count {
            let mut key = Vec::with_capacity(child.key.len());
            if changes_key {
                for _ in &child.key {
                    key.push(reader.value()?);
                }
            }
            let mut row = Vec::with_capacity(child.width());
            for _ in 0..child.width() {
                row.push(reader.value()?);
            }
            if !changes_key {
                key.extend(child.key.iter().map(|key| row[key.position]));
            }
            self.insert(&key, false, self.columns.iter().map(|at| row[*at]), changes_key)?;
        }
        Ok(())
    }

    /// Where the row is now only the center knows.
    fn withheld(&self, key: &[Value]) -> Result<(), Failure> {
        let key: Vec<ValueRef<'_>> = key.iter().map(Value::as_ref).collect();
        self.insert(&key, true, self.columns.iter().map(|_| ValueRef::Null), true)
    }

    fn insert<'v>(
        &self,
        key: &[ValueRef<'v>],
        withheld: bool,
        to: impl Iterator<Item = ValueRef<'v>>,
        always: bool,
    ) -> Result<(), Failure> {
        let mut values = key.to_vec();
        values.push(ValueRef::Integer(i64::from(withheld)));
        values.extend(to);
        values.push(ValueRef::Integer(i64::from(always)));
        execute(self.connection, &self.insert, &values).map(drop).map_err(explain)
    }
}

/// One foreign key whose parent gets another key.
pub(in crate::apply) struct Staying<'a> {
    pub(in crate::apply) connection: &'a Connection,
    pub(in crate::apply) generation: i64,
    pub(in crate::apply) told: &'a Told,
    pub(in crate::apply) reference: &'a Reference,
    pub(in crate::apply) parent: &'a RemoteTable,
    pub(in crate::apply) child: &'a RemoteTable,
}

/// Children that refer to a temporary value.
pub(in crate::apply) struct Hidden {
    value: Value,
    number: usize,
}

impl Staying<'_> {
    /// The condition that the row `t` of the child's table follows its parent.
    pub(in crate::apply) fn follows(&self) -> Result<String, Failure> {
        let Staying { told, reference, parent, child, generation, .. } = *self;
        let came = told.moved(reference, parent, child, &child.same_key("t.", "s."));
        if !self.has_changes()? {
            return Ok(came);
        }
        let origin = format!(
            "EXISTS (SELECT 1 FROM {} AS m JOIN {} AS c ON c.\"generation\" = {generation} AND {} \
             WHERE m.\"generation\" = {generation} AND {} AND {})",
            child.moved_sql(),
            child.change_sql(),
            child.came_from("m.", "c."),
            child.same_key("t.", "m."),
            told.moved(reference, parent, child, &child.same_our_key("s.", "c.")),
        );
        Ok(format!("({came} OR {origin} OR {})", self.was_chosen_here()?))
    }

    /// The condition that the row at `t` was made to refer to its parent here.
    fn was_chosen_here(&self) -> Result<String, Failure> {
        if !self.has_changes()? {
            return Ok("0".into());
        }
        let (child, generation) = (self.child, self.generation);
        let (change, moved) = (child.change_sql(), child.moved_sql());
        let differs = self.differs_from_base();
        Ok(format!(
            "(EXISTS (SELECT 1 FROM {change} AS c \
             WHERE c.\"generation\" = {generation} AND {here} AND (c.\"existed\" = 0 OR {differs}) \
             AND NOT EXISTS (SELECT 1 FROM {moved} AS m \
             WHERE m.\"generation\" = {generation} AND {same})) \
             OR EXISTS (SELECT 1 FROM {moved} AS m JOIN {change} AS c \
             ON c.\"generation\" = {generation} AND {origin} \
             WHERE m.\"generation\" = {generation} AND {moved_here} AND {differs}))",
            here = child.same_key("t.", "c."),
            same = child.same_our_key("m.", "c."),
            origin = child.came_from("m.", "c."),
            moved_here = child.same_key("t.", "m."),
        ))
    }

    fn has_changes(&self) -> Result<bool, Failure> {
        change_log::has_entries(self.connection, self.child, self.generation).map_err(explain)
    }

    /// The change at `c` has made its row refer to the parent.
    fn differs_from_base(&self) -> String {
        let columns = self.reference.columns.iter().zip(&self.parent.key).enumerate();
        let differs = columns.map(|(n, (name, key))| {
            let old = Image::Old.column(name);
            let differs = format!("NOT coalesce(c.{old} = ?{}{}, 0)", n + 1, key.collate());
            let mut large = self.child.published.columns.iter().zip(&self.child.large);
            match large.find(|(it, _)| it.eq_ignore_ascii_case(name)).and_then(|(_, bit)| *bit) {
                // It is kept only where it has changed.
                Some(bit) => format!("(c.\"captured\" & {} AND {differs})", 1u64 << bit),
                None => differs,
            }
        });
        format!("({})", differs.collect::<Vec<_>>().join(" OR "))
    }

    /// Makes the children that the center publishes refer to a temporary value, one for each
    /// notation. Children that moved are moved after the key change, whatever the foreign key would
    /// do.
    pub(in crate::apply) fn hide(&self, shift: &Shift<'_, '_>) -> Result<Vec<Hidden>, Failure> {
        let (table, values) = (self.child.table_sql(), shift.values());
        let stays = format!(
            "{} AND NOT {}",
            matches(self.parent, &self.reference.columns, |name| format!("t.{}", ident(name))),
            self.was_chosen_here()?
        );
        let Some(last) = self.reference.columns.last().map(|name| ident(name)) else {
            return Ok(Vec::new());
        };
        let mut hidden = Vec::new();
        {
            let sql = format!(
                "SELECT DISTINCT typeof(t.{last}), t.{last} COLLATE BINARY FROM {table} AS t \
                 WHERE {stays}"
            );
            let mut statement = self.connection.prepare_cached(&sql).map_err(explain)?;
            bind_all(&mut statement, &values).map_err(explain)?;
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next().map_err(explain)? {
                let value = value(row, 1).map_err(explain)?.to_owned();
                hidden.push(Hidden { value, number: hidden.len() });
            }
        }
        let at = values.len() + 1;
        for Hidden { value, number } in &hidden {
            let sql = format!(
                "UPDATE {table} AS t SET {last} = {} WHERE {stays} \
                 AND t.{last} = ?{at} COLLATE BINARY AND typeof(t.{last}) = typeof(?{at})",
                self.nobody(*number)?
            );
            let values: Vec<_> = values.iter().copied().chain([value.as_ref()]).collect();
            self.without_checks(&sql, &values)?;
        }
        Ok(hidden)
    }

    /// Gives them back what they referred to.
    pub(in crate::apply) fn show(&self, hidden: &[Hidden]) -> Result<(), Failure> {
        let Some(last) = self.reference.columns.last().map(|name| ident(name)) else {
            return Ok(());
        };
        for Hidden { value, number } in hidden {
            let (table, nobody) = (self.child.table_sql(), self.nobody(*number)?);
            let sql = format!("UPDATE {table} SET {last} = ?1 WHERE {last} = {nobody}");
            execute(self.connection, &sql, &[value.as_ref()]).map_err(explain)?;
        }
        Ok(())
    }

    /// A value of the last column that refers, in SQL, to which no row has ever referred.
    fn nobody(&self, number: usize) -> Result<String, Failure> {
        let local = LocalTable::read(self.connection, self.child.name()).map_err(explain)?;
        let column = self.reference.columns.last().zip(local);
        let column = column.and_then(|(name, local)| local.column(name).cloned());
        Ok(match column.map(|column| column.affinity) {
            Some(Affinity::Text) => format!("char(1) || 'syncline parent {number}'"),
            Some(Affinity::Real) => format!("-4300000000000000.0 - {number}"),
            Some(Affinity::Integer | Affinity::Numeric) => {
                format!("-4300000000000000000 - {number}")
            }
            Some(Affinity::Blob) | None => {
                format!("CAST(char(1) || 'syncline parent {number}' AS BLOB)")
            }
        })
    }

    /// No row has the value. The center has checked the real one.
    fn without_checks(&self, sql: &str, values: &[ValueRef<'_>]) -> Result<(), Failure> {
        match execute(self.connection, sql, values) {
            Ok(_) => return Ok(()),
            Err(error) if !is_constraint(&error) => return Err(explain(error)),
            Err(_) => {}
        }
        let pragma = "ignore_check_constraints";
        let query = |row: &rusqlite::Row<'_>| row.get::<_, bool>(0);
        let before = self.connection.pragma_query_value(None, pragma, query).map_err(explain)?;
        self.connection.pragma_update(None, pragma, true).map_err(explain)?;
        let done = execute(self.connection, sql, values);
        self.connection.pragma_update(None, pragma, before).map_err(explain)?;
        done.map(drop).map_err(explain)
    }
}

fn told_sql(table: &RemoteTable) -> String {
    ident(&format!("syncline_told_{}", table.position))
}

/// The column that has the value of `name` in the downloaded row.
fn to_sql(name: &str) -> String {
    ident(&format!("to_{}", name.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests;
