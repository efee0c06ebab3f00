//! An upload as it arrives: checked row by row, and stored in the spill until it is complete.

use consolidated::{Change, EnteredAgain, UploadedRows};
use model::{
    Code, Failure, Hold, Progress, PublishedTable, RemoteSchema, RowReader, Spill, ValueRef,
};
use protocol::{Operation, RawFrame, RowsFrame, UploadBegin, UploadEnd};
use std::sync::Arc;

/// An upload of which some frames have arrived.
pub(crate) struct UploadInProgress {
    begin: UploadBegin,
    schema: Arc<RemoteSchema>,
    rows: u64,
    bytes: u64,
    bytes_max: u64,
    /// Positions of tables that take no rows now.
    kept_out: Vec<u16>,
    frames: Spill,
    entered_again: EnteredAgain,
}

/// A complete upload.
#[derive(Debug)]
pub(crate) struct ReceivedUpload {
    pub(crate) previous: Progress,
    pub(crate) progress: Progress,
    pub(crate) rows: u64,
    frames: Spill,
    entered_again: EnteredAgain,
}

impl UploadInProgress {
    pub(crate) fn new(
        begin: UploadBegin,
        schema: &Arc<RemoteSchema>,
        (frames, entered_again): (Spill, EnteredAgain),
        bytes_max: u64,
    ) -> Result<UploadInProgress, Failure> {
        if begin.progress < begin.previous {
            return Err(Failure::new(Code::MalformedMessage, "the progress of an upload falls"));
        }
        let schema = schema.clone();
        let (rows, bytes, kept_out) = (0, 0, Vec::new());
        Ok(UploadInProgress {
            begin,
            schema,
            rows,
            bytes,
            bytes_max,
            kept_out,
            frames,
            entered_again,
        })
    }

    /// Refuses rows of the tables at these positions, which are not as they were deployed.
    pub(crate) fn keep_out(&mut self, positions: Vec<u16>) {
        self.kept_out = positions;
    }

    /// Where rows go for which there is no memory while they arrive.
    pub(crate) fn spill(&mut self) -> &mut Spill {
        &mut self.frames
    }

    /// Takes a frame with rows, which holds `memory`; refuses what the publication does not allow.
    pub(crate) fn take(&mut self, frame: RawFrame, memory: Option<Hold>) -> Result<(), Failure> {
        self.check(&frame.payload)?;
        drop(memory);
        self.frames.append(frame.payload)
    }

    /// The same of the frame that went to the end of [`UploadInProgress::spill`].
    pub(crate) fn take_from_disk(&mut self) -> Result<(), Failure> {
        // In memory for as long as it is looked at, and no other thread is waited for.
        let (payload, _memory) = self.frames.last_on_disk()?;
        self.check(&payload)
    }

    /// Notes which updates are new rows.
    pub(crate) fn take_entered_again(
        &mut self,
        again: &protocol::EnteredAgain,
    ) -> Result<(), Failure> {
        self.count(again.keys.len())?;
        let width = self.table(again.table)?.key.len();
        let mut rest = again.keys.as_slice();
        while !rest.is_empty() {
            let after = model::skip_row(rest, width)?;
            let key = &rest[..rest.len() - after.len()];
            self.entered_again.add(usize::from(again.table), key)?;
            rest = after;
        }
        Ok(())
    }

    /// The table at this position, of which there may be rows.
    fn table(&self, table: u16) -> Result<&PublishedTable, Failure> {
        let kept_out = self.kept_out.contains(&table);
        let table = self.schema.tables.get(usize::from(table)).ok_or_else(|| {
            Failure::new(Code::TableNotPublished, format!("the upload names table number {table}"))
        })?;
        if table.columns.is_empty() {
            let message = "the upload has rows of a table whose definition is not known here";
            return Err(Failure::new(Code::TableNotPublished, message));
        }
        if kept_out {
            let name = table.name.as_str();
            let message = format!("table {name} is not as it was deployed, and takes no rows");
            return Err(Failure::new(Code::Drift, message).table(name));
        }
        if !table.direction.uploads() {
            return Err(Failure::new(
                Code::DirectionNotPublished,
                format!("table {} is download only", table.name),
            )
            .table(table.name.as_str()));
        }
        Ok(table)
    }

    fn count(&mut self, bytes: usize) -> Result<(), Failure> {
        self.bytes += bytes as u64;
        if self.bytes > self.bytes_max {
            return Err(Failure::new(
                Code::UploadTooLarge,
                format!("the upload has more than {} bytes", self.bytes_max),
            ));
        }
        Ok(())
    }

    fn check(&mut self, payload: &[u8]) -> Result<(), Failure> {
        let (table, operation, count) = RowsFrame::split(payload)?;
        let table = self.table(table)?;
        let rows = &payload[RowsFrame::PREFIX_BYTES..];
        match operation {
            Operation::Insert | Operation::Delete => validate(rows, count, table.width())?,
            Operation::Update => require_keys(rows, count, table)?,
            Operation::Upsert => {
                return Err(Failure::new(Code::MalformedMessage, "an upload has no upserts"));
            }
        }
        self.rows += u64::from(count);
        self.count(payload.len())
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
            entered_again: self.entered_again,
        })
    }
}

/// Checks that `bytes` are exactly `count` rows, so that the database's side may rely on it.
fn validate(bytes: &[u8], count: u32, width: usize) -> Result<(), Failure> {
    let mut rest = bytes;
    for _ in 0..count {
        rest = model::skip_row(rest, width)?;
    }
    ends(rest)
}

fn ends(rest: &[u8]) -> Result<(), Failure> {
    match rest.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(Code::MalformedMessage, "a batch has more than its rows")),
    }
}

/// Checks a batch of updates: each keeps its key.
fn require_keys(bytes: &[u8], count: u32, table: &PublishedTable) -> Result<(), Failure> {
    let (mut rest, mut values) = (bytes, Vec::new());
    for _ in 0..count {
        let differs;
        (differs, rest) = key_differs(rest, table, &mut values)?;
        if differs {
            return Err(Failure::new(Code::MalformedMessage, "an update with two keys"));
        }
    }
    ends(rest)
}

/// Whether the two images at the front of `bytes` have keys of different bytes, and what follows
/// them. A value that the old image lacks is the new one.
fn key_differs<'a>(
    bytes: &'a [u8],
    table: &PublishedTable,
    values: &mut Vec<ValueRef<'a>>,
) -> Result<(bool, &'a [u8]), Failure> {
    let (mut reader, width) = (RowReader::new(bytes), table.width());
    // Nearly always the key comes first: what is behind it need not be kept.
    let kept = table.key.iter().map(|column| usize::from(*column) + 1).max().unwrap_or(0);
    values.clear();
    for _ in 0..2 {
        for _ in 0..kept {
            values.push(reader.value()?);
        }
        for _ in kept..width {
            reader.value()?;
        }
    }
    let differs = table.key.iter().map(|column| usize::from(*column)).any(|column| {
        let (old, new) = (values[column], values[kept + column]);
        old != ValueRef::Absent && !old.identical(new)
    });
    Ok((differs, reader.rest()))
}

impl ReceivedUpload {
    /// Which of the updates are new rows.
    pub(crate) fn entered_again(&self) -> &EnteredAgain {
        &self.entered_again
    }

    /// Shows every batch to `visit`, in the order sent.
    pub(crate) fn for_each_batch(
        &self,
        visit: &mut dyn FnMut(UploadedRows<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut frames = self.frames.reader();
        while let Some(payload) = frames.next_chunk()? {
            let (table, operation, count) = RowsFrame::split(&payload)?;
            let change = match operation {
                Operation::Insert | Operation::Upsert => Change::Insert,
                Operation::Update => Change::Update,
                Operation::Delete => Change::Delete,
            };
            let rows = &payload[RowsFrame::PREFIX_BYTES..];
            visit(UploadedRows { table: usize::from(table), change, count, rows })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Spills;
    use model::{Direction, write_value};

    /// Columns a, b; the key is b.
    fn schema() -> Arc<RemoteSchema> {
        let table = PublishedTable {
            compress: true,
            fires: false,
            name: "t".into(),
            columns: vec!["a".into(), "b".into()],
            key: vec![1],
            direction: Direction::Both,
            create: vec![],
            fingerprint: String::new(),
        };
        Arc::new(RemoteSchema { tables: vec![table], fingerprint: String::new() })
    }

    fn text(text: &str) -> ValueRef<'_> {
        ValueRef::Text(text.as_bytes())
    }

    /// Uploads rows of an old and a new key; the failure, or the batches that the database sees.
    fn upload(
        operation: Operation,
        keys: &[(ValueRef<'_>, ValueRef<'_>)],
    ) -> Result<Vec<(Change, u32)>, Code> {
        let begin = UploadBegin { previous: Progress(0), progress: Progress(1) };
        let folder = tempfile::tempdir().unwrap();
        let files = Arc::new(crate::files::TemporaryFiles::new(folder.path().to_owned()));
        let spills = Spills::new(files, 1 << 20, 1 << 20);
        let stores = (spills.open(), EnteredAgain::within(&spills));
        let mut upload = UploadInProgress::new(begin, &schema(), stores, 1 << 20).unwrap();
        let mut rows = Vec::new();
        for (old, new) in keys {
            for value in [text("a"), *old, text("a"), *new] {
                write_value(&mut rows, value);
            }
        }
        let frame = RowsFrame { table: 0, operation, count: keys.len() as u32, bytes: rows };
        let (frame_type, payload) = (protocol::Message::ROWS_TYPE, frame.into_payload());
        upload.take(RawFrame { frame_type, payload }, None).map_err(|failure| failure.code())?;
        let upload = upload.end(UploadEnd { rows: keys.len() as u64 }).unwrap();
        let mut seen = Vec::new();
        upload
            .for_each_batch(&mut |batch| {
                seen.push((batch.change, batch.count));
                validate(batch.rows, batch.count, 4)
            })
            .unwrap();
        Ok(seen)
    }

    // A forged list does no harm.
    #[test]
    fn rows_that_were_entered_again_are_keys_of_a_table_of_the_upload() {
        let mut keys = Vec::new();
        for key in ["k", "l"] {
            write_value(&mut keys, text(key));
        }
        let take = |table: u16, keys: &[u8], kept_out: Vec<u16>| {
            let begin = UploadBegin { previous: Progress(0), progress: Progress(1) };
            let spills = Arc::new(Spills::default());
            let stores = (spills.open(), EnteredAgain::within(&spills));
            let mut upload = UploadInProgress::new(begin, &schema(), stores, 6).unwrap();
            upload.keep_out(kept_out);
            let again = protocol::EnteredAgain { table, keys: keys.to_vec() };
            upload.take_entered_again(&again).map_err(|failure| failure.code())
        };
        assert_eq!(take(0, &keys, vec![]), Ok(()));
        assert_eq!(take(1, &keys, vec![]), Err(Code::TableNotPublished));
        assert_eq!(take(0, &keys, vec![0]), Err(Code::Drift));
        assert_eq!(take(0, &keys[..keys.len() - 1], vec![]), Err(Code::MalformedMessage));
        assert_eq!(take(0, &[keys.clone(), keys].concat(), vec![]), Err(Code::UploadTooLarge));
    }

    /// An update with a changed key, which only a forged client sends, was counted and changed
    /// nothing.
    // Trap 21
    #[test]
    fn an_update_keeps_its_key() {
        let stays = (text("k"), text("k"));
        let moves = (text("k"), text("l"));
        let unknown = (ValueRef::Absent, text("k"));
        let refused = Err(Code::MalformedMessage);
        assert_eq!(upload(Operation::Update, &[stays, unknown]), Ok(vec![(Change::Update, 2)]));
        assert_eq!(upload(Operation::Update, &[stays, moves]), refused);
    }
}
