//! Withholds rows of a download that cannot be sent, and sends the others.
//!
//! A row that is larger than a frame is owed to the remote, like a row that lost, and reported as a
//! reject. It is sent when it becomes smaller, or when the limit becomes larger. A row that was
//! owed before and that no script can read stays owed, and is reported too, unless a cursor brings
//! it.
//!
//! Invariant WH1: each row is either withheld or sent. A withheld row is recorded in the
//! consolidated database before the download leaves (S2).

use consolidated::{DownloadBatch, DownloadedTable, WithheldRow};
use model::{Code, Counter, Failure, PublishedTable, RemoteSchema, RowReader, write_value};
use protocol::{FRAME_BYTES_MAX, RowsFrame};
use std::collections::{BTreeMap, HashMap};

/// The rows that are withheld now, and by table and key those that are not any more.
pub(crate) type News = (Vec<WithheldRow>, Vec<(usize, Vec<u8>)>);

/// Bytes of a key that a remote is sent. One that is larger is recorded at the center only.
const KEY_BYTES_MAX: usize = 1 << 20;

/// Where the parts of a download go.
pub(super) type Sink<'a> = &'a mut dyn FnMut(DownloadBatch) -> Result<(), Failure>;

/// The largest row that fits into a frame of `frame_bytes_max`, which a client takes.
pub(super) fn row_bytes_max(frame_bytes_max: usize) -> usize {
    frame_bytes_max.min(FRAME_BYTES_MAX) - RowsFrame::PREFIX_BYTES
}

/// Looks at the rows of one download.
pub(super) struct Oversize<'a> {
    schema: &'a RemoteSchema,
    counter: Counter,
    row_bytes_max: usize,
    /// Tables that are sent as a whole.
    refreshed: Vec<bool>,
    /// Tables of which only the rest of a download that was cut is sent.
    continued: Vec<bool>,
    /// What was withheld before and has not come yet, and in which synchronization it was first.
    before: HashMap<(usize, Vec<u8>), Counter>,
    /// What no script can read and no cursor has brought yet, and why.
    unreadable: BTreeMap<(usize, Vec<u8>), String>,
    withheld: Vec<WithheldRow>,
    released: Vec<(usize, Vec<u8>)>,
    /// Of them and of their batches: rows that the reader has counted and that are not sent.
    pub(super) rows: u64,
}

impl<'a> Oversize<'a> {
    pub(super) fn new(
        schema: &'a RemoteSchema,
        counter: Counter,
        row_bytes_max: usize,
    ) -> Oversize<'a> {
        Oversize {
            schema,
            counter,
            row_bytes_max,
            refreshed: Vec::new(),
            continued: Vec::new(),
            before: HashMap::new(),
            unreadable: BTreeMap::new(),
            withheld: Vec::new(),
            released: Vec::new(),
            rows: 0,
        }
    }

    /// Passes on what can be sent.
    pub(super) fn pass(&mut self, batch: DownloadBatch, sink: Sink<'_>) -> Result<(), Failure> {
        match batch {
            DownloadBatch::Begin { tables, tokens, restored, deletes_lost, waiting } => {
                // What a download has sent that begins again does not count.
                *self = Oversize::new(self.schema, self.counter, self.row_bytes_max);
                self.refreshed = tables.iter().map(|it| *it == DownloadedTable::Refresh).collect();
                self.continued = tokens.iter().map(|it| it.continued).collect();
                sink(DownloadBatch::Begin { tables, tokens, restored, deletes_lost, waiting })
            }
            DownloadBatch::Withheld { table, key, counter } => {
                self.before.insert((table, key), counter);
                Ok(())
            }
            DownloadBatch::Unreadable { table, key, message } => {
                self.unreadable.insert((table, key), message);
                Ok(())
            }
            DownloadBatch::Upserts { table, count, rows } => {
                if rows.len() <= self.row_bytes_max && !self.awaits_any() {
                    return sink(DownloadBatch::Upserts { table, count, rows });
                }
                self.upserts(table, count, &rows, sink)
            }
            DownloadBatch::Deletes { table, count, rows } => {
                if self.awaits_any() {
                    self.deleted(table, &rows)?;
                }
                sink(DownloadBatch::Deletes { table, count, rows })
            }
            other @ (DownloadBatch::Reject { .. }
            | DownloadBatch::Conflict { .. }
            | DownloadBatch::Position { .. }) => sink(other),
        }
    }

    /// Whether it matters which rows arrive.
    fn awaits_any(&self) -> bool {
        !self.before.is_empty() || !self.unreadable.is_empty()
    }

    /// A row of a whole table that was withheld before and is not there now was deleted, unless
    /// only the rest of the table is sent: then it is as large as it was. What no cursor has
    /// brought and no script can read is withheld.
    pub(super) fn finish(&mut self, sink: Sink<'_>) -> Result<(), Failure> {
        self.tell_left(sink)?;
        let gone = |table: &usize| self.refreshed.get(*table) == Some(&true);
        let gone = self.before.extract_if(|(table, _), _| gone(table));
        self.released.extend(gone.map(|(row, _)| row));
        for ((table, key), message) in std::mem::take(&mut self.unreadable) {
            tracing::warn!(table = %self.published(table).name, message,
                "a script cannot read a row that a remote is owed");
            let code = Code::OwedRowUnreadable;
            self.withhold(WithheldRow { table, key, code, bytes: 0, message }, sink)?;
        }
        Ok(())
    }

    /// Reports again what no cursor had to look at, or the remote would take the row for gone.
    fn tell_left(&mut self, sink: Sink<'_>) -> Result<(), Failure> {
        let is_left = |row: &(usize, Vec<u8>)| {
            self.continued.get(row.0) == Some(&true)
                && self.refreshed.get(row.0) == Some(&true)
                && !self.unreadable.contains_key(row)
        };
        let left = self.before.extract_if(|row, _| is_left(row));
        for ((table, key), counter) in left.filter(|((_, key), _)| key.len() <= KEY_BYTES_MAX) {
            let limit = self.row_bytes_max;
            let message = format!("the row is too large; at most {limit} bytes can be sent");
            let code = Code::RowTooLargeToSend.number();
            sink(DownloadBatch::Reject { table, key, counter, code, message })?;
        }
        Ok(())
    }

    /// What is to be written before the download is sent, if anything.
    pub(super) fn into_news(self) -> Option<News> {
        let Oversize { withheld, released, .. } = self;
        (!withheld.is_empty() || !released.is_empty()).then_some((withheld, released))
    }

    fn published(&self, table: usize) -> &'a PublishedTable {
        &self.schema.tables[table]
    }

    fn upserts(
        &mut self,
        table: usize,
        count: u32,
        rows: &[u8],
        sink: Sink<'_>,
    ) -> Result<(), Failure> {
        let published = self.published(table);
        let mut together = Together::default();
        let mut rest = rows;
        for _ in 0..count {
            let (key, behind) = key_of(published, rest)?;
            let row = &rest[..rest.len() - behind.len()];
            rest = behind;
            if row.len() > self.row_bytes_max {
                self.withhold_large(table, key, row.len(), sink)?;
                continue;
            }
            self.release(table, key);
            if let Some((rows, count)) = together.add(row, self.row_bytes_max) {
                sink(DownloadBatch::Upserts { table, count, rows })?;
            }
        }
        match together.take() {
            Some((rows, count)) => sink(DownloadBatch::Upserts { table, count, rows }),
            None => Ok(()),
        }
    }

    fn deleted(&mut self, table: usize, keys: &[u8]) -> Result<(), Failure> {
        let mut reader = RowReader::new(keys);
        while !reader.is_at_end() {
            let before = reader.rest();
            for _ in &self.published(table).key {
                reader.value()?;
            }
            let key = before[..before.len() - reader.rest().len()].to_vec();
            self.release(table, key);
        }
        Ok(())
    }

    fn withhold_large(
        &mut self,
        table: usize,
        key: Vec<u8>,
        bytes: usize,
        sink: Sink<'_>,
    ) -> Result<(), Failure> {
        self.rows += 1;
        let published = self.published(table);
        let limit = self.row_bytes_max;
        let message = format!("the row has {bytes} bytes; at most {limit} can be sent to a remote");
        tracing::warn!(table = %published.name, key_bytes = key.len(), bytes,
            "a row is too large to be sent");
        let (code, bytes) = (Code::RowTooLargeToSend, bytes as u64);
        self.withhold(WithheldRow { table, key, code, bytes, message }, sink)
    }

    fn withhold(&mut self, row: WithheldRow, sink: Sink<'_>) -> Result<(), Failure> {
        let table = row.table;
        // What was withheld before the remote knows already, by that counter. Where the table is
        // sent as a whole it is reported again, or the remote would take the row for gone.
        let before = self.before.remove(&(table, row.key.clone()));
        let told = before.is_none() || self.refreshed.get(table) == Some(&true);
        if told && row.key.len() <= KEY_BYTES_MAX {
            let (key, message) = (row.key.clone(), row.message.clone());
            let counter = before.unwrap_or(self.counter);
            sink(DownloadBatch::Reject { table, key, counter, code: row.code.number(), message })?;
        }
        self.withheld.push(row);
        Ok(())
    }

    /// A row arrives, or its deletion.
    fn release(&mut self, table: usize, key: Vec<u8>) {
        if !self.awaits_any() {
            return;
        }
        let row = (table, key);
        self.unreadable.remove(&row);
        self.released.extend(self.before.remove_entry(&row).map(|(row, _)| row));
    }
}

/// Rows that go into one frame.
#[derive(Default)]
struct Together {
    rows: Vec<u8>,
    count: u32,
}

impl Together {
    /// Adds a row; yields those before it where they do not fit together.
    fn add(&mut self, row: &[u8], bytes_max: usize) -> Option<(Vec<u8>, u32)> {
        let full = self.rows.len() + row.len() > bytes_max;
        let before = if full { self.take() } else { None };
        self.rows.extend_from_slice(row);
        self.count += 1;
        before
    }

    fn take(&mut self) -> Option<(Vec<u8>, u32)> {
        let count = std::mem::take(&mut self.count);
        (count > 0).then(|| (std::mem::take(&mut self.rows), count))
    }
}

/// The key's columns of the row in front, as a row, and what follows the row.
fn key_of<'r>(table: &PublishedTable, rows: &'r [u8]) -> Result<(Vec<u8>, &'r [u8]), Failure> {
    let mut reader = RowReader::new(rows);
    let mut values = Vec::with_capacity(table.width());
    for _ in 0..table.width() {
        values.push(reader.value()?);
    }
    let mut key = Vec::new();
    for at in &table.key {
        write_value(&mut key, values[usize::from(*at)]);
    }
    Ok((key, reader.rest()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use consolidated::TableToken;
    use model::Direction;

    /// What a remote is told where this row was withheld before, and whether it is owed no longer.
    fn told(continued: bool, batches: Vec<DownloadBatch>) -> (Vec<DownloadBatch>, bool) {
        let published = PublishedTable {
            name: "t".into(),
            columns: vec!["id".into()],
            key: vec![0],
            direction: Direction::Both,
            create: Vec::new(),
            compress: true,
            fires: false,
            fingerprint: String::new(),
        };
        let schema = RemoteSchema { fingerprint: String::new(), tables: vec![published] };
        let mut oversize = Oversize::new(&schema, Counter(9), 1000);
        let begin = DownloadBatch::Begin {
            tables: vec![DownloadedTable::Refresh],
            tokens: vec![TableToken { token: Some(vec![1]), continued }],
            restored: false,
            deletes_lost: false,
            waiting: Vec::new().into(),
        };
        let withheld = DownloadBatch::Withheld { table: 0, key: key(), counter: Counter(3) };
        let mut told = Vec::new();
        let mut sink = |batch| {
            told.push(batch);
            Ok(())
        };
        for batch in [begin, withheld].into_iter().chain(batches) {
            oversize.pass(batch, &mut sink).unwrap();
        }
        oversize.finish(&mut sink).unwrap();
        told.remove(0);
        let released = oversize.into_news().is_some_and(|(_, released)| !released.is_empty());
        (told, released)
    }

    fn key() -> Vec<u8> {
        let mut key = Vec::new();
        write_value(&mut key, model::ValueRef::Integer(7));
        key
    }

    // S2, S6: a download that goes on does not look at rows that have not changed since it was
    // cut. One that is too large was taken for gone: nothing was owed any more, and the remote
    // removed what it had of it.
    #[test]
    fn a_withheld_row_is_not_gone_where_only_the_rest_of_its_table_is_sent() {
        let (told_of, released) = told(true, Vec::new());
        let [DownloadBatch::Reject { key: of, counter, code, .. }] = told_of.as_slice() else {
            panic!("{told_of:?}");
        };
        assert_eq!((of, *counter), (&key(), Counter(3)));
        assert_eq!(*code, Code::RowTooLargeToSend.number());
        assert!(!released);

        let gone = DownloadBatch::Deletes { table: 0, count: 1, rows: key() };
        let (told_of, released) = told(true, vec![gone]);
        assert!(matches!(told_of.as_slice(), [DownloadBatch::Deletes { .. }]), "{told_of:?}");
        assert!(released);

        assert!(matches!(told(false, Vec::new()), (told_of, true) if told_of.is_empty()));
    }
}
