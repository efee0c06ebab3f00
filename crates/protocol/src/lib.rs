//! The wire: frames, messages and their encoding. No I/O (A1), no SQL (A2).
//!
//! `frame.rs` splits bytes into frames, and `message.rs` gives frames their meaning.
//! `docs/internals/protocol.md` defines the protocol and the rules for its changes.

mod frame;
mod message;

pub use frame::{BegunFrame, FRAME_BYTES_MAX, FrameDecoder, MAGIC, RawFrame};
pub use message::{
    Capabilities, Credential, DownloadBegin, DownloadEnd, DownloadMode, Failed, Hello, Message,
    Mode, Operation, Outcome, Reject, Rejects, RenamedTable, RowsFrame, SchemaChange,
    TableDownload, TableWatermark, UploadBegin, UploadCommitted, UploadEnd, UploadState,
    WaitingTable, Welcome,
};

/// The protocol version this crate speaks. A server also understands the version before.
pub const PROTOCOL_VERSION: u16 = 1;

/// An upload of at most this many bytes is sent together with Hello; together with it, it stays
/// below the 64 KiB that a server reads from a peer it does not know yet.
pub const UPLOAD_WITH_HELLO_BYTES_MAX: usize = 40 * 1024;
