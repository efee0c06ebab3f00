//! A client made by hand, for what the real one never does: to stop, to lie, to flood.

use model::{Counter, Nonce, Progress, RemoteId, RemoteSchema, UserName};
use protocol::{
    Compression, Credential, Decompressor, FRAME_BYTES_MAX, FrameDecoder, Hello, LastUpload, MAGIC,
    Message, Mode, PROTOCOL_VERSION, Welcome,
};
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::wait::WAIT_MAX;

/// Every Hello is a later one.
static NEXT_ATTEMPT: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(1);

/// A connection to a server, with nothing said yet.
#[derive(Debug)]
pub struct Peer {
    stream: TcpStream,
    decoder: FrameDecoder,
    decompressor: Decompressor,
    /// Frames with compressed rows that came.
    pub packed_frames: usize,
}

impl Peer {
    /// Connects to the server at this URL.
    pub fn connect(url: &str) -> Peer {
        let stream = TcpStream::connect(url.strip_prefix("tcp://").unwrap()).unwrap();
        stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
        let decoder = FrameDecoder::new(FRAME_BYTES_MAX);
        Peer { stream, decoder, decompressor: Decompressor::default(), packed_frames: 0 }
    }

    /// Connects as a remote that never synchronized, with the password of [`crate::World`], and
    /// hears that it may upload.
    pub fn admitted(url: &str, user: &str, remote_id: &str) -> (Peer, RemoteSchema) {
        let (mut peer, _) = Peer::greeting(url, hello(user, remote_id));
        match peer.receive() {
            Some(Message::SchemaChange(change)) => (peer, change.schema),
            other => panic!("{other:?} instead of a schema"),
        }
    }

    /// Connects with this Hello, without an upload behind it, and hears that it is welcome.
    pub fn greeting(url: &str, hello: Hello) -> (Peer, Welcome) {
        let mut peer = Peer::saying(url, hello);
        match peer.receive() {
            Some(Message::Welcome(welcome)) => (peer, welcome),
            other => panic!("{other:?} instead of a welcome"),
        }
    }

    /// Connects with this Hello, and hears with which code it is refused; none if it is welcome.
    pub fn refused(url: &str, hello: Hello) -> Option<u16> {
        match Peer::saying(url, hello).receive() {
            Some(Message::Failed(failed)) => Some(failed.code),
            Some(Message::Welcome(_)) => None,
            other => panic!("{other:?} instead of an answer to Hello"),
        }
    }

    /// Connects with this Hello, without an upload behind it.
    pub fn saying(url: &str, hello: Hello) -> Peer {
        let mut peer = Peer::connect(url);
        peer.send_bytes(&MAGIC);
        peer.send(&Message::Hello(Box::new(hello)));
        peer
    }

    /// Sends a message.
    pub fn send(&mut self, message: &Message) {
        self.send_bytes(&message.to_frame().unwrap());
    }

    /// Sends bytes.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends a message to somebody who may not be there any more.
    pub fn try_send(&mut self, message: &Message) -> std::io::Result<()> {
        self.try_send_bytes(&message.to_frame().unwrap())
    }

    /// Sends bytes to somebody who may not be there any more.
    pub fn try_send_bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Takes at most so many bytes from the network, whatever they mean.
    pub fn receive_bytes(&mut self, bytes_max: usize) {
        let mut buffer = vec![0; bytes_max];
        match self.stream.read(&mut buffer) {
            Ok(len) => self.decoder.push(&buffer[..len]),
            // The server has ended it.
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }

    /// The next message that is no mere sign of life; `None` when the server has closed.
    pub fn receive(&mut self) -> Option<Message> {
        let mut buffer = [0; 16 << 10];
        loop {
            while let Some(frame) = self.decoder.next_frame().unwrap() {
                self.packed_frames += usize::from(frame.frame_type == Message::PACKED_ROWS_TYPE);
                let readable = Compression::capabilities(&Compression::ALL);
                match self.decompressor.decode(frame, FRAME_BYTES_MAX, readable).unwrap() {
                    None | Some(Message::Heartbeat) => {}
                    message => return message,
                }
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(len) => self.decoder.push(&buffer[..len]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The code with which the server ends the conversation, whatever it says before; `None` when
    /// it closes without one.
    pub fn refusal(&mut self) -> Option<u16> {
        loop {
            match self.receive()? {
                Message::Failed(failed) => return Some(failed.code),
                _ => continue,
            }
        }
    }
}

/// The Hello of a remote that never synchronized; each is later than those before.
pub fn hello(user: &str, remote_id: &str) -> Hello {
    Hello {
        protocol_version: PROTOCOL_VERSION,
        capabilities: protocol::Capabilities::NONE,
        client: "harness".into(),
        database: None,
        remote_id: RemoteId::new(remote_id).unwrap(),
        user: UserName::new(user).unwrap(),
        credential: Credential::Password(format!("{user}-password")),
        new_password: None,
        parameters: protocol::Parameters::default(),
        script_version: None,
        publications: Vec::new(),
        database_id: None,
        mode: Mode::Full,
        progress: Progress(0),
        outcome: LastUpload::Known,
        counter: Counter(0),
        nonce_confirmed: Nonce(0),
        nonce_attempt: Nonce(4711),
        attempt: NEXT_ATTEMPT.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
        file_secret: None,
        receipt: None,
        schema_fingerprint: None,
        watermarks: Vec::new(),
        upload_follows: false,
        former_watermarks: Vec::new(),
        kept_tables: Vec::new(),
        unknown_tables: Vec::new(),
        verify_follows: false,
        wanted_rows: Vec::new(),
        resume: Vec::new(),
        was_cut: false,
        settled_rejects: Vec::new(),
    }
}
