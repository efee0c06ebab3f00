//! What a frame means. One file per part of the conversation under `message/`.
//!
//! Control messages are MessagePack maps with named fields: a reader ignores fields it does not
//! know and takes defaults for those it misses, so both sides may grow. Rows travel in their own
//! compact form ([`RowsFrame`]).
//!
//! | type | message | from | | type | message | from |
//! |---|---|---|---|---|---|---|
//! | 1 | Hello | client | | 8 | Rejects | server |
//! | 2 | Welcome | server | | 9 | DownloadBegin | server |
//! | 3 | SchemaChange | server | | 10 | DownloadEnd | server |
//! | 4 | UploadBegin | client | | 11 | Failed | server |
//! | 5 | Rows | both | | 12..=14 | reserved: push, value in parts, origin | |
//! | 6 | UploadEnd | client | | 128 | Heartbeat | both |
//! | 7 | UploadCommitted | server | | 129 | Position | server |
//! | 16 | Rows, compressed ([`crate::PackedRows`]) | both | | 17 | Verify | client |
//! | 15 | Acknowledgement | client | | 18 | Verified | server |
//! | 131 | EnteredAgain | client | | 130 | LostConflicts | server |
//! | 132.. | optional: skipped when unknown | | | | |

mod acknowledgement;
mod capabilities;
mod download;
mod failed;
mod hello;
mod new_password;
mod parameters;
mod rows;
mod upload;
mod verify;
mod welcome;

pub use acknowledgement::Acknowledgement;
pub use capabilities::Capabilities;
pub use download::{
    DownloadBegin, DownloadEnd, DownloadMode, LostConflict, LostConflicts, Position, Reject,
    Rejects, ResumedTable, Segment, TableDownload,
};
pub use failed::Failed;
use hello::Greeting;
pub use hello::{
    Credential, FormerWatermark, Hello, LastUpload, Mode, SETTLED_REJECTS_MAX, SettledReject,
    Settlement, TableWatermark, WANTED_ROWS_MAX, WantedRow,
};
pub use new_password::NewPassword;
pub use parameters::Parameters;
pub use rows::{Operation, RowsFrame};
pub use upload::{EnteredAgain, UploadBegin, UploadCommitted, UploadEnd};
pub use verify::{SUMS_MAX, TableQuestion, Verified, Verify, Wanted};
pub use welcome::{Authentication, RenamedTable, SchemaChange, UploadState, WaitingTable, Welcome};

use crate::compression::failure::not_agreed;
use crate::frame::{RawFrame, write_header};
use crate::version::{PROTOCOL_VERSION, unsupported};
use model::{Code, Failure};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How deep maps and arrays may be nested, also in unknown fields. Each level needs stack, and a
/// peer may send them before it is authenticated. The messages of this program have six.
const DEPTH_MAX: usize = 32;

/// The frame type of [`Message::Position`].
const POSITION_TYPE: u8 = 129;

/// The frame type of [`Message::LostConflicts`].
const LOST_CONFLICTS_TYPE: u8 = 130;

/// The frame type of [`Message::EnteredAgain`].
const ENTERED_AGAIN_TYPE: u8 = 131;

/// Everything that either side can say.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Who wants what; opens the conversation.
    Hello(Box<Hello>),
    /// The server's answer, where one is needed before the upload.
    Welcome(Welcome),
    /// The tables as the server publishes them now.
    SchemaChange(Box<SchemaChange>),
    /// An upload follows.
    UploadBegin(UploadBegin),
    /// Rows of one table.
    Rows(RowsFrame),
    /// Some of its updates are new rows.
    EnteredAgain(EnteredAgain),
    /// The upload is complete.
    UploadEnd(UploadEnd),
    /// The upload is durable at the consolidated database.
    UploadCommitted(UploadCommitted),
    /// Rows that the consolidated database refused.
    Rejects(Rejects),
    /// Rows of the remote that lost conflicts.
    LostConflicts(LostConflicts),
    /// A download follows.
    DownloadBegin(DownloadBegin),
    /// Rows of a table are complete up to here.
    Position(Position),
    /// The download is complete.
    DownloadEnd(DownloadEnd),
    /// The synchronization ends here.
    Failed(Failed),
    /// The download is applied.
    Acknowledgement(Acknowledgement),
    /// Which rows should the remote have?
    Verify(Verify),
    /// A part of the answer to that.
    Verified(Verified),
    /// Still there. Sent every 15 seconds while the other side has to wait.
    Heartbeat,
}

impl Message {
    /// The frame type of [`Message::Rows`], for readers that keep such frames as they are.
    pub const ROWS_TYPE: u8 = 5;

    /// The frame type of rows that are compressed, which a [`crate::Decompressor`] decodes.
    pub const PACKED_ROWS_TYPE: u8 = 16;

    /// Frame types from here on are optional: a reader that does not know them skips them.
    pub const OPTIONAL_TYPES: u8 = 128;

    /// Appends the message as one frame, or nothing where it is larger than any peer accepts.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Failure> {
        match self {
            Message::Hello(body) => write_body(out, 1, body),
            Message::Welcome(body) => write_body(out, 2, body),
            Message::SchemaChange(body) => write_body(out, 3, body),
            Message::UploadBegin(body) => write_body(out, 4, body),
            Message::Rows(rows) => {
                write_header(out, Message::ROWS_TYPE, rows.payload_len())?;
                rows.write_payload(out);
                Ok(())
            }
            Message::UploadEnd(body) => write_body(out, 6, body),
            Message::UploadCommitted(body) => write_body(out, 7, body),
            Message::Rejects(body) => write_body(out, 8, body),
            Message::DownloadBegin(body) => write_body(out, 9, body),
            Message::DownloadEnd(body) => write_body(out, 10, body),
            Message::Failed(body) => write_body(out, 11, body),
            Message::Acknowledgement(body) => write_body(out, 15, body),
            Message::Verify(body) => write_body(out, 17, body),
            Message::Verified(body) => write_body(out, 18, body),
            Message::Heartbeat => write_header(out, Message::OPTIONAL_TYPES, 0),
            Message::Position(body) => write_body(out, POSITION_TYPE, body),
            Message::EnteredAgain(body) => write_body(out, ENTERED_AGAIN_TYPE, body),
            Message::LostConflicts(body) => write_body(out, LOST_CONFLICTS_TYPE, body),
        }
    }

    /// The message as one frame.
    pub fn to_frame(&self) -> Result<Vec<u8>, Failure> {
        let mut out = Vec::new();
        self.encode(&mut out)?;
        Ok(out)
    }

    /// Interprets a frame; `None` for an optional type that this version does not know.
    pub fn decode(frame: RawFrame) -> Result<Option<Message>, Failure> {
        let payload = frame.payload.as_slice();
        Ok(Some(match frame.frame_type {
            1 => {
                let hello: Box<Hello> = read_body(payload).map_err(|it| of_version(payload, it))?;
                hello.check()?;
                Message::Hello(hello)
            }
            2 => Message::Welcome(read_body(payload)?),
            3 => Message::SchemaChange(read_body(payload)?),
            4 => {
                let begin: UploadBegin = read_body(payload)?;
                begin.check()?;
                Message::UploadBegin(begin)
            }
            Message::ROWS_TYPE => Message::Rows(RowsFrame::from_payload(frame.payload)?),
            6 => Message::UploadEnd(read_body(payload)?),
            7 => Message::UploadCommitted(read_body(payload)?),
            8 => Message::Rejects(read_body(payload)?),
            9 => Message::DownloadBegin(read_body(payload)?),
            10 => Message::DownloadEnd(read_body(payload)?),
            11 => Message::Failed(read_body(payload)?),
            15 => Message::Acknowledgement(read_body(payload)?),
            Message::PACKED_ROWS_TYPE => return Err(not_agreed("where they are not read")),
            17 => {
                let verify: Verify = read_body(payload)?;
                verify.check()?;
                Message::Verify(verify)
            }
            18 => Message::Verified(read_body(payload)?),
            Message::OPTIONAL_TYPES => Message::Heartbeat,
            POSITION_TYPE => Message::Position(read_body(payload)?),
            ENTERED_AGAIN_TYPE => Message::EnteredAgain(read_body(payload)?),
            LOST_CONFLICTS_TYPE => Message::LostConflicts(read_body(payload)?),
            unknown if unknown > Message::OPTIONAL_TYPES => return Ok(None),
            unknown => {
                return Err(Failure::new(
                    Code::UnexpectedMessage,
                    format!("a message of unknown type {unknown}"),
                ));
            }
        }))
    }

    /// The name of the message, for failures and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Message::Hello(_) => "Hello",
            Message::Welcome(_) => "Welcome",
            Message::SchemaChange(_) => "SchemaChange",
            Message::UploadBegin(_) => "UploadBegin",
            Message::Rows(_) => "Rows",
            Message::EnteredAgain(_) => "EnteredAgain",
            Message::LostConflicts(_) => "LostConflicts",
            Message::UploadEnd(_) => "UploadEnd",
            Message::UploadCommitted(_) => "UploadCommitted",
            Message::Rejects(_) => "Rejects",
            Message::DownloadBegin(_) => "DownloadBegin",
            Message::Position(_) => "Position",
            Message::DownloadEnd(_) => "DownloadEnd",
            Message::Failed(_) => "Failed",
            Message::Acknowledgement(_) => "Acknowledgement",
            Message::Verify(_) => "Verify",
            Message::Verified(_) => "Verified",
            Message::Heartbeat => "Heartbeat",
        }
    }

    /// The failure of a peer that said this where it makes no sense.
    pub fn unexpected(&self, expected: &str) -> Failure {
        Failure::new(
            Code::UnexpectedMessage,
            format!("{} where {expected} was expected", self.name()),
        )
    }
}

fn write_body<T: Serialize>(out: &mut Vec<u8>, frame_type: u8, body: &T) -> Result<(), Failure> {
    // Serialization into memory fails only for types without a MessagePack form; these have one.
    let bytes = rmp_serde::to_vec_named(body)
        .map_err(|error| Failure::new(Code::Bug, "a message does not encode").source(error))?;
    write_header(out, frame_type, bytes.len())?;
    out.extend_from_slice(&bytes);
    Ok(())
}

/// A body that cannot be decoded is refused with a message that has none of its values: a password
/// in the wrong place would come back to its sender, and into the log.
fn read_body<T: DeserializeOwned>(payload: &[u8]) -> Result<T, Failure> {
    let mut decoder = rmp_serde::Deserializer::from_read_ref(payload);
    decoder.set_max_depth(DEPTH_MAX);
    T::deserialize(&mut decoder).map_err(|error| {
        let why = without_values(&error.to_string());
        Failure::new(Code::MalformedMessage, format!("a message does not decode{why}"))
    })
}

/// Why a Hello does not decode: it may be of a version that has other fields.
fn of_version(payload: &[u8], failure: Failure) -> Failure {
    match read_body::<Greeting>(payload) {
        Ok(greeting) if greeting.protocol_version > PROTOCOL_VERSION => {
            unsupported(greeting.protocol_version)
        }
        _ => failure,
    }
}

/// What a decoder says was expected, without what it found. It quotes each value that it found.
fn without_values(error: &str) -> String {
    if let Some((_, expected)) = error.rsplit_once(", expected ") {
        return format!(": expected {expected}");
    }
    let harmless = error.starts_with("missing field") || !error.contains(['`', '"']);
    if harmless { format!(": {error}") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FrameDecoder;

    fn decode(bytes: &[u8]) -> Result<Option<Message>, Failure> {
        let mut decoder = FrameDecoder::new(1 << 20);
        decoder.push(bytes);
        Message::decode(decoder.next_frame()?.expect("a whole frame"))
    }

    #[test]
    fn messages_come_back_as_they_were() {
        let messages = [
            Message::Heartbeat,
            Message::UploadEnd(UploadEnd { rows: 7 }),
            Message::EnteredAgain(EnteredAgain { table: 1, keys: vec![4, 5] }),
            Message::Failed(Failed::from(&Failure::new(Code::ServerFull, "full").retry_after_s(3))),
            Message::Rows(RowsFrame {
                table: 3,
                operation: Operation::Update,
                count: 1,
                bytes: vec![1, 2, 3],
            }),
        ];
        for message in messages {
            assert_eq!(decode(&message.to_frame().unwrap()).unwrap(), Some(message));
        }
    }

    // S9, S11: it was a panic, which ended the thread that sent.
    #[test]
    fn a_message_that_no_peer_accepts_is_a_failure_and_leaves_nothing_behind() {
        let bytes = vec![0; crate::FRAME_BYTES_MAX];
        let reject = Reject {
            table: 0,
            key: bytes.clone(),
            counter: model::Counter(1),
            code: 7000,
            message: String::new(),
        };
        let rows = RowsFrame { table: 0, operation: Operation::Insert, count: 1, bytes };
        for message in [Message::Rejects(Rejects { rejects: vec![reject] }), Message::Rows(rows)] {
            let mut out = Vec::new();
            let failure = message.encode(&mut out).unwrap_err();
            assert_eq!((failure.code(), out.len()), (Code::FrameTooLarge, 0));
        }
    }

    /// Database errors quote whole values.
    // S9
    #[test]
    fn the_words_of_a_failure_are_cut() {
        let long = || "ä".repeat(1 << 20);
        let failure = Failure::new(Code::ScriptFailed, "it failed").source(long());
        let failure = failure.hint(long()).table(long()).key(long());
        let failed = Failed::from(&failure);
        assert!(failed.message.starts_with("it failed: ää"), "{}", failed.message);
        let texts = [Some(failed.message), failed.hint, failed.table, failed.key];
        for text in texts.map(Option::unwrap) {
            assert!(
                text.len() <= model::MESSAGE_BYTES_MAX && text.ends_with('…'),
                "{}",
                text.len()
            );
        }
        let again = Failure::new(Code::ScriptFailed, long());
        assert!(Failed::from(&again).message.len() <= model::MESSAGE_BYTES_MAX);
        assert!(again.full_message().len() <= 16 << 10, "and in the log");
    }

    // Trap 18
    #[test]
    fn unknown_optional_frames_are_skipped_and_unknown_others_refused() {
        let frame = |frame_type| RawFrame { frame_type, payload: vec![1, 2, 3] };
        assert_eq!(Message::decode(frame(200)).unwrap(), None);
        assert_eq!(Message::decode(frame(99)).unwrap_err().code(), Code::UnexpectedMessage);
    }

    /// The words of a refusal of a message with these fields.
    fn refusal(frame_type: u8, body: &serde_json::Value) -> String {
        let mut out = Vec::new();
        write_body(&mut out, frame_type, body).unwrap();
        let failure = decode(&out).unwrap_err();
        assert_eq!(failure.code(), Code::MalformedMessage);
        failure.full_message()
    }

    fn hello() -> serde_json::Value {
        serde_json::json!({
            "protocol_version": 2, "remote_id": "r", "user": "u",
            "credential": { "password": "open sesame" }, "mode": "full", "progress": 0,
            "outcome": "known", "counter": 0, "nonce_confirmed": 0, "nonce_attempt": 1,
            "upload_follows": false,
        })
    }

    /// A credential of the wrong type came back in the refusal, and stood in the log.
    #[test]
    fn a_refusal_repeats_no_value_of_the_message() {
        let secret = "open sesame, expected by nobody";
        let credentials = [
            serde_json::json!(secret),
            serde_json::json!({ "passwort": secret }),
            serde_json::json!({ secret: "x" }),
            serde_json::json!({ "password": [secret] }),
            serde_json::json!({ "password": { "x": secret } }),
            serde_json::json!({ "password": 4711 }),
            serde_json::json!([secret]),
        ];
        for credential in credentials {
            let mut hello = hello();
            hello["credential"] = credential.clone();
            let refusal = refusal(1, &hello);
            assert!(!refusal.contains("sesame") && !refusal.contains("4711"), "{refusal}");
        }
        let mut hello = hello();
        hello["mode"] = serde_json::json!(secret);
        let refused = refusal(1, &hello);
        assert!(refused.contains("`download_only`") && !refused.contains("sesame"), "{refused}");
        let refused = refusal(6, &serde_json::json!({ "row": secret }));
        assert_eq!(refused, "a message does not decode: missing field `rows`");
    }

    // Trap 18: a Hello of the future was malformed, and its sender did not learn why.
    #[test]
    fn a_hello_of_a_later_version_is_refused_for_its_version_whatever_its_fields_are() {
        let decoded = |version: u16| {
            let body = serde_json::json!({ "protocol_version": version, "who": ["me"] });
            let mut out = Vec::new();
            write_body(&mut out, 1, &body).unwrap();
            decode(&out).unwrap_err()
        };
        let refused = decoded(PROTOCOL_VERSION + 1);
        assert_eq!(refused.code(), Code::UnsupportedVersion);
        let failed = Failed::from(&refused);
        let spoken = Some(PROTOCOL_VERSION);
        assert_eq!((failed.min_version, failed.max_version), (spoken, spoken));
        assert_eq!(decoded(PROTOCOL_VERSION).code(), Code::MalformedMessage);
    }

    #[test]
    fn numbers_that_no_client_has_are_refused() {
        for (field, number) in
            [("progress", -1), ("counter", -1), ("attempt", -1), ("nonce_attempt", 0)]
        {
            let mut hello = hello();
            hello[field] = serde_json::json!(number);
            let refused = refusal(1, &hello);
            assert!(refused.contains(field), "{refused}");
        }
        for (previous, progress) in [(-1, 0), (3, 2), (i64::MIN, i64::MAX)] {
            let refused =
                refusal(4, &serde_json::json!({ "previous": previous, "progress": progress }));
            assert!(refused.contains("progress"), "{refused}");
        }
        let mut out = Vec::new();
        write_body(&mut out, 1, &hello()).unwrap();
        assert!(matches!(decode(&out), Ok(Some(Message::Hello(_)))));
    }

    // S9
    #[test]
    fn a_message_that_is_nested_without_end_is_refused() {
        // Arrays of one element, in an unknown field.
        let mut payload = vec![0x81, 0xa1, b'x'];
        payload.extend(std::iter::repeat_n(0x91, 1 << 19));
        let failure = Message::decode(RawFrame { frame_type: 6, payload }).unwrap_err();
        assert_eq!(failure.code(), Code::MalformedMessage);
    }

    // Trap 18
    #[test]
    fn a_field_from_the_future_is_ignored_and_a_missing_one_has_its_default() {
        #[derive(Serialize)]
        struct Future {
            rows: u64,
            color: &'static str,
        }
        let mut out = Vec::new();
        write_body(&mut out, 6, &Future { rows: 4, color: "green" }).unwrap();
        assert_eq!(decode(&out).unwrap(), Some(Message::UploadEnd(UploadEnd { rows: 4 })));
    }
}
