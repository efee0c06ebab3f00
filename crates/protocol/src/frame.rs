//! Cuts a stream of bytes into frames.
//!
//! A connection begins with [`MAGIC`] from the client. Then, in both directions, frames:
//! four bytes length of the payload (little-endian), one byte type, the payload.

use model::{Code, Failure};

/// The first bytes that a client sends.
pub const MAGIC: [u8; 8] = *b"SYNCLINE";

/// The largest payload of a frame that either side accepts, in bytes.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

const HEADER_BYTES: usize = 5;

/// One frame, not interpreted yet.
#[derive(Debug, Clone, PartialEq)]
pub struct RawFrame {
    /// The type byte, see `message.rs`.
    pub frame_type: u8,
    /// The payload.
    pub payload: Vec<u8>,
}

/// Collects bytes as they arrive and yields whole frames.
///
/// Holds at most one incomplete frame of `frame_bytes_max` beyond what was pushed last.
#[derive(Debug)]
pub struct FrameDecoder {
    buffer: Vec<u8>,
    read: usize,
    frame_bytes_max: usize,
}

impl FrameDecoder {
    /// A decoder that refuses payloads above `frame_bytes_max` before it stores them.
    pub fn new(frame_bytes_max: usize) -> FrameDecoder {
        FrameDecoder { buffer: Vec::new(), read: 0, frame_bytes_max }
    }

    /// Changes the limit, once the peer is known.
    pub fn set_frame_bytes_max(&mut self, frame_bytes_max: usize) {
        self.frame_bytes_max = frame_bytes_max;
    }

    /// Takes bytes from the peer.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.read > 0 && self.read == self.buffer.len() {
            self.buffer.clear();
            self.read = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, `None` when more bytes are needed.
    pub fn next_frame(&mut self) -> Result<Option<RawFrame>, Failure> {
        let unread = &self.buffer[self.read..];
        let Some(header) = unread.first_chunk::<HEADER_BYTES>() else {
            self.compact();
            return Ok(None);
        };
        let len = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        if len > self.frame_bytes_max {
            return Err(Failure::new(
                Code::FrameTooLarge,
                format!("a frame of {len} bytes; {} are allowed", self.frame_bytes_max),
            ));
        }
        let Some(payload) = unread.get(HEADER_BYTES..HEADER_BYTES + len) else {
            self.compact();
            return Ok(None);
        };
        let frame = RawFrame { frame_type: header[4], payload: payload.to_vec() };
        self.read += HEADER_BYTES + len;
        Ok(Some(frame))
    }

    /// True when no byte of a further frame was received.
    pub fn is_empty(&self) -> bool {
        self.read == self.buffer.len()
    }

    fn compact(&mut self) {
        self.buffer.drain(..self.read);
        self.read = 0;
    }
}

/// Appends the header of a frame; the payload of `payload_len` bytes follows.
pub(crate) fn write_header(out: &mut Vec<u8>, frame_type: u8, payload_len: usize) {
    assert!(payload_len <= FRAME_BYTES_MAX, "writers cut their batches below FRAME_BYTES_MAX");
    out.extend_from_slice(&(payload_len as u32).to_le_bytes());
    out.push(frame_type);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(frame_type: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_header(&mut bytes, frame_type, payload.len());
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn frames_survive_any_cut_of_the_stream() {
        let stream: Vec<u8> = [frame(1, b"abc"), frame(2, b""), frame(3, &[9; 300])].concat();
        for cut in 1..40 {
            let mut decoder = FrameDecoder::new(1000);
            let mut types = Vec::new();
            for part in stream.chunks(cut) {
                decoder.push(part);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    types.push((frame.frame_type, frame.payload.len()));
                }
            }
            assert_eq!(types, [(1, 3), (2, 0), (3, 300)]);
            assert!(decoder.is_empty());
        }
    }

    // S9
    #[test]
    fn a_frame_above_the_limit_is_refused_before_it_is_stored() {
        let mut decoder = FrameDecoder::new(10);
        decoder.push(&[255, 255, 255, 255, 1]);
        assert_eq!(decoder.next_frame().unwrap_err().code(), Code::FrameTooLarge);
    }
}
