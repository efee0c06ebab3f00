//! SQL that creates a published table at a remote.
//!
//! If the whole table is published, its own text is used, so that checks, collations, generated
//! columns and so on are unchanged. If columns or foreign keys are left out, the text is made from
//! SQLite's description of the table. So it is where the text has functions or collations of an
//! application: remotes could not write to such a table.

use crate::deploy::{ForeignKey, TableFacts};
use crate::quote::{ident, idents};
use crate::sqlite::deploy::tables::UserTable;
use rusqlite::Connection;

/// The statements, and what was left out. `foreign_keys` are the positions of the table's foreign
/// keys that hold at every remote.
pub(in crate::sqlite) fn create(
    table: &UserTable,
    columns: &[String],
    foreign_keys: &[usize],
) -> (Vec<String>, Vec<String>) {
    let mut notices = Vec::new();
    let whole = columns.len() == table.stored_columns().len();
    let kept: Vec<&ForeignKey> =
        foreign_keys.iter().filter_map(|position| table.foreign_keys.get(*position)).collect();
    let as_it_is = whole && kept.len() == table.foreign_keys.len() && !table.sql.is_empty();
    let as_made = as_it_is.then(|| runs(&[&table.sql], table));
    let mut statements = match as_made {
        Some(Ok(())) => vec![table.sql.clone()],
        _ => vec![table_of(table, columns, &kept)],
    };
    if let Some(Err(why)) = as_made {
        notices.push(format!(
            "the constraints, generated columns and collations of {} are left out at remotes: \
             {why}",
            table.name
        ));
    }
    for index in &table.indexes {
        let is_published = index.columns.as_ref().map_or(whole, |plain| within(plain, columns));
        let fits = match is_published {
            true => runs(&[&statements[0], &index.sql], table),
            false => Err("it needs columns that are not published".to_owned()),
        };
        match fits {
            Ok(()) => statements.push(index.sql.clone()),
            Err(why) => {
                let name = &table.name;
                notices.push(format!("an index of {name} is left out at remotes: {why}"));
            }
        }
    }
    (statements, notices)
}

/// Whether these statements make a table that an SQLite without functions and collations of an
/// application can write to; else why not.
fn runs(statements: &[&String], table: &UserTable) -> Result<(), String> {
    let try_it = || {
        let empty = Connection::open_in_memory()?;
        // Its parents are not there.
        empty.execute_batch("PRAGMA foreign_keys = OFF")?;
        statements.iter().try_for_each(|statement| empty.execute_batch(statement))?;
        let insert = format!("INSERT INTO {} DEFAULT VALUES", ident(&table.name));
        empty.prepare(&insert).map(drop)
    };
    try_it().map_err(|error: rusqlite::Error| error.to_string())
}

/// The table with these columns and these foreign keys only.
fn table_of(table: &UserTable, columns: &[String], kept: &[&ForeignKey]) -> String {
    let mut parts: Vec<String> =
        columns.iter().filter_map(|name| column_definition(table, name)).collect();
    parts.push(format!("PRIMARY KEY ({})", idents("", &table.key)));
    for unique in &table.uniques {
        // Partial and expression indexes exist as CREATE INDEX only, see below.
        let plain: Option<Vec<String>> =
            unique.columns.iter().map(|c| c.as_ref().map(|(name, _)| name.clone())).collect();
        let Some(plain) = plain.filter(|p| !unique.partial && within(p, columns)) else {
            continue;
        };
        let by_index = table.indexes.iter().any(|i| i.unique && i.columns.as_ref() == Some(&plain));
        if !by_index {
            parts.push(format!("UNIQUE ({})", idents("", &plain)));
        }
    }
    for key in kept {
        // A generated column is only in the table's own text.
        if key.columns.iter().all(|(from, _)| columns.contains(from)) {
            parts.push(key.definition());
        }
    }
    let options = match (table.without_rowid, table.strict) {
        (true, true) => " WITHOUT ROWID, STRICT",
        (true, false) => " WITHOUT ROWID",
        (false, true) => " STRICT",
        (false, false) => "",
    };
    let name = ident(&table.name);
    format!("CREATE TABLE {name} (\n    {}\n){options}", parts.join(",\n    "))
}

fn within(names: &[String], columns: &[String]) -> bool {
    names.iter().all(|name| columns.contains(name))
}

fn column_definition(table: &UserTable, name: &str) -> Option<String> {
    let column = table.column(name)?;
    let mut text = format!("{} {}", ident(name), column.declared_type).trim_end().to_owned();
    if column.not_null {
        text.push_str(" NOT NULL");
    }
    if let Some(default) = &column.default {
        text.push_str(&format!(" DEFAULT ({default})"));
    }
    // Others are of an application.
    if ["NOCASE", "RTRIM"].contains(&column.collation.as_str()) {
        text.push_str(&format!(" COLLATE {}", ident(&column.collation)));
    }
    Some(text)
}
