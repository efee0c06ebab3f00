//! What an uploaded row itself does to foreign keys.
//!
//! SQLite only counts broken foreign keys. A row without its parent adds one. A new parent
//! subtracts one for each row that refers to it, also for an old orphan that was never counted. So
//! a parent that arrives for an old orphan hides a new violation (trap 26). So beside the count the
//! uploaded rows themselves are looked at.

use crate::quote::ident;
use crate::sqlite::deploy::tables::{self, UserTable};
use crate::sqlite::details::CatalogTable;
use crate::sqlite::errors::failed;
use crate::sqlite::upload::input::Turn;
use crate::sqlite::upload::orphans::{foreign_keys, without_parent};
use crate::sqlite::values::Bind;
use crate::synchronization::change::Change;
use model::{Failure, ValueRef};
use rusqlite::Connection;
use std::sync::Arc;

/// A table of the upload, and columns of it.
type ColumnsOf = (usize, Vec<usize>);

/// A foreign key of the consolidated database.
struct Watched {
    child: String,
    parent: String,
    /// The key of the child, and what refers and is referred to, where the upload has it.
    key: Option<ColumnsOf>,
    from: Option<ColumnsOf>,
    to: Option<ColumnsOf>,
    /// Looks whether the child with this key refers to nothing.
    by_key: String,
    /// Looks whether a child refers to these values, and they are nowhere.
    by_values: String,
}

/// The foreign keys with an uploaded table at either end.
pub(in crate::sqlite::upload) struct ForeignKeys(Vec<Watched>);

/// The end at which a row breaks a foreign key, which is meant by its position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum End {
    /// The row refers to nothing.
    Child(usize),
    /// The row has left those that refer to it.
    Parent(usize),
}

impl ForeignKeys {
    pub(in crate::sqlite::upload) fn of(
        connection: &Connection,
        tables: &[Arc<CatalogTable>],
    ) -> Result<ForeignKeys, Failure> {
        let user_tables = tables::read(connection)?;
        let place = |table: &str, names: &[&str]| -> Option<ColumnsOf> {
            let at = tables.iter().position(|it| it.published.name == table)?;
            let columns = &tables[at].published.columns;
            let position = |name: &&str| columns.iter().position(|column| column == name);
            Some((at, names.iter().map(position).collect::<Option<_>>()?))
        };
        let watched = |(child, foreign_key): (&UserTable, &crate::deploy::ForeignKey)| {
            let (from, to): (Vec<&str>, Vec<&str>) =
                foreign_key.columns.iter().map(|(from, to)| (from.as_str(), to.as_str())).unzip();
            let key: Vec<&str> = child.key.iter().map(String::as_str).collect();
            let orphans = without_parent(child, foreign_key);
            Watched {
                child: child.name.clone(),
                parent: foreign_key.parent.clone(),
                key: place(&child.name, &key),
                from: place(&child.name, &from),
                to: place(&foreign_key.parent, &to),
                by_key: looking(&orphans, &key),
                by_values: looking(&orphans, &from),
            }
        };
        let all = foreign_keys(&user_tables).map(watched);
        Ok(ForeignKeys(
            all.filter(|watched| watched.from.is_some() || watched.to.is_some()).collect(),
        ))
    }

    /// The foreign keys that are broken now at the row, if it is one that the upload has changed.
    pub(super) fn broken_at(
        &self,
        connection: &Connection,
        turn: Turn<'_>,
    ) -> Result<Vec<End>, Failure> {
        let (Turn { position, row, .. }, mut broken) = (turn, Vec::new());
        let differs = |columns: &[usize]| columns.iter().any(|at| row.old[*at] != row.new[*at]);
        for (at, watched) in self.0.iter().enumerate() {
            if let (Some((table, from)), Some((_, key))) = (&watched.from, &watched.key)
                && *table == position
                && row.change != Change::Delete
                && (row.change == Change::Insert || differs(from))
                && exists(connection, &watched.by_key, &row.new, key)?
            {
                broken.push(End::Child(at));
            }
            if let Some((table, to)) = &watched.to
                && *table == position
                && row.change != Change::Insert
                && (row.change == Change::Delete || differs(to))
                && exists(connection, &watched.by_values, &row.old, to)?
            {
                broken.push(End::Parent(at));
            }
        }
        Ok(broken)
    }

    /// Why a row is rejected that breaks a foreign key.
    pub(super) fn reason(&self, end: End) -> String {
        match end {
            End::Child(at) => {
                let Watched { child, parent, .. } = &self.0[at];
                format!("{child} refers to a missing row of {parent}")
            }
            End::Parent(at) => format!("rows of {} refer to the row", self.0[at].child),
        }
    }
}

/// Looks whether one of the `orphans` has given values in `columns`.
fn looking(orphans: &str, columns: &[&str]) -> String {
    let columns = columns.iter().enumerate();
    let parts: Vec<String> =
        columns.map(|(n, column)| format!("c.{} = ?{}", ident(column), n + 1)).collect();
    let condition = parts.join(" AND ");
    format!("SELECT 1 FROM {orphans} AND {condition}")
}

fn exists(
    connection: &Connection,
    sql: &str,
    image: &[ValueRef<'_>],
    columns: &[usize],
) -> Result<bool, Failure> {
    let look = || {
        let mut statement = connection.prepare_cached(sql)?;
        for (n, at) in columns.iter().enumerate() {
            statement.raw_bind_parameter(n + 1, Bind(image[*at]))?;
        }
        Ok(statement.raw_query().next()?.is_some())
    };
    look().map_err(failed("look for rows without a parent"))
}
