//! A server that accepts every upload without reading it and sends one prepared download.

use model::{Code, Counter, DatabaseId, Failure, RemoteSchema, Watermark};
use protocol::{
    DownloadBegin, DownloadEnd, DownloadMode, FRAME_BYTES_MAX, FrameDecoder, Hello, MAGIC, Message,
    Mode, Operation, RowsFrame, SchemaChange, TableDownload, UploadCommitted, UploadState, Welcome,
};
use std::rc::Rc;
use syncline_client::Transport;

/// A download of one table: its frames as bytes, so that sending them costs a copy.
pub(crate) struct Download {
    mode: DownloadMode,
    frames: Vec<u8>,
    rows: u64,
}

impl Download {
    pub(crate) fn new(mode: DownloadMode) -> Download {
        Download { mode, frames: Vec::new(), rows: 0 }
    }

    /// Adds a frame of encoded rows, or of keys.
    pub(crate) fn add(&mut self, operation: Operation, count: u32, bytes: Vec<u8>) {
        self.rows += u64::from(count);
        Message::Rows(RowsFrame { table: 0, operation, count, bytes })
            .encode(&mut self.frames)
            .unwrap();
    }
}

/// A connection to the server.
pub(crate) struct Conversation {
    schema: Rc<RemoteSchema>,
    download: Rc<Download>,
    decoder: FrameDecoder,
    greeted: bool,
    hello: Option<Box<Hello>>,
    committed: UploadCommitted,
    /// What is to be received, in this order, and how much of its first part was.
    out: Vec<Part>,
    received: usize,
}

enum Part {
    Own(Vec<u8>),
    Download(Rc<Download>),
}

impl Part {
    fn bytes(&self) -> &[u8] {
        match self {
            Part::Own(bytes) => bytes,
            Part::Download(download) => &download.frames,
        }
    }
}

impl Conversation {
    pub(crate) fn new(schema: &Rc<RemoteSchema>, download: &Rc<Download>) -> Conversation {
        Conversation {
            schema: schema.clone(),
            download: download.clone(),
            decoder: FrameDecoder::new(FRAME_BYTES_MAX),
            greeted: false,
            hello: None,
            committed: UploadCommitted::default(),
            out: Vec::new(),
            received: 0,
        }
    }

    fn say(&mut self, message: &Message) {
        self.out.push(Part::Own(message.to_frame().unwrap()));
    }

    fn hear(&mut self, message: Message) {
        match message {
            Message::Hello(hello) => self.welcome(hello),
            Message::UploadBegin(begin) => {
                self.committed.progress = begin.progress;
            }
            Message::Rows(rows) => {
                let rows_of = match rows.operation {
                    Operation::Insert => &mut self.committed.inserts,
                    Operation::Update => &mut self.committed.updates,
                    _ => &mut self.committed.deletes,
                };
                *rows_of += u64::from(rows.count);
            }
            Message::UploadEnd(_) => {
                self.say(&Message::UploadCommitted(self.committed.clone()));
                if self.hello.as_ref().is_some_and(|hello| hello.mode == Mode::Full) {
                    self.send_download();
                }
            }
            _ => {}
        }
    }

    fn welcome(&mut self, hello: Box<Hello>) {
        let schema_change_follows =
            hello.schema_fingerprint.as_ref() != Some(&self.schema.fingerprint);
        let upload = match hello.mode {
            Mode::DownloadOnly | Mode::Ping => UploadState::None,
            _ if hello.upload_follows && !schema_change_follows => UploadState::Taken,
            _ => UploadState::Send,
        };
        self.say(&Message::Welcome(Welcome {
            protocol_version: hello.protocol_version,
            capabilities: protocol::Capabilities::NONE,
            frame_bytes_max: None,
            schema_change_after_upload: false,
            unknown_tables: Vec::new(),
            kept_tables: Vec::new(),
            waiting_tables: Vec::new(),
            server: "a bench".into(),
            database_id: DatabaseId("a bench".into()),
            progress: Some(hello.progress),
            script_version: None,
            upload,
            schema_change_follows,
            token: None,
            authentication: None,
        }));
        if schema_change_follows {
            let schema = RemoteSchema::clone(&self.schema);
            self.say(&Message::SchemaChange(Box::new(SchemaChange {
                schema,
                renamed: Vec::new(),
            })));
        }
        let mode = hello.mode;
        self.hello = Some(hello);
        if mode == Mode::DownloadOnly {
            self.send_download();
        }
    }

    fn send_download(&mut self) {
        let download = self.download.clone();
        let Some(hello) = self.hello.take() else { return };
        let rows = Some(download.rows);
        let tables = vec![TableDownload { rows, ..TableDownload::new(download.mode) }];
        self.say(&Message::DownloadBegin(DownloadBegin {
            tables,
            restored: false,
            deletes_lost: false,
            waiting_tables: Vec::new(),
            receipt: None,
        }));
        self.out.push(Part::Download(download.clone()));
        self.say(&Message::DownloadEnd(DownloadEnd {
            rows: download.rows,
            watermarks: vec![Watermark::new(b"a bench".to_vec()).ok()],
            counter: Counter(hello.counter.0 + 1),
            receipt: None,
            acknowledge: false,
        }));
    }
}

impl Transport for Conversation {
    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let bytes = match self.greeted {
            true => bytes,
            false => bytes
                .strip_prefix(&MAGIC)
                .ok_or_else(|| Failure::new(Code::NotSyncline, "a client begins with the magic"))?,
        };
        self.greeted = true;
        self.decoder.push(bytes);
        while let Some(frame) = self.decoder.next_frame()? {
            if let Some(message) = Message::decode(frame)? {
                self.hear(message);
            }
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        while let Some(part) = self.out.first() {
            let unread = &part.bytes()[self.received..];
            if unread.is_empty() {
                self.out.remove(0);
                self.received = 0;
                continue;
            }
            let len = unread.len().min(buffer.len());
            buffer[..len].copy_from_slice(&unread[..len]);
            self.received += len;
            return Ok(len);
        }
        Ok(0)
    }
}
