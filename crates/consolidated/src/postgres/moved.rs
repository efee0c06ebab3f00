//! Rows that have another key now: what is waiting for them at remotes follows them.
//!
//! The trigger that notes departures notes a changed key with the one that came of it, in
//! `syncline.syncline_moved`. An edit that another remote made before it knew would find no row: a
//! rule by which the remote wins would bring it back under its old key, as a second one, and a
//! deletion would be taken for done. So such a change is told anew over the key that the row has.
//!
//! Keys are kept as JSON texts, in forms that no setting of a session changes.

use super::careful::{Careful, Group};
use super::catalog::Table;
use super::image::Decoder;
use super::statement::Statement;
use super::upload::Stop;
use crate::quote::{ident, literal};
use crate::rebase::{Rebased, values};
use crate::script::Script;
use crate::synchronization::Change;
use model::{Failure, skip_row};
use std::collections::HashMap;

/// The key of `row` as a text; of each column its name and its type.
pub(super) fn key_text<'c>(row: &str, key: impl Iterator<Item = (&'c str, &'c str)>) -> String {
    let value = |(name, cast): (&str, &str)| {
        let value = format!("{row}.{}", ident(name));
        match cast {
            "timestamp with time zone" => format!("{value} AT TIME ZONE 'UTC'"),
            "bytea" => format!("encode({value}, 'hex')"),
            "numeric" => format!("trim_scale({value})"),
            "character" | "bpchar" => format!("{value}::text"),
            _ => value,
        }
    };
    format!("jsonb_build_array({})::text", key.map(value).collect::<Vec<_>>().join(", "))
}

/// The statements of a trigger that note a changed key. Whoever came to the old one has gone on,
/// and the new one stands for a row of its own again.
pub(super) fn note(published: &str, changed: &str, old: &str, new: &str) -> String {
    format!(
        "IF TG_OP = 'UPDATE' AND ({changed}) THEN\n        \
         UPDATE syncline.syncline_moved SET new_key = {new}, version = DEFAULT\n        \
         WHERE table_name = {table} AND new_key = {old};\n        \
         INSERT INTO syncline.syncline_moved (table_name, old_key, new_key)\n        \
         VALUES ({table}, {old}, {new})\n        \
         ON CONFLICT (table_name, old_key) DO UPDATE\n        \
         SET new_key = excluded.new_key, version = excluded.version;\n        \
         DELETE FROM syncline.syncline_moved\n        \
         WHERE table_name = {table} AND old_key = {new};\n    END IF",
        table = literal(published)
    )
}

/// Asks where rows with given keys have gone: their keys, and those that they have now.
fn asking(table: &Table) -> Result<Statement, Failure> {
    let (published, details) = (&table.deployed.published, &table.deployed.details);
    let key: Vec<usize> = published.key.iter().map(|at| usize::from(*at)).collect();
    let named =
        key.iter().map(|at| (published.columns[*at].as_str(), details.columns[*at].cast.as_str()));
    let read = |from: &str| {
        let column = |(place, at): (usize, &usize)| {
            let column = &details.columns[*at];
            let text = format!("{from}::jsonb ->> {place}");
            let value = match column.cast.as_str() {
                "timestamp with time zone" => format!("({text})::timestamp AT TIME ZONE 'UTC'"),
                "bytea" => format!("decode({text}, 'hex')"),
                cast => format!("({text})::{cast}"),
            };
            match column.read_as_text() {
                true => format!("({value})::text"),
                false => value,
            }
        };
        key.iter().enumerate().map(column).collect::<Vec<_>>().join(", ")
    };
    let text = format!(
        "SELECT {seen}, {now}\nFROM {{keys}} AS k\nJOIN syncline.syncline_moved AS m \
         ON m.table_name = {table} AND m.old_key = {key}",
        key = key_text("k", named),
        table = literal(&published.name),
        seen = read("m.old_key"),
        now = read("m.new_key"),
    );
    let script = Script::parse(&text, published)?;
    Ok(Statement::of(&script, published, &details.columns))
}

/// Applies the rows of `group` whose row has another key now over that, and returns the others.
pub(super) fn follow(careful: &mut Careful<'_, '_>, mut group: Group) -> Result<Group, Stop> {
    let (table, change) = (group.table, group.change);
    let this = careful.table(table);
    let published = &this.deployed.published;
    if change == Change::Insert || !this.deployed.details.notes_moves {
        return Ok(group);
    }
    let here = careful.fetch(table, change, &group.rows)?;
    let mut lost = Vec::new();
    for bytes in &group.rows {
        let key = careful.read(table, change, bytes)?.key(published, table).1;
        // What was told anew once goes no further.
        if !here.contains_key(&key) && !careful.is_told(table, change, bytes) {
            lost.push(bytes.clone());
        }
    }
    if lost.is_empty() {
        return Ok(group);
    }
    let moved = whereabouts(careful, table, change, &lost)?;
    let mut told: Vec<Group> = Vec::new();
    for bytes in std::mem::take(&mut group.rows) {
        let row = careful.read(table, change, &bytes)?;
        let key = row.key(published, table).1;
        let gone = !here.contains_key(&key) && !careful.is_told(table, change, &bytes);
        let Some(now) = moved.get(&key).filter(|now| gone && **now != key) else {
            group.rows.push(bytes);
            continue;
        };
        let now = values(now)?;
        let (mut old, mut new) = (row.old.clone(), row.new.clone());
        for (place, at) in published.key.iter().map(|at| usize::from(*at)).enumerate() {
            if new[at].identical(old[at]) {
                new[at] = now[place];
            }
            old[at] = now[place];
        }
        let anew = Rebased::of(change, published, &old, &new);
        careful.note_told(table, change, &bytes, &anew);
        let (change, row) = (anew.change, anew.bytes);
        match told.iter_mut().find(|group| group.change == change) {
            Some(group) => group.rows.push(row),
            None => told.push(Group { table, change, rows: vec![row] }),
        }
    }
    for group in told {
        careful.apply(group)?;
    }
    Ok(group)
}

/// The keys that the rows of `rows` have now, by those that they had.
fn whereabouts(
    careful: &mut Careful<'_, '_>,
    table: usize,
    change: Change,
    rows: &[Vec<u8>],
) -> Result<HashMap<Vec<u8>, Vec<u8>>, Stop> {
    let this = careful.table(table);
    let (published, columns) = (&this.deployed.published, &this.deployed.details.columns);
    let key: Vec<_> = published.key.iter().map(|at| &columns[usize::from(*at)]).collect();
    let (statement, twice) = (asking(this)?, key.repeat(2));
    let mut moved = HashMap::new();
    careful.ask(table, change, &statement, rows, &mut |row| {
        let mut bytes = Vec::new();
        Decoder::new(row, twice.iter().copied())?.write(row, &mut bytes)?;
        let now = skip_row(&bytes, key.len())?.to_vec();
        bytes.truncate(bytes.len() - now.len());
        moved.insert(bytes, now);
        Ok(())
    })?;
    Ok(moved)
}
