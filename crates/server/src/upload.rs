//! An upload as it arrives: checked row by row, kept in the spill until it is complete.

use consolidated::{Batch, Change};
use model::{Code, Failure, Progress, RemoteSchema, Spill, Spills};
use protocol::{Operation, RawFrame, RowsFrame, UploadBegin, UploadEnd};
use std::sync::Arc;

/// An upload of which some frames have arrived.
pub(crate) struct UploadInProgress {
    begin: UploadBegin,
    schema: Arc<RemoteSchema>,
    rows: u64,
    bytes: u64,
    bytes_max: u64,
    frames: Spill,
}

/// A complete upload.
#[derive(Debug)]
pub(crate) struct ReceivedUpload {
    pub(crate) previous: Progress,
    pub(crate) progress: Progress,
    pub(crate) rows: u64,
    frames: Spill,
}

impl UploadInProgress {
    pub(crate) fn new(
        begin: UploadBegin,
        schema: &Arc<RemoteSchema>,
        spills: &Arc<Spills>,
        bytes_max: u64,
    ) -> Result<UploadInProgress, Failure> {
        if begin.progress < begin.previous {
            return Err(Failure::new(Code::MalformedMessage, "the progress of an upload falls"));
        }
        let (schema, frames) = (schema.clone(), spills.open());
        Ok(UploadInProgress { begin, schema, rows: 0, bytes: 0, bytes_max, frames })
    }

    /// Takes a frame with rows; refuses what the publication does not allow.
    pub(crate) fn take(&mut self, frame: RawFrame) -> Result<(), Failure> {
        let (table, operation, count) = RowsFrame::split(&frame.payload)?;
        let table = self.schema.tables.get(usize::from(table)).ok_or_else(|| {
            Failure::new(Code::TableNotPublished, format!("the upload names table number {table}"))
        })?;
        if !table.direction.uploads() {
            return Err(Failure::new(
                Code::DirectionNotPublished,
                format!("table {} is download only", table.name),
            )
            .table(table.name.as_str()));
        }
        let width = match operation {
            Operation::Insert | Operation::Delete => table.width(),
            Operation::Update | Operation::KeyChange => table.width() * 2,
            Operation::Upsert => {
                return Err(Failure::new(Code::MalformedMessage, "an upload has no upserts"));
            }
        };
        self.bytes += frame.payload.len() as u64;
        if self.bytes > self.bytes_max {
            return Err(Failure::new(
                Code::UploadTooLarge,
                format!("the upload has more than {} bytes", self.bytes_max),
            ));
        }
        validate(&frame.payload[RowsFrame::PREFIX_BYTES..], count, width)?;
        self.rows += u64::from(count);
        self.frames.append(frame.payload)
    }

    /// The upload is complete, if every row of it arrived.
    pub(crate) fn end(self, end: UploadEnd) -> Result<ReceivedUpload, Failure> {
        if end.rows != self.rows {
            return Err(Failure::new(
                Code::MalformedMessage,
                format!("{} rows were announced, {} arrived", end.rows, self.rows),
            ));
        }
        if self.rows > 0 && self.begin.progress == self.begin.previous {
            return Err(Failure::new(
                Code::MalformedMessage,
                "rows without a progress of their own",
            ));
        }
        Ok(ReceivedUpload {
            previous: self.begin.previous,
            progress: self.begin.progress,
            rows: self.rows,
            frames: self.frames,
        })
    }
}

/// Checks that `bytes` are exactly `count` rows, so that the database's side may rely on it.
fn validate(bytes: &[u8], count: u32, width: usize) -> Result<(), Failure> {
    let mut rest = bytes;
    for _ in 0..count {
        rest = model::skip_row(rest, width)?;
    }
    match rest.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(Code::MalformedMessage, "a batch has more than its rows")),
    }
}

impl ReceivedUpload {
    /// Shows every batch to `visit`, in the order sent.
    pub(crate) fn for_each_batch(
        &self,
        visit: &mut dyn FnMut(Batch<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut frames = self.frames.reader();
        while let Some(payload) = frames.next_chunk()? {
            let (table, operation, count) = RowsFrame::split(&payload)?;
            let change = match operation {
                Operation::Insert | Operation::Upsert => Change::Insert,
                Operation::Update => Change::Update,
                Operation::KeyChange => Change::KeyChange,
                Operation::Delete => Change::Delete,
            };
            let rows = &payload[RowsFrame::PREFIX_BYTES..];
            visit(Batch { table: usize::from(table), change, count, rows })?;
        }
        Ok(())
    }
}
