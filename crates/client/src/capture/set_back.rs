//! Rows that went along with a key change and were set back.
//!
//! A row that others refer to gets another key, and `ON UPDATE` takes these along, or sets them to
//! NULL or a default. The user sets one back to the old key, which another row has by then. That
//! row is as it was, and yet it says more than one that was never touched: this one the center's
//! own `ON UPDATE` takes along, and that one is to stay. So it is uploaded as an update that
//! changes nothing (`ROWS_STAY`), and what is downloaded for it meanwhile does not replace it.
//! Likewise where it refers to another UNIQUE value that one row leaves, or goes with, and another
//! one takes: there `ON DELETE` acts as well.

use super::change_log::Entry;
use super::moves;
use crate::connection::{bind, explain, value};
use crate::schema::key_reference::{Reference, references};
use crate::schema::reference::references_from;
use crate::schema::{Image, RemoteTable};
use crate::sql::{all, ident, list};
use model::{Failure, Value, ValueRef, write_value};
use rusqlite::Connection;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// The foreign keys of published tables to rows that have left their keys in one generation.
pub(crate) struct SetBack<'a> {
    connection: &'a Connection,
    tables: &'a [RemoteTable],
    references: Vec<Reference>,
    generation: i64,
    /// By table, what was looked up.
    left: RefCell<HashMap<u16, Rc<[Left]>>>,
}

/// Values of other columns than the key that rows of a parent have left.
struct Left {
    /// The referring columns, as positions.
    columns: Vec<usize>,
    values: HashSet<Vec<u8>>,
}

impl<'a> SetBack<'a> {
    /// Those of `generation`. Nearly always there are none, and no row is looked up.
    pub(crate) fn of(
        connection: &'a Connection,
        tables: &'a [RemoteTable],
        generation: i64,
    ) -> Result<SetBack<'a>, Failure> {
        let mut moving = Vec::with_capacity(tables.len());
        for table in tables {
            let moves = table.uploads() && table.in_foreign_keys;
            moving.push(moves && moves::has_any(connection, table, generation).map_err(explain)?);
        }
        let mut references = match moving.contains(&true) {
            true => references(connection, tables).map_err(explain)?,
            false => Vec::new(),
        };
        references.retain(|it| moving[it.parent_at]);
        let left = RefCell::default();
        Ok(SetBack { connection, tables, references, generation, left })
    }

    pub(crate) fn generation(&self) -> i64 {
        self.generation
    }

    fn from(&self, table: &RemoteTable) -> impl Iterator<Item = &Reference> {
        let at = usize::from(table.position);
        self.references.iter().filter(move |it| it.child_at == Some(at))
    }

    /// Whether the row of `entry`, which is as it was, was set back.
    pub(crate) fn has(&self, table: &RemoteTable, entry: &Entry<'_>) -> Result<bool, Failure> {
        for reference in self.from(table) {
            let columns = &table.published.columns;
            let place = |name: &String| columns.iter().position(|it| it.eq_ignore_ascii_case(name));
            let places = reference.columns.iter().map(place);
            let Some(places) = places.collect::<Option<Vec<usize>>>() else { continue };
            let values = places.iter().map(|&at| entry.after(at));
            let values: Vec<ValueRef<'_>> = values.collect::<Result<_, _>>().map_err(explain)?;
            let parent = &self.tables[reference.parent_at];
            let key = parent.key.iter().enumerate();
            let same = all(key.map(|(n, key)| format!("m.{} = ?{}", key.from(), n + 1)));
            let sql = format!("SELECT 1 FROM {} AS m WHERE {same}", parent.moved_sql());
            if self.finds(&sql, &values)? {
                return Ok(true);
            }
        }
        for left in self.left(table)?.iter().filter(|left| !left.values.is_empty()) {
            let values = left.columns.iter().map(|&at| entry.after(at));
            let values: Vec<ValueRef<'_>> = values.collect::<Result<_, _>>().map_err(explain)?;
            if left.values.contains(&encoded(&values)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same of the row with our key `key`.
    pub(crate) fn has_row(&self, table: &RemoteTable, key: &[Value]) -> Result<bool, Failure> {
        for reference in self.from(table) {
            let parent = &self.tables[reference.parent_at];
            let columns = reference.columns.iter().zip(&parent.key);
            let same = all(columns.map(|(name, key)| {
                format!("t.{} = m.{}{}", ident(name), key.from(), key.collate())
            }));
            let sql = format!(
                "SELECT 1 FROM {} AS t, {} AS m WHERE {} AND {same}",
                table.table_sql(),
                parent.moved_sql(),
                table.key_is_parameter("t.", 1),
            );
            let key: Vec<ValueRef<'_>> = key.iter().map(Value::as_ref).collect();
            if self.finds(&sql, &key)? {
                return Ok(true);
            }
        }
        let names = &table.published.columns;
        for left in self.left(table)?.iter().filter(|left| !left.values.is_empty()) {
            let sql = format!(
                "SELECT {} FROM {} AS t WHERE {}",
                list(left.columns.iter().map(|&at| format!("t.{}", ident(&names[at])))),
                table.table_sql(),
                table.key_is_parameter("t.", 1),
            );
            let values = left.columns.len();
            if self.read(&sql, key, values)?.iter().any(|value| left.values.contains(value)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Per foreign key of the table to other columns than a key: the values that are left.
    fn left(&self, table: &RemoteTable) -> Result<Rc<[Left]>, Failure> {
        if let Some(left) = self.left.borrow().get(&table.position) {
            return Ok(left.clone());
        }
        let mut found = Vec::new();
        let at = usize::from(table.position);
        let by_value = self.tables.iter().any(|parent| parent.referred_by_value);
        let references = match by_value && table.in_foreign_keys {
            true => references_from(self.connection, self.tables, at).map_err(explain)?,
            false => Vec::new(),
        };
        for reference in references {
            let Some(parent) = reference.parent_at.map(|at| &self.tables[at]) else { continue };
            let place = |table: &RemoteTable, name: &str| {
                table.published.columns.iter().position(|it| it.eq_ignore_ascii_case(name))
            };
            let pairs = reference.columns.iter();
            let pairs = pairs.map(|(from, to)| Some((place(table, from)?, place(parent, to)?)));
            let Some(pairs) = pairs.collect::<Option<Vec<_>>>() else { continue };
            let is_key = |at: usize| parent.key.iter().any(|key| key.position == at);
            let all_in_key = pairs.iter().all(|(_, to)| is_key(*to));
            // A large value is kept only where it changes.
            let large = pairs.iter().any(|(_, to)| parent.large[*to].is_some());
            if !parent.uploads() || all_in_key || large {
                continue;
            }
            let names = pairs.iter().map(|(_, to)| parent.published.columns[*to].as_str());
            let old = |name: &str| format!("c.{}", Image::Old.column(name));
            let stays = names.clone().map(|name| format!("t.{} IS {}", ident(name), old(name)));
            let sql = format!(
                "SELECT {} FROM {} AS c WHERE c.\"existed\" = 1 AND NOT EXISTS \
                 (SELECT 1 FROM {} AS t WHERE {} AND {}) AND c.\"generation\" = ?1",
                list(names.map(old)),
                parent.change_sql(),
                parent.table_sql(),
                parent.same_key("t.", "c."),
                all(stays),
            );
            let values = self.read(&sql, &[Value::Integer(self.generation)], pairs.len())?;
            let columns = pairs.iter().map(|(from, _)| *from).collect();
            found.push(Left { columns, values });
        }
        let found: Rc<[Left]> = found.into();
        self.left.borrow_mut().insert(table.position, found.clone());
        Ok(found)
    }

    /// What a query finds, encoded, without rows that have a NULL.
    fn read(
        &self,
        sql: &str,
        parameters: &[Value],
        width: usize,
    ) -> Result<HashSet<Vec<u8>>, Failure> {
        let read = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            for (n, parameter) in parameters.iter().enumerate() {
                bind(&mut statement, n + 1, parameter.as_ref())?;
            }
            let (mut rows, mut found) = (statement.raw_query(), HashSet::new());
            while let Some(row) = rows.next()? {
                let values = (0..width).map(|n| value(row, n)).collect::<Result<Vec<_>, _>>()?;
                if !values.contains(&ValueRef::Null) {
                    found.insert(encoded(&values));
                }
            }
            Ok(found)
        };
        read().map_err(explain)
    }

    /// Whether the query finds a key change, of the generation.
    fn finds(&self, sql: &str, values: &[ValueRef<'_>]) -> Result<bool, Failure> {
        let sql = format!("{sql} AND m.\"generation\" = ?{}", values.len() + 1);
        let find = || {
            let mut statement = self.connection.prepare_cached(&sql)?;
            for (n, value) in values.iter().enumerate() {
                bind(&mut statement, n + 1, *value)?;
            }
            statement.raw_bind_parameter(values.len() + 1, self.generation)?;
            Ok(statement.raw_query().next()?.is_some())
        };
        find().map_err(explain)
    }
}

fn encoded(values: &[ValueRef<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    values.iter().for_each(|value| write_value(&mut bytes, *value));
    bytes
}

#[cfg(test)]
mod tests;
