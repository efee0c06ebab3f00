//! The body of a response, without what HTTP puts around it.

use super::head::Length;
use std::io::{self, Read};

/// The longest line before a chunk, with extensions that some proxies add.
const LINE_BYTES_MAX: usize = 1 << 10;

/// A body that is read from a connection.
pub(super) struct Body<R> {
    /// What was read behind the head comes first.
    from: io::BufReader<io::Chain<io::Cursor<Vec<u8>>, R>>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// So many bytes are left.
    Bytes(u64),
    /// So many bytes of a chunk are left.
    Chunk(u64),
    /// The next line says how long the next chunk is.
    ChunkLine,
    Open,
    Ended,
}

impl<R: Read> Body<R> {
    pub(super) fn new(length: Length, begun: Vec<u8>, from: R) -> Body<R> {
        let state = match length {
            Length::Bytes(0) => State::Ended,
            Length::Bytes(bytes) => State::Bytes(bytes),
            Length::Chunked => State::ChunkLine,
            Length::Open => State::Open,
        };
        Body { from: io::BufReader::new(io::Cursor::new(begun).chain(from)), state }
    }

    /// The next bytes; 0 at the end. `UnexpectedEof` where the connection ends before it,
    /// `InvalidData` where it is no body.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.state {
                State::Ended => return Ok(0),
                State::Open => return self.from.read(buffer),
                State::Bytes(left) => {
                    let n = self.read_some(buffer, left)?;
                    self.state = match left - n as u64 {
                        0 => State::Ended,
                        left => State::Bytes(left),
                    };
                    return Ok(n);
                }
                State::Chunk(left) => {
                    let n = self.read_some(buffer, left)?;
                    self.state = State::Chunk(left - n as u64);
                    if left == n as u64 {
                        self.expect_line(|line| line.is_empty().then_some(()))?;
                        self.state = State::ChunkLine;
                    }
                    return Ok(n);
                }
                State::ChunkLine => {
                    self.state = match self.expect_line(chunk_len)? {
                        0 => {
                            // Trailers say nothing to us.
                            while !self.expect_line(|line| Some(line.is_empty()))? {}
                            State::Ended
                        }
                        len => State::Chunk(len),
                    };
                }
            }
        }
    }

    /// What it is read from.
    pub(super) fn source(&mut self) -> &mut R {
        self.from.get_mut().get_mut().1
    }

    /// The same, if the body has ended and nothing was read behind it.
    pub(super) fn into_source(self) -> Option<R> {
        let ended = self.state == State::Ended && self.from.buffer().is_empty();
        let (begun, source) = self.from.into_inner().into_inner();
        let all_read = begun.position() == begun.get_ref().len() as u64;
        (ended && all_read).then_some(source)
    }

    fn read_some(&mut self, buffer: &mut [u8], left: u64) -> io::Result<usize> {
        let room = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match self.from.read(&mut buffer[..room])? {
            0 if room > 0 => Err(io::ErrorKind::UnexpectedEof.into()),
            n => Ok(n),
        }
    }

    /// The next line, as `meaning` takes it.
    fn expect_line<T>(&mut self, meaning: impl Fn(&str) -> Option<T>) -> io::Result<T> {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            if line.len() >= LINE_BYTES_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let mut byte = [0];
            self.from.read_exact(&mut byte)?;
            line.push(byte[0]);
        }
        let line = std::str::from_utf8(&line).ok().and_then(|it| meaning(it.trim_end()));
        line.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// The length of a chunk: at most 15 hexadecimal digits, without a sign.
fn chunk_len(line: &str) -> Option<u64> {
    let digits = line.split(';').next()?.trim();
    let proper = (1..16).contains(&digits.len()) && digits.bytes().all(|it| it.is_ascii_hexdigit());
    if proper { u64::from_str_radix(digits, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    /// What is read of this body, of which so much came with the head.
    fn read(length: Length, text: &str, begun: usize) -> Result<String, ErrorKind> {
        let (begun, rest) = text.as_bytes().split_at(begun.min(text.len()));
        let mut body = Body::new(length, begun.to_vec(), rest);
        let (mut read, mut buffer) = (Vec::new(), [0; 3]);
        loop {
            match body.read(&mut buffer) {
                Ok(0) => return Ok(String::from_utf8(read).unwrap()),
                Ok(n) => read.extend_from_slice(&buffer[..n]),
                Err(error) => return Err(error.kind()),
            }
        }
    }

    #[test]
    fn a_body_is_the_same_however_it_is_wrapped() {
        for begun in [0, 1, 5, 100] {
            let check = |length, text| assert_eq!(read(length, text, begun).unwrap(), "0123456789");
            check(Length::Bytes(10), "0123456789next");
            check(Length::Open, "0123456789");
            check(Length::Chunked, "4\r\n0123\r\n6;x=y\r\n456789\r\n0\r\na: b\r\n\r\nnext");
            check(Length::Chunked, "00A\r\n0123456789\r\n0\r\n\r\n");
        }
        assert_eq!(read(Length::Bytes(0), "next", 0).unwrap(), "");
    }

    // S1: what ends too early is no end.
    #[test]
    fn a_body_that_is_cut_is_not_taken_for_a_whole_one() {
        let whole = "4\r\n0123\r\n0\r\n\r\n";
        for cut in 0..whole.len() {
            assert_eq!(read(Length::Chunked, &whole[..cut], 0), Err(ErrorKind::UnexpectedEof));
        }
        assert_eq!(read(Length::Bytes(3), "01", 0), Err(ErrorKind::UnexpectedEof));
    }

    // S9
    #[test]
    fn what_is_no_chunk_is_refused() {
        for text in [
            "x\r\n",
            "\r\n",
            "+4\r\n0123\r\n",
            "-1\r\n",
            "1\r\n01\r\n0\r\n\r\n",
            "ffffffffffffffff\r\n",
            "0x4\r\n0123\r\n",
        ] {
            assert_eq!(read(Length::Chunked, text, 0), Err(ErrorKind::InvalidData), "{text}");
        }
        let long = "1".repeat(LINE_BYTES_MAX + 1);
        assert_eq!(read(Length::Chunked, &long, 0), Err(ErrorKind::InvalidData));
    }
}
