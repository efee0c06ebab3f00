//! Refuses rows whose key the database spells otherwise than the remote (`key_spelling.rs`).

use crate::postgres::catalog::table::Table;
use crate::postgres::deploy::key_spelling::{KeyColumn, KeySpelling};
use crate::postgres::statement::{Slot, Statement};
use crate::postgres::upload::batch::Reason;
use crate::postgres::upload::isolation::group::{Group, Rows, halve};
use crate::postgres::upload::isolation::state::Isolation;
use crate::postgres::upload::row_fault::RowFault;
use crate::postgres::upload::stop::Stop;
use crate::postgres::values::{ColumnType, Kind};
use crate::quote::ident;
use crate::synchronization::change::Change;
use model::{Code, PublishedTable};

/// Asks which rows of a batch have a key that the database spells otherwise, or that it has
/// already in another spelling. It returns their positions, from 1. `old`: it looks at the keys
/// that the rows had.
fn misspelled(table: &Table, spelling: &KeySpelling, old: bool) -> Statement {
    let (published, details) = (&table.deployed.published, &table.deployed.details);
    let mut slots: Vec<Slot> = Vec::new();
    let mut selected: Vec<String> = Vec::new();
    let mut select = |slot: Slot, name: String, column: &ColumnType| {
        slots.push(slot);
        selected.push(format!("unnest(${}::{}[]) AS {name}", slots.len(), column.wire().name()));
    };
    for column in &spelling.columns {
        let kind = &details.columns[column.at];
        let sent = if old { Slot::OldColumn(column.at) } else { Slot::NewColumn(column.at) };
        select(sent, format!("k{}", column.at), kind);
    }
    selected.push("generate_subscripts($1, 1) AS position".to_owned());
    let value = |prefix: &str, column: &KeyColumn| {
        let cast = details.columns[column.at].cast_from_wire();
        let cast = cast.map(|cast| format!("::{cast}")).unwrap_or_default();
        format!("k.{prefix}{}{cast}", column.at)
    };
    let name = |column: &KeyColumn| ident(&published.columns[column.at]);
    let mut conditions: Vec<String> = spelling
        .columns
        .iter()
        .filter_map(|column| {
            let (asked, sent) = (column.asked.as_ref()?, value("k", column));
            Some(match details.columns[column.at].kind {
                Kind::Numeric(_) => format!("({sent})::{asked} IS DISTINCT FROM {sent}"),
                _ => format!(
                    "({sent})::{asked}::text COLLATE \"C\" IS DISTINCT FROM k.k{}",
                    column.at
                ),
            })
        })
        .collect();
    if spelling.is_ambiguous() {
        let same = |prefix: &str| {
            let same = spelling.columns.iter();
            let same = same.map(|c| format!("t.{} = {}", name(c), value(prefix, c)));
            same.collect::<Vec<_>>().join(" AND ")
        };
        let differs = spelling.columns.iter().filter(|column| column.ambiguous).map(|column| {
            let sent = value("k", column);
            format!("t.{}::text COLLATE \"C\" <> ({sent})::text COLLATE \"C\"", name(column))
        });
        let differs = differs.collect::<Vec<_>>().join(" OR ");
        conditions.push(format!(
            "EXISTS (SELECT FROM {}.{} AS t WHERE {} AND ({differs}))",
            ident(&details.schema),
            ident(&details.name),
            same("k"),
        ));
    }
    let sql = format!(
        "SELECT k.position FROM (SELECT {}) AS k WHERE {}",
        selected.join(", "),
        conditions.join("\n    OR "),
    );
    Statement { sql, slots, set_based: true, keeps_plan: false }
}

/// Rejects the rows of `group` whose key the database spells otherwise, and returns the others.
pub(in crate::postgres) fn refuse_misspelled(
    isolation: &mut Isolation<'_, '_>,
    mut group: Group,
) -> Result<Group, Stop> {
    let table = isolation.table(group.table);
    let Some(spelling) = table.deployed.details.spelling.as_ref() else { return Ok(group) };
    if !spelling.columns.iter().any(|column| column.asked.is_some() || column.ambiguous) {
        return Ok(group);
    }
    let (position, change) = (group.table, group.change);
    for old in [true, false] {
        let asked = match change {
            Change::Insert => !old,
            Change::Update | Change::Delete => old,
        };
        if asked {
            let statement = misspelled(table, spelling, old);
            let rows = std::mem::take(&mut group.rows);
            group.rows = spelled(isolation, Group { rows, ..group.clone() }, &statement)?;
        }
    }
    if change == Change::Delete && spelling.is_ambiguous() {
        let rows = std::mem::take(&mut group.rows);
        for bytes in rows {
            let key =
                isolation.read(position, change, &bytes)?.key(&table.deployed.published, position);
            match isolation.respelled.contains(&key)? {
                true => isolation.record.reject(&key, otherwise(&table.deployed.published))?,
                false => group.rows.push(bytes),
            }
        }
    }
    Ok(group)
}

/// Rejects what `statement` finds among the rows of `group`, and what fails there.
fn spelled(
    isolation: &mut Isolation<'_, '_>,
    group: Group,
    statement: &Statement,
) -> Result<Rows, Stop> {
    let Group { table, change, rows } = group;
    let published = &isolation.table(table).deployed.published;
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    let mut stack = vec![rows];
    while let Some(rows) = stack.pop() {
        if rows.is_empty() {
            continue;
        }
        let found = match isolation.positions(table, change, statement, &rows)? {
            Ok(found) => found,
            Err(_) if rows.len() > 1 => {
                halve(rows, &mut stack);
                continue;
            }
            Err(
                RowFault::Refused((_, message))
                | RowFault::NotUnique(message)
                | RowFault::References(message),
            ) => {
                isolation.reject(table, change, &rows[0], (Code::RowKeyUnreadable, message))?;
                continue;
            }
        };
        for (at, row) in rows.into_iter().enumerate() {
            if found.contains(&at) { &mut bad } else { &mut good }.push(row);
        }
    }
    if change == Change::Insert && !bad.is_empty() {
        // What it has in another spelling must not be deleted as the other half of a change.
        for (key, _) in isolation.fetch(table, change, &bad)? {
            isolation.respelled.add(&(table, key))?;
        }
    }
    for row in &bad {
        isolation.reject(table, change, row, otherwise(published))?;
    }
    Ok(good)
}

/// Why a row is refused whose key is misspelled.
fn otherwise(table: &PublishedTable) -> Reason {
    let key: Vec<&str> =
        table.key.iter().map(|at| table.columns[usize::from(*at)].as_str()).collect();
    (Code::RowRefused, format!("key {}: the center spells it differently", key.join(", ")))
}
