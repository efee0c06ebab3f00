//! The tables of a database, as far as rows have to fit them.

mod postgres;
mod sqlite;

use harness::{Dialect, World};

#[derive(Debug)]
pub(crate) struct Catalog {
    /// Parents come first, as far as there is such an order.
    pub(crate) tables: Vec<Table>,
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    /// As a remote calls it.
    pub(crate) name: String,
    /// Those that a statement may write.
    pub(crate) columns: Vec<Column>,
    pub(crate) key: Vec<String>,
    pub(crate) foreign_keys: Vec<ForeignKey>,
    /// The SQL of its CHECK constraints.
    pub(crate) checks: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// The type as declared, that of its domain if it has one; in capital letters on SQLite.
    pub(crate) type_name: String,
    pub(crate) not_null: bool,
    /// The values of an enum.
    pub(crate) labels: Vec<String>,
    /// The SQL of the CHECK constraints of its domain.
    pub(crate) domain_checks: String,
    /// Whether only `OVERRIDING SYSTEM VALUE` writes it.
    pub(crate) is_always_identity: bool,
}

#[derive(Debug)]
pub(crate) struct ForeignKey {
    pub(crate) columns: Vec<String>,
    pub(crate) parent: String,
    pub(crate) parent_columns: Vec<String>,
}

impl Catalog {
    pub(crate) fn read(world: &World, dialect: Dialect) -> Catalog {
        let unordered = match dialect {
            Dialect::Sqlite => sqlite::read(&world.consolidated()),
            Dialect::Postgres => postgres::read(world.database()),
        };
        Catalog { tables: parents_first(unordered) }
    }

    pub(crate) fn position(&self, table: &str) -> Option<usize> {
        self.tables.iter().position(|it| it.name == table)
    }
}

impl Table {
    pub(crate) fn column_position(&self, name: &str) -> usize {
        self.columns.iter().position(|column| column.name == name).unwrap()
    }

    /// Whether a row without a value there is possible.
    pub(crate) fn may_be_null(&self, column: &Column) -> bool {
        !column.not_null && !self.key.contains(&column.name)
    }
}

/// A table goes where none of its parents is left over, and one of a circle where none does.
fn parents_first(mut left: Vec<Table>) -> Vec<Table> {
    let mut ordered = Vec::new();
    while !left.is_empty() {
        let waits = |table: &Table| {
            let is_left = |key: &ForeignKey| left.iter().any(|it| it.name == key.parent);
            table.foreign_keys.iter().any(|key| key.parent != table.name && is_left(key))
        };
        let free = left.iter().position(|table| !waits(table));
        let next = free.or_else(|| left.iter().position(|table| is_in_circle(table, &left)));
        ordered.push(left.remove(next.unwrap_or(0)));
    }
    ordered
}

/// Whether the table refers to itself by way of others.
fn is_in_circle(table: &Table, tables: &[Table]) -> bool {
    let mut reached = vec![table.name.as_str()];
    let mut at = 0;
    while at < reached.len() {
        let here = tables.iter().find(|it| it.name == reached[at]);
        for key in here.iter().flat_map(|it| &it.foreign_keys) {
            if key.parent == table.name && at > 0 {
                return true;
            }
            if !reached.contains(&key.parent.as_str()) {
                reached.push(&key.parent);
            }
        }
        at += 1;
    }
    false
}
