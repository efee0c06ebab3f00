//! Rows that an upload changes beyond its own, by the actions of foreign keys.
//!
//! The owner of the database declared these actions, but they are reported: the rows are counted,
//! also those of unpublished tables. One query before the statement finds them, because rows that a
//! foreign key deletes leave no trace. The schema says whether there is anything to query. It is
//! read again when SQLite's counter of schema changes has changed.

use super::catalog::CatalogTable;
use super::errors::failed;
use super::key_change::Spot;
use super::stretch::end_of_log;
use super::tables::{self, UserTable};
use super::upload::Attempt;
use super::values::{Bind, write_row};
use crate::quote::{ident, idents};
use crate::reach::{self, Action, By, Effect, ForeignKey, Step};
use crate::synchronization::Change;
use crate::uploaded_row::{UploadedRow, each_row};
use model::{Code, Failure, PublishedTable, ValueRef};
use rusqlite::Connection;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::sync::Arc;

/// The foreign keys of the database that do something to rows, as they were read last.
#[derive(Debug, Default)]
pub(super) struct KnownReach {
    known: RefCell<Option<(i64, Arc<Reach>)>>,
}

impl KnownReach {
    /// As it is now.
    pub(super) fn now(&self, connection: &Connection) -> Result<Arc<Reach>, Failure> {
        let version: i64 = connection
            .prepare_cached("PRAGMA schema_version")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(failed("read the schema version"))?;
        let mut known = self.known.borrow_mut();
        if let Some((of, reach)) = known.as_ref()
            && *of == version
        {
            return Ok(reach.clone());
        }
        let reach = Arc::new(Reach::read(connection)?);
        *known = Some((version, reach.clone()));
        Ok(reach)
    }
}

/// What foreign keys do to rows.
#[derive(Debug, Default)]
pub(super) struct Reach {
    tables: Vec<UserTable>,
    graph: Vec<ForeignKey>,
    /// Beside the graph: columns of the child and of the parent.
    columns: Vec<Vec<(String, String)>>,
    /// By table, what is asked when its rows are deleted.
    by_delete: BTreeMap<String, String>,
}

impl Reach {
    fn read(connection: &Connection) -> Result<Reach, Failure> {
        let tables: Vec<UserTable> = tables::read(connection)?.into_values().collect();
        let position = |name: &str| tables.iter().position(|table| same_name(&table.name, name));
        let mut reach = Reach::default();
        for (child, table) in tables.iter().enumerate() {
            for key in &table.foreign_keys {
                let written: Vec<String> =
                    key.columns.iter().map(|(from, _)| from.clone()).collect();
                let action = |name: &str| match name {
                    "SET NULL" | "SET DEFAULT" => Action::Write(written.clone()),
                    _ => Action::Nothing,
                };
                let (on_delete, on_update) = (key.on_delete.as_str(), key.on_update.as_str());
                let on_delete =
                    if on_delete == "CASCADE" { Action::Delete } else { action(on_delete) };
                let on_update = match on_update {
                    "CASCADE" => Action::Write(written.clone()),
                    other => action(other),
                };
                let acts = on_delete != Action::Nothing || on_update != Action::Nothing;
                let Some(parent) = position(&key.parent).filter(|_| acts) else { continue };
                let referred = key.columns.iter().map(|(_, to)| to.clone()).collect();
                reach.graph.push(ForeignKey { child, parent, referred, on_delete, on_update });
                reach.columns.push(key.columns.clone());
            }
        }
        reach.tables = tables;
        for (at, table) in reach.tables.iter().enumerate() {
            let steps = reach::steps(&reach.graph, at, Effect::Gone);
            let query = reach.query(at, &steps);
            reach.by_delete.extend(query.map(|query| (table.name.clone(), query)));
        }
        Ok(reach)
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.tables.iter().position(|table| table.name == name)
    }

    /// Whether foreign keys may reach rows of the table.
    fn is_reached(&self, name: &str) -> bool {
        self.position(name).is_some_and(|at| self.graph.iter().any(|key| key.child == at))
    }

    /// Whether a key change of the table may reach others.
    fn key_changes_reach(&self, name: &str) -> bool {
        let acts =
            |at| self.graph.iter().any(|key| key.parent == at && key.on_update != Action::Nothing);
        self.position(name).is_some_and(acts)
    }

    /// What is asked when a row of the table changes as `row` says.
    fn by_key_change(&self, table: &CatalogTable, row: &UploadedRow<'_>) -> Option<String> {
        let published = &table.published;
        let at = self.position(&published.name)?;
        let pairs = published.columns.iter().zip(row.old.iter().zip(&row.new));
        let changed = pairs.filter(|(_, (old, new))| !ValueRef::identical(**old, **new));
        let changed = changed.map(|(column, _)| column.clone()).collect();
        self.query(at, &reach::steps(&self.graph, at, Effect::Changed(changed)))
    }

    /// Find the keys of those rows of `below` that would go with the row of `above` whose key is in
    /// the parameters, or change.
    pub(super) fn children(&self, above: &str, below: &PublishedTable) -> Vec<String> {
        let (Some(parent), Some(child)) = (self.position(above), self.position(&below.name)) else {
            return Vec::new();
        };
        let key = below.key.iter().map(|at| below.columns[usize::from(*at)].clone());
        let key: Vec<String> = key.collect();
        let acting = self.graph.iter().zip(&self.columns).filter(|(key, _)| {
            (key.parent, key.child) == (parent, child) && key.on_delete != Action::Nothing
        });
        let query = |columns: &Vec<(String, String)>| {
            let same = columns.iter();
            let same = same.map(|(from, to)| format!("p.{} = c.{}", ident(to), ident(from)));
            format!(
                "SELECT {} FROM (SELECT * FROM {} WHERE {}) AS p CROSS JOIN {} AS c WHERE {}",
                idents("c.", &key),
                ident(above),
                numbered(&self.tables[parent].key),
                ident(&below.name),
                same.collect::<Vec<_>>().join(" AND "),
            )
        };
        acting.map(|(_, columns)| query(columns)).collect()
    }

    /// Finds what the row with the key in the parameters reaches: the table and what tells the row
    /// apart. None where no foreign key acts.
    fn query(&self, start: usize, steps: &[Step]) -> Option<String> {
        let seed = &self.tables[start];
        if steps.is_empty() || seed.key.is_empty() {
            return None;
        }
        let reached = steps.iter().map(|step| (step.to, self.graph[step.key].child));
        let mut states: Vec<(usize, usize)> = reached.collect();
        states.sort_unstable();
        states.dedup();
        let involved = states.iter().map(|(_, table)| &self.tables[*table]).chain([seed]);
        let width = involved.clone().map(|table| place(table).len()).max()?;
        let names = involved.map(|table| identity(table).len()).max()?;
        let mut terms = vec![format!(
            "SELECT 0, 0, {} FROM {} AS t WHERE {}",
            padded(&place(seed), "t", width),
            ident(&seed.name),
            numbered(&seed.key),
        )];
        for step in steps {
            let key = &self.graph[step.key];
            let (parent, child) = (&self.tables[key.parent], &self.tables[key.child]);
            let pairs = self.columns[step.key].iter();
            let same = pairs.map(|(from, to)| format!("p.{} = c.{}", ident(to), ident(from)));
            terms.push(format!(
                "SELECT 1, {}, {} FROM reached AS r CROSS JOIN {} AS p CROSS JOIN {} AS c
                 WHERE r.state = {} AND {} AND {}",
                step.to,
                padded(&place(child), "c", width),
                ident(&parent.name),
                ident(&child.name),
                step.from,
                found_at(parent, "p"),
                same.collect::<Vec<_>>().join(" AND "),
            ));
        }
        let results = states.iter().map(|(state, table)| {
            format!(
                "SELECT {table}, {} FROM reached AS r CROSS JOIN {} AS t
                 WHERE r.beyond AND r.state = {state} AND {}",
                padded(&identity(&self.tables[*table]), "t", names),
                ident(&self.tables[*table].name),
                found_at(&self.tables[*table], "t"),
            )
        });
        let places = (0..width).map(|at| format!("k{at}")).collect::<Vec<_>>().join(", ");
        Some(format!(
            "WITH RECURSIVE reached(beyond, state, {places}) AS ({}) {}",
            terms.join(" UNION "),
            results.collect::<Vec<_>>().join(" UNION ALL "),
        ))
    }
}

/// SQLite finds the parents of foreign keys in any letter case.
fn same_name(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// The columns by which a row is found again at once.
fn place(table: &UserTable) -> Vec<String> {
    let shadowed = |name: &&str| table.columns.iter().any(|c| same_name(&c.name, name));
    let rowid = ["rowid", "_rowid_", "oid"].into_iter().find(|name| !shadowed(name));
    match (table.without_rowid, rowid) {
        (false, Some(rowid)) => vec![rowid.to_owned()],
        _ => table.key.clone(),
    }
}

/// The columns that tell a row apart.
fn identity(table: &UserTable) -> Vec<String> {
    if table.key.is_empty() { place(table) } else { table.key.clone() }
}

fn found_at(table: &UserTable, alias: &str) -> String {
    let columns = place(table).into_iter().enumerate();
    let same = columns.map(|(at, column)| format!("{alias}.{} = r.k{at}", ident(&column)));
    same.collect::<Vec<_>>().join(" AND ")
}

fn padded(columns: &[String], alias: &str, width: usize) -> String {
    let columns = columns.iter().map(|column| format!("{alias}.{}", ident(column)));
    let padding = std::iter::repeat_n("NULL".to_owned(), width);
    columns.chain(padding).take(width).collect::<Vec<_>>().join(", ")
}

fn numbered(names: &[String]) -> String {
    let each = names.iter().enumerate();
    each.map(|(at, name)| format!("{} = ?{}", ident(name), at + 1))
        .collect::<Vec<_>>()
        .join(" AND ")
}

fn mark(table: usize, key: &[u8]) -> u128 {
    let mut hasher = SipHasher13::new_with_keys(0, table as u64);
    hasher.write(key);
    hasher.finish128().as_u128()
}

/// Rows that a change is about to reach.
pub(super) type Reaching = Option<(By, Vec<u128>)>;

impl Attempt<'_> {
    /// Takes note of the rows that the upload changes or deletes itself, where deletes or, with
    /// `key_changes`, these may reach them.
    pub(super) fn name_rows(&mut self, key_changes: bool) -> Result<(), Failure> {
        let (connection, batches, tables) = (self.connection, self.request.batches, self.tables);
        let reach = self.known_reach.now(connection)?;
        let reached = &mut self.reached;
        let published = |position: usize| &tables[position].published;
        let wanted = |position: usize, change| {
            let goes = change == Change::Delete || key_changes && change != Change::Insert;
            goes && reach.is_reached(&published(position).name)
        };
        each_row(batches, &published, wanted, |position, row| {
            let Some(at) = reach.position(&published(position).name) else { return Ok(()) };
            let (_, key) = row.key(published(position), position);
            reached.name(mark(at, &key), row.change == Change::Delete);
            Ok(())
        })?;
        self.reach = Some(reach);
        Ok(())
    }

    /// The rows that `row` reaches when it is applied, beyond those that the upload names.
    pub(super) fn reaching(
        &self,
        table: &CatalogTable,
        row: &UploadedRow<'_>,
    ) -> Result<Reaching, Failure> {
        let Some(reach) = &self.reach else { return Ok(None) };
        let name = &table.published.name;
        let (by, query) = match row.change {
            Change::Insert | Change::Update => return Ok(None),
            Change::Delete => (By::Delete, reach.by_delete.get(name).cloned()),
            Change::KeyChange if !reach.key_changes_reach(name) => return Ok(None),
            Change::KeyChange => (By::KeyChange, reach.by_key_change(table, row)),
        };
        let Some(query) = query else { return Ok(None) };
        let asking = failed("look for the rows that foreign keys reach");
        let mut statement = self.connection.prepare_cached(&query).map_err(&asking)?;
        for (index, column) in table.published.key.iter().enumerate() {
            let value = Bind(row.old[usize::from(*column)]);
            statement.raw_bind_parameter(index + 1, value).map_err(&asking)?;
        }
        let mut marks = Vec::new();
        let mut rows = statement.raw_query();
        while let Some(found) = rows.next().map_err(&asking)? {
            let at = found.get::<_, u32>(0).map_err(&asking)? as usize;
            let mut values = Vec::new();
            write_row(&mut values, found, 1 + identity(&reach.tables[at]).len())
                .map_err(&asking)?;
            marks.push(mark(at, model::skip_row(&values, 1)?));
        }
        Ok(Some((by, marks)))
    }

    /// Whether the upload changes or deletes the row itself.
    pub(super) fn names(&self, table: &str, key: &[u8]) -> bool {
        let at = self.reach.as_ref().and_then(|reach| reach.position(table));
        at.is_some_and(|at| self.reached.names(&mark(at, key)))
    }

    /// Takes note of reached rows.
    pub(super) fn has_reached(&mut self, reaching: Reaching) {
        if let Some((by, marks)) = reaching {
            self.reached.extend(by, marks);
        }
    }
}

/// SQLite's count of changes at a moment, with what is not the rows' own taken out.
pub(super) struct Tally {
    changes: u64,
    direct: u64,
}

impl Tally {
    /// Of this moment.
    pub(super) fn now(attempt: &Attempt<'_>) -> Result<Tally, Failure> {
        let ours = our_entries(attempt.connection, attempt.tables)?;
        let changes = attempt.connection.total_changes().saturating_sub(ours);
        Ok(Tally { changes, direct: attempt.direct })
    }

    /// Whether rows may have changed since that no statement of the upload named, by foreign keys
    /// or triggers.
    pub(super) fn differs(&self, now: &Tally) -> bool {
        now.changes.saturating_sub(self.changes) > now.direct - self.direct
    }
}

/// What our triggers and statements have written: entries of logs, and notes about conflicts.
fn our_entries(connection: &Connection, tables: &[Arc<CatalogTable>]) -> Result<u64, Failure> {
    let mut entries = connection
        .prepare_cached("SELECT coalesce(max(conflict_id), 0) FROM syncline_conflict")
        .and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(0)))
        .map_err(failed("count what an upload changes"))?;
    for table in tables.iter().filter(|table| table.published.direction.downloads()) {
        entries += end_of_log(connection, &table.published.name)?;
    }
    Ok(entries.unsigned_abs())
}

/// Rejects the rows of the upload that were deleted although the upload does not delete them.
pub(super) fn tell_what_was_taken_along(attempt: &mut Attempt<'_>) -> Result<(), Failure> {
    let (batches, tables) = (attempt.request.batches, attempt.tables);
    let published = |position: usize| &tables[position].published;
    let wanted = |_, change| change != Change::Delete;
    each_row(batches, &published, wanted, |position, row| {
        let table = &tables[position];
        if Spot::of(attempt, table, row)?.occupant.is_some() {
            return Ok(());
        }
        let id = row.key(&table.published, position);
        // A row that was rebased, lost or rejected is owed already.
        if !attempt.is_owed(&id)? {
            let message = "a delete of the same upload also removed or changed the row".to_owned();
            attempt.reject(table, position, row, (Code::RowTakenAlong, message))?;
        }
        Ok(())
    })
}
