//! Answers what rows a remote should have, as digests.
//!
//! The whole partition of the remote is read, as for a download of every table, and then what has
//! changed since its watermarks. A row that changes in between is in the second reading too, so
//! each row that is neither left out nor as the remote has it differs (S3). Only rows of the
//! subscription are read (S7).
//!
//! Bounds: the sums of [`protocol::SUMS_MAX`] ranges in memory; entries are in the spill.

use super::cut::Cut;
use consolidated::{
    DownloadBatch, DownloadedTable, Echo, FetchRequest, Reader, Resuming, Session, TableMark,
};
use model::{
    Code, Counter, Failure, Hold, PublishedTable, RowReader, Spill, SpilledBytes, Spills, ValueRef,
    write_value,
};
use protocol::{
    Digester, Message, SUMS_MAX, Sum, Sums, Verified, Verify, Wanted, read_values, write_canonical,
};
use std::sync::Arc;

/// What a remote asks.
pub(crate) struct Comparison {
    pub(crate) session: Arc<Session>,
    pub(crate) counter: Counter,
    pub(crate) marks: Arc<Vec<TableMark>>,
    pub(crate) held_marks: Arc<Vec<TableMark>>,
    pub(crate) question: Verify,
    /// Counts what goes to disk.
    pub(crate) spilled: SpilledBytes,
}

/// Answers it, as frames.
pub(super) fn compare(
    reader: &mut dyn Reader,
    comparison: &Comparison,
    spills: &Arc<Spills>,
    cut: Cut,
) -> Result<Spill, Failure> {
    let tables = &comparison.session.schema.tables;
    if comparison.question.tables.iter().any(|asked| usize::from(asked.table) >= tables.len()) {
        return Err(Failure::new(Code::MalformedMessage, "a table is asked about that is none"));
    }
    let mut whole = Reading::new(comparison, spills, cut);
    fetch(reader, comparison, &[], &mut whole, cut)?;
    let mut changed = Reading::new(comparison, spills, cut);
    fetch(reader, comparison, &comparison.marks, &mut changed, cut)?;
    changed.require_changes()?;
    whole.answer(changed)
}

fn fetch(
    reader: &mut dyn Reader,
    comparison: &Comparison,
    marks: &[TableMark],
    reading: &mut Reading<'_>,
    cut: Cut,
) -> Result<(), Failure> {
    let request = FetchRequest {
        session: &comparison.session,
        counter: comparison.counter,
        marks,
        is_counted: false,
        held_marks: if marks.is_empty() { &[] } else { &comparison.held_marks },
        // As two rows: both keys are left out.
        // What the remote has uploaded itself is left out too, unless its watermark knows of it.
        echo: &Echo::default(),
        time_us: None,
        wanted: &[],
        resuming: Resuming::default(),
        batch_bytes: cut.batch_bytes,
        batch_rows: cut.batch_rows,
        row_bytes_max: cut.row_bytes_max as u64,
    };
    let is_whole = marks.is_empty();
    reader.fetch(&request, &mut |batch| match is_whole {
        true => reading.take(batch),
        false => reading.leave_out(batch),
    })?;
    Ok(())
}

/// What is said of one table.
struct TableAnswer {
    /// How it was read.
    mode: DownloadedTable,
    sums: Option<Sums>,
    entries: Vec<u8>,
    count: u32,
}

/// One reading of the partition of the remote.
struct Reading<'a> {
    comparison: &'a Comparison,
    spills: &'a Arc<Spills>,
    cut: Cut,
    /// As many as tables are asked about.
    tables: Vec<TableAnswer>,
    frames: Spill,
    /// Entries in `frames`.
    sent: u64,
    digester: Digester,
    _memory: Hold,
}

impl<'a> Reading<'a> {
    fn new(comparison: &'a Comparison, spills: &'a Arc<Spills>, cut: Cut) -> Reading<'a> {
        let mut memory = spills.memory().hold();
        let tables = fresh(comparison);
        let sums: usize = tables.iter().filter_map(|it| it.sums.as_ref()).map(Sums::len).sum();
        memory.grow((sums.min(SUMS_MAX) * size_of::<Sum>()) as u64);
        let (frames, digester) =
            (spills.open().counted_by(&comparison.spilled), Digester::default());
        Reading { comparison, spills, cut, tables, frames, sent: 0, digester, _memory: memory }
    }

    /// Takes rows as they should be at the remote.
    fn take(&mut self, batch: DownloadBatch) -> Result<(), Failure> {
        match batch {
            DownloadBatch::Begin { tables, .. } => self.begin(&tables),
            DownloadBatch::Upserts { table, count, rows } => {
                self.each(table, count, &rows, false, |this, asked, row| {
                    // It cannot be sent.
                    match row.bytes > this.cut.row_bytes_max {
                        true => this.left_out(asked, row.key),
                        false => this.row(asked, row),
                    }
                })
            }
            other => self.leave_out(other),
        }
    }

    /// Takes rows that are left out.
    fn leave_out(&mut self, batch: DownloadBatch) -> Result<(), Failure> {
        match batch {
            DownloadBatch::Begin { tables, .. } => self.begin(&tables),
            DownloadBatch::Upserts { table, count, rows } => {
                self.each(table, count, &rows, false, |this, asked, row| {
                    this.left_out(asked, row.key)
                })
            }
            DownloadBatch::Deletes { table, count, rows } => {
                self.each(table, count, &rows, true, |this, asked, row| {
                    this.left_out(asked, row.key)
                })
            }
            DownloadBatch::Reject { table, key, .. }
            | DownloadBatch::Withheld { table, key, .. }
            | DownloadBatch::Unreadable { table, key, .. } => {
                self.each(table, 1, &key, true, |this, asked, row| this.left_out(asked, row.key))
            }
            // The row that won is compared as any other.
            DownloadBatch::Conflict { .. } => Ok(()),
            DownloadBatch::Position { .. } => {
                Err(Failure::new(Code::Bug, "a position came although it was not wanted"))
            }
        }
    }

    /// What came before does not count.
    fn begin(&mut self, modes: &[DownloadedTable]) -> Result<(), Failure> {
        (self.frames, self.sent) = (self.spills.open().counted_by(&self.comparison.spilled), 0);
        self.tables = fresh(self.comparison);
        for (answer, asked) in self.tables.iter_mut().zip(&self.comparison.question.tables) {
            let mode = modes.get(usize::from(asked.table)).copied();
            answer.mode = mode.unwrap_or(DownloadedTable::None);
        }
        Ok(())
    }

    /// Shows `visit` each row, or each key, of a table that is asked about.
    fn each(
        &mut self,
        table: usize,
        count: u32,
        rows: &[u8],
        are_keys: bool,
        mut visit: impl FnMut(&mut Self, usize, Row<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let comparison = self.comparison;
        let asked = comparison.question.tables.iter().position(|it| usize::from(it.table) == table);
        let published = comparison.session.schema.tables.get(table);
        let Some((asked, published)) = asked.zip(published) else { return Ok(()) };
        let width = if are_keys { published.key.len() } else { published.width() };
        let (mut reader, mut values) = (RowReader::new(rows), Vec::with_capacity(width));
        let mut key = Vec::with_capacity(published.key.len());
        for _ in 0..count {
            let before = reader.rest().len();
            read_values(&mut reader, width, &mut values)?;
            key.clear();
            match are_keys {
                true => key.extend_from_slice(&values),
                false => key.extend(key_of(published, &values)),
            }
            let bytes = before - reader.rest().len();
            visit(self, asked, Row { key: &key, values: &values, bytes })?;
        }
        Ok(())
    }

    /// A row as it should be.
    fn row(&mut self, asked: usize, row: Row<'_>) -> Result<(), Failure> {
        let digest_of_key = self.digester.key(row.key.iter().copied());
        let question = &self.comparison.question.tables[asked];
        if question.ranges.find(digest_of_key).is_none() {
            return Ok(());
        }
        let digest = self.digester.row(row.values.iter().copied());
        match &mut self.tables[asked].sums {
            Some(sums) => sums.add(digest_of_key, digest),
            None => self.entry(asked, row.key, ValueRef::Blob(digest.as_bytes()))?,
        }
        Ok(())
    }

    /// A row that is not compared. Sums have it all the same: a range that differs is looked at.
    fn left_out(&mut self, asked: usize, key: &[ValueRef<'_>]) -> Result<(), Failure> {
        let question = &self.comparison.question.tables[asked];
        let digest_of_key = self.digester.key(key.iter().copied());
        match question.wanted == Wanted::Rows && question.ranges.find(digest_of_key).is_some() {
            true => self.entry(asked, key, ValueRef::Null),
            false => Ok(()),
        }
    }

    fn entry(
        &mut self,
        asked: usize,
        key: &[ValueRef<'_>],
        digest: ValueRef<'_>,
    ) -> Result<(), Failure> {
        let answer = &mut self.tables[asked];
        write_canonical(&mut answer.entries, key.iter().copied());
        write_value(&mut answer.entries, digest);
        answer.count += 1;
        let is_full = answer.entries.len() >= self.cut.batch_bytes;
        if is_full || answer.count >= self.cut.batch_rows { self.end_part(asked) } else { Ok(()) }
    }

    fn end_part(&mut self, asked: usize) -> Result<(), Failure> {
        let table = self.comparison.question.tables[asked].table;
        let answer = &mut self.tables[asked];
        let (entries, count) = (std::mem::take(&mut answer.entries), answer.count);
        answer.count = 0;
        self.sent += u64::from(count);
        let part = Verified { table, entries, count, ..Verified::default() };
        self.frames.append(Message::Verified(part).to_frame()?)
    }

    /// Refuses where the watermark of a table is not valid any more: then everything has changed.
    fn require_changes(&self) -> Result<(), Failure> {
        for (answer, asked) in self.tables.iter().zip(&self.comparison.question.tables) {
            if answer.mode == DownloadedTable::Refresh {
                let name = &self.comparison.session.schema.tables[usize::from(asked.table)].name;
                let message = format!("the next download has all of table {name}");
                return Err(Failure::new(Code::SynchronizeFirst, message).table(name));
            }
        }
        Ok(())
    }

    /// The whole answer: this, then what was left out in the other reading.
    fn answer(mut self, mut others: Reading<'_>) -> Result<Spill, Failure> {
        for asked in 0..self.tables.len() {
            self.end_part(asked)?;
            others.end_part(asked)?;
        }
        let mut rest = others.frames.reader();
        while let Some(frame) = rest.next_chunk()? {
            self.frames.append(frame.into_owned())?;
        }
        let mut parts = Vec::new();
        let answers = self.tables.iter().zip(&others.tables);
        for ((answer, other), asked) in answers.zip(&self.comparison.question.tables) {
            let waits = [answer.mode, other.mode].contains(&DownloadedTable::None);
            let sums = answer.sums.as_ref().map(Sums::to_bytes).unwrap_or_default();
            parts.push(Verified { table: asked.table, waits, sums, ..Verified::default() });
        }
        parts.push(Verified { end: Some(self.sent + others.sent), ..Verified::default() });
        for part in parts {
            self.frames.append(Message::Verified(part).to_frame()?)?;
        }
        Ok(self.frames)
    }
}

/// A row that was read, or only its key.
struct Row<'r> {
    key: &'r [ValueRef<'r>],
    values: &'r [ValueRef<'r>],
    /// Of the row as it was read.
    bytes: usize,
}

fn key_of<'v>(
    table: &PublishedTable,
    values: &[ValueRef<'v>],
) -> impl Iterator<Item = ValueRef<'v>> {
    table.key.iter().filter_map(|at| values.get(usize::from(*at)).copied())
}

/// Nothing said yet of the tables that are asked about.
fn fresh(comparison: &Comparison) -> Vec<TableAnswer> {
    let answer = |asked: &protocol::TableQuestion| TableAnswer {
        mode: DownloadedTable::None,
        sums: match asked.wanted {
            Wanted::Sums(split) => Some(Sums::new(asked.ranges.clone(), split)),
            Wanted::Rows => None,
        },
        entries: Vec::new(),
        count: 0,
    };
    comparison.question.tables.iter().map(answer).collect()
}
