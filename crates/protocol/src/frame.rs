//! Splits a stream of bytes into frames.
//!
//! A connection begins with [`MAGIC`] from the client. Then both sides send frames: four bytes
//! length of the payload (little-endian), one byte type, the payload.

use model::{Code, Failure, Hold};

/// The first bytes that a client sends.
pub const MAGIC: [u8; 8] = *b"SYNCLINE";

/// The largest payload of a frame that either side accepts, in bytes.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

pub(crate) const HEADER_BYTES: usize = 5;

/// One frame, not interpreted yet.
#[derive(Debug, Clone, PartialEq)]
pub struct RawFrame {
    /// The type byte, see `message.rs`.
    pub frame_type: u8,
    /// The payload.
    pub payload: Vec<u8>,
}

impl RawFrame {
    /// Bytes that it has on the wire.
    pub fn wire_bytes(&self) -> usize {
        HEADER_BYTES + self.payload.len()
    }
}

/// Room for bytes whose frame is not known yet.
const BUFFER_BYTES: usize = 16 << 10;

/// Room that is made for a payload before any of it has arrived. More is made as it arrives, so
/// that an announcement alone costs little.
const PAYLOAD_BYTES_AHEAD: usize = 512 << 10;

/// Collects bytes as they arrive and yields whole frames.
///
/// A reader of a socket reads into [`FrameDecoder::room`]: most of a large payload then arrives
/// where it stays.
///
/// Holds at most one incomplete frame of `frame_bytes_max` beyond what was pushed last. If its
/// memory is counted and none is left, [`FrameDecoder::make_room`] returns false, and the received
/// part of the frame can be taken: [`FrameDecoder::take_begun`].
#[derive(Debug)]
pub struct FrameDecoder {
    buffer: Vec<u8>,
    read: usize,
    /// A frame whose header is known; while there is one, `buffer` is empty.
    arriving: Option<Arriving>,
    frame_bytes_max: usize,
    /// The part of a memory budget that the arriving frame uses; none without a budget.
    memory: Option<Hold>,
}

#[derive(Debug)]
struct Arriving {
    frame_type: u8,
    payload: Vec<u8>,
    len: usize,
}

/// A frame that has begun to arrive.
#[derive(Debug)]
pub struct BegunFrame {
    /// The type byte.
    pub frame_type: u8,
    /// What has arrived of the payload.
    pub payload: Vec<u8>,
    /// Bytes of the whole payload.
    pub len: usize,
}

impl Arriving {
    fn missing(&self) -> usize {
        self.len - self.payload.len()
    }
}

impl FrameDecoder {
    /// A decoder that refuses payloads above `frame_bytes_max` before it stores them.
    pub fn new(frame_bytes_max: usize) -> FrameDecoder {
        FrameDecoder { buffer: Vec::new(), read: 0, arriving: None, frame_bytes_max, memory: None }
    }

    /// The same, whose frames take their memory from the budget of `memory` while they arrive.
    pub fn counted(frame_bytes_max: usize, memory: Hold) -> FrameDecoder {
        FrameDecoder { memory: Some(memory), ..FrameDecoder::new(frame_bytes_max) }
    }

    /// Changes the limit, once the peer is known.
    pub fn set_frame_bytes_max(&mut self, frame_bytes_max: usize) {
        self.frame_bytes_max = frame_bytes_max;
    }

    /// The limit.
    pub fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max
    }

    /// Makes room for the next bytes. Returns false if the memory is not sufficient.
    pub fn make_room(&mut self) -> bool {
        let Some(more) = self.lacks() else { return true };
        let has = self.memory.as_mut().is_none_or(|memory| memory.try_grow(more as u64));
        if let Some(arriving) = self.arriving.as_mut().filter(|_| has) {
            arriving.payload.reserve_exact(more);
        }
        has
    }

    /// Bytes of memory that the frame that arrives needs before anything more of it can be read.
    fn lacks(&self) -> Option<usize> {
        let arriving = self.arriving.as_ref()?;
        let len = arriving.payload.len();
        let more = arriving.missing().min(len.max(PAYLOAD_BYTES_AHEAD));
        (len == arriving.payload.capacity()).then_some(more)
    }

    /// The frame that arrives, as far as it has come. What is missing of it has to be read before
    /// the decoder is used again.
    pub fn take_begun(&mut self) -> Option<BegunFrame> {
        let Arriving { frame_type, payload, len } = self.arriving.take()?;
        drop(self.take_memory());
        Some(BegunFrame { frame_type, payload, len })
    }

    /// The part of the memory budget that the last frame used; none without a budget.
    pub fn take_memory(&mut self) -> Option<Hold> {
        self.memory.as_mut().map(Hold::take)
    }

    /// Where the next bytes from the peer are to be appended, and how many at most: at least one.
    pub fn room(&mut self) -> (&mut Vec<u8>, usize) {
        if !self.make_room()
            && let Some(more) = self.lacks()
        {
            // A caller that did not ask before gets the frame too.
            self.memory.iter_mut().for_each(|memory| memory.grow(more as u64));
            self.arriving.iter_mut().for_each(|it| it.payload.reserve_exact(more));
        }
        let (place, missing) = match &mut self.arriving {
            Some(arriving) => {
                let missing = arriving.missing();
                (&mut arriving.payload, missing)
            }
            None => {
                self.buffer.drain(..self.read);
                self.read = 0;
                if self.buffer.len() == self.buffer.capacity() {
                    self.buffer.reserve_exact(BUFFER_BYTES);
                }
                (&mut self.buffer, BUFFER_BYTES)
            }
        };
        let room = place.capacity() - place.len();
        (place, missing.min(room))
    }

    /// Takes bytes from the peer.
    pub fn push(&mut self, mut bytes: &[u8]) {
        if let Some(arriving) = &mut self.arriving {
            let (payload, rest) = bytes.split_at(bytes.len().min(arriving.missing()));
            arriving.payload.extend_from_slice(payload);
            bytes = rest;
        }
        self.compact();
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, `None` when more bytes are needed.
    pub fn next_frame(&mut self) -> Result<Option<RawFrame>, Failure> {
        if let Some(Arriving { frame_type, payload, .. }) =
            self.arriving.take_if(|arriving| arriving.missing() == 0)
        {
            return Ok(Some(RawFrame { frame_type, payload }));
        }
        let unread = &self.buffer[self.read..];
        let Some(header) = unread.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let len = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        if len > self.frame_bytes_max {
            return Err(Failure::new(
                Code::FrameTooLarge,
                format!("a frame of {len} bytes; {} are allowed", self.frame_bytes_max),
            ));
        }
        let frame_type = header[4];
        let rest = &unread[HEADER_BYTES..];
        if let Some(payload) = rest.get(..len) {
            let frame = RawFrame { frame_type, payload: payload.to_vec() };
            self.read += HEADER_BYTES + len;
            return Ok(Some(frame));
        }
        let ahead = len.min(PAYLOAD_BYTES_AHEAD.max(rest.len()));
        let mut room = ahead;
        if let Some(memory) = &mut self.memory
            && !memory.try_grow(ahead as u64)
        {
            // It was read already.
            memory.grow(rest.len() as u64);
            room = rest.len();
        }
        let mut payload = Vec::with_capacity(room);
        payload.extend_from_slice(rest);
        self.arriving = Some(Arriving { frame_type, payload, len });
        self.read = self.buffer.len();
        Ok(None)
    }

    /// Bytes of a frame that were announced and have not come.
    pub fn missing(&self) -> usize {
        self.arriving.as_ref().map_or(0, Arriving::missing)
    }

    /// True when no byte of a further frame was received.
    pub fn is_empty(&self) -> bool {
        self.arriving.is_none() && self.read == self.buffer.len()
    }

    fn compact(&mut self) {
        self.buffer.drain(..self.read);
        self.read = 0;
    }
}

/// Appends the header of a frame; the payload of `payload_len` bytes follows. A payload that no
/// peer would accept is refused, and nothing is appended.
pub(crate) fn write_header(
    out: &mut Vec<u8>,
    frame_type: u8,
    payload_len: usize,
) -> Result<(), Failure> {
    if payload_len > FRAME_BYTES_MAX {
        return Err(Failure::new(
            Code::FrameTooLarge,
            format!("a frame of {payload_len} bytes is to be sent; {FRAME_BYTES_MAX} are allowed"),
        ));
    }
    out.extend_from_slice(&(payload_len as u32).to_le_bytes());
    out.push(frame_type);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Memory;

    fn frame(frame_type: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_header(&mut bytes, frame_type, payload.len()).unwrap();
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

    /// Reads from a stream as from a socket, at most `cut` bytes at a time.
    fn read_frames(mut stream: &[u8], cut: usize, mut each: impl FnMut(RawFrame)) {
        let mut decoder = FrameDecoder::new(10 << 20);
        loop {
            while let Some(frame) = decoder.next_frame().unwrap() {
                each(frame);
            }
            if stream.is_empty() {
                assert!(decoder.is_empty());
                return;
            }
            let (room, most) = decoder.room();
            let capacity = room.capacity();
            assert!(most > 0 && most <= capacity - room.len());
            let (now, rest) = stream.split_at(cut.min(most).min(stream.len()));
            room.extend_from_slice(now);
            assert_eq!(room.capacity(), capacity, "there was room");
            stream = rest;
        }
    }

    #[test]
    fn frames_survive_however_they_are_read() {
        let payloads: Vec<Vec<u8>> = [3, 0, 20_000, 300, 2_000_000, 16_379, 16_384, 1]
            .map(|len| (0..len).map(|n| (n % 251) as u8).collect())
            .into();
        let stream: Vec<u8> =
            payloads.iter().zip(1..).flat_map(|(payload, n)| frame(n, payload)).collect();
        for cut in [1, 7, 1000, 16 << 10, 1 << 20, 100 << 20] {
            let mut frames = Vec::new();
            read_frames(&stream, cut, |frame| frames.push(frame.payload));
            assert!(frames == payloads, "{cut} bytes at a time");
        }
    }

    // S9
    #[test]
    fn a_frame_takes_little_room_before_it_arrives() {
        let mut decoder = FrameDecoder::new(64 << 20);
        decoder.push(&(64u32 << 20).to_le_bytes());
        decoder.push(&[1]);
        assert_eq!(decoder.next_frame().unwrap(), None);
        assert!(decoder.room().0.capacity() <= PAYLOAD_BYTES_AHEAD);
    }

    // S9
    #[test]
    fn a_frame_that_arrives_counts_and_is_taken_as_it_is_where_memory_is_short() {
        let memory = Memory::new(3 << 20);
        let mut decoders: Vec<_> =
            (0..4).map(|_| FrameDecoder::counted(64 << 20, memory.hold())).collect();
        for decoder in &mut decoders {
            decoder.push(&frame(1, &vec![7; 4 << 20])[..1000]);
            assert_eq!(decoder.next_frame().unwrap(), None);
        }
        let mut begun = Vec::new();
        for decoder in &mut decoders {
            while decoder.make_room() {
                let (room, most) = decoder.room();
                let len = room.len();
                room.resize(len + most, 7);
                assert!(memory.used_bytes() <= 3 << 20);
            }
            begun.push(decoder.take_begun().unwrap());
        }
        assert!(begun.iter().all(|it| it.payload.len() < it.len && it.len == 4 << 20));
        assert!(begun[0].payload.len() >= 1 << 20, "the first has more than the others");
        assert_eq!(memory.used_bytes(), 0, "what was taken is counted no more");
        // One that fits counts until it is given away.
        decoders[0].push(&frame(2, &vec![7; 1 << 20]));
        assert_eq!(decoders[0].next_frame().unwrap().unwrap().payload.len(), 1 << 20);
    }

    // S9
    #[test]
    fn a_frame_above_the_limit_is_refused_before_it_is_stored() {
        let mut decoder = FrameDecoder::new(10);
        decoder.push(&[255, 255, 255, 255, 1]);
        assert_eq!(decoder.next_frame().unwrap_err().code(), Code::FrameTooLarge);
    }
}
