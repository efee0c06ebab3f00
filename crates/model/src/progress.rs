//! What both sides have agreed on: progress, counter, nonce, watermark.

use crate::code::Code;
use crate::failure::Failure;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Numbers the uploads of one remote. Grows, with gaps; a number is never reused for other
/// content (trap 6). Zero means that nothing was uploaded yet.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Progress(pub i64);

/// Counts the synchronizations of one remote in which the server handed out watermarks.
///
/// A remote that is ahead of the server proves that the consolidated database was restored
/// (trap 3); one that is lower, without a nonce that explains it, is a copied file (trap 13).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Counter(pub i64);

/// Random mark of one attempt to synchronize: tells a lost answer from a copied file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nonce(pub i64);

/// Random identity of a consolidated database, made once by the first `deploy`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DatabaseId(pub String);

impl fmt::Display for DatabaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

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
