//! What a remote must receive whatever its watermark says (trap 5).

use super::catalog::Table;
use super::fetch::{Sink, unreadable};
use super::ledger::Ledger;
use super::link::Row;
use super::span;
use super::upload::Upload;
use super::values::ColumnType;
use super::watermark::Mark;
use crate::synchronization::{Change, DownloadBatch, FetchRequest, TableMark};
use crate::uploaded_row::each_row;
use bytes::{BufMut, BytesMut};
use model::{Code, Counter, Failure, RowReader};
use postgres_types::{IsNull, ToSql, Type, to_sql_checked};
use std::error::Error;
use std::sync::Arc;

/// The value by which a key, which is SQL, is found in a system table: itself, or its digest where
/// it might be too large for an index entry of PostgreSQL. No row begins with that byte.
pub(super) fn indexed(key: &str) -> String {
    format!(
        r"CASE WHEN octet_length({key}) > {INDEXED_BYTES_MAX}
           THEN '\xff'::bytea || sha256({key}) ELSE {key} END"
    )
}

/// The key, which is SQL, where [`indexed`] is not the key itself.
pub(super) fn whole(key: &str) -> String {
    format!("CASE WHEN octet_length({key}) > {INDEXED_BYTES_MAX} THEN {key} END")
}

/// An index entry has 2704 bytes at most, with the remote ID and the name of the table.
const INDEXED_BYTES_MAX: usize = 1 << 10;

/// The only parameter is the remote ID.
pub(super) const READ: &str =
    "SELECT table_name, coalesce(whole_key, row_key), counter, code, message, withheld
FROM syncline.syncline_owed WHERE remote_id = $1 ORDER BY table_name, row_key";

/// A row that the remote must receive.
#[derive(Debug)]
pub(super) struct Owed {
    pub(super) table: usize,
    /// The key's columns as a row.
    pub(super) key: Vec<u8>,
    counter: Counter,
    reject: Option<(u16, String)>,
    /// It was too large to be sent: this many bytes.
    withheld: Option<u64>,
}

impl Owed {
    /// Not even tried: it was too large, and comes as any row does when it changes.
    pub(super) fn is_too_large(&self, request: &FetchRequest<'_>) -> bool {
        self.withheld.is_some_and(|bytes| bytes > request.row_bytes_max)
    }
}

/// Up to where the remote has received what it was owed: its watermarks were issued after that.
pub(super) fn settled(marks: &[TableMark], tables: usize) -> Option<Counter> {
    let counters = marks.iter().map(|held| {
        let mark = held.watermark.as_ref().and_then(Mark::read);
        mark.map_or(Counter(0), |mark| mark.counter)
    });
    counters.min().filter(|_| marks.len() == tables)
}

/// What [`READ`] found, where it concerns tables of this session.
pub(super) fn understand(rows: &[Row], tables: &[Arc<Table>]) -> Result<Vec<Owed>, Failure> {
    let mut owed = Vec::with_capacity(rows.len());
    for row in rows {
        let name: &str = row.try_get(0).map_err(unreadable)?;
        let found = tables.iter().position(|table| table.deployed.published.name == name);
        let Some(table) = found else { continue };
        let code: Option<i32> = row.try_get(3).map_err(unreadable)?;
        let message: Option<String> = row.try_get(4).map_err(unreadable)?;
        let code = code.and_then(|code| u16::try_from(code).ok());
        owed.push(Owed {
            table,
            key: row.try_get(1).map_err(unreadable)?,
            counter: Counter(row.try_get(2).map_err(unreadable)?),
            reject: code.map(|code| (code, message.unwrap_or_default())),
            withheld: row.try_get::<Option<i64>>(5).map_err(unreadable)?.map(i64::unsigned_abs),
        });
    }
    Ok(owed)
}

/// Tells which rows were refused, and which were withheld.
pub(super) fn tell(
    owed: &[Owed],
    request: &FetchRequest<'_>,
    tables: usize,
    sink: Sink<'_>,
) -> Result<(), Failure> {
    let settled = settled(request.marks, tables).unwrap_or(Counter(0));
    for row in owed {
        if row.withheld.is_some() {
            let (table, key, counter) = (row.table, row.key.clone(), row.counter);
            sink(DownloadBatch::Withheld { table, key, counter })?;
        }
        // A row that was withheld stays owed when the remote knows of it.
        if let Some((code, message)) = &row.reject
            && (row.withheld.is_none() || row.counter > settled)
        {
            sink(DownloadBatch::Reject {
                table: row.table,
                key: row.key.clone(),
                counter: row.counter,
                code: *code,
                message: message.clone(),
            })?;
        }
    }
    Ok(())
}

/// Owes the uploaded rows that the departure log may lack.
///
/// A watermark covers the rows that the remote was sent with the claims of that time. Rows that it
/// inserts with other claims are not covered, and would stay at the remote when the old claims
/// return (traps 4 and 5). And a row that leaves with a key change departs under its old key, while
/// the remote has it under the new one.
pub(super) fn owe_what_no_log_names(
    upload: Upload<'_>,
    ledger: &mut Ledger,
) -> Result<(), Failure> {
    let request = upload.request;
    let changes_keys = request.key_changes && ledger.applied.updates > 0;
    let owes = |table: &Arc<Table>| {
        let deployed = &table.deployed;
        let published = &deployed.published;
        let held = request.marks.iter().find(|held| held.fingerprint == published.fingerprint);
        let mark = held.and_then(|held| Mark::read(held.watermark.as_ref()?));
        let mark = mark.filter(|_| published.direction.downloads());
        let all = mark.is_some_and(|mark| mark.claims != span::claims(table, request.session));
        (all, changes_keys && deployed.details.may_leave && published.direction.downloads())
    };
    let owes: Vec<(bool, bool)> = upload.tables.iter().map(owes).collect();
    if !owes.iter().any(|(all, moved)| *all || *moved) {
        return Ok(());
    }
    let published = |position: usize| &upload.tables[position].deployed.published;
    let wanted = |position: usize, change| {
        let (all, moved) = owes[position];
        match change {
            Change::Insert | Change::Update => all,
            Change::KeyChange => all || moved,
            Change::Delete => false,
        }
    };
    each_row(request.batches, &published, wanted, |position, row| {
        ledger.owe(&row.key(published(position), position))?;
        if row.change != Change::Insert {
            ledger.owe(&row.new_key(published(position), position))?;
        }
        Ok(())
    })
}

/// One column of the keys that are owed of one table.
#[derive(Debug)]
pub(super) struct KeyArray {
    element: Type,
    count: i32,
    elements: Vec<u8>,
}

/// Column `column` of the keys owed of `table`, without those that PostgreSQL cannot hold: there
/// is no such row.
pub(super) fn keys(
    owed: &[Owed],
    position: usize,
    table: &Table,
    column: usize,
) -> Result<KeyArray, Failure> {
    let unreadable = |row: &&Owed| {
        row.reject.as_ref().is_some_and(|(code, _)| *code == Code::RowKeyUnreadable.number())
    };
    let here = owed.iter().filter(|row| row.table == position).filter(|row| !unreadable(row));
    key_array(here.map(|row| row.key.as_slice()), table, column)
}

/// Column `column` of keys of `table`, without those that PostgreSQL cannot hold.
pub(super) fn key_array<'k>(
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
