//! HTTP/2 by hand, for what no honest client does.

use harness::WAIT_MAX;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

/// Kinds of frames.
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RESET: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GO_AWAY: u8 = 7;
pub(super) const WINDOW: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

/// Flags.
pub(super) const ACKNOWLEDGED: u8 = 1;
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// Reasons for an end.
pub(super) const REFUSED_STREAM: u32 = 7;
pub(super) const ENHANCE_YOUR_CALM: u32 = 11;

/// What HPACK makes of a POST to `/base/path/sync` with our type, and nothing else.
pub(super) const POST: &[u8] =
    b"\x83\x86\x04\x0f/base/path/sync\x01\x01x\x0f\x10\x18application/vnd.syncline";

/// The same of a GET to `/base/path/health`.
pub(super) const GET_HEALTH: &[u8] = b"\x82\x86\x04\x11/base/path/health\x01\x01x";

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// The number at the end of a frame that ends something.
    pub(super) fn reason(&self) -> u32 {
        let at = if self.kind == GO_AWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

/// A client that says what it likes.
#[derive(Debug)]
pub(super) struct Client {
    stream: TcpStream,
}

impl Client {
    /// Connects, and says that it speaks HTTP/2 with these settings.
    pub(super) fn connect(url: &str, settings: &[(u16, u32)]) -> Client {
        let mut client = Client::silent(url);
        client.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let setting =
            |(name, value): &(u16, u32)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat();
        let payload: Vec<u8> = settings.iter().flat_map(setting).collect();
        client.send(SETTINGS, 0, 0, &payload);
        client
    }

    /// Connects and says nothing.
    pub(super) fn silent(url: &str) -> Client {
        let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
        Client { stream }
    }

    /// Sends bytes to somebody who may have left.
    pub(super) fn write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends a frame to somebody who may have left.
    pub(super) fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let head = [&len[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        self.write(&[&head, payload].concat())
    }

    /// Begins a synchronization with these bytes.
    pub(super) fn post(&mut self, stream: u32, body: &[u8], flags: u8) {
        self.send(HEADERS, END_HEADERS, stream, POST);
        self.send(DATA, flags, stream, body);
    }

    /// The next frame; none when the server has closed.
    pub(super) fn receive(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.fill(&mut head)?;
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; len];
        self.fill(&mut payload)?;
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    fn fill(&mut self, place: &mut [u8]) -> Option<()> {
        match self.stream.read_exact(place) {
            Ok(()) => Some(()),
            Err(error) => {
                let closed = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset];
                assert!(closed.contains(&error.kind()), "{error}");
                None
            }
        }
    }

    /// The frames up to the one that is looked for; all up to the end where it does not come.
    pub(super) fn until(&mut self, mut is_it: impl FnMut(&Frame) -> bool) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.receive() {
            let found = is_it(&frame);
            frames.push(frame);
            if found {
                break;
            }
        }
        frames
    }

    /// The reason of the server for an end of the whole connection; none where it gave none.
    pub(super) fn end(&mut self) -> Option<u32> {
        let frames = self.until(|_| false);
        frames.iter().rfind(|frame| frame.kind == GO_AWAY).map(Frame::reason)
    }
}

/// The bytes of a stream among these frames.
pub(super) fn body(frames: &[Frame], stream: u32) -> Vec<u8> {
    let data = frames.iter().filter(|it| it.kind == DATA && it.stream == stream);
    data.flat_map(|frame| frame.payload.clone()).collect()
}
