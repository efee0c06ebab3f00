//! Makes room for the rows of a constraint cycle.

use crate::postgres::upload::isolation::state::{Isolation, Ran};
use crate::postgres::upload::stop::{Stop, stopped};
use crate::postgres::values::Kind;
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::event_of;
use crate::upload::waiting::WaitingRow;
use model::{Code, RowReader, ValueRef, write_value};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

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

/// Positions of columns, and whether they may be NULL.
type Columns = Vec<(usize, bool)>;

/// What was learned about the columns of tables, by query and table.
pub(in crate::postgres) type Known = HashMap<(&'static str, usize), Columns>;

/// Puts something harmless in place of a row, if it can. Returns what is left to do then.
pub(in crate::postgres) fn make_room(
    isolation: &mut Isolation<'_, '_>,
    waiting: &WaitingRow,
    number: usize,
    known: &mut Known,
) -> Result<(Change, Vec<u8>), Stop> {
    let row = isolation.read(waiting.table, waiting.change, &waiting.row)?;
    let as_it_is = (waiting.change, waiting.row.clone());
    let query = match (waiting.reason.code, waiting.change) {
        (Code::RowNotUnique, Change::Update) => UNIQUE_COLUMNS,
        (Code::RowReferences, _) => REFERRING_COLUMNS,
        _ => return Ok(as_it_is),
    };
    let columns = match known.entry((query, waiting.table)) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => entry.insert(columns(isolation, waiting.table, query)?),
    };
    let mut fillers: Vec<(usize, Vec<u8>)> = Vec::new();
    for (at, nullable) in columns.iter() {
        let kind = isolation.table(waiting.table).deployed.details.columns[*at].kind;
        match (query, place_holder(kind, *nullable, number)) {
            (REFERRING_COLUMNS, _) if !nullable => {}
            (_, Some(filler)) => fillers.push((*at, filler)),
            (_, None) => return Ok(as_it_is),
        }
    }
    if fillers.is_empty() {
        return Ok(as_it_is);
    }
    let mut placed = match waiting.change {
        Change::Insert => row.new.clone(),
        Change::Update | Change::Delete => row.old.clone(),
    };
    for (at, filler) in &fillers {
        placed[*at] = RowReader::new(filler).value()?;
    }
    let (first, away, last) = match waiting.change {
        Change::Insert => (Change::Insert, images(&[&placed]), Change::Update),
        change => (Change::Update, images(&[&row.old, &placed]), change),
    };
    match isolation.run(waiting.table, first, event_of(first), &[away])? {
        Ran::Affected(1) => {
            isolation.keep();
            Ok(match last {
                Change::Delete => (last, images(&[&placed])),
                _ => (last, images(&[&placed, &row.new])),
            })
        }
        _ => {
            isolation.undo();
            Ok(as_it_is)
        }
    }
}

fn images(images: &[&[ValueRef<'_>]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    images.iter().flat_map(|i| i.iter()).for_each(|value| write_value(&mut bytes, *value));
    bytes
}

/// The published columns that `query` finds for a table, without those of its key.
fn columns(
    isolation: &mut Isolation<'_, '_>,
    position: usize,
    query: &'static str,
) -> Result<Columns, Stop> {
    let table = isolation.table(position);
    let (published, name) = (&table.deployed.published, table.deployed.details.sql_name());
    isolation.flush()?;
    let asking = stopped("read what constrains a table");
    let rows = isolation.link.query(query, &[&name]).map_err(&asking)?;
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
