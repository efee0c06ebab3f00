//! The proofs of a remote towards the center: a secret and a receipt.

use crate::code::Code;
use crate::failure::Failure;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A remote file draws it once and shows it only to the server. It distinguishes the file from
/// others with the same remote ID. A copied file has the same secret.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "serde_bytes::ByteBuf", into = "serde_bytes::ByteBuf")]
pub struct FileSecret([u8; 16]);

impl FileSecret {
    /// Takes bytes that were drawn at random.
    pub fn new(bytes: [u8; 16]) -> FileSecret {
        FileSecret(bytes)
    }

    /// Understands stored bytes.
    pub fn from_slice(bytes: &[u8]) -> Result<FileSecret, Failure> {
        let bytes = bytes.try_into().map_err(|_| {
            Failure::new(Code::MalformedMessage, "the secret of a file is not 16 bytes long")
        })?;
        Ok(FileSecret(bytes))
    }

    /// The bytes, for the digest at the center and for storage at the remote.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for FileSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Secrets never reach a log.
        f.write_str("FileSecret(…)")
    }
}

impl TryFrom<serde_bytes::ByteBuf> for FileSecret {
    type Error = Failure;
    fn try_from(bytes: serde_bytes::ByteBuf) -> Result<FileSecret, Failure> {
        FileSecret::from_slice(&bytes)
    }
}

impl From<FileSecret> for serde_bytes::ByteBuf {
    fn from(secret: FileSecret) -> serde_bytes::ByteBuf {
        serde_bytes::ByteBuf::from(secret.0.to_vec())
    }
}

/// A signature of the consolidated database that a synchronization took place there. It is the only
/// data of a remote that proves anything about the center (trap 30).
///
/// Opaque: only the backend that issued it reads it. All others store and return it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "serde_bytes::ByteBuf", into = "serde_bytes::ByteBuf")]
pub struct Receipt(Vec<u8>);

impl Receipt {
    /// Longest receipt, in bytes.
    pub const BYTES_MAX: usize = 256;

    /// Accepts up to [`Receipt::BYTES_MAX`] bytes.
    pub fn new(bytes: Vec<u8>) -> Result<Receipt, Failure> {
        if bytes.len() > Receipt::BYTES_MAX {
            return Err(Failure::new(Code::MalformedMessage, "a receipt is too long"));
        }
        Ok(Receipt(bytes))
    }

    /// The bytes, for the backend that issued them and for storage.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<serde_bytes::ByteBuf> for Receipt {
    type Error = Failure;
    fn try_from(bytes: serde_bytes::ByteBuf) -> Result<Receipt, Failure> {
        Receipt::new(bytes.into_vec())
    }
}

impl From<Receipt> for serde_bytes::ByteBuf {
    fn from(receipt: Receipt) -> serde_bytes::ByteBuf {
        serde_bytes::ByteBuf::from(receipt.0)
    }
}
