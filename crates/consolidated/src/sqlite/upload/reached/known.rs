//! What foreign keys do to rows, as it was read last.

use crate::deploy::KeyAction;
use crate::quote::{ident, idents};
use crate::sqlite::deploy::tables;
use crate::sqlite::deploy::tables::UserTable;
use crate::sqlite::details::CatalogTable;
use crate::sqlite::errors::failed;
use crate::upload::reach;
use crate::upload::reach::{Action, Effect, ForeignKey, Step};
use crate::upload::uploaded_row::UploadedRow;
use model::{Failure, PublishedTable, ValueRef};
use rusqlite::Connection;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The foreign keys of the database that do something to rows, as they were read last.
#[derive(Debug, Default)]
pub(in crate::sqlite) struct KnownReach {
    known: RefCell<Option<(i64, Arc<Reach>)>>,
}

impl KnownReach {
    /// As it is now.
    pub(in crate::sqlite) fn now(&self, connection: &Connection) -> Result<Arc<Reach>, Failure> {
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
pub(in crate::sqlite) struct Reach {
    pub(in crate::sqlite::upload) tables: Vec<UserTable>,
    graph: Vec<ForeignKey>,
    /// Beside the graph: columns of the child and of the parent.
    columns: Vec<Vec<(String, String)>>,
    /// By table, what is asked when its rows are deleted.
    pub(in crate::sqlite::upload) by_delete: BTreeMap<String, String>,
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
                let write = |action: KeyAction| match action.writes() {
                    true => Action::Write(written.clone()),
                    false => Action::Nothing,
                };
                let on_delete = match key.on_delete {
                    KeyAction::Cascade => Action::Delete,
                    other => write(other),
                };
                let on_update = write(key.on_update);
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

    pub(in crate::sqlite::upload) fn position(&self, name: &str) -> Option<usize> {
        self.tables.iter().position(|table| table.name == name)
    }

    /// Whether foreign keys may reach rows of the table.
    pub(in crate::sqlite::upload) fn is_reached(&self, name: &str) -> bool {
        self.position(name).is_some_and(|at| self.graph.iter().any(|key| key.child == at))
    }

    /// The columns of the table that foreign keys write.
    pub(in crate::sqlite::upload) fn written(&self, name: &str) -> BTreeSet<String> {
        let at = self.position(name);
        let keys = self.graph.iter().filter(|key| Some(key.child) == at);
        let actions = keys.flat_map(|key| [&key.on_delete, &key.on_update]);
        actions.filter_map(Action::written).flatten().cloned().collect()
    }

    /// Whether a key change of the table may reach others.
    pub(in crate::sqlite::upload) fn key_changes_reach(&self, name: &str) -> bool {
        let acts =
            |at| self.graph.iter().any(|key| key.parent == at && key.on_update != Action::Nothing);
        self.position(name).is_some_and(acts)
    }

    /// What is asked when a row of the table changes as `row` says.
    pub(in crate::sqlite::upload) fn by_key_change(
        &self,
        table: &CatalogTable,
        row: &UploadedRow<'_>,
    ) -> Option<String> {
        let published = &table.published;
        let at = self.position(&published.name)?;
        let pairs = published.columns.iter().zip(row.old.iter().zip(&row.new));
        let changed = pairs.filter(|(_, (old, new))| !ValueRef::identical(**old, **new));
        let changed = changed.map(|(column, _)| column.clone()).collect();
        self.query(at, &reach::steps(&self.graph, at, Effect::Changed(changed)))
    }

    /// Find the keys of those rows of `below` that would go with the row of `above` whose key is in
    /// the parameters, or change.
    pub(in crate::sqlite) fn children(&self, above: &str, below: &PublishedTable) -> Vec<String> {
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
pub(in crate::sqlite) fn identity(table: &UserTable) -> Vec<String> {
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
