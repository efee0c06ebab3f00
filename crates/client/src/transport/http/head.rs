//! The head of a response.

use model::{Code, Failure};
use protocol::{FrameDecoder, Message};
use std::io::{self, Read};

/// The type of both bodies.
pub(super) const MEDIA_TYPE: &str = "application/vnd.syncline";

/// The largest head. Proxies with many cookies stay below 16 KiB.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Lines of a head.
const HEADERS_MAX: usize = 128;

/// Bytes that are read at once.
const READ_BYTES: usize = 4 << 10;

/// What a response begins with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    /// It has the type of our bodies.
    pub(super) ours: bool,
    pub(super) location: Option<String>,
    pub(super) retry_after_s: Option<u32>,
    /// The answer to the key of a handshake of WebSocket.
    pub(super) accept: Option<String>,
    /// The program that answered, as it calls itself.
    pub(super) server: Option<String>,
    pub(super) length: Length,
    /// Another request may follow on the same connection.
    pub(super) keeps: bool,
}

/// Where the body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    Bytes(u64),
    Chunked,
    /// With the connection.
    Open,
}

/// Reads heads from a connection, and keeps what comes behind them.
#[derive(Debug, Default)]
pub(super) struct HeadReader {
    bytes: Vec<u8>,
}

impl HeadReader {
    /// The next head. `UnexpectedEof` where the connection ends before it.
    pub(super) fn read(&mut self, from: &mut dyn Read) -> io::Result<Result<Head, Failure>> {
        loop {
            match parse(&self.bytes) {
                Ok(Some((head, len))) => {
                    self.bytes.drain(..len);
                    return Ok(Ok(head));
                }
                Ok(None) if self.bytes.len() >= HEAD_BYTES_MAX => {
                    return Ok(Err(malformed("its head is too long")));
                }
                Ok(None) => {}
                Err(failure) => return Ok(Err(failure)),
            }
            let mut piece = [0; READ_BYTES];
            match from.read(&mut piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.bytes.extend_from_slice(&piece[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// What came behind the last head.
    pub(super) fn rest(self) -> Vec<u8> {
        self.bytes
    }
}

/// A head and its length, once it is complete.
fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, Failure> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(bytes).map_err(|error| no_head(bytes).source(error))?;
    let httparse::Status::Complete(len) = parsed else { return Ok(None) };
    let status = response.code.unwrap_or(0);
    let mut head = Head {
        status,
        ours: false,
        location: None,
        retry_after_s: None,
        accept: None,
        server: None,
        length: Length::Open,
        keeps: response.version == Some(1),
    };
    let mut length = None;
    for header in response.headers.iter() {
        // A value that is no text says nothing that matters here.
        let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
        match header.name.to_ascii_lowercase().as_str() {
            "content-type" => {
                let media_type = value.split(';').next().unwrap_or_default().trim();
                head.ours = media_type.eq_ignore_ascii_case(MEDIA_TYPE);
            }
            "content-length" => length = one_length(length, value)?,
            "transfer-encoding" if value.eq_ignore_ascii_case("chunked") => {
                head.length = Length::Chunked;
            }
            "transfer-encoding" => return Err(malformed("it is encoded for the transfer")),
            "content-encoding" if !value.eq_ignore_ascii_case("identity") => {
                return Err(malformed("it is compressed, which was not asked for"));
            }
            "location" => head.location = Some(value.to_owned()),
            "sec-websocket-accept" => head.accept = Some(value.to_owned()),
            "retry-after" => head.retry_after_s = value.parse().ok(),
            "connection" => {
                head.keeps &= !value.split(',').any(|it| it.trim().eq_ignore_ascii_case("close"));
            }
            "server" => head.server = Some(model::cut(value, 40).into_owned()),
            _ => {}
        }
    }
    if let (Some(length), Length::Open) = (length, head.length) {
        head.length = Length::Bytes(length);
    }
    Ok(Some((head, len)))
}

/// The failure of a head that cannot be read. A server of Syncline that expects no HTTP answers
/// with a frame that says so.
fn no_head(bytes: &[u8]) -> Failure {
    let mut decoder = FrameDecoder::new(HEAD_BYTES_MAX);
    decoder.push(bytes);
    let frame = decoder.next_frame().ok().flatten();
    match frame.map(Message::decode) {
        Some(Ok(Some(Message::Failed(failed)))) if failed.code == Code::NotSyncline.number() => {
            let message = "the server there speaks Syncline without HTTP";
            Failure::new(Code::HttpMalformed, message).hint(
                "write tcp:// in place of http:// or ws://, tls:// in place of https:// or wss://",
            )
        }
        Some(Ok(Some(Message::Failed(failed)))) => failed.into(),
        _ => malformed("its head cannot be read"),
    }
}

/// The failure of a peer that does not speak HTTP.
pub(super) fn malformed(why: &str) -> Failure {
    Failure::new(Code::HttpMalformed, format!("the answer over HTTP is malformed: {why}"))
}

/// Two lengths that differ are a sign of somebody who smuggles.
fn one_length(known: Option<u64>, value: &str) -> Result<Option<u64>, Failure> {
    let digits = !value.is_empty() && value.bytes().all(|it| it.is_ascii_digit());
    match value.parse() {
        Ok(length) if digits && known.is_none_or(|known| known == length) => Ok(Some(length)),
        _ => Err(malformed("its length is no number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Code;

    fn head(text: &str) -> Result<Head, Code> {
        let mut reader = HeadReader::default();
        reader.read(&mut text.as_bytes()).unwrap().map_err(|failure| failure.code())
    }

    #[test]
    fn heads_are_understood_in_pieces_and_what_follows_is_kept() {
        let text = "HTTP/1.1 503 Full\r\nContent-Type: Application/vnd.syncline; x=y\r\n\
                    Retry-After: 7\r\nContent-Length: 5\r\nServer: s/1\r\n\r\nabcde";
        let mut reader = HeadReader::default();
        let mut drips = text
            .as_bytes()
            .chunks(7)
            .fold(Box::new(io::empty()) as Box<dyn Read>, |all, piece| Box::new(all.chain(piece)));
        let head = reader.read(&mut drips).unwrap().unwrap();
        assert_eq!((head.status, head.ours, head.retry_after_s), (503, true, Some(7)));
        assert_eq!((head.length, head.server.as_deref()), (Length::Bytes(5), Some("s/1")));
        let mut rest = reader.rest();
        drips.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"abcde");
    }

    #[test]
    fn a_chunked_body_has_no_other_length() {
        let chunked = "HTTP/1.1 200 \r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n";
        assert_eq!(head(chunked).unwrap().length, Length::Chunked);
        assert_eq!(head("HTTP/1.0 200 OK\r\n\r\n").unwrap().length, Length::Open);
    }

    // S9
    #[test]
    fn what_is_no_head_is_refused() {
        for text in [
            "SYNCLINE",
            "HTTP/1.1 x\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n",
        ] {
            assert_eq!(head(text).unwrap_err(), Code::HttpMalformed, "{text}");
        }
        let long = format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(HEAD_BYTES_MAX));
        assert_eq!(head(&long).unwrap_err(), Code::HttpMalformed);
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(HEADERS_MAX + 1));
        assert_eq!(head(&many).unwrap_err(), Code::HttpMalformed);
        let mut reader = HeadReader::default();
        let cut = reader.read(&mut &b"HTTP/1.1 200"[..]).unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
    }
}
