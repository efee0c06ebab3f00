//! Rows that are compressed on their way, each frame alone.
//!
//! The rows of a frame are one block of LZ4 or one frame of Zstandard, without a dictionary and
//! without anything from frames before. What comes in front of them ([`PackedRows`]) is not
//! compressed, so a reader knows whose rows they are, and how many bytes, before it makes room.

pub(crate) mod failure;
mod lz4;
mod zstd;

use failure::not_agreed;

use crate::frame::{HEADER_BYTES, RawFrame};
use crate::message::{Capabilities, Message, RowsFrame};
use model::{Code, Failure};

/// How rows are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Compression {
    /// A block of LZ4: the least work.
    Lz4 = 1,
    /// A frame of Zstandard: the fewest bytes.
    Zstd = 2,
}

impl Compression {
    /// Every method, the one with the fewest bytes first.
    pub const ALL: [Compression; 2] = [Compression::Zstd, Compression::Lz4];

    /// The name in configurations and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }

    /// The same, and the name of no compression.
    pub fn name_of(method: Option<Compression>) -> &'static str {
        method.map_or("none", Compression::name)
    }

    /// The method of this name.
    pub fn from_name(name: &str) -> Option<Compression> {
        Compression::ALL.into_iter().find(|method| method.name() == name)
    }

    /// What a peer says who reads it.
    pub fn capability(self) -> Capabilities {
        match self {
            Compression::Lz4 => Capabilities::LZ4,
            Compression::Zstd => Capabilities::ZSTD,
        }
    }

    /// What a peer says who reads these.
    pub fn capabilities(methods: &[Compression]) -> Capabilities {
        methods.iter().fold(Capabilities::NONE, |all, method| all.and(method.capability()))
    }

    /// The first of `preferred` that a peer with these capabilities reads.
    pub fn agreed(preferred: &[Compression], reader: Capabilities) -> Option<Compression> {
        preferred.iter().find(|method| reader.has(method.capability())).copied()
    }

    fn from_byte(byte: u8) -> Option<Compression> {
        Compression::ALL.into_iter().find(|method| *method as u8 == byte)
    }
}

/// Fewer bytes of rows are sent as they are.
const BYTES_MIN: usize = 128;

/// Compresses the rows of frames. Its memory is kept from one to the next.
#[derive(Debug, Default)]
pub struct Compressor {
    lz4: lz4::Packer,
    zstd: zstd::Packer,
    packed: Vec<u8>,
    frames: u64,
}

impl Compressor {
    /// How many frames it has compressed.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Compresses the rows of a whole frame in its memory. The frame stays as it is if it has no
    /// rows, or few bytes, or would not have a sixteenth fewer.
    pub fn compress(&mut self, method: Compression, frame: &mut Vec<u8>) -> Result<(), Failure> {
        let rows_at = HEADER_BYTES + RowsFrame::PREFIX_BYTES;
        let Some(rows) = frame.get(rows_at..).filter(|rows| rows.len() >= BYTES_MIN) else {
            return Ok(());
        };
        if frame.get(HEADER_BYTES - 1) != Some(&Message::ROWS_TYPE) {
            return Ok(());
        }
        let packed_len = match method {
            Compression::Lz4 => self.lz4.pack(rows, &mut self.packed)?,
            Compression::Zstd => self.zstd.pack(rows, &mut self.packed)?,
        };
        let len = rows.len();
        if packed_len + PackedRows::PREFIX_BYTES - RowsFrame::PREFIX_BYTES > len - len / 16 {
            return Ok(());
        }
        let payload_len = (PackedRows::PREFIX_BYTES + packed_len) as u32;
        frame.truncate(rows_at);
        frame[..HEADER_BYTES - 1].copy_from_slice(&payload_len.to_le_bytes());
        frame[HEADER_BYTES - 1] = Message::PACKED_ROWS_TYPE;
        frame.push(method as u8);
        frame.extend_from_slice(&(len as u32).to_le_bytes());
        frame.extend_from_slice(&self.packed[..packed_len]);
        self.frames += 1;
        // Whoever keeps the frame counts what it takes.
        frame.shrink_to_fit();
        Ok(())
    }
}

/// The payload of a frame with compressed rows: what a [`RowsFrame`] has before its rows, the
/// method (1 byte), the bytes of the rows when they are unpacked (4 bytes), then the packed rows.
#[derive(Debug, Clone, Copy)]
pub struct PackedRows<'a> {
    prefix: &'a [u8],
    method: Compression,
    len: usize,
    packed: &'a [u8],
}

impl<'a> PackedRows<'a> {
    /// Bytes before the packed rows.
    pub const PREFIX_BYTES: usize = RowsFrame::PREFIX_BYTES + 5;

    /// Reads what is in front of the packed rows, and refuses more than `frame_bytes_max` bytes,
    /// and what no packed rows of that length can become.
    pub fn parse(
        payload: &'a [u8],
        frame_bytes_max: usize,
        readable: Capabilities,
    ) -> Result<PackedRows<'a>, Failure> {
        RowsFrame::split(payload)?;
        let (prefix, rest) = payload.split_at(RowsFrame::PREFIX_BYTES);
        let Some((&[method, a, b, c, d], packed)) = rest.split_first_chunk::<5>() else {
            return Err(Failure::new(Code::MalformedMessage, "packed rows are too short"));
        };
        let method = Compression::from_byte(method)
            .filter(|method| readable.has(method.capability()))
            .ok_or_else(|| not_agreed(&format!("method {method}")))?;
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        if len > frame_bytes_max.saturating_sub(RowsFrame::PREFIX_BYTES) {
            let message = format!("rows of {len} bytes in a frame; {frame_bytes_max} are allowed");
            return Err(Failure::new(Code::FrameTooLarge, message));
        }
        match method {
            Compression::Lz4 => lz4::check(packed, len)?,
            Compression::Zstd => zstd::check(packed, len)?,
        }
        Ok(PackedRows { prefix, method, len, packed })
    }

    /// How they are packed.
    pub fn method(&self) -> Compression {
        self.method
    }

    /// Bytes of the frame's payload when it is unpacked.
    pub fn unpacked_bytes(&self) -> usize {
        RowsFrame::PREFIX_BYTES + self.len
    }
}

/// Unpacks compressed rows. Its memory is kept from one frame to the next; unpacking takes none
/// beside that of the rows.
#[derive(Debug, Default)]
pub struct Decompressor {
    zstd: zstd::Unpacker,
    method: Option<Compression>,
}

impl Decompressor {
    /// How the last rows were packed; none where there were none.
    pub fn method(&self) -> Option<Compression> {
        self.method
    }

    /// The frame as its sender had it.
    pub fn unpack(&mut self, rows: PackedRows<'_>) -> Result<RawFrame, Failure> {
        let mut payload = vec![0; rows.unpacked_bytes()];
        let (prefix, place) = payload.split_at_mut(RowsFrame::PREFIX_BYTES);
        prefix.copy_from_slice(rows.prefix);
        self.fill(rows, place)?;
        Ok(RawFrame { frame_type: Message::ROWS_TYPE, payload })
    }

    /// The message of a frame whose rows may be compressed in a `readable` way; `None` for an
    /// optional type that this version does not know.
    pub fn decode(
        &mut self,
        frame: RawFrame,
        frame_bytes_max: usize,
        readable: Capabilities,
    ) -> Result<Option<Message>, Failure> {
        if frame.frame_type != Message::PACKED_ROWS_TYPE {
            return Message::decode(frame);
        }
        let rows = PackedRows::parse(&frame.payload, frame_bytes_max, readable)?;
        let (table, operation, count) = RowsFrame::split(&frame.payload)?;
        let mut bytes = vec![0; rows.len];
        self.fill(rows, &mut bytes)?;
        Ok(Some(Message::Rows(RowsFrame { table, operation, count, bytes })))
    }

    fn fill(&mut self, rows: PackedRows<'_>, place: &mut [u8]) -> Result<(), Failure> {
        self.method = Some(rows.method);
        match rows.method {
            Compression::Lz4 => lz4::unpack(rows.packed, place),
            Compression::Zstd => self.zstd.unpack(rows.packed, place),
        }
    }
}

#[cfg(test)]
mod tests;
