//! One connection through the proxy: two threads that pass frames on.

use super::conduct::Shared;
use super::verdict::{Side, Verdict};
use protocol::{FRAME_BYTES_MAX, FrameDecoder, MAGIC, Message, RawFrame};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Connection {
    client: TcpStream,
    server: TcpStream,
    /// Frames are written whole: both threads may write to the client.
    writing: Mutex<()>,
    /// Nothing passes any more.
    cut: AtomicBool,
}

pub(super) fn start(
    shared: &Arc<Shared>,
    client: TcpStream,
    server: TcpStream,
) -> Weak<Connection> {
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
    }
    let connection = Arc::new(Connection {
        client,
        server,
        writing: Mutex::new(()),
        cut: AtomicBool::new(false),
    });
    for from in [Side::Client, Side::Server] {
        let (shared, connection) = (shared.clone(), connection.clone());
        thread::spawn(move || connection.pass_all(&shared, from));
    }
    Arc::downgrade(&connection)
}

impl Connection {
    /// Ends it at once, for both.
    pub(super) fn close(&self) {
        self.cut.store(true, Ordering::SeqCst);
        for stream in [&self.client, &self.server] {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn stream(&self, side: Side) -> &TcpStream {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    /// Passes on what this side says, until it closes.
    fn pass_all(&self, shared: &Shared, from: Side) {
        let mut decoder = FrameDecoder::new(FRAME_BYTES_MAX);
        let mut preamble = if from == Side::Client { MAGIC.len() } else { 0 };
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let len = self.stream(from).read(&mut buffer).unwrap_or(0);
            if len == 0 {
                break;
            }
            if self.is_cut() {
                continue;
            }
            let (first, frames) = buffer[..len].split_at(len.min(preamble));
            preamble -= first.len();
            self.write(shared, from, first);
            decoder.push(frames);
            loop {
                match decoder.next_frame() {
                    Ok(Some(frame)) if !self.is_cut() => self.pass(shared, from, frame),
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    // What is no frame is not read any further.
                    Err(_) => {
                        self.end();
                        break;
                    }
                }
            }
        }
        // The end passes like a byte. After a cut the client learns it when the server has ended.
        let _ = self.stream(from.other()).shutdown(Shutdown::Write);
    }

    fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }

    /// From now on nothing passes. The server learns it at once, the client when the server has
    /// closed.
    fn end(&self) {
        self.cut.store(true, Ordering::SeqCst);
        let _ = self.server.shutdown(Shutdown::Write);
    }

    fn pass(&self, shared: &Shared, from: Side, frame: RawFrame) {
        let raw = bytes_of(&frame);
        // What the proxy does not understand is for those who do.
        let Ok(Some(message)) = Message::decode(frame) else {
            return self.write(shared, from, &raw);
        };
        let Judged { verdict, forged, beats } = judge(shared, from, message);
        let itself = match forged {
            Some(forged) => encoded(&[forged]),
            None => raw,
        };
        let mut bytes = if beats { encoded(&[Message::Heartbeat]) } else { Vec::new() };
        match &verdict {
            Verdict::Pass | Verdict::CutBehind => bytes.extend_from_slice(&itself),
            Verdict::Replace(messages) => bytes.extend_from_slice(&encoded(messages)),
            // It is said as by the other side.
            Verdict::Answer(messages) => {
                bytes.clear();
                self.write(shared, from.other(), &encoded(messages));
            }
            Verdict::CutBefore => bytes.clear(),
        }
        self.write(shared, from, &bytes);
        if let Verdict::Answer(_) | Verdict::CutBefore | Verdict::CutBehind = verdict {
            self.end();
        }
    }

    /// Writes what this side says, or as much of it as may pass, also when the connection has been
    /// ended since this was let pass.
    fn write(&self, shared: &Shared, from: Side, bytes: &[u8]) {
        let allowed = {
            let mut conduct = shared.conduct();
            match &mut conduct.left[from as usize] {
                Some(left) => {
                    let allowed = bytes.len().min(*left);
                    *left -= allowed;
                    (*left == 0).then_some(allowed)
                }
                None => None,
            }
        };
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = &bytes[..allowed.unwrap_or(bytes.len())];
        // Who is gone receives nothing; its end passes when it is read.
        let _ = self.stream(from.other()).write_all(now);
        if allowed.is_some() {
            shared.conduct().left[from as usize] = None;
            self.end();
        }
    }
}

fn bytes_of(frame: &RawFrame) -> Vec<u8> {
    let len = u32::try_from(frame.payload.len()).unwrap();
    let mut bytes = Vec::with_capacity(frame.wire_bytes());
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.push(frame.frame_type);
    bytes.extend_from_slice(&frame.payload);
    bytes
}

fn encoded(messages: &[Message]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        message.encode(&mut bytes).unwrap();
    }
    bytes
}

/// What becomes of a message.
struct Judged {
    verdict: Verdict,
    /// How it looks now, where it has been changed.
    forged: Option<Message>,
    /// A sign of life comes first.
    beats: bool,
}

fn judge(shared: &Shared, from: Side, message: Message) -> Judged {
    let mut conduct = shared.conduct();
    let beats = conduct.beats && from == Side::Server && message != Message::Heartbeat;
    let mut seen = message.clone();
    if conduct.keeps_rows || !matches!(message, Message::Rows(_)) {
        conduct.heard.push((from, message.clone()));
    }
    (conduct.forger)(from, &mut seen);
    let verdict = (conduct.rule)(from, &seen);
    Judged { verdict, forged: (seen != message).then_some(seen), beats }
}
