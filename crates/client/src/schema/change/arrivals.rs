//! What the next download of each table has to settle.
//!
//! This is: columns that were never received, and rows of a table that is published again.

use super::succession::{Heir, Held};
use crate::connection::explain;
use crate::schema::LocalTable;
use crate::schema::history::{Arriving, History};
use crate::sql::ident;
use model::Failure;
use rusqlite::Connection;
use std::collections::BTreeMap;

/// Notes it, when the tables have their new names and not their new columns.
pub(super) fn expect(
    connection: &Connection,
    history: &mut History,
    heirs: &[Heir<'_>],
) -> Result<(), Failure> {
    let before = std::mem::take(&mut history.arriving);
    for heir in heirs {
        let name = &heir.published.name;
        history.take_back(name);
        let Some(held) = &heir.held else { continue };
        let mut arriving = arriving(&before, heir, held);
        let local = LocalTable::read(connection, name).map_err(explain)?;
        let lies_here =
            |column: &String| local.as_ref().is_some_and(|local| local.column(column).is_some());
        let known = before.get(&held.stored.published.name).map(|known| &known.own);
        // By the name that the column had then.
        let was_known = |at: usize| {
            let before = held.stored.published.columns.get(at);
            before.is_some_and(|name| known.is_some_and(|known| known.contains(name)))
        };
        let new = heir.published.columns.iter().enumerate();
        let new = new.filter(|(at, column)| match held.columns.get(*at).copied().flatten() {
            None => lies_here(column),
            Some(before) => was_known(before),
        });
        arriving.own = new.map(|(_, column)| column.clone()).collect();
        if !has_rows(connection, name)? {
            // Rows that the table had may come back, as those of another past.
            let Arriving { former_watermark, only_uploaded, told, .. } = arriving;
            arriving = Arriving { former_watermark, only_uploaded, told, ..Arriving::default() };
        }
        if !heir.published.direction.downloads() {
            // Nothing arrives now. What a download has to compare waits until there is one.
            arriving.unseen.clear();
            arriving.own.clear();
            arriving.unchecked |= heir.changes() || held.former;
        }
        if arriving != Arriving::default() {
            history.arriving.insert(name.clone(), arriving);
        }
    }
    Ok(())
}

fn has_rows(connection: &Connection, table: &str) -> Result<bool, Failure> {
    if LocalTable::read(connection, table).map_err(explain)?.is_none() {
        return Ok(false);
    }
    let sql = format!("SELECT EXISTS (SELECT 1 FROM {})", ident(table));
    connection.query_row(&sql, [], |row| row.get(0)).map_err(explain)
}

fn arriving(before: &BTreeMap<String, Arriving>, heir: &Heir<'_>, held: &Held<'_>) -> Arriving {
    let known = before.get(&held.stored.published.name);
    let held_column = |at: usize| held.stored.published.columns.get(at);
    let unseen = |at: usize| match (held.origin(at).and_then(held_column), known) {
        (None, _) => true,
        (Some(old), Some(known)) => known.unseen.contains(old),
        (Some(_), None) => false,
    };
    let columns = heir.published.columns.iter().enumerate();
    let loses_watermark = held.stored.published.fingerprint != heir.published.fingerprint;
    let watermark = held.stored.watermark.clone().filter(|_| loses_watermark);
    let former = known.filter(|known| known.former_watermark.is_some());
    let only_uploads = watermark.is_some() && !held.stored.published.direction.downloads();
    Arriving {
        unseen: columns.filter(|(at, _)| unseen(*at)).map(|(_, name)| name.clone()).collect(),
        returned: held.former || known.is_some_and(|known| known.returned),
        uncaptured: known.is_some_and(|known| known.uncaptured),
        former_watermark: former.and_then(|known| known.former_watermark.clone()).or(watermark),
        only_uploaded: former.map_or(only_uploads, |known| known.only_uploaded),
        own: Vec::new(),
        told: former.is_some_and(|known| known.told),
        unchecked: known.is_some_and(|known| known.unchecked),
    }
}
