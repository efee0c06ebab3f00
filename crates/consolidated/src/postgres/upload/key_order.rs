//! The rows of a batch in the order of their keys, so that uploads lock rows in the same order.
//!
//! Any order is correct if all uploads use it (trap 14). Remotes send their rows in the order of
//! their keys anyway, so nearly always this only checks.

use crate::synchronization::change::{Change, UploadedRows};
use model::{Failure, PublishedTable, RowReader, ValueRef, skip_row};
use std::cmp::Ordering;

/// The rows of `batch`, each with its images, where they have to change places.
pub(in crate::postgres) fn sorted<'r>(
    batch: &UploadedRows<'r>,
    table: &PublishedTable,
) -> Result<Option<Vec<&'r [u8]>>, Failure> {
    if batch.change == Change::Insert || batch.count < 2 || is_sorted(batch, table)? {
        return Ok(None);
    }
    let mut rows: Vec<(Vec<ValueRef<'r>>, &'r [u8])> = Vec::with_capacity(batch.count as usize);
    let mut rest = batch.rows;
    for _ in 0..batch.count {
        let mut key = Vec::new();
        let after = read_key(rest, batch.change, table, &mut key)?;
        rows.push((key, &rest[..rest.len() - after.len()]));
        rest = after;
    }
    // Rows with the same key stay in their order.
    rows.sort_by(|one, other| compare(&one.0, &other.0));
    Ok(Some(rows.into_iter().map(|(_, row)| row).collect()))
}

fn is_sorted(batch: &UploadedRows<'_>, table: &PublishedTable) -> Result<bool, Failure> {
    let (mut last, mut key) = (Vec::new(), Vec::new());
    let mut rest = read_key(batch.rows, batch.change, table, &mut last)?;
    for _ in 1..batch.count {
        rest = read_key(rest, batch.change, table, &mut key)?;
        if compare(&last, &key) == Ordering::Greater {
            return Ok(false);
        }
        std::mem::swap(&mut last, &mut key);
    }
    Ok(true)
}

/// Reads the key of the row in front and returns what follows the row.
fn read_key<'r>(
    rows: &'r [u8],
    change: Change,
    table: &PublishedTable,
    key: &mut Vec<ValueRef<'r>>,
) -> Result<&'r [u8], Failure> {
    key.clear();
    key.resize(table.key.len(), ValueRef::Null);
    let mut reader = RowReader::new(rows);
    for column in 0..table.width() {
        let value = reader.value()?;
        if let Some(place) = table.key.iter().position(|at| usize::from(*at) == column) {
            key[place] = value;
        }
    }
    match change {
        Change::Update => skip_row(reader.rest(), table.width()),
        Change::Insert | Change::Delete => Ok(reader.rest()),
    }
}

fn compare(one: &[ValueRef<'_>], other: &[ValueRef<'_>]) -> Ordering {
    let pairs = one.iter().zip(other);
    pairs.map(|(a, b)| compare_values(*a, *b)).find(|it| it.is_ne()).unwrap_or(Ordering::Equal)
}

fn compare_values(one: ValueRef<'_>, other: ValueRef<'_>) -> Ordering {
    match (one, other) {
        (ValueRef::Integer(a), ValueRef::Integer(b)) => a.cmp(&b),
        (ValueRef::Real(a), ValueRef::Real(b)) => a.total_cmp(&b),
        (ValueRef::Text(a), ValueRef::Text(b)) | (ValueRef::Blob(a), ValueRef::Blob(b)) => a.cmp(b),
        (a, b) => class(a).cmp(&class(b)),
    }
}

fn class(value: ValueRef<'_>) -> u8 {
    match value {
        ValueRef::Null | ValueRef::Absent => 0,
        ValueRef::Integer(_) => 1,
        ValueRef::Real(_) => 2,
        ValueRef::Text(_) => 3,
        ValueRef::Blob(_) => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Direction, write_value};

    fn table() -> PublishedTable {
        PublishedTable {
            compress: true,
            name: "t".into(),
            columns: vec!["a".into(), "b".into(), "n".into()],
            key: vec![1, 0],
            direction: Direction::Both,
            create: vec![],
            fingerprint: String::new(),
        }
    }

    fn row(a: i64, b: &str, n: i64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for value in [ValueRef::Integer(a), ValueRef::Text(b.as_bytes()), ValueRef::Integer(n)] {
            write_value(&mut bytes, value);
        }
        bytes
    }

    // Trap 14
    #[test]
    fn rows_change_places_only_where_their_keys_ask_for_it() {
        let sort = |change, rows: &[Vec<u8>]| {
            let bytes = rows.concat();
            let images = if change == Change::Update { 2 } else { 1 };
            let count = (rows.len() / images) as u32;
            let batch = UploadedRows { table: 0, change, count, rows: &bytes };
            let sorted = sorted(&batch, &table()).unwrap();
            sorted.map(|rows| rows.into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>())
        };
        let (first, second, third) = (row(9, "a", 1), row(-1, "b", 2), row(300, "b", 3));
        let in_order = [first.clone(), second.clone(), third.clone()];
        assert_eq!(sort(Change::Delete, &in_order), None);
        let mixed = [third.clone(), first.clone(), second.clone()];
        assert_eq!(sort(Change::Delete, &mixed), Some(in_order.to_vec()));
        assert_eq!(sort(Change::Insert, &mixed), None, "nobody waits for a new row");
        let updates = [second.clone(), row(-1, "b", 7), first.clone(), row(9, "a", 8)];
        let images = [[first, row(9, "a", 8)].concat(), [second, row(-1, "b", 7)].concat()];
        assert_eq!(sort(Change::Update, &updates), Some(images.to_vec()));
    }
}
