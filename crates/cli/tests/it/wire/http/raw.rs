//! HTTP by hand.

use harness::WAIT_MAX;
use protocol::{FrameDecoder, Message};
use std::io::{Read, Write};
use std::net::TcpStream;

/// A request with this line.
pub(super) fn request(line: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let len = body.len();
    let head =
        format!("{line}\r\nhost: x\r\nconnection: close\r\ncontent-length: {len}\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

/// An exchange.
#[derive(Debug)]
pub(super) struct Raw {
    stream: TcpStream,
    pub(super) status: u16,
    head: String,
    pub(super) body: Vec<u8>,
}

impl Raw {
    /// Connects and sends these bytes.
    pub(super) fn open(url: &str, bytes: &[u8]) -> Raw {
        let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
        stream.write_all(bytes).unwrap();
        Raw { stream, status: 0, head: String::new(), body: Vec::new() }
    }

    /// Begins a synchronization whose body has so many bytes, and sends these of it.
    pub(super) fn begin(url: &str, len: usize, begun: &[u8]) -> Raw {
        let path = &url["http://".len()..];
        let path = path.find('/').map_or("", |at| &path[at..]);
        let head = format!(
            "POST {path}/sync HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             content-type: application/vnd.syncline\r\ncontent-length: {len}\r\n\r\n"
        );
        Raw::open(url, &[head.as_bytes(), begun].concat())
    }

    pub(super) fn post(url: &str, body: &[u8]) -> Raw {
        Raw::begin(url, body.len(), body).read()
    }

    pub(super) fn ask(url: &str, request: &[u8]) -> Raw {
        Raw::open(url, request).read()
    }

    /// The response.
    pub(super) fn read(mut self) -> Raw {
        let mut bytes = Vec::new();
        // A peer that refuses may reset the connection behind its response.
        let _ = self.stream.read_to_end(&mut bytes);
        let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").unwrap_or(bytes.len());
        self.head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        self.status = self.head.get(9..12).map_or(0, |status| status.parse().unwrap());
        let mut rest = bytes.get(end + 4..).unwrap_or_default();
        if self.header("transfer-encoding") != Some("chunked") {
            self.body = rest.to_vec();
            return self;
        }
        while let Some(line) = rest.windows(2).position(|it| it == b"\r\n") {
            let digits = std::str::from_utf8(&rest[..line]).unwrap();
            let len = usize::from_str_radix(digits, 16).unwrap();
            self.body.extend_from_slice(&rest[line + 2..line + 2 + len]);
            rest = rest.get(line + 4 + len..).unwrap_or_default();
        }
        self
    }

    /// The peer closes the connection without a word, or with an error.
    pub(super) fn closes(self) -> bool {
        let raw = self.read();
        raw.status == 0 || raw.status == 408
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let name = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(name.as_str()))
    }

    /// What the body says, beside signs of life.
    pub(super) fn messages(&self) -> Vec<Message> {
        let mut decoder = FrameDecoder::new(1 << 20);
        decoder.push(&self.body);
        let mut messages = Vec::new();
        while let Some(frame) = decoder.next_frame().unwrap() {
            messages.extend(Message::decode(frame).unwrap().filter(|it| *it != Message::Heartbeat));
        }
        messages
    }
}
