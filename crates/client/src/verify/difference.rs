//! Which rows differ, after all digests are there.

use super::content;
use super::inquiry::TableAnswer;
use super::verification::{DifferingRow, How, VerifiedTable};
use crate::Remote;
use crate::apply::{incoming, orphans};
use crate::connection::{bind, explain};
use crate::schema::RemoteTable;
use model::{Failure, RowReader, SpillMap, Spills, ValueRef};
use protocol::{Digester, Ranges, RowDigest, WANTED_ROWS_MAX, read_values, write_canonical};
use rusqlite::Connection;
use std::sync::Arc;

/// Bytes of the keys that one Hello can ask for.
const WANTED_BYTES_MAX: usize = 16 << 10;

/// What an entry has instead of a digest: the row is left out there …
const LEFT_OUT: [u8; 1] = [0];
/// … or was found here.
const FOUND: [u8; 1] = [1];

/// The differences of one table, as they are found.
pub(super) struct Differences<'a> {
    table: &'a RemoteTable,
    verified: &'a mut VerifiedTable,
    named_max: usize,
    wanted_bytes: usize,
}

impl<'a> Differences<'a> {
    pub(super) fn new(
        table: &'a RemoteTable,
        verified: &'a mut VerifiedTable,
        named_max: usize,
    ) -> Differences<'a> {
        verified.wanted = Some(Vec::new());
        Differences { table, verified, named_max, wanted_bytes: 0 }
    }

    /// Compares the rows of some ranges with the digests of those that should be there.
    pub(super) fn find(
        &mut self,
        remote: &Remote,
        ranges: &Ranges,
        answer: &TableAnswer,
    ) -> Result<(), Failure> {
        let table = self.table;
        let mut expected = expected(&remote.spills, table, answer)?;
        let waiting = Waiting::new(&remote.connection, table)?;
        let (mut digester, mut bytes) = (Digester::default(), Vec::new());
        content::each(&remote.connection, table, &mut |key, row| {
            if ranges.find(digester.key(key.iter().copied())).is_none() {
                return Ok(());
            }
            bytes.clear();
            write_canonical(&mut bytes, key.iter().copied());
            let how = match expected.get(&bytes)?.as_deref() {
                None => Some(How::Extra),
                Some(entry) => match RowDigest::from_slice(entry) {
                    Some(digest) if digest == digester.row(row.iter().copied()) => None,
                    Some(_) => Some(How::Different),
                    None => {
                        self.verified.left_out += 1;
                        None
                    }
                },
            };
            if how != Some(How::Extra) {
                expected.set(&bytes, &FOUND)?;
            }
            how.map_or(Ok(()), |how| self.note(&waiting, how, key, &bytes))
        })?;
        expected.visit(|bytes, entry| {
            if RowDigest::from_slice(entry).is_none() {
                return Ok(());
            }
            let mut key = Vec::with_capacity(table.key.len());
            read_values(&mut RowReader::new(bytes), table.key.len(), &mut key)?;
            self.note(&waiting, How::Missing, &key, bytes)
        })
    }

    fn note(
        &mut self,
        waiting: &Waiting<'_>,
        how: How,
        key: &[ValueRef<'_>],
        bytes: &[u8],
    ) -> Result<(), Failure> {
        let verified = &mut *self.verified;
        if waiting.has(key).map_err(explain)? {
            verified.left_out += 1;
            return Ok(());
        }
        match how {
            How::Missing => verified.missing += 1,
            How::Extra => verified.extra += 1,
            How::Different => verified.different += 1,
        }
        if verified.rows.len() < self.named_max {
            let key = self.table.key_text(key.iter().copied());
            verified.rows.push(DifferingRow { how, key });
        }
        self.wanted_bytes += bytes.len();
        match &mut verified.wanted {
            Some(wanted)
                if wanted.len() < WANTED_ROWS_MAX && self.wanted_bytes <= WANTED_BYTES_MAX =>
            {
                wanted.push(bytes.to_vec());
            }
            // All or none of a table: a part of them would look like the whole.
            wanted => *wanted = None,
        }
        Ok(())
    }
}

/// By key: the digest of the row, or that it is left out.
fn expected(
    spills: &Arc<Spills>,
    table: &RemoteTable,
    answer: &TableAnswer,
) -> Result<SpillMap, Failure> {
    let mut expected = SpillMap::new(spills);
    let mut parts = answer.entries.reader();
    while let Some(part) = parts.next_chunk()? {
        let mut reader = RowReader::new(&part);
        let mut key = Vec::with_capacity(table.key.len());
        while !reader.is_at_end() {
            read_values(&mut reader, table.key.len(), &mut key)?;
            let mut bytes = Vec::new();
            write_canonical(&mut bytes, key.iter().copied());
            let entry = match reader.value()? {
                ValueRef::Blob(digest) if digest.len() == RowDigest::BYTES => digest.to_vec(),
                _ => LEFT_OUT.to_vec(),
            };
            expected.add(bytes, entry)?;
        }
    }
    Ok(expected)
}

/// The rows of a table that something of Syncline in the file is about: pending changes, downloaded
/// rows that could not be applied, rows without their parent. The next synchronization is for them.
struct Waiting<'c> {
    connection: &'c Connection,
    probes: Vec<String>,
}

impl<'c> Waiting<'c> {
    fn new(connection: &'c Connection, table: &RemoteTable) -> Result<Waiting<'c>, Failure> {
        let probe =
            |place: &str, condition: &str| format!("SELECT 1 FROM {place} WHERE {condition}");
        let ours = table.our_key_is_parameter(1);
        let mut probes = Vec::new();
        if incoming::has_table(connection, table).map_err(explain)? {
            probes.push(probe(&table.incoming_sql(), &ours));
        }
        if table.uploads() {
            probes.push(probe(&table.change_sql(), &ours));
        }
        if orphans::has_table(connection, table)? {
            probes.push(probe(&table.orphans_sql(), &ours));
        }
        Ok(Waiting { connection, probes })
    }

    fn has(&self, key: &[ValueRef<'_>]) -> rusqlite::Result<bool> {
        for probe in &self.probes {
            let mut statement = self.connection.prepare_cached(probe)?;
            for (n, value) in key.iter().enumerate() {
                bind(&mut statement, n + 1, *value)?;
            }
            if statement.raw_query().next()?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
