//! What a peer sends: frames, and the messages in them.

use model::RowReader;
use protocol::{Compression, Decompressor, FRAME_BYTES_MAX, FrameDecoder, Message};

/// Names of fields.
pub(crate) const WORDS: &[&str] = &[
    "SYNCLINE",
    "\u{1}",
    "\u{5}",
    "version",
    "remote_id",
    "credential",
    "tables",
    "watermark",
    "progress",
    "counter",
    "nonce",
    "schema",
    "columns",
    "key",
    "create",
    "code",
    "message",
    "retry_after_s",
    "rows",
    "capabilities",
    "publications",
    "outcome",
    "mode",
];

/// Compressed rows that announce more are refused, as by a server with a lower limit.
const UNPACKED_BYTES_MAX: usize = 64 << 10;

/// The first byte says in pieces of which size the rest arrives.
pub(crate) fn run(bytes: &[u8]) {
    let Some((size, bytes)) = bytes.split_first() else { return };
    let mut decoder = FrameDecoder::new(FRAME_BYTES_MAX);
    let mut decompressor = Decompressor::default();
    let readable = Compression::capabilities(&Compression::ALL);
    for piece in bytes.chunks(usize::from(*size).max(1)) {
        decoder.push(piece);
        loop {
            let frame = match decoder.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(_) => return,
            };
            match decompressor.decode(frame, UNPACKED_BYTES_MAX, readable) {
                Ok(Some(message)) => check(message),
                Ok(None) => (),
                Err(_) => return,
            }
        }
    }
}

/// What was understood can be said again, and means the same.
fn check(message: Message) {
    if let Message::Rows(rows) = &message {
        let mut reader = RowReader::new(&rows.bytes);
        for _ in 0..rows.count.min(1 << 12) {
            if reader.is_at_end() || reader.value().is_err() {
                break;
            }
        }
    }
    let bytes = message.to_frame().unwrap();
    let mut decoder = FrameDecoder::new(FRAME_BYTES_MAX);
    decoder.push(&bytes);
    let again = Message::decode(decoder.next_frame().unwrap().unwrap()).unwrap().unwrap();
    // As text: a number that is no number is not equal to itself.
    assert_eq!(format!("{message:?}"), format!("{again:?}"));
}
