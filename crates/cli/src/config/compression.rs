//! How rows may be compressed, as the file says it.

use serde::{Deserialize, Serialize};
use server::Compression;

/// A method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Method {
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

/// Unless the file says otherwise.
pub(crate) const DEFAULT: [Method; 2] = [Method::Zstd, Method::Lz4];

impl From<Method> for Compression {
    fn from(method: Method) -> Compression {
        match method {
            Method::Lz4 => Compression::Lz4,
            Method::Zstd => Compression::Zstd,
        }
    }
}
