//! A client that only speaks the protocol, so that a small machine can load a large server.
//!
//! It keeps what a remote must remember of a synchronization, and of its rows a checksum.

use super::{PASSWORD, Traffic};
use crate::args::Operation;
use crate::bench::purchase::{COLUMNS, Purchase, digest_of_values};
use crate::bench::tally::Tally;
use client::Transport;
use model::{
    Code, Counter, DatabaseId, Failure, Nonce, Progress, RemoteId, RowReader, UserName, ValueRef,
    Watermark,
};
use protocol::{
    Credential, DownloadEnd, DownloadMode, FRAME_BYTES_MAX, FrameDecoder, Hello, MAGIC, Message,
    Mode, Operation as RowOperation, Outcome, PROTOCOL_VERSION, RawFrame, RowsFrame,
    TableWatermark, UPLOAD_WITH_HELLO_BYTES_MAX, UploadBegin, UploadEnd, UploadState, Welcome,
};

/// Rows of one uploaded frame.
const ROWS_PER_FRAME: usize = 1000;

/// Bytes taken from the connection at once.
const BUFFER_BYTES: usize = 64 << 10;

/// What a remote remembers, and no more.
pub(super) struct WireClient {
    user: UserName,
    remote_id: RemoteId,
    credential: Credential,
    database_id: Option<DatabaseId>,
    /// The schema, and its only table.
    fingerprints: Option<(String, String)>,
    watermark: Option<Watermark>,
    progress: Progress,
    /// An upload that was sent and not acknowledged.
    sent: Option<Progress>,
    counter: Counter,
    nonce_confirmed: Nonce,
    attempt: i64,
    /// What waits to be uploaded, encoded.
    outbox: Outbox,
    held: Tally,
    /// Downloaded frames that were not counted yet.
    received: Vec<Vec<u8>>,
}

#[derive(Default)]
struct Outbox {
    frames: Vec<u8>,
    rows: u64,
}

impl WireClient {
    pub(super) fn new(user: UserName, remote_id: RemoteId) -> WireClient {
        WireClient {
            user,
            remote_id,
            credential: Credential::Password(PASSWORD.to_owned()),
            database_id: None,
            fingerprints: None,
            watermark: None,
            progress: Progress(0),
            sent: None,
            counter: Counter(0),
            nonce_confirmed: Nonce(0),
            attempt: 0,
            outbox: Outbox::default(),
            held: Tally::default(),
            received: Vec::new(),
        }
    }

    /// Encodes what the application would have changed.
    pub(super) fn change(
        &mut self,
        operation: Operation,
        rows: impl Iterator<Item = Purchase>,
        cost_as_text: bool,
    ) {
        let operation = match operation {
            Operation::Download => return,
            Operation::UploadInsert => RowOperation::Insert,
            Operation::UploadUpdate => RowOperation::Update,
            Operation::UploadDelete => RowOperation::Delete,
        };
        let rows: Vec<Purchase> = rows.collect();
        for batch in rows.chunks(ROWS_PER_FRAME) {
            let mut bytes = Vec::new();
            for row in batch {
                row.write_row(&mut bytes, cost_as_text);
                match operation {
                    RowOperation::Update => {
                        row.after_update().write_row(&mut bytes, cost_as_text);
                        self.held.remove(row.digest());
                        self.held.add(row.after_update().digest());
                    }
                    RowOperation::Delete => self.held.remove(row.digest()),
                    _ => self.held.add(row.digest()),
                }
            }
            let count = batch.len() as u32;
            Message::Rows(RowsFrame { table: 0, operation, count, bytes })
                .encode(&mut self.outbox.frames);
        }
        self.outbox.rows += rows.len() as u64;
    }

    /// The rows that a remote would hold.
    pub(super) fn tally(&mut self) -> Result<Tally, Failure> {
        self.count_received()?;
        Ok(self.held)
    }

    fn count_received(&mut self) -> Result<(), Failure> {
        for payload in std::mem::take(&mut self.received) {
            let (_, operation, count) = RowsFrame::split(&payload)?;
            if operation != RowOperation::Upsert {
                return Err(Failure::new(Code::BenchmarkWrong, "a row was deleted at the centre"));
            }
            let mut reader = RowReader::new(&payload[RowsFrame::PREFIX_BYTES..]);
            for _ in 0..count {
                let mut values = [ValueRef::Null; COLUMNS.len()];
                for value in &mut values {
                    *value = reader.value()?;
                }
                self.held.add(digest_of_values(&values)?);
            }
        }
        Ok(())
    }

    /// One conversation with the server.
    pub(super) fn synchronize(
        &mut self,
        transport: Box<dyn Transport>,
    ) -> Result<Traffic, Failure> {
        self.attempt += 1;
        let mut line = Line::new(transport);
        let upload_follows = self.sent.is_none()
            && self.fingerprints.is_some()
            && self.outbox.frames.len() <= UPLOAD_WITH_HELLO_BYTES_MAX;
        let mut bytes = MAGIC.to_vec();
        Message::Hello(Box::new(self.hello(upload_follows))).encode(&mut bytes);
        let mut traffic = Traffic::default();
        if upload_follows {
            self.write_upload(&mut bytes);
        }
        line.transport.send(&bytes)?;
        let mut download = Download::default();
        loop {
            let frame = line.next_frame()?;
            if frame.frame_type == Message::ROWS_TYPE {
                let (_, _, count) = RowsFrame::split(&frame.payload)?;
                traffic.downloaded += u64::from(count);
                download.frames.push(frame.payload);
                continue;
            }
            match Message::decode(frame)? {
                None | Some(Message::Heartbeat) => {}
                Some(Message::Welcome(welcome)) => {
                    traffic.uploaded += self.agree(&welcome);
                    if welcome.upload == UploadState::Send && !welcome.schema_change_follows {
                        self.upload(&mut line)?;
                    }
                }
                Some(Message::SchemaChange(change)) => {
                    let table = change.schema.tables.first().map(|table| table.fingerprint.clone());
                    self.fingerprints =
                        Some((change.schema.fingerprint, table.unwrap_or_default()));
                    self.upload(&mut line)?;
                }
                Some(Message::UploadCommitted(committed)) => {
                    self.committed(committed.progress);
                    traffic.uploaded += committed.inserts + committed.updates + committed.deletes;
                    traffic.disputed += committed.conflicts + committed.rejected;
                }
                Some(Message::DownloadBegin(begin)) => {
                    download.refresh = begin.tables.iter().any(|t| t.mode == DownloadMode::Refresh);
                }
                Some(Message::DownloadEnd(end)) => {
                    self.apply(download, end);
                    return Ok(traffic);
                }
                Some(Message::Failed(failed)) => return Err(failed.into()),
                Some(other) => return Err(other.unexpected("the next part of a download")),
            }
        }
    }

    fn hello(&self, upload_follows: bool) -> Hello {
        let watermarks = self.fingerprints.iter().map(|(_, table)| TableWatermark {
            fingerprint: table.clone(),
            watermark: self.watermark.clone(),
        });
        Hello {
            protocol_version: PROTOCOL_VERSION,
            capabilities: 0,
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
            outcome: match self.sent {
                Some(_) => Outcome::Unknown,
                None => Outcome::Known,
            },
            counter: self.counter,
            nonce_confirmed: self.nonce_confirmed,
            nonce_attempt: self.nonce_attempt(),
            attempt: self.attempt,
            schema_fingerprint: self.fingerprints.as_ref().map(|(schema, _)| schema.clone()),
            watermarks: watermarks.collect(),
            upload_follows,
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

    fn upload(&mut self, line: &mut Line) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        self.write_upload(&mut bytes);
        line.transport.send(&bytes)
    }

    fn write_upload(&mut self, bytes: &mut Vec<u8>) {
        let mut begin = UploadBegin { previous: self.progress, progress: self.progress };
        if self.outbox.rows > 0 {
            // Numbers have gaps: every attempt takes another one.
            begin.progress = Progress(self.progress.0 + self.attempt);
            self.sent = Some(begin.progress);
        }
        Message::UploadBegin(begin).encode(bytes);
        bytes.extend_from_slice(&self.outbox.frames);
        Message::UploadEnd(UploadEnd { rows: self.outbox.rows }).encode(bytes);
    }

    fn committed(&mut self, progress: Progress) {
        self.progress = progress;
        self.sent = None;
        self.outbox = Outbox::default();
    }

    fn apply(&mut self, download: Download, end: DownloadEnd) {
        if download.refresh {
            self.held = Tally::default();
            self.received.clear();
        }
        self.received.extend(download.frames);
        self.watermark = end.watermarks.into_iter().next().flatten();
        self.counter = end.counter;
        self.nonce_confirmed = self.nonce_attempt();
    }
}

/// A download that is not complete yet.
#[derive(Default)]
struct Download {
    refresh: bool,
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
                len => self.decoder.push(&self.buffer[..len]),
            }
        }
    }
}
