//! Frames of Zstandard.

use super::failure::broken;
use model::{Code, Failure};
use zstd_safe::{CCtx, CParameter, DCtx};

/// More work than this makes rows hardly smaller.
const LEVEL: i32 = 1;

/// Bytes of a window, as a power of two. A reader that keeps a window needs no more.
const WINDOW_LOG_MAX: u32 = 23;

/// A block has at most so many bytes …
const BLOCK_BYTES_MAX: usize = 128 << 10;

/// … and takes at least so many.
const PACKED_BLOCK_BYTES_MIN: usize = 4;

/// Of every frame, little-endian.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

#[derive(Default)]
pub(super) struct Packer(Option<CCtx<'static>>);

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Packer")
    }
}

impl Packer {
    /// Packs into the front of `packed`; yields how many bytes.
    pub(super) fn pack(&mut self, rows: &[u8], packed: &mut Vec<u8>) -> Result<usize, Failure> {
        let context = match &mut self.0 {
            Some(context) => context,
            none => none.insert(prepared()?),
        };
        packed.clear();
        packed.reserve(zstd_safe::compress_bound(rows.len()));
        context.compress2(packed, rows).map_err(bug)
    }
}

fn prepared() -> Result<CCtx<'static>, Failure> {
    let mut context = CCtx::try_create().ok_or_else(short)?;
    context.set_parameter(CParameter::CompressionLevel(LEVEL)).map_err(bug)?;
    Ok(context)
}

#[derive(Default)]
pub(super) struct Unpacker(Option<DCtx<'static>>);

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unpacker")
    }
}

impl Unpacker {
    /// Unpacks into its place, which serves as the window: nothing else is allocated.
    pub(super) fn unpack(&mut self, packed: &[u8], place: &mut [u8]) -> Result<(), Failure> {
        let context = match &mut self.0 {
            Some(context) => context,
            none => none.insert(DCtx::try_create().ok_or_else(short)?),
        };
        let len = context
            .decompress(place, packed)
            .map_err(|code| broken(zstd_safe::get_error_name(code)))?;
        match len == place.len() {
            true => Ok(()),
            false => Err(broken("there are fewer bytes than were announced")),
        }
    }
}

/// Refuses what is not one whole frame of `len` bytes, and what not every reader can take, before
/// room is made.
pub(super) fn check(packed: &[u8], len: usize) -> Result<(), Failure> {
    let Some((&descriptor, rest)) = packed.strip_prefix(&MAGIC).and_then(<[u8]>::split_first)
    else {
        return Err(broken("it is no frame of Zstandard"));
    };
    match zstd_safe::get_frame_content_size(packed) {
        Ok(Some(size)) if size == len as u64 => {}
        _ => return Err(broken("the frame does not say so many bytes as were announced")),
    }
    let is_single = descriptor & 0x20 != 0;
    let window = match (is_single, rest.first()) {
        (true, _) => len as u64,
        (false, Some(byte)) => {
            let base = 1u64 << (10 + (byte >> 3));
            base + base / 8 * u64::from(byte & 7)
        }
        (false, None) => return Err(broken("the header of the frame is cut")),
    };
    if window > 1 << WINDOW_LOG_MAX {
        let message = format!("a window of {window} bytes; {} are allowed", 1 << WINDOW_LOG_MAX);
        return Err(Failure::new(Code::CompressionWindow, message));
    }
    if descriptor & 3 != 0 {
        return Err(Failure::new(Code::CompressionWindow, "a frame that needs a dictionary"));
    }
    if len.div_ceil(BLOCK_BYTES_MAX).saturating_mul(PACKED_BLOCK_BYTES_MIN) > packed.len() {
        return Err(broken("no frame of Zstandard has so many bytes"));
    }
    match zstd_safe::find_frame_compressed_size(packed) {
        Ok(whole) if whole == packed.len() => Ok(()),
        Ok(_) => Err(broken("something follows the frame")),
        Err(code) => Err(broken(zstd_safe::get_error_name(code))),
    }
}

fn short() -> Failure {
    Failure::new(Code::MemoryShort, "there is no memory to compress with")
}

fn bug(code: usize) -> Failure {
    let name = zstd_safe::get_error_name(code);
    Failure::new(Code::Bug, format!("rows do not compress: {name}"))
}
