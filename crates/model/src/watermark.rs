//! The point up to which a table's downloads are complete.

use crate::code::Code;
use crate::failure::Failure;
use serde::{Deserialize, Serialize};

/// The point up to which a table's downloads are complete.
///
/// Opaque: only the backend that issued it reads it. All others store and return it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "serde_bytes::ByteBuf", into = "serde_bytes::ByteBuf")]
pub struct Watermark(Vec<u8>);

impl Watermark {
    /// Longest watermark, in bytes.
    pub const BYTES_MAX: usize = 4096;

    /// Accepts up to [`Watermark::BYTES_MAX`] bytes.
    pub fn new(bytes: Vec<u8>) -> Result<Watermark, Failure> {
        if bytes.len() > Watermark::BYTES_MAX {
            return Err(Failure::new(Code::MalformedMessage, "a watermark is too long"));
        }
        Ok(Watermark(bytes))
    }

    /// The bytes, for the backend that issued them and for storage.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<serde_bytes::ByteBuf> for Watermark {
    type Error = Failure;
    fn try_from(bytes: serde_bytes::ByteBuf) -> Result<Watermark, Failure> {
        Watermark::new(bytes.into_vec())
    }
}

impl From<Watermark> for serde_bytes::ByteBuf {
    fn from(watermark: Watermark) -> serde_bytes::ByteBuf {
        serde_bytes::ByteBuf::from(watermark.0)
    }
}
