//! The wire: frames, messages and their encoding. No I/O (A1), no SQL (A2).
//!
//! `frame.rs` splits bytes into frames, and `message.rs` gives frames their meaning.
//! `docs/internals/protocol.md` defines the protocol and the rules for its changes.

mod compression;
mod frame;
mod message;
mod version;

pub use compression::{Compression, Compressor, Decompressor, PackedRows};
pub use frame::{BegunFrame, FRAME_BYTES_MAX, FrameDecoder, MAGIC, RawFrame};
pub use message::{
    Capabilities, Credential, DownloadBegin, DownloadEnd, DownloadMode, Failed, FormerWatermark,
    Hello, LastUpload, Message, Mode, Operation, Parameters, Reject, Rejects, RenamedTable,
    RowsFrame, SchemaChange, TableDownload, TableWatermark, UploadBegin, UploadCommitted,
    UploadEnd, UploadState, WaitingTable, Welcome,
};

pub use version::{PROTOCOL_VERSION, PROTOCOL_VERSION_MIN, fallback, unsupported};

/// An upload of at most this many bytes is sent together with Hello; together with it, it stays
/// below the 64 KiB that a server reads from a peer it does not know yet.
pub const UPLOAD_WITH_HELLO_BYTES_MAX: usize = 40 * 1024;
