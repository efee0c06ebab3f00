//! What applications write, as plain data.

use super::cell::Cell;
use super::schema::{MEMBER, Schema, Table};

/// One statement of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// A new row.
    Insert {
        /// The number of the table.
        table: usize,
        /// One value for each column.
        row: Vec<Cell>,
        /// It takes the place of others.
        replaces: bool,
    },
    /// Other values for the row with this key. They may be those of the key itself.
    Update {
        /// The number of the table.
        table: usize,
        /// The key of the row.
        key: Vec<Cell>,
        /// Columns and values.
        set: Vec<(usize, Cell)>,
    },
    /// The row with this key goes.
    Delete {
        /// The number of the table.
        table: usize,
        /// The key of the row.
        key: Vec<Cell>,
    },
    /// A person gets a project, or loses it.
    Member {
        /// The claim.
        person: i64,
        /// The place.
        project: i64,
        /// Whether it is the person's from now on.
        is_in: bool,
    },
}

impl Write {
    /// The SQL for a database that has the columns for which `has` is true. None where the
    /// database has no place for it.
    pub fn sql(&self, schema: &Schema, has: &dyn Fn(&str, &str) -> bool) -> Option<String> {
        let find = |table: &usize| schema.tables.get(*table).filter(|table| !table.is_gone());
        match self {
            Write::Insert { table, row, replaces } => {
                let table = find(table)?;
                let (mut names, mut values) = (Vec::new(), Vec::new());
                for (column, cell) in table.columns.iter().zip(row) {
                    if has(&table.name, &column.name) {
                        names.push(column.name.as_str());
                        values.push(cell.to_string());
                    }
                }
                let verb = if *replaces { "INSERT OR REPLACE" } else { "INSERT" };
                let (names, values) = (names.join(", "), values.join(", "));
                Some(format!("{verb} INTO {} ({names}) VALUES ({values})", table.name))
            }
            Write::Update { table, key, set } => {
                let table = find(table)?;
                let set = set.iter().filter_map(|(at, cell)| {
                    let name = &table.columns[*at].name;
                    has(&table.name, name).then(|| format!("{name} = {cell}"))
                });
                let set: Vec<String> = set.collect();
                if set.is_empty() {
                    return None;
                }
                let (set, key) = (set.join(", "), where_key(table, key));
                Some(format!("UPDATE {} SET {set}{key}", table.name))
            }
            Write::Delete { table, key } => {
                let table = find(table)?;
                Some(format!("DELETE FROM {}{}", table.name, where_key(table, key)))
            }
            Write::Member { person, project, is_in: true } => {
                Some(format!("INSERT OR IGNORE INTO {MEMBER} VALUES ({person}, {project})"))
            }
            Write::Member { person, project, is_in: false } => Some(format!(
                "DELETE FROM {MEMBER} WHERE person = {person} AND project = {project}"
            )),
        }
    }
}

fn where_key(table: &Table, key: &[Cell]) -> String {
    let columns = table.columns[..table.key_len].iter().zip(key);
    let equal: Vec<String> =
        columns.map(|(column, cell)| format!("{} = {cell}", column.name)).collect();
    format!(" WHERE {}", equal.join(" AND "))
}
