//! An upload as it arrives: checked row by row, and stored in the spill until it is complete.

use consolidated::{Change, UploadedRows};
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
    /// The client sends a key change as what it is.
    key_changes: bool,
    respells: bool,
    /// Positions of tables that take no rows now.
    kept_out: Vec<u16>,
    frames: Spill,
}

/// A complete upload.
#[derive(Debug)]
pub(crate) struct ReceivedUpload {
    pub(crate) previous: Progress,
    pub(crate) progress: Progress,
    pub(crate) rows: u64,
    /// The client sends a key change as what it is.
    pub(crate) key_changes: bool,
    schema: Arc<RemoteSchema>,
    /// An update, of a client that knows no key changes, spells a key differently.
    respells: bool,
    frames: Spill,
}

impl UploadInProgress {
    pub(crate) fn new(
        begin: UploadBegin,
        schema: &Arc<RemoteSchema>,
        frames: Spill,
        bytes_max: u64,
        key_changes: bool,
    ) -> Result<UploadInProgress, Failure> {
        if begin.progress < begin.previous {
            return Err(Failure::new(Code::MalformedMessage, "the progress of an upload falls"));
        }
        let schema = schema.clone();
        let (rows, bytes, respells) = (0, 0, false);
        Ok(UploadInProgress {
            begin,
            schema,
            rows,
            bytes,
            bytes_max,
            key_changes,
            respells,
            kept_out: Vec::new(),
            frames,
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

    fn check(&mut self, payload: &[u8]) -> Result<(), Failure> {
        let (table, operation, count) = RowsFrame::split(payload)?;
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
        self.bytes += payload.len() as u64;
        if self.bytes > self.bytes_max {
            return Err(Failure::new(
                Code::UploadTooLarge,
                format!("the upload has more than {} bytes", self.bytes_max),
            ));
        }
        let rows = &payload[RowsFrame::PREFIX_BYTES..];
        match operation {
            Operation::Insert | Operation::Delete => validate(rows, count, table.width())?,
            Operation::Update | Operation::KeyChange => {
                let changes = KeyChanges::count(rows, count, table)?;
                self.key_changes |= operation == Operation::KeyChange;
                changes.allowed(operation, self.key_changes)?;
                self.respells |= operation == Operation::Update && changes.differing > 0;
            }
            Operation::Upsert => {
                return Err(Failure::new(Code::MalformedMessage, "an upload has no upserts"));
            }
        }
        self.rows += u64::from(count);
        Ok(())
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
            schema: self.schema,
            key_changes: self.key_changes,
            respells: self.respells,
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
    ends(rest)
}

fn ends(rest: &[u8]) -> Result<(), Failure> {
    match rest.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(Code::MalformedMessage, "a batch has more than its rows")),
    }
}

/// How many rows of a batch with two images have two keys.
#[derive(Default)]
struct KeyChanges {
    differing: u32,
    same: u32,
}

impl KeyChanges {
    fn count(bytes: &[u8], count: u32, table: &PublishedTable) -> Result<KeyChanges, Failure> {
        let mut changes = KeyChanges::default();
        let (mut rest, mut values) = (bytes, Vec::new());
        for _ in 0..count {
            let differs;
            (differs, rest) = key_differs(rest, table, &mut values)?;
            match differs {
                true => changes.differing += 1,
                false => changes.same += 1,
            }
        }
        ends(rest)?;
        Ok(changes)
    }

    /// An update keeps its key and a key change does not. A client that knows no key changes sends
    /// an update where a key is spelled differently and is the same to the database; whether it is
    /// the database tells.
    fn allowed(&self, operation: Operation, key_changes: bool) -> Result<(), Failure> {
        let why = match operation {
            Operation::KeyChange if self.same > 0 => "a key change with one key",
            Operation::Update if key_changes && self.differing > 0 => "an update with two keys",
            _ => return Ok(()),
        };
        Err(Failure::new(Code::MalformedMessage, why))
    }
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
                Operation::KeyChange => Change::KeyChange,
                Operation::Delete => Change::Delete,
            };
            let rows = &payload[RowsFrame::PREFIX_BYTES..];
            let batch = UploadedRows { table: usize::from(table), change, count, rows };
            match self.respells && change == Change::Update {
                true => self.for_each_spelling(batch, visit)?,
                false => visit(batch)?,
            }
        }
        Ok(())
    }

    /// Cuts a batch of updates where rows whose key stays and rows whose key is respelled follow
    /// each other: the latter are key changes.
    fn for_each_spelling(
        &self,
        batch: UploadedRows<'_>,
        visit: &mut dyn FnMut(UploadedRows<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let table = &self.schema.tables[batch.table];
        let (mut values, mut rest) = (Vec::new(), batch.rows);
        let (mut begin, mut count, mut respelled) = (rest, 0, false);
        for _ in 0..batch.count {
            let (differs, behind) = key_differs(rest, table, &mut values)?;
            if count > 0 && differs != respelled {
                visit(part(&batch, respelled, count, &begin[..begin.len() - rest.len()]))?;
                (begin, count) = (rest, 0);
            }
            (respelled, rest, count) = (differs, behind, count + 1);
        }
        match count {
            0 => Ok(()),
            _ => visit(part(&batch, respelled, count, begin)),
        }
    }
}

fn part<'a>(
    batch: &UploadedRows<'_>,
    respelled: bool,
    count: u32,
    rows: &'a [u8],
) -> UploadedRows<'a> {
    let change = if respelled { Change::KeyChange } else { Change::Update };
    UploadedRows { table: batch.table, change, count, rows }
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
        key_changes: bool,
        keys: &[(ValueRef<'_>, ValueRef<'_>)],
    ) -> Result<Vec<(Change, u32)>, Code> {
        let begin = UploadBegin { previous: Progress(0), progress: Progress(1) };
        let folder = tempfile::tempdir().unwrap();
        let files = Arc::new(crate::files::TemporaryFiles::new(folder.path().to_owned()));
        let spills = Spills::new(files, 1 << 20, 1 << 20);
        let mut upload =
            UploadInProgress::new(begin, &schema(), spills.open(), 1 << 20, key_changes).unwrap();
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

    /// An update with a changed key, which only a forged client sends, was counted and changed
    /// nothing.
    // Trap 21
    #[test]
    fn an_update_keeps_its_key_and_a_key_change_does_not() {
        let stays = (text("k"), text("k"));
        let moves = (text("k"), text("l"));
        let unknown = (ValueRef::Absent, text("k"));
        let refused = Err(Code::MalformedMessage);
        assert_eq!(
            upload(Operation::Update, true, &[stays, unknown]),
            Ok(vec![(Change::Update, 2)])
        );
        assert_eq!(upload(Operation::Update, true, &[stays, moves]), refused);
        assert_eq!(upload(Operation::KeyChange, true, &[moves]), Ok(vec![(Change::KeyChange, 1)]));
        assert_eq!(upload(Operation::KeyChange, true, &[moves, stays]), refused);
        assert_eq!(upload(Operation::KeyChange, true, &[unknown]), refused);
        // A client that sends one knows them, whatever it understands of a download.
        assert_eq!(upload(Operation::KeyChange, false, &[moves]), Ok(vec![(Change::KeyChange, 1)]));
    }

    /// A client of before sends an update where it has respelled a key.
    // Trap 18, Trap 22
    #[test]
    fn a_respelled_key_of_a_client_of_before_is_a_key_change() {
        let stays = (text("k"), text("k"));
        let respelled = (text("k"), text("K"));
        let rows = [stays, stays, respelled, stays, respelled, respelled];
        let seen = [
            (Change::Update, 2),
            (Change::KeyChange, 1),
            (Change::Update, 1),
            (Change::KeyChange, 2),
        ];
        assert_eq!(upload(Operation::Update, false, &rows), Ok(seen.to_vec()));
    }
}
