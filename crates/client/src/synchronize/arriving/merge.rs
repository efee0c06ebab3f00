//! Puts what was kept before the rest of its download (AR3).
//!
//! Of a key that the rest names, whether as a row, a delete or a reject, nothing that was kept
//! counts. Of what was kept more than once of a key, as a row or a delete, the last counts.

use super::{Arriving, malformed};
use crate::apply::download::Download;
use crate::connection::explain;
use crate::progress::partial;
use crate::schema::RemoteTable;
use model::{Failure, RowReader, SpillMap, Spills, ValueRef, row_len, write_value};
use protocol::{FRAME_BYTES_MAX, FrameDecoder, Message, Operation, RowsFrame};
use rusqlite::Connection;
use std::sync::Arc;

/// The number of a frame that was not kept: it counts before all that were.
const LAST: i64 = i64::MAX;

/// The whole download.
pub(crate) fn merge(
    connection: &Connection,
    rest: Download,
    tables: &[RemoteTable],
    arriving: &Arriving,
    spills: &Arc<Spills>,
) -> Result<Download, Failure> {
    let mut named = Named { tables, keys: SpillMap::new(spills) };
    for at in arriving.continued() {
        named.by_kept(connection, at)?;
    }
    named.by_rest(&rest, arriving)?;
    let mut whole = Download::new(rest.begin.clone(), spills);
    for at in arriving.continued() {
        let mut behind = 0;
        while let Some((sequence, _, payload)) =
            partial::next(connection, at, behind).map_err(explain)?
        {
            behind = sequence;
            if let Some(frame) = named.without_named(at, sequence, payload)? {
                whole.keep_rows(frame)?;
            }
        }
    }
    whole.take_over(rest)?;
    Ok(whole)
}

/// Keys by their table, with the number of the last frame that names them.
struct Named<'a> {
    tables: &'a [RemoteTable],
    keys: SpillMap,
}

impl Named<'_> {
    fn table(&self, at: usize) -> Result<&RemoteTable, Failure> {
        self.tables.get(at).ok_or_else(|| malformed("rows of an unknown table"))
    }

    /// By what was kept and may follow something else of its key.
    fn by_kept(&mut self, connection: &Connection, at: usize) -> Result<(), Failure> {
        let mut behind = 0;
        while let Some((sequence, again, payload)) =
            partial::next(connection, at, behind).map_err(explain)?
        {
            behind = sequence;
            let (_, operation, _) = RowsFrame::split(&payload)?;
            // A row may have been kept, and have gone since.
            if again || operation == Operation::Delete {
                self.frame(&payload, sequence)?;
            }
        }
        Ok(())
    }

    /// By everything else that has arrived of the tables that are gone on with, without rows whose
    /// keys lie behind those that were kept.
    fn by_rest(&mut self, rest: &Download, arriving: &Arriving) -> Result<(), Failure> {
        let mut reader = rest.upserts.reader();
        let mut number = 0;
        while let Some(payload) = reader.next_chunk()? {
            let (at, _, _) = RowsFrame::split(&payload)?;
            let table = arriving.tables.get(usize::from(at));
            if table.is_some_and(|it| it.continued && !it.rows.is_fresh(number)) {
                self.frame(&payload, LAST)?;
            }
            number += 1;
        }
        for at in arriving.continued() {
            let Some(deletes) = rest.deletes.get(at) else { continue };
            let mut reader = deletes.reader();
            while let Some(payload) = reader.next_chunk()? {
                self.frame(&payload, LAST)?;
            }
        }
        let mut reader = rest.rejects.reader();
        while let Some(chunk) = reader.next_chunk()? {
            let mut decoder = FrameDecoder::new(FRAME_BYTES_MAX);
            decoder.push(&chunk);
            let message = decoder.next_frame()?.map(Message::decode).transpose()?.flatten();
            let Some(Message::Rejects(rejects)) = message else { continue };
            for reject in rejects.rejects {
                let at = usize::from(reject.table);
                let key = key_of(at, &reject.key, self.table(at)?.key.len())?;
                self.keys.set(&key, &LAST.to_be_bytes())?;
            }
        }
        Ok(())
    }

    fn frame(&mut self, payload: &[u8], number: i64) -> Result<(), Failure> {
        let (at, operation, count) = RowsFrame::split(payload)?;
        let at = usize::from(at);
        let (width, key_width) = (self.table(at)?.width(), self.table(at)?.key.len());
        let mut rest = &payload[RowsFrame::PREFIX_BYTES..];
        for _ in 0..count {
            if operation != Operation::Upsert {
                self.keys.set(&key_of(at, rest, key_width)?, &number.to_be_bytes())?;
                rest = &rest[row_len(rest, key_width)?..];
            }
            if operation != Operation::Delete {
                let (row, behind) = rest.split_at(row_len(rest, width)?);
                let key = self.key_in(at, row)?;
                self.keys.set(&key, &number.to_be_bytes())?;
                rest = behind;
            }
        }
        Ok(())
    }

    /// The key in a row.
    fn key_in(&self, at: usize, row: &[u8]) -> Result<Vec<u8>, Failure> {
        let table = self.table(at)?;
        let mut reader = RowReader::new(row);
        let mut values: Vec<ValueRef<'_>> = Vec::with_capacity(table.width());
        for _ in 0..table.width() {
            values.push(reader.value()?);
        }
        let mut key = (at as u32).to_be_bytes().to_vec();
        table.key.iter().for_each(|column| write_value(&mut key, values[column.position]));
        Ok(key)
    }

    /// The rows or keys of a kept frame that nothing later names.
    fn without_named(
        &self,
        at: usize,
        number: i64,
        payload: Vec<u8>,
    ) -> Result<Option<RowsFrame>, Failure> {
        let (of, operation, count) = RowsFrame::split(&payload)?;
        let width = match operation {
            Operation::Upsert => self.table(at)?.width(),
            Operation::Delete => self.table(at)?.key.len(),
            _ => return Err(malformed("something else was kept than rows and deleted keys")),
        };
        if usize::from(of) != at {
            return Err(malformed("rows of another table were kept"));
        }
        let mut rest = &payload[RowsFrame::PREFIX_BYTES..];
        let (mut bytes, mut left) = (Vec::with_capacity(rest.len()), 0);
        for _ in 0..count {
            let (row, behind) = rest.split_at(row_len(rest, width)?);
            let key = match operation {
                Operation::Upsert => self.key_in(at, row)?,
                _ => key_of(at, row, width)?,
            };
            let named = self.keys.get(&key)?;
            if named.is_none_or(|by| *by <= number.to_be_bytes()[..]) {
                bytes.extend_from_slice(row);
                left += 1;
            }
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(malformed("a rows frame has more bytes than rows"));
        }
        Ok((left > 0).then_some(RowsFrame { table: of, operation, count: left, bytes }))
    }
}

/// A key that is alone, in the form in which keys are compared.
fn key_of(at: usize, bytes: &[u8], width: usize) -> Result<Vec<u8>, Failure> {
    let mut reader = RowReader::new(bytes);
    let mut key = (at as u32).to_be_bytes().to_vec();
    for _ in 0..width {
        write_value(&mut key, reader.value()?);
    }
    Ok(key)
}
