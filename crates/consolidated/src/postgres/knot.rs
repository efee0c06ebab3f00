//! Rows that block each other in a circle.
//!
//! Values of unique columns are exchanged (trap 10), or rows refer to each other (trap 11). Such
//! rows are applied together, with constraints deferred as far as possible. Before that, updated
//! rows whose unique values are taken get temporary values, and references that cannot be deferred
//! are set to NULL for a moment. If this fails too, the rows that failed are rejected, and the
//! others are tried again without them.

mod sets;

use super::careful::{Careful, Ran};
use super::details::TableDetails;
use super::errors::Fault;
use super::image::Decoder;
use super::parked::{Parked, ParkedRows};
use super::row_fault::{RowFault, row_fault};
use super::upload::{Stop, stopped};
use super::values::Kind;
use crate::quote::ident;
use crate::synchronization::Change;
use crate::uploaded_row::event_of;
use model::{Code, RowReader, ValueRef, write_value};
use sets::{Sets, ToldRows};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

/// The most times that a knot is tried without the rows that failed.
const ATTEMPTS_MAX: usize = 100;

/// Columns of unique indexes beside the primary key, and whether they may be NULL.
const UNIQUE_COLUMNS: &str = "SELECT DISTINCT a.attname::text, NOT a.attnotnull
FROM pg_index AS i
JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey::int2[])
WHERE i.indrelid = $1::text::regclass AND i.indisunique AND NOT i.indisprimary";

/// Columns of foreign keys, and whether they may be NULL.
const REFERRING_COLUMNS: &str = "SELECT DISTINCT a.attname::text, NOT a.attnotnull
FROM pg_constraint AS o
JOIN pg_attribute AS a ON a.attrelid = o.conrelid AND a.attnum = ANY (o.conkey)
WHERE o.conrelid = $1::text::regclass AND o.contype = 'f'";

/// A foreign key: its parent, the condition that child `c` and parent `p` match, and the one that
/// the child refers to something at all.
const FOREIGN_KEY: &str = "SELECT o.confrelid::regclass::text,
    string_agg(format('p.%I = c.%I', b.attname, a.attname), ' AND '),
    string_agg(format('c.%I IS NOT NULL', a.attname), ' AND ')
FROM pg_constraint AS o
CROSS JOIN unnest(o.conkey, o.confkey) AS k(child, parent)
JOIN pg_attribute AS a ON a.attrelid = o.conrelid AND a.attnum = k.child
JOIN pg_attribute AS b ON b.attrelid = o.confrelid AND b.attnum = k.parent
WHERE o.conrelid = $1::text::regclass AND o.conname = $2::text AND o.contype = 'f'
GROUP BY o.oid";

/// Positions of columns, and whether they may be NULL.
type Columns = Vec<(usize, bool)>;

/// What was learned about the columns of tables, by query and table.
pub(super) type Known = HashMap<(&'static str, usize), Columns>;

/// Applies the waiting rows, or rejects them.
pub(super) fn untie(careful: &mut Careful<'_, '_>) -> Result<(), Stop> {
    let mut known = Known::new();
    for _ in 0..ATTEMPTS_MAX {
        if careful.parked.is_empty() {
            return Ok(());
        }
        let waiting = careful.parked.take();
        let Some(failed) = together(careful, &waiting, &mut known)? else { return Ok(()) };
        let (mut rows, mut failed) = (waiting.reader(), failed.into_iter());
        while let Some(parked) = rows.next_row()? {
            match failed.next() {
                Some(false) => careful.parked.push(&parked)?,
                _ => reject(careful, parked)?,
            }
        }
    }
    let rest = careful.parked.take();
    let mut rest = rest.reader();
    while let Some(parked) = rest.next_row()? {
        reject(careful, parked)?;
    }
    Ok(())
}

/// Applies the waiting rows if all of them can be applied; otherwise it goes on waiting.
pub(super) fn try_to_untie(careful: &mut Careful<'_, '_>) -> Result<(), Stop> {
    let waiting = careful.parked.take();
    if together(careful, &waiting, &mut Known::new())?.is_some() {
        careful.parked = waiting;
    }
    Ok(())
}

/// Applies all of `waiting`, or none and says of each whether it failed.
fn together(
    careful: &mut Careful<'_, '_>,
    waiting: &ParkedRows,
    known: &mut Known,
) -> Result<Option<Vec<bool>>, Stop> {
    careful.flush()?;
    careful
        .link
        .batch("SAVEPOINT knot; SET CONSTRAINTS ALL DEFERRED")
        .map_err(stopped("set a savepoint"))?;
    let reached = careful.reached.moment();
    let mut told = ToldRows::within(careful.upload.spills);
    let sets = Sets::of(careful, waiting, &mut told, known)?;
    // A byte of each counts: there may be a million.
    let mut held = careful.upload.spills.memory().hold();
    held.grow(waiting.len() as u64);
    let mut failed = vec![false; waiting.len()];
    sets.apply(careful, &mut failed)?;
    careful.flush()?;
    if !failed.contains(&true) {
        check(careful, waiting, &told, &mut failed)?;
    }
    careful.flush()?;
    if failed.contains(&true) {
        careful.reached.back_to(reached);
        careful
            .link
            .batch("ROLLBACK TO SAVEPOINT knot; RELEASE SAVEPOINT knot")
            .map_err(stopped("undo what failed"))?;
        return Ok(Some(failed));
    }
    careful.link.batch("RELEASE SAVEPOINT knot").map_err(stopped("end a savepoint"))?;
    let mut told = told.reader();
    while let Some((table, told)) = told.next_row()? {
        careful.echo(table, told.change, std::slice::from_ref(&told.bytes))?;
        careful.moved(table, told.change, &told.bytes)?;
    }
    Ok(None)
}

fn reject(careful: &mut Careful<'_, '_>, parked: Parked) -> Result<(), Stop> {
    let Parked { table, change, row, reason } = parked;
    Ok(careful.reject(table, change, &row, reason)?)
}

/// Checks what was deferred. Blames the rows that refer to nothing, or else all of the table that
/// is named, or else all.
fn check(
    careful: &mut Careful<'_, '_>,
    waiting: &ParkedRows,
    told: &ToldRows,
    failed: &mut [bool],
) -> Result<(), Stop> {
    let checking = "SAVEPOINT checked; SET CONSTRAINTS ALL IMMEDIATE";
    let Err(fault) = careful.link.batch(checking) else { return Ok(()) };
    if !matches!(row_fault(&fault), Some(RowFault::References(_) | RowFault::NotUnique(_))) {
        return Err(stopped("check constraints")(fault));
    }
    careful.link.batch("ROLLBACK TO SAVEPOINT checked").map_err(stopped("undo what failed"))?;
    let mut tables = waiting.kinds().map(|(table, _)| table);
    let named = tables.find(|table| names(&fault, &careful.table(*table).deployed.details));
    let Some(named) = named else {
        failed.fill(true);
        return Ok(());
    };
    let orphans = orphans(careful, named, fault.db().and_then(|said| said.constraint()))?;
    for only_orphans in [true, false] {
        let mut told = told.reader();
        for failed in failed.iter_mut() {
            let Some((table, told)) = told.next_row()? else { break };
            let row = careful.read(table, told.change, &told.bytes)?;
            let published = &careful.table(table).deployed.published;
            let (_, key) = row.new_key(published, table);
            *failed = table == named && (!only_orphans || orphans.contains(&key));
        }
        if failed.contains(&true) {
            break;
        }
    }
    Ok(())
}

fn names(fault: &Fault, details: &TableDetails) -> bool {
    let is = |said: Option<&str>, name: &str| said == Some(name);
    fault
        .db()
        .is_some_and(|said| is(said.schema(), &details.schema) && is(said.table(), &details.name))
}

/// Keys of the rows of a table whose foreign key `constraint` finds no parent.
fn orphans(
    careful: &mut Careful<'_, '_>,
    table: usize,
    constraint: Option<&str>,
) -> Result<HashSet<Vec<u8>>, Stop> {
    let this = careful.table(table);
    let (published, details) = (&this.deployed.published, &this.deployed.details);
    let name = format!("{}.{}", ident(&details.schema), ident(&details.name));
    let asking = stopped("read a foreign key");
    let found = careful
        .link
        .query(FOREIGN_KEY, &[&name, &constraint.unwrap_or_default()])
        .map_err(&asking)?;
    let mut read = found
        .iter()
        .map(|row| Some((row.try_get::<String>(0).ok()?, row.try_get::<String>(1).ok()?, row)));
    let Some(Some((parent, same, row))) = read.next() else { return Ok(HashSet::new()) };
    let present: String = row.try_get(2).unwrap_or_default();
    let key: Vec<_> = published.key.iter().map(|at| usize::from(*at)).collect();
    let selected: Vec<String> = key
        .iter()
        .map(|at| {
            let cast = if details.columns[*at].read_as_text() { "::text" } else { "" };
            format!("c.{}{cast}", ident(&published.columns[*at]))
        })
        .collect();
    let sql = format!(
        "SELECT {} FROM {name} AS c WHERE {present}
         AND NOT EXISTS (SELECT FROM {parent} AS p WHERE {same})",
        selected.join(", ")
    );
    let columns: Vec<_> = key.iter().map(|at| &details.columns[*at]).collect();
    let mut keys = HashSet::new();
    for row in careful.link.query(&sql, &[]).map_err(&asking)? {
        let mut bytes = Vec::new();
        Decoder::new(row.borrowed(), columns.iter().copied())?.write(row.borrowed(), &mut bytes)?;
        keys.insert(bytes);
    }
    Ok(keys)
}

/// Puts something harmless in place of a row, if it can. Returns what is left to do then.
pub(super) fn make_room(
    careful: &mut Careful<'_, '_>,
    parked: Parked,
    number: usize,
    known: &mut Known,
) -> Result<(Change, Vec<u8>), Stop> {
    if parked.change == Change::KeyChange && parked.reason.0 != Code::RowReferences {
        return step_aside(careful, parked, number);
    }
    let row = careful.read(parked.table, parked.change, &parked.row)?;
    let as_it_is = (parked.change, parked.row.clone());
    let query = match (parked.reason.0, parked.change) {
        (Code::RowNotUnique, Change::Update) => UNIQUE_COLUMNS,
        (Code::RowReferences, _) => REFERRING_COLUMNS,
        _ => return Ok(as_it_is),
    };
    let columns = match known.entry((query, parked.table)) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => entry.insert(columns(careful, parked.table, query)?),
    };
    let mut fillers: Vec<(usize, Vec<u8>)> = Vec::new();
    for (at, nullable) in columns.iter() {
        let kind = careful.table(parked.table).deployed.details.columns[*at].kind;
        match (query, place_holder(kind, *nullable, number)) {
            (REFERRING_COLUMNS, _) if !nullable => {}
            (_, Some(filler)) => fillers.push((*at, filler)),
            (_, None) => return Ok(as_it_is),
        }
    }
    if fillers.is_empty() {
        return Ok(as_it_is);
    }
    let mut placed = match parked.change {
        Change::Insert => row.new.clone(),
        Change::Update | Change::KeyChange | Change::Delete => row.old.clone(),
    };
    for (at, filler) in &fillers {
        placed[*at] = RowReader::new(filler).value()?;
    }
    let (first, away, last) = match parked.change {
        Change::Insert => (Change::Insert, image(&[&placed]), Change::Update),
        change => (Change::Update, image(&[&row.old, &placed]), change),
    };
    match careful.run(parked.table, first, event_of(first), &[away])? {
        Ran::Affected(1) => {
            careful.keep();
            Ok(match last {
                Change::Delete => (last, image(&[&placed])),
                _ => (last, image(&[&placed, &row.new])),
            })
        }
        _ => {
            careful.undo();
            Ok(as_it_is)
        }
    }
}

/// Gives a row a temporary key, so that another row can take its key.
fn step_aside(
    careful: &mut Careful<'_, '_>,
    parked: Parked,
    number: usize,
) -> Result<(Change, Vec<u8>), Stop> {
    let Parked { table, change, row: bytes, .. } = parked;
    let this = careful.table(table);
    let row = careful.read(table, change, &bytes)?;
    // One column is enough.
    for at in this.deployed.published.key.iter().map(|at| usize::from(*at)) {
        let kind = this.deployed.details.columns[at].kind;
        let Some(filler) = place_holder(kind, false, number) else { continue };
        let mut placed = row.old.clone();
        placed[at] = RowReader::new(&filler).value()?;
        let away = image(&[&row.old, &placed]);
        match careful.run(table, change, event_of(change), &[away])? {
            Ran::Affected(1) => {
                careful.keep();
                return Ok((change, image(&[&placed, &row.new])));
            }
            _ => careful.undo(),
        }
    }
    Ok((change, bytes))
}

fn image(images: &[&[ValueRef<'_>]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    images.iter().flat_map(|i| i.iter()).for_each(|value| write_value(&mut bytes, *value));
    bytes
}

/// The published columns that `query` finds for a table, without those of its key.
fn columns(
    careful: &mut Careful<'_, '_>,
    position: usize,
    query: &'static str,
) -> Result<Columns, Stop> {
    let table = careful.table(position);
    let (published, details) = (&table.deployed.published, &table.deployed.details);
    let name = format!("{}.{}", ident(&details.schema), ident(&details.name));
    careful.flush()?;
    let asking = stopped("read what constrains a table");
    let rows = careful.link.query(query, &[&name]).map_err(&asking)?;
    let mut columns = Vec::new();
    for row in rows {
        let (Ok(name), Ok(nullable)) = (row.try_get::<String>(0), row.try_get(1)) else {
            continue;
        };
        let at = published.columns.iter().position(|column| *column == name);
        let is_key = |at: usize| published.key.iter().any(|key| usize::from(*key) == at);
        columns.extend(at.filter(|at| !is_key(*at)).map(|at| (at, nullable)));
    }
    Ok(columns)
}

/// A value that no other row has, as a compact value. None if the type has no such value.
fn place_holder(kind: Kind, nullable: bool, number: usize) -> Option<Vec<u8>> {
    let number = i64::try_from(number).ok()?;
    let text;
    let value = match kind {
        _ if nullable => ValueRef::Null,
        Kind::Int2 => ValueRef::Integer(i64::from(i16::MIN) + number),
        Kind::Int4 => ValueRef::Integer(i64::from(i32::MIN) + number),
        Kind::Int8 => ValueRef::Integer(i64::MIN + number),
        Kind::Float4 | Kind::Float8 | Kind::Numeric(_) => ValueRef::Integer(-9001 - number),
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
