//! Foreign keys between published tables that refer to keys.

use super::details::CatalogTable;
use crate::sqlite::deploy::tables::{self, UserTable};
use model::Failure;
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A foreign key.
pub(super) struct Link {
    pub(super) child: usize,
    /// The referring columns, in the order of the parent's key.
    pub(super) columns: Vec<usize>,
    pub(super) parent: usize,
}

/// The tables of an upload as the database describes them, and how they refer to each other.
pub(super) struct Links {
    pub(super) user_tables: BTreeMap<String, UserTable>,
    pub(super) links: Vec<Link>,
}

impl Links {
    pub(super) fn read(
        connection: &Connection,
        tables: &[Arc<CatalogTable>],
    ) -> Result<Links, Failure> {
        let user_tables = tables::read(connection)?;
        let position = |name: &str| tables.iter().position(|t| t.published.name == name);
        let mut links = Vec::new();
        for (child, table) in tables.iter().enumerate() {
            let Some(user_table) = user_tables.get(&table.published.name) else { continue };
            for foreign_key in &user_table.foreign_keys {
                let Some(parent) = position(&foreign_key.parent) else { continue };
                let above = &tables[parent].published;
                let column = |key: &u16| {
                    let name = &above.columns[usize::from(*key)];
                    let (from, _) = foreign_key.columns.iter().find(|(_, to)| to == name)?;
                    table.published.columns.iter().position(|column| column == from)
                };
                let columns: Option<Vec<usize>> = above.key.iter().map(column).collect();
                if let Some(columns) = columns.filter(|c| c.len() == foreign_key.columns.len()) {
                    links.push(Link { child, columns, parent });
                }
            }
        }
        Ok(Links { user_tables, links })
    }

    /// Those by which rows of the table at `child` refer to others.
    pub(super) fn of(&self, child: usize) -> impl Iterator<Item = &Link> {
        self.links.iter().filter(move |link| link.child == child)
    }
}
