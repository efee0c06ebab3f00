//! A recorded conversation.

use protocol::{FRAME_BYTES_MAX, FrameDecoder, MAGIC, Message};
use std::io::Read;
use std::net::TcpStream;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// What one side said until the other one spoke.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) from: Side,
    pub(crate) bytes: Vec<u8>,
}

impl Turn {
    pub(crate) fn messages(&self) -> Vec<Message> {
        messages(self.bytes.strip_prefix(&MAGIC).unwrap_or(&self.bytes))
    }
}

/// Whole messages.
pub(crate) fn messages(bytes: &[u8]) -> Vec<Message> {
    let mut decoder = FrameDecoder::new(FRAME_BYTES_MAX);
    decoder.push(bytes);
    let mut messages = Vec::new();
    while let Some(frame) = decoder.next_frame().unwrap() {
        messages.extend(Message::decode(frame).unwrap());
    }
    assert!(decoder.is_empty());
    messages
}

/// Reads so many messages, signs of life not counted; fewer if the peer closes.
pub(crate) fn receive(stream: &mut TcpStream, count: usize) -> Vec<Message> {
    let mut decoder = FrameDecoder::new(FRAME_BYTES_MAX);
    let (mut messages, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        while let Some(frame) = decoder.next_frame().unwrap() {
            let message = Message::decode(frame).unwrap().unwrap();
            if message != Message::Heartbeat {
                messages.push(message);
            }
        }
        if messages.len() >= count {
            assert!(messages.len() == count && decoder.is_empty(), "{messages:?}");
            return messages;
        }
        match stream.read(&mut buffer).unwrap() {
            0 => return messages,
            n => decoder.push(&buffer[..n]),
        }
    }
}

/// The recording of this name.
pub(crate) fn recording(name: &str) -> Vec<Turn> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/wire/version_1/recordings");
    let text = std::fs::read_to_string(format!("{folder}/{name}.json")).unwrap();
    let recording: serde_json::Value = serde_json::from_str(&text).unwrap();
    let turns = recording["turns"].as_array().unwrap();
    let turn = |turn: &serde_json::Value| Turn {
        from: match turn["from"].as_str().unwrap() {
            "client" => Side::Client,
            "server" => Side::Server,
            other => panic!("{other}"),
        },
        bytes: from_hex(turn["bytes"].as_str().unwrap()),
    };
    turns.iter().map(turn).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}
