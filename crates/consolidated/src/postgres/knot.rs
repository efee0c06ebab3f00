//! Rows that stand in each other's way in a circle.
//!
//! Values of unique columns swap (trap 10), or rows refer to each other (trap 11). They are applied
//! together, with constraints deferred as far as they can be. Updated rows whose unique values are
//! taken first get values that nobody has. Where that fails too, the rows that failed are rejected,
//! and the others tried again without them.

use super::careful::{Careful, Parked, Ran, RowFault, groups, row_fault};
use super::errors::Fault;
use super::upload::{CHECK_CONSTRAINTS, Stop, stopped};
use super::values::Kind;
use crate::quote::ident;
use crate::synchronization::Change;
use crate::uploaded_row::event_of;
use model::{Code, ValueRef, write_value};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// The most times that a knot is tried without the rows that failed.
const ATTEMPTS_MAX: usize = 100;

/// Columns of unique indexes beside the primary key, and whether they may be NULL.
const UNIQUE_COLUMNS: &str = "SELECT DISTINCT a.attname::text, NOT a.attnotnull
FROM pg_index AS i
JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey::int2[])
WHERE i.indrelid = $1::text::regclass AND i.indisunique AND NOT i.indisprimary";

/// Applies what waits, or rejects it.
pub(super) fn untie(careful: &mut Careful<'_, '_>) -> Result<(), Stop> {
    let mut uniques = HashMap::new();
    for _ in 0..ATTEMPTS_MAX {
        if careful.parked.is_empty() {
            return Ok(());
        }
        careful.flush()?;
        careful
            .link
            .batch("SAVEPOINT knot; SET CONSTRAINTS ALL DEFERRED")
            .map_err(stopped("set a savepoint"))?;
        let waiting = std::mem::take(&mut careful.parked);
        let failed = attempt(careful, &waiting, &mut uniques)?;
        careful.flush()?;
        if !failed.contains(&true) {
            careful.link.batch("RELEASE SAVEPOINT knot").map_err(stopped("end a savepoint"))?;
            for group in groups(waiting) {
                careful.echo(group.table, group.change, &group.rows)?;
            }
            return Ok(());
        }
        careful
            .link
            .batch("ROLLBACK TO SAVEPOINT knot; RELEASE SAVEPOINT knot")
            .map_err(stopped("undo what failed"))?;
        for (parked, failed) in waiting.into_iter().zip(failed) {
            match failed {
                true => reject(careful, parked)?,
                false => careful.parked.push(parked),
            }
        }
    }
    for parked in std::mem::take(&mut careful.parked) {
        reject(careful, parked)?;
    }
    Ok(())
}

fn reject(careful: &mut Careful<'_, '_>, parked: Parked) -> Result<(), Stop> {
    let Parked { table, change, row, reason } = parked;
    Ok(careful.reject(table, change, &row, reason)?)
}

/// Applies all of `waiting`. Says of each whether it failed.
fn attempt(
    careful: &mut Careful<'_, '_>,
    waiting: &[Parked],
    uniques: &mut HashMap<usize, Vec<(usize, bool)>>,
) -> Result<Vec<bool>, Stop> {
    let mut rows = Vec::new();
    for (number, parked) in waiting.iter().enumerate() {
        rows.push(match parked.change == Change::Update && parked.reason.0 == Code::RowNotUnique {
            true => make_room(careful, parked, number, uniques)?,
            false => parked.row.clone(),
        });
    }
    let mut failed = vec![false; waiting.len()];
    // Rows that refer to each other within one table must come in one statement.
    let mut sets: Vec<(usize, Change, Vec<usize>)> = Vec::new();
    for (at, parked) in waiting.iter().enumerate() {
        match sets.iter_mut().find(|set| (set.0, set.1) == (parked.table, parked.change)) {
            Some(set) => set.2.push(at),
            None => sets.push((parked.table, parked.change, vec![at])),
        }
    }
    for (table, change, members) in sets {
        let mut stack = vec![members];
        while let Some(members) = stack.pop() {
            let set: Vec<Vec<u8>> = members.iter().map(|at| rows[*at].clone()).collect();
            match careful.run(table, change, event_of(change), &set)? {
                Ran::Affected(count) if count >= set.len() as u64 => careful.keep(),
                _ if members.len() == 1 => {
                    careful.undo();
                    failed[members[0]] = true;
                }
                _ => {
                    careful.undo();
                    let (first, second) = members.split_at(members.len().div_ceil(2));
                    stack.extend([second.to_vec(), first.to_vec()]);
                }
            }
        }
    }
    careful.flush()?;
    if !failed.contains(&true) {
        check(careful, waiting, &mut failed)?;
    }
    Ok(failed)
}

/// Checks what was deferred. Blames the waiting rows of the table that is named.
fn check(
    careful: &mut Careful<'_, '_>,
    waiting: &[Parked],
    failed: &mut [bool],
) -> Result<(), Stop> {
    let Err(fault) = careful.link.batch(CHECK_CONSTRAINTS) else { return Ok(()) };
    if !matches!(row_fault(&fault), Some(RowFault::References(_) | RowFault::NotUnique(_))) {
        return Err(stopped("check constraints")(fault));
    }
    for (parked, failed) in waiting.iter().zip(failed.iter_mut()) {
        let details = &careful.table(parked.table).deployed.details;
        *failed = names(&fault, &details.schema, &details.name);
    }
    if !failed.contains(&true) {
        failed.fill(true);
    }
    Ok(())
}

fn names(fault: &Fault, schema: &str, table: &str) -> bool {
    fault.db().is_some_and(|said| said.schema() == Some(schema) && said.table() == Some(table))
}

/// Gives the unique columns of an updated row values that nobody else has, if the row is still
/// what the remote saw. Returns the row as it is to be uploaded then.
fn make_room(
    careful: &mut Careful<'_, '_>,
    parked: &Parked,
    number: usize,
    uniques: &mut HashMap<usize, Vec<(usize, bool)>>,
) -> Result<Vec<u8>, Stop> {
    let table = careful.table(parked.table);
    let uniques = match uniques.entry(parked.table) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(unknown) => unknown.insert(unique_columns(careful, parked.table)?),
    };
    let row = careful.read(parked.table, parked.change, &parked.row)?;
    let mut placed = row.old.clone();
    let mut values: Vec<(usize, Vec<u8>)> = Vec::new();
    for (at, nullable) in uniques.iter() {
        let kind = table.deployed.details.columns[*at].kind;
        let Some(value) = place_holder(kind, *nullable, number) else {
            return Ok(parked.row.clone());
        };
        values.push((*at, value));
    }
    for (at, value) in &values {
        placed[*at] = model::RowReader::new(value).value()?;
    }
    let write = |images: [&[ValueRef<'_>]; 2]| {
        let mut bytes = Vec::new();
        images.iter().flat_map(|i| i.iter()).for_each(|value| write_value(&mut bytes, *value));
        bytes
    };
    let away = write([&row.old, &placed]);
    match careful.run(parked.table, Change::Update, event_of(Change::Update), &[away])? {
        Ran::Affected(1) => {
            careful.keep();
            Ok(write([&placed, &row.new]))
        }
        _ => {
            careful.undo();
            Ok(parked.row.clone())
        }
    }
}

fn unique_columns(
    careful: &mut Careful<'_, '_>,
    position: usize,
) -> Result<Vec<(usize, bool)>, Stop> {
    let table = careful.table(position);
    let (published, details) = (&table.deployed.published, &table.deployed.details);
    let name = format!("{}.{}", ident(&details.schema), ident(&details.name));
    careful.flush()?;
    let asking = stopped("read which columns are unique");
    let rows = careful.link.query(UNIQUE_COLUMNS, &[&name]).map_err(&asking)?;
    let mut columns = Vec::new();
    for row in rows {
        let (Ok(name), Ok(nullable)) = (row.try_get::<_, String>(0), row.try_get(1)) else {
            continue;
        };
        let at = published.columns.iter().position(|column| *column == name);
        let is_key = |at: usize| published.key.iter().any(|key| usize::from(*key) == at);
        columns.extend(at.filter(|at| !is_key(*at)).map(|at| (at, nullable)));
    }
    Ok(columns)
}

/// A value that nobody else has, as a compact value. None for a type that has no room for it.
fn place_holder(kind: Kind, nullable: bool, number: usize) -> Option<Vec<u8>> {
    let number = i64::try_from(number).ok()?;
    let text;
    let value = match kind {
        _ if nullable => ValueRef::Null,
        Kind::Int2 => ValueRef::Integer(i64::from(i16::MIN) + number),
        Kind::Int4 => ValueRef::Integer(i64::from(i32::MIN) + number),
        Kind::Int8 => ValueRef::Integer(i64::MIN + number),
        Kind::Float4 | Kind::Float8 | Kind::Numeric(_) => {
            ValueRef::Real(-1e6 - number as f64 - 0.125)
        }
        Kind::Text | Kind::Char => {
            text = format!("\u{1}{number}");
            ValueRef::Text(text.as_bytes())
        }
        Kind::Uuid => {
            text = format!("ffffffff-ffff-ffff-ffff-{number:012}");
            ValueRef::Text(text.as_bytes())
        }
        _ => return None,
    };
    let mut bytes = Vec::new();
    write_value(&mut bytes, value);
    Some(bytes)
}
