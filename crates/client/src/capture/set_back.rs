//! Rows that went along with a key change and were set back.
//!
//! A row that others refer to gets another key, and `ON UPDATE` takes these along, or sets them to
//! NULL or a default. The user sets one back to the old key, which another row has by then. That
//! row is as it was, and yet it says more than one that was never touched: this one the centre's
//! own `ON UPDATE` takes along, and that one is to stay. So it is uploaded as an update that
//! changes nothing (`ROWS_STAY`), and what is downloaded for it meanwhile does not replace it.

use super::change_log::Entry;
use super::moves;
use crate::apply::followers::{Reference, references};
use crate::connection::{bind, explain};
use crate::schema::RemoteTable;
use crate::sql::{all, ident};
use model::{Failure, Value, ValueRef};
use rusqlite::Connection;

/// The foreign keys of published tables to rows that have left their keys in one generation.
pub(crate) struct SetBack<'a> {
    connection: &'a Connection,
    tables: &'a [RemoteTable],
    references: Vec<Reference>,
    generation: i64,
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
        Ok(SetBack { connection, tables, references, generation })
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
        Ok(false)
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

#[cfg(test)]
mod tests;
