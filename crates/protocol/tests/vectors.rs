//! Bytes and what they mean: every message, and everything that can be wrong with one.
//!
//! `vectors/` has the cases as JSON, for decoders in any language; its README describes them. Here
//! the decoder of this crate runs them all.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use model::{Code, Failure, RowReader, ValueRef};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use syncline_protocol::{
    Compression, Decompressor, FRAME_BYTES_MAX, FrameDecoder, Message, RowsFrame,
};

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn decode(vector: &Value) -> Result<(Option<String>, Value), Failure> {
    let mut decoder = FrameDecoder::new(FRAME_BYTES_MAX);
    decoder.push(&bytes_of(vector["frame"].as_str().unwrap()));
    let frame = decoder.next_frame()?.expect("a whole frame");
    let readable = Compression::capabilities(&Compression::ALL);
    let Some(message) = Decompressor::default().decode(frame, FRAME_BYTES_MAX, readable)? else {
        return Ok((None, Value::Null));
    };
    let name = snake_case(message.name());
    let fields = match message {
        Message::Hello(body) => json!(body),
        Message::Welcome(body) => json!(body),
        Message::SchemaChange(body) => json!(body),
        Message::UploadBegin(body) => json!(body),
        Message::Rows(rows) => return Ok((Some(name), rows_of(&rows, vector)?)),
        Message::EnteredAgain(body) => json!(body),
        Message::LostConflicts(body) => json!(body),
        Message::UploadEnd(body) => json!(body),
        Message::UploadCommitted(body) => json!(body),
        Message::Rejects(body) => json!(body),
        Message::DownloadBegin(body) => json!(body),
        Message::Position(body) => json!(body),
        Message::DownloadEnd(body) => json!(body),
        Message::Failed(body) => json!(body),
        Message::Acknowledgement(body) => json!(body),
        Message::Verify(body) => json!(body),
        Message::Verified(body) => json!(body),
        Message::Heartbeat => Value::Null,
    };
    Ok((Some(name), fields))
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (at, letter) in name.char_indices() {
        if at > 0 && letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

fn rows_of(frame: &RowsFrame, vector: &Value) -> Result<Value, Failure> {
    let mut reader = RowReader::new(&frame.bytes);
    let mut rows = Vec::new();
    for _ in 0..frame.count {
        let mut row = Vec::new();
        for _ in 0..vector["width"].as_u64().unwrap() {
            row.push(match reader.value()? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(number) => json!(number),
                ValueRef::Real(number) => json!(number),
                ValueRef::Text(text) => json!(str::from_utf8(text).unwrap()),
                ValueRef::Blob(bytes) => json!(bytes),
                ValueRef::Absent => json!("absent"),
            });
        }
        rows.push(row);
    }
    if !reader.is_at_end() {
        return Err(Failure::new(Code::MalformedMessage, "more than the rows"));
    }
    Ok(json!({ "table": frame.table, "operation": frame.operation as u8, "count": frame.count,
        "rows": rows }))
}

/// Whether everything that the vector says is in what was decoded, which may have defaults too.
fn agrees(vector: &Value, decoded: &Value, unknown: &[Value]) -> bool {
    match (vector, decoded) {
        (Value::Object(fields), _) if fields.len() == 1 && fields.contains_key("hex") => {
            json!(bytes_of(fields["hex"].as_str().unwrap())) == *decoded
        }
        (Value::Object(fields), Value::Object(decoded)) => fields.iter().all(|(name, field)| {
            let found = decoded.get(name).unwrap_or(&Value::Null);
            match unknown.contains(&json!(name)) {
                true => found.is_null(),
                false => agrees(field, found, unknown),
            }
        }),
        (Value::Array(values), Value::Array(decoded)) => {
            values.len() == decoded.len()
                && values.iter().zip(decoded).all(|(one, other)| agrees(one, other, unknown))
        }
        _ => vector == decoded,
    }
}

// S11, Trap 18
#[test]
fn every_vector_means_what_it_says() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors");
    let (mut count, mut wrong) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for vector in serde_json::from_str::<Vec<Value>>(&text).unwrap() {
            count += 1;
            let decoded = decode(&vector);
            let unknown = vector["unknown"].as_array().cloned().unwrap_or_default();
            let right = match (&decoded, vector.get("error")) {
                (Err(failure), Some(code)) => json!(failure.code().number()) == *code,
                (Ok((name, fields)), None) => {
                    json!(name) == vector["message"] && agrees(&vector["fields"], fields, &unknown)
                }
                _ => false,
            };
            if !right {
                wrong.push(format!("{}: {decoded:?}", vector["name"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 100, "only {count} vectors");
}

/// The recorded bytes are the guard of the protocol: a program of this version goes on to write and
/// to read them.
// S11, Trap 18
#[test]
fn every_message_is_written_as_it_was_recorded() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/written.json");
    let text = std::fs::read_to_string(path).unwrap();
    let mut kinds = BTreeSet::new();
    for vector in serde_json::from_str::<Vec<Value>>(&text).unwrap() {
        let recorded = bytes_of(vector["frame"].as_str().unwrap());
        let mut decoder = FrameDecoder::new(FRAME_BYTES_MAX);
        decoder.push(&recorded);
        let frame = decoder.next_frame().unwrap().expect("a whole frame");
        kinds.insert(frame.frame_type);
        let message = Message::decode(frame).unwrap().expect("a message");
        assert_eq!(message.to_frame().unwrap(), recorded, "{}", vector["name"]);
    }
    // Compressed rows are made by libraries, whose next versions may pack them otherwise.
    let all = (1..=11).chain([15, 17, 18, 128, 129, 130, 131]);
    assert!(kinds.into_iter().eq(all), "each kind is recorded");
}
