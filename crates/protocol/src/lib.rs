//! The wire: frames, messages and their encoding. No I/O (A1), no SQL (A2).
//!
//! `frame.rs` splits bytes into frames, and `message.rs` gives frames their meaning.
//! `docs/internals/protocol.md` defines the protocol and the rules for its changes.

mod compression;
mod digest;
mod frame;
mod message;
mod version;

pub use compression::{Compression, Compressor, Decompressor, PackedRows};
pub use digest::{
    Digester, KEY_DIGEST_BITS, KeyDigest, Ranges, RowDigest, Sum, Sums, read_values,
    write_canonical,
};
pub use frame::{BegunFrame, FRAME_BYTES_MAX, FrameDecoder, MAGIC, RawFrame};
pub use message::{
    Acknowledgement, Authentication, Capabilities, Credential, DownloadBegin, DownloadEnd,
    DownloadMode, EnteredAgain, Failed, FormerWatermark, Hello, LastUpload, LostConflict,
    LostConflicts, Message, Mode, NewPassword, Operation, Parameters, Position, Reject, Rejects,
    RenamedTable, ResumedTable, RowsFrame, SETTLED_REJECTS_MAX, SUMS_MAX, SchemaChange, Segment,
    SettledReject, Settlement, TableDownload, TableQuestion, TableWatermark, UploadBegin,
    UploadCommitted, UploadEnd, UploadState, Verified, Verify, WANTED_ROWS_MAX, WaitingTable,
    Wanted, WantedRow, Welcome,
};

pub use version::{PROTOCOL_VERSION, PROTOCOL_VERSION_MIN, unsupported};

/// An upload of at most this many bytes is sent together with Hello; together with it, it stays
/// below the 64 KiB that a server reads from a peer it does not know yet.
pub const UPLOAD_WITH_HELLO_BYTES_MAX: usize = 40 * 1024;
