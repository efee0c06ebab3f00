//! Reads what a remote is owed.

use crate::download::owed::{OwedEntries, OwedEntry};
use crate::postgres::catalog::table::Table;
use crate::postgres::errors::{failed, unreadable};
use crate::postgres::link::{Call, Link, Row};
use crate::postgres::values::ColumnType;
use bytes::{BufMut, BytesMut};
use model::{Code, Counter, Failure, RowReader};
use postgres_types::{IsNull, ToSql, Type, to_sql_checked};
use std::error::Error;
use std::sync::{Arc, LazyLock};

/// The value by which a key, which is SQL, is found in a system table: itself, or its digest where
/// it might be too large for an index entry of PostgreSQL. No row begins with that byte.
pub(in crate::postgres) fn indexed(key: &str) -> String {
    format!(
        r"CASE WHEN octet_length({key}) > {INDEXED_BYTES_MAX}
           THEN '\xff'::bytea || sha256({key}) ELSE {key} END"
    )
}

/// The key, which is SQL, where [`indexed`] is not the key itself.
pub(in crate::postgres) fn whole(key: &str) -> String {
    format!("CASE WHEN octet_length({key}) > {INDEXED_BYTES_MAX} THEN {key} END")
}

/// An index entry has 2704 bytes at most, with the remote ID and the name of the table.
const INDEXED_BYTES_MAX: usize = 1 << 10;

/// Entries that are read in the first flight.
pub(in crate::postgres) const FIRST_MAX: usize = 100;

/// The first entries. The only parameter is the remote ID.
pub(in crate::postgres) static READ: LazyLock<String> =
    LazyLock::new(|| format!("{ENTRIES} LIMIT {FIRST_MAX}"));

/// The entries behind those, in the same snapshot.
static READ_MORE: LazyLock<String> = LazyLock::new(|| format!("{ENTRIES} OFFSET {FIRST_MAX}"));

const ENTRIES: &str =
    "SELECT table_name, coalesce(whole_key, row_key), counter, code, message, withheld, bundled
FROM syncline.syncline_owed WHERE remote_id = $1 ORDER BY table_name, row_key";

/// Takes what [`READ`] found, and all entries behind it.
pub(in crate::postgres) fn read(
    link: &mut Link,
    first: &[Row],
    remote_id: &str,
    tables: &[Arc<Table>],
    entries: &mut OwedEntries<'_, '_>,
) -> Result<(), Failure> {
    for row in first {
        take(row, tables, entries)?;
    }
    if first.len() < FIRST_MAX {
        return Ok(());
    }
    let remote: [&(dyn ToSql + Sync); 1] = [&remote_id];
    link.stream(&[Call::new(&READ_MORE, &remote)], &mut |_, row| {
        take(&row.to_row(), tables, entries)
    })
    .map_err(failed("read what the remote is owed"))
}

/// Takes an entry, where it concerns a table of this session.
fn take(
    row: &Row,
    tables: &[Arc<Table>],
    entries: &mut OwedEntries<'_, '_>,
) -> Result<(), Failure> {
    let name: &str = row.try_get(0).map_err(unreadable)?;
    let found = entries.table(|at| tables[at].deployed.published.name == name);
    let Some(table) = found else { return Ok(()) };
    let (key, counter) = (row.try_get(1).map_err(unreadable)?, row.try_get(2));
    let counter = Counter(counter.map_err(unreadable)?);
    let code: Option<i32> = row.try_get(3).map_err(unreadable)?;
    let message: Option<String> = row.try_get(4).map_err(unreadable)?;
    let code = code.and_then(|code| u16::try_from(code).ok());
    let reject = code.map(|code| (code, message.unwrap_or_default()));
    let withheld = row.try_get::<Option<i64>>(5).map_err(unreadable)?.map(i64::unsigned_abs);
    let is_bundle = row.try_get::<Option<i32>>(6).map_err(unreadable)?.is_some();
    entries.add(OwedEntry { table, key, counter, reject, withheld }, is_bundle)
}

/// One column of the keys that are owed of one table.
#[derive(Debug)]
pub(in crate::postgres) struct KeyArray {
    element: Type,
    count: i32,
    elements: Vec<u8>,
}

/// Column `column` of keys of `table`, without those that PostgreSQL cannot hold.
pub(in crate::postgres) fn key_array<'k>(
    keys: impl Iterator<Item = &'k [u8]>,
    table: &Table,
    column: usize,
) -> Result<KeyArray, Failure> {
    let (published, columns) = (&table.deployed.published, &table.deployed.details.columns);
    let types: Vec<&ColumnType> =
        published.key.iter().map(|at| &columns[usize::from(*at)]).collect();
    let wanted =
        published.key.iter().position(|at| usize::from(*at) == column).ok_or_else(|| {
            Failure::new(
                Code::ScriptFailed,
                "a script that fetches rows asks for more than the key",
            )
            .table(published.name.as_str())
        })?;
    let element = types[wanted].wire();
    let mut array = KeyArray { element, count: 0, elements: Vec::new() };
    let mut scratch = Vec::new();
    'keys: for key in keys {
        let mut reader = RowReader::new(key);
        scratch.clear();
        let mut taken = 0..0;
        for (place, kind) in types.iter().enumerate() {
            let begin = scratch.len();
            if kind.write_element(reader.value()?, &mut scratch).is_err() {
                continue 'keys;
            }
            if place == wanted {
                taken = begin..scratch.len();
            }
        }
        array.elements.extend_from_slice(&scratch[taken]);
        array.count += 1;
    }
    Ok(array)
}

impl ToSql for KeyArray {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        // One dimension, perhaps with NULLs, counted from 1.
        out.put_i32(i32::from(self.count > 0));
        out.put_i32(1);
        out.put_u32(self.element.oid());
        if self.count > 0 {
            out.put_i32(self.count);
            out.put_i32(1);
        }
        out.extend_from_slice(&self.elements);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
