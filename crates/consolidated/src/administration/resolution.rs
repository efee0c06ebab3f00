//! What an operator decides about a conflict at the center.
//!
//! The row becomes what it should be by an ordinary change: triggers record it, and every remote
//! receives it.

use super::notes::{self, ConflictNote};
use crate::deploy::TableFacts;
use crate::quote::ident;
use crate::sql::{Sql, Words};
use crate::sync_model::ConflictRule;
use model::{Code, Failure};
use serde_json::{Map, Value as Json};

type Image = Map<String, Json>;

/// What the row of a conflict should be.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolution {
    /// What lost: the row, or the delete.
    Loser,
    /// The row that is there, with these values, by column name; none is NULL.
    Values(Vec<(String, Option<String>)>),
}

/// Changes the row of a conflict in `table`, and removes the note. Without `force` the row must be
/// as the conflict has left it.
pub(super) fn resolve<Q: Sql, T: TableFacts>(
    sql: &mut Q,
    (note, table): (&ConflictNote, Option<&T>),
    resolution: &Resolution,
    force: bool,
) -> Result<(), Failure> {
    let id = note.id;
    let unresolved = |why: &str| {
        let message = format!("conflict {id} cannot be resolved: {why}");
        Failure::new(Code::ConflictNotResolved, message).table(&note.table)
    };
    let (Some(table), Some(key)) = (table, &note.key) else {
        return Err(unresolved("its table is not published any more"));
    };
    let image = |text: Option<&str>| read(text).map_err(&unresolved);
    let key = image(Some(key))?.unwrap_or_default();
    let left = image(note.result.as_deref())?;
    let wanted = match resolution {
        Resolution::Loser => image(loser(note))?,
        Resolution::Values(values) => {
            let mut row = Image::new();
            for (column, value) in values {
                if table.column(column).is_none_or(|_| key.contains_key(column)) {
                    let why = format!("`{column}` is no column of it that may change");
                    let hint = "name a column of the table that is not a part of its key";
                    return Err(unresolved(&why).hint(hint));
                }
                row.insert(column.clone(), Json::from(value.as_deref()));
            }
            Some(row)
        }
    };
    let name = table.sql_name();
    let left = left.as_ref();
    let there = left.filter(|_| !force).unwrap_or(&key);
    let Some(statement) =
        statement::<Q::Words>(&name, (&key, there), wanted.as_ref(), left.is_some())
            .map_err(unresolved)?
    else {
        return notes::remove_conflict(sql, id);
    };
    let changed = sql.run_all("resolve the conflict", &[(statement, &[])])?;
    if changed.first() != Some(&1) {
        return Err(unresolved("the row has changed since"));
    }
    notes::remove_conflict(sql, id)
}

/// What lost: the row, or none where a delete has lost.
fn loser(note: &ConflictNote) -> Option<&str> {
    let merged = ConflictRule::merges(&note.rule);
    match note.result == note.consolidated || merged || note.rule == "scripts" {
        true => note.new.as_deref(),
        false => note.consolidated.as_deref(),
    }
}

/// A row of a note. Values that were too large to be noted are not known any more.
fn read(text: Option<&str>) -> Result<Option<Image>, &'static str> {
    let Some(text) = text else { return Ok(None) };
    let image: Image = serde_json::from_str(text).map_err(|_| "its note does not read")?;
    match image.values().any(|value| value.get("cut").is_some()) {
        true => Err("a value was too large to be noted as a whole"),
        false => Ok(Some(image)),
    }
}

/// The statement that makes the row `wanted`, where it is still `there`, which has its `key`; none
/// where nothing is to be done.
fn statement<W: Words>(
    name: &str,
    (key, there): (&Image, &Image),
    wanted: Option<&Image>,
    exists: bool,
) -> Result<Option<String>, &'static str> {
    let condition = |(column, value): (&String, &Json)| {
        Ok(format!("{} {} {}", ident(column), W::SAME, W::literal(value)?))
    };
    let there = there.iter().map(condition).collect::<Result<Vec<_>, &str>>()?.join(" AND ");
    Ok(Some(match (wanted, exists) {
        (None, false) => return Ok(None),
        (None, true) => format!("DELETE FROM {name} WHERE {there}"),
        (Some(row), true) => {
            let changed = row.iter().filter(|(column, _)| !key.contains_key(*column));
            let set = |(column, value): (&String, &Json)| {
                Ok(format!("{} = {}", ident(column), W::literal(value)?))
            };
            let set = changed.map(set).collect::<Result<Vec<_>, &str>>()?.join(", ");
            if set.is_empty() {
                return Ok(None);
            }
            format!("UPDATE {name} SET {set} WHERE {there}")
        }
        (Some(row), false) => {
            let whole = key.iter().filter(|(column, _)| !row.contains_key(*column)).chain(row);
            let (mut columns, mut values) = (Vec::new(), Vec::new());
            for (column, value) in whole {
                columns.push(ident(column));
                values.push(W::literal(value)?);
            }
            let (columns, values) = (columns.join(", "), values.join(", "));
            format!("INSERT INTO {name} ({columns}) VALUES ({values})")
        }
    }))
}
