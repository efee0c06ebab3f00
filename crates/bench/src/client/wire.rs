//! A client that only speaks the protocol, so that a small machine can load a large server.
//!
//! It stores what a remote must remember about a synchronization. Of its rows it stores keys and
//! checksums.

use super::account::PASSWORD;
use super::traffic::Traffic;
use crate::checksum::Checksum;
use crate::options::Operation;
use crate::purchase::{Content, Purchase, Table, WIDTH, digest_of_values};
use client::Transport;
use model::{
    Code, Counter, DatabaseId, Failure, Nonce, Progress, PublishedTable, RemoteId, RemoteSchema,
    RowReader, UserName, ValueRef, Watermark,
};
use protocol::{
    Capabilities, Compression, Compressor, Credential, Decompressor, DownloadEnd, DownloadMode,
    FRAME_BYTES_MAX, FrameDecoder, Hello, LastUpload, MAGIC, Message, Mode,
    Operation as RowOperation, PROTOCOL_VERSION, PackedRows, RawFrame, RowsFrame, TableWatermark,
    UPLOAD_WITH_HELLO_BYTES_MAX, UploadBegin, UploadEnd, UploadState, Welcome,
};
use std::collections::HashMap;

/// Rows of one uploaded frame.
const ROWS_PER_FRAME: usize = 1000;

/// Bytes taken from the connection at once: at first, and once it has more. A large buffer for each
/// synchronization would cost more than a small synchronization itself.
const BUFFER_BYTES: usize = 4 << 10;
const LARGE_BUFFER_BYTES: usize = 64 << 10;

/// Bytes of one write.
const WRITE_BYTES_MAX: usize = 1 << 20;

/// Connections of one synchronization: Hello, Hello with the upload, and once more if the server
/// was given other tables meanwhile.
const CONNECTIONS_MAX: u32 = 3;

/// The part of the state of a remote that a synchronization needs.
pub(super) struct WireClient {
    user: UserName,
    remote_id: RemoteId,
    credential: Credential,
    database_id: Option<DatabaseId>,
    schema: Option<Schema>,
    progress: Progress,
    /// An upload that was sent and not acknowledged.
    sent: Option<Progress>,
    counter: Counter,
    nonce_confirmed: Nonce,
    attempt: i64,
    /// The pending changes, encoded.
    outbox: Outbox,
    /// The digest of every row, by its table and key.
    held: HashMap<(u16, i64, i64), u64>,
    /// Downloaded frames that were not applied to it yet.
    received: Vec<Vec<u8>>,
    compression: Option<Compression>,
    compressor: Compressor,
    decompressor: Decompressor,
    /// What the server of the last Welcome can do.
    server: Capabilities,
}

/// The schema that the server announced, and what is held of its tables.
struct Schema {
    fingerprint: String,
    tables: Vec<HeldTable>,
}

struct HeldTable {
    name: String,
    fingerprint: String,
    watermark: Option<Watermark>,
}

#[derive(Default)]
struct Outbox {
    frames: Vec<Vec<u8>>,
    rows: u64,
    /// The frames are as the network has them.
    packed: bool,
}

impl Outbox {
    fn bytes(&self) -> usize {
        self.frames.iter().map(Vec::len).sum()
    }
}

/// What a server wants after it was heard.
enum Heard {
    /// The upload, behind another Hello.
    Again,
    End,
}

impl WireClient {
    pub(super) fn new(
        user: UserName,
        remote_id: RemoteId,
        compression: Option<Compression>,
    ) -> WireClient {
        WireClient {
            user,
            remote_id,
            credential: Credential::Password(PASSWORD.to_owned()),
            database_id: None,
            schema: None,
            progress: Progress(0),
            sent: None,
            counter: Counter(0),
            nonce_confirmed: Nonce(0),
            attempt: 0,
            outbox: Outbox::default(),
            held: HashMap::new(),
            received: Vec::new(),
            compression,
            compressor: Compressor::default(),
            decompressor: Decompressor::default(),
            server: Capabilities::NONE,
        }
    }

    /// Encodes what the application would have changed.
    pub(super) fn change(
        &mut self,
        operation: Operation,
        rows: &[Purchase],
        cost_as_text: bool,
    ) -> Result<(), Failure> {
        let operation = match operation {
            Operation::Download => return Ok(()),
            Operation::UploadInsert => RowOperation::Insert,
            Operation::UploadUpdate | Operation::Exchange => RowOperation::Update,
            Operation::UploadDelete => RowOperation::Delete,
        };
        self.apply_received()?;
        for table in Table::ALL {
            let of_table: Vec<&Purchase> = rows.iter().filter(|row| row.table() == table).collect();
            if of_table.is_empty() {
                continue;
            }
            let position = self.position(table)?;
            for batch in of_table.chunks(ROWS_PER_FRAME) {
                self.change_batch(position, operation, batch, cost_as_text)?;
            }
        }
        self.outbox.rows += rows.len() as u64;
        Ok(())
    }

    fn change_batch(
        &mut self,
        table: u16,
        operation: RowOperation,
        batch: &[&Purchase],
        cost_as_text: bool,
    ) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        for row in batch {
            let key = (table, row.employee(), row.id());
            row.write_row(&mut bytes, cost_as_text);
            match operation {
                RowOperation::Update => {
                    let after = row.with(Content::ByRemote);
                    after.write_row(&mut bytes, cost_as_text);
                    self.held.insert(key, after.digest());
                }
                RowOperation::Delete => drop(self.held.remove(&key)),
                // No operation of the benchmark changes a key.
                RowOperation::Insert | RowOperation::Upsert => {
                    self.held.insert(key, row.digest());
                }
            }
        }
        let (count, mut frame) = (batch.len() as u32, Vec::new());
        Message::Rows(RowsFrame { table, operation, count, bytes }).encode(&mut frame)?;
        self.outbox.frames.push(frame);
        Ok(())
    }

    /// The place of a table in the schema.
    fn position(&self, table: Table) -> Result<u16, Failure> {
        let tables = self.schema.iter().flat_map(|schema| &schema.tables);
        let place = (0..).zip(tables).find(|(_, held)| held.name == table.name());
        place.map(|(place, _)| place).ok_or_else(|| {
            Failure::new(Code::BenchmarkWrong, format!("there is no table {}", table.name()))
        })
    }

    /// The rows that a remote would hold.
    pub(super) fn checksum(&mut self) -> Result<Checksum, Failure> {
        self.apply_received()?;
        Ok(self.held.values().map(|digest| Checksum::of(*digest)).sum())
    }

    fn apply_received(&mut self) -> Result<(), Failure> {
        for payload in std::mem::take(&mut self.received) {
            let (table, operation, count) = RowsFrame::split(&payload)?;
            // A row, or its key.
            let width = if operation == RowOperation::Delete { 2 } else { WIDTH };
            let mut reader = RowReader::new(&payload[RowsFrame::PREFIX_BYTES..]);
            for _ in 0..count {
                let mut values = [ValueRef::Null; WIDTH];
                for value in &mut values[..width] {
                    *value = reader.value()?;
                }
                let [ValueRef::Integer(employee), ValueRef::Integer(id), ..] = values else {
                    return Err(Failure::new(Code::BenchmarkWrong, "a key is no pair of numbers"));
                };
                match operation {
                    RowOperation::Delete => drop(self.held.remove(&(table, employee, id))),
                    _ => {
                        self.held.insert((table, employee, id), digest_of_values(&values)?);
                    }
                }
            }
        }
        Ok(())
    }

    /// One conversation with the server. Where there is one answer to all that is sent, an upload
    /// that the server asks for needs another connection.
    pub(super) fn synchronize(
        &mut self,
        connect: &mut dyn FnMut() -> Result<Box<dyn Transport>, Failure>,
    ) -> Result<Traffic, Failure> {
        self.attempt += 1;
        self.pack()?;
        let mut upload_follows = self.sent.is_none()
            && self.schema.is_some()
            && self.outbox.bytes() <= UPLOAD_WITH_HELLO_BYTES_MAX;
        let mut traffic = Traffic::default();
        for _ in 0..CONNECTIONS_MAX {
            let mut line = Line::new(connect()?);
            self.greet(&mut line, upload_follows)?;
            match self.listen(&mut line, &mut traffic)? {
                Heard::End => return Ok(traffic),
                Heard::Again => upload_follows = true,
            }
        }
        Err(Failure::new(Code::BenchmarkWrong, "a server asks for an upload again and again"))
    }

    /// Compresses the pending changes, once, if the server reads that.
    fn pack(&mut self) -> Result<(), Failure> {
        let readable = |method: &Compression| self.server.has(method.capability());
        let Some(method) = self.compression.filter(readable) else { return Ok(()) };
        if !self.outbox.packed {
            for frame in &mut self.outbox.frames {
                self.compressor.compress(method, frame)?;
            }
            self.outbox.packed = true;
        }
        Ok(())
    }

    /// Hello, and the upload behind it.
    fn greet(&mut self, line: &mut Line, upload_follows: bool) -> Result<(), Failure> {
        let mut bytes = MAGIC.to_vec();
        let mut hello = self.hello(upload_follows);
        if line.transport.is_half_duplex() {
            hello.capabilities = hello.capabilities.and(Capabilities::HALF_DUPLEX);
        }
        Message::Hello(Box::new(hello)).encode(&mut bytes)?;
        match upload_follows {
            true => self.upload(line, bytes),
            false => line.transport.send(&bytes),
        }
    }

    /// Hears the server out.
    fn listen(&mut self, line: &mut Line, traffic: &mut Traffic) -> Result<Heard, Failure> {
        let mut download = Download::default();
        loop {
            let frame = line.next_frame()?;
            if [Message::ROWS_TYPE, Message::PACKED_ROWS_TYPE].contains(&frame.frame_type) {
                let (_, _, count) = RowsFrame::split(&frame.payload)?;
                traffic.downloaded += u64::from(count);
                download.frames.push(self.unpacked(frame)?);
                continue;
            }
            match Message::decode(frame)? {
                // A download that is cut is not gone on with.
                None
                | Some(Message::Heartbeat | Message::Position(_) | Message::LostConflicts(_)) => {}
                Some(Message::Welcome(welcome)) => {
                    traffic.uploaded += self.agree(&welcome);
                    if welcome.upload == UploadState::Send && !welcome.schema_change_follows {
                        if line.transport.is_half_duplex() {
                            return Ok(Heard::Again);
                        }
                        self.pack()?;
                        self.upload(line, Vec::new())?;
                    }
                }
                Some(Message::SchemaChange(change)) => {
                    self.schema = Some(Schema::announced(&change.schema));
                    if line.transport.is_half_duplex() {
                        return Ok(Heard::Again);
                    }
                    self.upload(line, Vec::new())?;
                }
                Some(Message::UploadCommitted(committed)) => {
                    self.committed(committed.progress);
                    traffic.uploaded += committed.inserts + committed.updates + committed.deletes;
                    traffic.disputed += committed.conflicts + committed.rejected;
                }
                Some(Message::DownloadBegin(begin)) => {
                    let afresh = (0..).zip(&begin.tables);
                    let afresh = afresh.filter(|(_, table)| table.mode == DownloadMode::Refresh);
                    download.afresh = afresh.map(|(place, _)| place).collect();
                }
                Some(Message::DownloadEnd(end)) => {
                    self.apply(download, end);
                    return Ok(Heard::End);
                }
                Some(Message::Failed(failed)) => return Err(failed.into()),
                Some(other) => return Err(other.unexpected("the next part of a download")),
            }
        }
    }

    /// The rows of a frame as they were before they were compressed.
    fn unpacked(&mut self, frame: RawFrame) -> Result<Vec<u8>, Failure> {
        if frame.frame_type == Message::ROWS_TYPE {
            return Ok(frame.payload);
        }
        let rows = PackedRows::parse(&frame.payload, FRAME_BYTES_MAX, self.readable())?;
        Ok(self.decompressor.unpack(rows)?.payload)
    }

    /// How the server may compress what it sends.
    fn readable(&self) -> Capabilities {
        Compression::capabilities(self.compression.as_slice())
    }

    fn hello(&self, upload_follows: bool) -> Hello {
        let tables = self.schema.iter().flat_map(|schema| &schema.tables);
        let watermarks = tables.map(|table| TableWatermark {
            fingerprint: table.fingerprint.clone(),
            watermark: table.watermark.clone(),
        });
        Hello {
            protocol_version: PROTOCOL_VERSION,
            capabilities: self.readable(),
            client: concat!("syncline ", env!("CARGO_PKG_VERSION"), " bench").to_owned(),
            database: None,
            remote_id: self.remote_id.clone(),
            user: self.user.clone(),
            credential: self.credential.clone(),
            script_version: None,
            publications: Vec::new(),
            database_id: self.database_id.clone(),
            mode: Mode::Full,
            progress: self.progress,
            new_password: None,
            parameters: protocol::Parameters::default(),
            outcome: match self.sent {
                Some(_) => LastUpload::Unknown,
                None => LastUpload::Known,
            },
            counter: self.counter,
            nonce_confirmed: self.nonce_confirmed,
            nonce_attempt: self.nonce_attempt(),
            attempt: self.attempt,
            file_secret: None,
            receipt: None,
            schema_fingerprint: self.schema.as_ref().map(|schema| schema.fingerprint.clone()),
            watermarks: watermarks.collect(),
            former_watermarks: Vec::new(),
            upload_follows,
            kept_tables: Vec::new(),
            unknown_tables: Vec::new(),
            verify_follows: false,
            wanted_rows: Vec::new(),
            resume: Vec::new(),
            was_cut: false,
            settled_rejects: Vec::new(),
        }
    }

    /// Stays the same until an attempt has succeeded, and is never zero.
    fn nonce_attempt(&self) -> Nonce {
        Nonce(self.nonce_confirmed.0 + 1)
    }

    /// Learns what Welcome says; the rows that turn out to have been committed before.
    fn agree(&mut self, welcome: &Welcome) -> u64 {
        if let Some(token) = &welcome.token {
            self.credential = Credential::Token(token.clone());
        }
        self.database_id = Some(welcome.database_id.clone());
        self.server = welcome.capabilities;
        match (self.sent.take(), welcome.progress) {
            (Some(sent), Some(committed)) if sent == committed => {
                let rows = self.outbox.rows;
                self.committed(committed);
                rows
            }
            // An upload that came with Hello and is being applied is acknowledged later.
            (sent, _) if welcome.upload == UploadState::Taken => {
                self.sent = sent;
                0
            }
            _ => 0,
        }
    }

    /// Sends an upload behind these bytes.
    fn upload(&mut self, line: &mut Line, mut bytes: Vec<u8>) -> Result<(), Failure> {
        let mut begin = UploadBegin { previous: self.progress, progress: self.progress };
        if self.outbox.rows > 0 {
            // Numbers have gaps: every attempt takes another one.
            begin.progress = Progress(self.progress.0 + self.attempt);
            self.sent = Some(begin.progress);
        }
        Message::UploadBegin(begin).encode(&mut bytes)?;
        for frame in &self.outbox.frames {
            if bytes.len() + frame.len() > WRITE_BYTES_MAX {
                line.transport.send(&bytes)?;
                bytes.clear();
            }
            bytes.extend_from_slice(frame);
        }
        Message::UploadEnd(UploadEnd { rows: self.outbox.rows }).encode(&mut bytes)?;
        line.transport.send(&bytes)
    }

    fn committed(&mut self, progress: Progress) {
        self.progress = progress;
        self.sent = None;
        self.outbox = Outbox::default();
    }

    fn apply(&mut self, download: Download, end: DownloadEnd) {
        if !download.afresh.is_empty() {
            self.held.retain(|(table, ..), _| !download.afresh.contains(table));
            self.received.retain(|payload| match RowsFrame::split(payload) {
                Ok((table, ..)) => !download.afresh.contains(&table),
                Err(_) => true,
            });
        }
        self.received.extend(download.frames);
        let tables = self.schema.iter_mut().flat_map(|schema| &mut schema.tables);
        for (table, watermark) in tables.zip(end.watermarks) {
            table.watermark = watermark;
        }
        self.counter = end.counter;
        self.nonce_confirmed = self.nonce_attempt();
    }
}

impl Schema {
    fn announced(schema: &RemoteSchema) -> Schema {
        let table = |table: &PublishedTable| HeldTable {
            name: table.name.to_string(),
            fingerprint: table.fingerprint.clone(),
            watermark: None,
        };
        Schema {
            fingerprint: schema.fingerprint.clone(),
            tables: schema.tables.iter().map(table).collect(),
        }
    }
}

/// A download that is not complete yet.
#[derive(Default)]
struct Download {
    /// Tables that come as a whole.
    afresh: Vec<u16>,
    frames: Vec<Vec<u8>>,
}

/// A connection, frame by frame.
struct Line {
    transport: Box<dyn Transport>,
    decoder: FrameDecoder,
    buffer: Vec<u8>,
}

impl Line {
    fn new(transport: Box<dyn Transport>) -> Line {
        let decoder = FrameDecoder::new(FRAME_BYTES_MAX);
        Line { transport, decoder, buffer: vec![0; BUFFER_BYTES] }
    }

    fn next_frame(&mut self) -> Result<RawFrame, Failure> {
        loop {
            if let Some(frame) = self.decoder.next_frame()? {
                return Ok(frame);
            }
            match self.transport.receive(&mut self.buffer)? {
                0 => {
                    let message = "the server closed the connection";
                    return Err(Failure::new(Code::ConnectionLost, message));
                }
                len => {
                    self.decoder.push(&self.buffer[..len]);
                    if len == self.buffer.len() && len < LARGE_BUFFER_BYTES {
                        self.buffer = vec![0; LARGE_BUFFER_BYTES];
                    }
                }
            }
        }
    }
}
