//! What SQLite says of its tables.

use super::{Column, ForeignKey, Table};
use harness::tables;
use rusqlite::{Connection, Row};
use std::path::Path;

pub(super) fn read(path: &Path) -> Vec<Table> {
    let connection = Connection::open(path).unwrap();
    // Neither virtual tables nor those in which they keep their rows.
    let plain = "SELECT name FROM pragma_table_list(?1) WHERE schema = 'main' AND type = 'table'";
    let is_plain = |name: &String| {
        let found: Vec<String> = rows(&connection, plain, name, |row| row.get(0));
        !found.is_empty()
    };
    let mut found: Vec<Table> =
        tables(path).into_iter().filter(is_plain).map(|name| table(&connection, name)).collect();
    // A foreign key may spell its parent in other letters, and leave out what it refers to.
    let parents: Vec<(String, Vec<String>)> =
        found.iter().map(|table| (table.name.clone(), table.key.clone())).collect();
    for key in found.iter_mut().flat_map(|table| &mut table.foreign_keys) {
        let parent = parents.iter().find(|(name, _)| name.eq_ignore_ascii_case(&key.parent));
        let Some((name, columns)) = parent else { continue };
        key.parent.clone_from(name);
        if key.parent_columns.is_empty() {
            key.parent_columns.clone_from(columns);
        }
    }
    found
}

fn table(connection: &Connection, name: String) -> Table {
    let columns = "SELECT name, upper(type), \"notnull\", pk FROM pragma_table_xinfo(?1)
                   WHERE hidden = 0 ORDER BY cid";
    let columns: Vec<(Column, usize)> = rows(connection, columns, &name, |row| {
        let column = Column {
            name: row.get(0)?,
            type_name: row.get(1)?,
            not_null: row.get(2)?,
            ..Column::default()
        };
        Ok((column, row.get::<_, i64>(3)? as usize))
    });
    let mut key: Vec<(usize, String)> = columns
        .iter()
        .filter(|(_, place)| *place > 0)
        .map(|(column, place)| (*place, column.name.clone()))
        .collect();
    key.sort();
    let create = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    let create: Vec<String> = rows(connection, create, &name, |row| row.get(0));
    let foreign_keys = foreign_keys(connection, &name, &columns);
    Table {
        name,
        columns: columns.into_iter().map(|(column, _)| column).collect(),
        key: key.into_iter().map(|(_, column)| column).collect(),
        foreign_keys,
        checks: create.iter().flat_map(|sql| checks(sql)).collect(),
    }
}

fn foreign_keys(
    connection: &Connection,
    table: &str,
    columns: &[(Column, usize)],
) -> Vec<ForeignKey> {
    let text = "SELECT id, \"table\", \"from\", \"to\" FROM pragma_foreign_key_list(?1)
                ORDER BY id DESC, seq";
    let parts: Vec<(i64, String, String, Option<String>)> = rows(connection, text, table, |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    });
    let mut found: Vec<(i64, ForeignKey)> = Vec::new();
    for (id, parent, from, to) in parts {
        if found.last().is_none_or(|(last, _)| *last != id) {
            let none = ForeignKey { columns: Vec::new(), parent, parent_columns: Vec::new() };
            found.push((id, none));
        }
        let Some((_, key)) = found.last_mut() else { continue };
        let declared = columns.iter().find(|(it, _)| it.name.eq_ignore_ascii_case(&from));
        key.columns.extend(declared.map(|(column, _)| column.name.clone()));
        key.parent_columns.extend(to);
    }
    found.into_iter().map(|(_, key)| key).collect()
}

/// What stands in the parentheses after each CHECK.
fn checks(create: &str) -> Vec<String> {
    let upper = create.to_ascii_uppercase();
    let mut found = Vec::new();
    for (at, word) in upper.match_indices("CHECK") {
        let rest = &create[at + word.len()..];
        let mut depth = 0_usize;
        let end = rest.find(|letter| {
            match letter {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            letter == ')' && depth == 0
        });
        found.extend(end.map(|end| rest[..end].to_owned()));
    }
    found
}

fn rows<T>(
    connection: &Connection,
    text: &str,
    name: &str,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Vec<T> {
    let mut statement = connection.prepare(text).unwrap();
    let rows = statement.query_map([name], read).unwrap();
    rows.collect::<rusqlite::Result<_>>().unwrap()
}
