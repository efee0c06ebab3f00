//! Published tables and columns get the names that they have at the center now.
//!
//! SQLite also changes the names in indexes, triggers, views and foreign keys, the user's own
//! included. Building a table again could not do this. Names that are exchanged first become
//! temporary names. If another object has a wanted name, it gets another one.

use super::succession::{Heir, Held};
use crate::connection::explain;
use crate::schema::LocalTable;
use crate::sql::ident;
use model::{Code, Failure};
use rusqlite::Connection;

/// Names tried for what is in the way, at most.
const NAMES_MAX: usize = 1_000;

/// Gives every table that we created the names of the new schema. None of them has triggers of
/// Syncline any more.
pub(super) fn follow(connection: &Connection, heirs: &[Heir<'_>]) -> Result<(), Failure> {
    let ours = || {
        let held = |heir: &'_ Heir<'_>| heir.held.as_ref().is_some_and(|it| it.stored.created);
        heirs.iter().filter(move |heir| held(heir))
    };
    let mut tables = Vec::new();
    for heir in ours() {
        let (Some(held), new) = (&heir.held, &heir.published.name) else { continue };
        let old = &held.stored.published.name;
        if !old.eq_ignore_ascii_case(new) && exists(connection, old)? {
            tables.push((old.as_str(), new.as_str()));
        }
    }
    rename_tables(connection, &tables)?;
    for heir in ours() {
        let Some(held) = &heir.held else { continue };
        rename_columns(connection, heir, held)?;
    }
    Ok(())
}

fn exists(connection: &Connection, table: &str) -> Result<bool, Failure> {
    Ok(LocalTable::read(connection, table).map_err(explain)?.is_some())
}

fn rename_tables(connection: &Connection, tables: &[(&str, &str)]) -> Result<(), Failure> {
    let rename = |from: &str, to: &str| {
        let sql = format!("ALTER TABLE {} RENAME TO {}", ident(from), ident(to));
        connection.execute_batch(&sql).map_err(|error| refused(to, error))
    };
    for (n, (old, _)) in tables.iter().enumerate() {
        rename(old, &between(n))?;
    }
    for (n, (_, new)) in tables.iter().enumerate() {
        if exists(connection, new)? {
            let taken = |name: &str| exists(connection, name);
            rename(new, &free(new, &taken)?)?;
        }
        rename(&between(n), new)?;
    }
    Ok(())
}

fn rename_columns(
    connection: &Connection,
    heir: &Heir<'_>,
    held: &Held<'_>,
) -> Result<(), Failure> {
    let table = &heir.published.name;
    let read = || LocalTable::read(connection, table).map_err(explain);
    let Some(local) = read()? else { return Ok(()) };
    let rename = |from: &str, to: &str| {
        let sql =
            format!("ALTER TABLE {} RENAME COLUMN {} TO {}", ident(table), ident(from), ident(to));
        connection.execute_batch(&sql).map_err(|error| refused(table, error))
    };
    let (mut renamed, mut wanted) = (Vec::new(), Vec::new());
    for (new, from) in heir.published.columns.iter().zip(&held.columns) {
        let old = from.and_then(|at| held.stored.published.columns.get(at));
        match old {
            Some(old) if old.eq_ignore_ascii_case(new) => {}
            Some(old) if local.column(old).is_some_and(|column| !column.generated) => {
                renamed.push((old, new));
                wanted.push(new);
            }
            _ => wanted.push(new),
        }
    }
    // Where the held table does not have the column at all, one of that name is another one.
    let of_old =
        |name: &str| held.stored.published.columns.iter().any(|old| old.eq_ignore_ascii_case(name));
    for (n, (old, _)) in renamed.iter().enumerate() {
        rename(old, &between(n))?;
    }
    for new in wanted {
        let Some(local) = read()? else { return Ok(()) };
        let given = renamed.iter().any(|(_, it)| *it == new);
        if local.column(new).is_some() && (given || of_old(new)) {
            let taken = |name: &str| Ok(local.column(name).is_some());
            rename(new, &free(new, &taken)?)?;
        }
    }
    for (n, (_, new)) in renamed.iter().enumerate() {
        rename(&between(n), new)?;
    }
    Ok(())
}

/// A name that nobody else gives.
fn between(n: usize) -> String {
    format!("syncline_renamed_{n}")
}

/// A name for what keeps its content and loses its name.
fn free(name: &str, taken: &dyn Fn(&str) -> Result<bool, Failure>) -> Result<String, Failure> {
    for n in 1..=NAMES_MAX {
        let candidate =
            if n == 1 { format!("former_{name}") } else { format!("former_{name}_{n}") };
        if !taken(&candidate)? {
            return Ok(candidate);
        }
    }
    let message = format!("no free name is left for the former {name}");
    Err(Failure::new(Code::RemoteSchemaDiffers, message))
}

fn refused(table: &str, error: rusqlite::Error) -> Failure {
    let failure = explain(error);
    if ![Code::Bug, Code::RemoteTablesDamaged].contains(&failure.code()) {
        return failure;
    }
    let message = format!("table {table} cannot get the names of the consolidated database");
    Failure::new(Code::RemoteSchemaDiffers, message)
        .table(table)
        .hint("drop the view, trigger or table that prevents it")
        .source(failure)
}
