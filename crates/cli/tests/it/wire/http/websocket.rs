//! What only WebSocket knows: its handshake, its frames, and how it ends.

use super::raw::Raw;
use super::{LISTEN, PROGRAM, SHOP, body, ping};
use harness::{World, hello};
use protocol::{Message, Mode};

const KEY: &str = "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// A request for WebSocket, and what is sent behind it without waiting.
fn upgrade(headers: &str, frames: &[u8]) -> Vec<u8> {
    let head = format!(
        "GET /base/path/sync HTTP/1.1\r\nhost: x\r\nconnection: keep-alive, Upgrade\r\n\
         upgrade: websocket\r\n{headers}\r\n"
    );
    [head.as_bytes(), frames].concat()
}

/// A frame of a client, with a mask that changes nothing.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        len @ 0..=125 => frame.push(0x80 | len as u8),
        len => {
            frame.push(0x80 | 126);
            frame.extend(u16::try_from(len).unwrap().to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend_from_slice(payload);
    frame
}

/// What a server says over WebSocket: its messages, and what it closes with.
fn converse(url: &str, frames: &[u8]) -> (Vec<Message>, Option<u16>) {
    let mut raw = Raw::ask(url, &upgrade(KEY, frames));
    assert_eq!(raw.status, 101, "{raw:?}");
    assert_eq!(raw.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    let frames = std::mem::take(&mut raw.body);
    let (mut rest, mut closed) = (&frames[..], None);
    while let [first, len, tail @ ..] = rest {
        let (len, tail) = match len {
            126 => (usize::from(u16::from_be_bytes([tail[0], tail[1]])), &tail[2..]),
            len => (usize::from(*len), tail),
        };
        let (payload, after) = tail.split_at(len);
        match first {
            0x82 => raw.body.extend_from_slice(payload),
            0x88 => closed = Some(u16::from_be_bytes([payload[0], payload[1]])),
            0x89 | 0x8a => {}
            other => panic!("{other:x}"),
        }
        rest = after;
    }
    (raw.messages(), closed)
}

fn world() -> World {
    let world = World::new(PROGRAM, SHOP);
    world.configure(
        "allowed_origins = [\"https://app.example\"]\nhello_timeout_s = 2\nidle_timeout_s = 2",
    );
    world.add_user("ann");
    world
}

// S1, S11: the same listener has both, and messages end wherever their sender likes.
#[test]
fn a_conversation_crosses_in_messages_of_any_size() {
    let world = world();
    let server = world.serve_at(LISTEN);
    let ping = ping("ann", "ann-password");
    for size in [1, 7, 125, 126, ping.len()] {
        let messages: Vec<u8> = ping.chunks(size).flat_map(|piece| frame(0x82, piece)).collect();
        let (heard, closed) = converse(&server.url, &messages);
        assert!(matches!(heard[..], [Message::Welcome(_)]), "{heard:?}");
        assert_eq!(closed, Some(1000), "{size}");
    }
    let (begin, end) = ping.split_at(10);
    let parts = [frame(0x02, begin), frame(0x89, b"?"), frame(0x80, end)].concat();
    assert!(matches!(converse(&server.url, &parts).0[..], [Message::Welcome(_)]));
    server.stop();
}

// S9, S11
#[test]
fn what_is_no_websocket_of_ours_is_refused_with_a_number_and_a_code() {
    let world = world();
    let server = world.serve_at(LISTEN);
    let begun = frame(0x82, &ping("ann", "ann-password")[..20]);
    let long = body(protocol::Hello {
        client: "x".repeat(100_000),
        mode: Mode::Ping,
        ..hello("ann", "r")
    });
    let long: Vec<u8> = long.chunks(9_000).flat_map(|piece| frame(0x82, piece)).collect();
    let huge = [0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    for (frames, code, close) in [
        ([&begun[..], &frame(0x81, b"text")].concat(), 6020, 1003),
        ([&begun[..], &[0x82, 1, 7]].concat(), 6020, 1002),
        ([&begun[..], &frame(0xc2, b"compressed")].concat(), 6020, 1002),
        ([&begun[..], b"GET / HTTP/1.1\r\n"].concat(), 6020, 1002),
        ([&begun[..], &huge].concat(), 6021, 1009),
        (long, 1004, 1000),
        (frame(0x82, b"GET / HTTP/1.1"), 1001, 1000),
        (begun.clone(), 1007, 1000),
    ] {
        let (heard, closed) = converse(&server.url, &frames);
        match &heard[..] {
            [Message::Failed(failed)] => assert_eq!(failed.code, code, "{heard:?}"),
            other => panic!("{code}: {other:?}"),
        }
        assert_eq!(closed, Some(close), "{code}");
    }
    assert!(!server.log().contains("panicked"));
    server.stop();
}

// S7: a page of somebody else must not synchronize; who sends no `Origin` is no page.
#[test]
fn a_handshake_needs_a_key_a_version_and_a_page_that_may() {
    let world = world();
    let server = world.serve_at(LISTEN);
    let status = |headers: &str| Raw::ask(&server.url, &upgrade(headers, b"")).status;
    assert_eq!(status(KEY), 101);
    assert_eq!(status(&format!("{KEY}origin: https://app.example\r\n")), 101);
    assert_eq!(status(&format!("{KEY}origin: https://x\r\n")), 101, "its own");
    assert_eq!(status(&format!("{KEY}origin: https://evil.example\r\n")), 403);
    assert_eq!(status(&format!("{KEY}origin: null\r\n")), 403);
    let old = KEY.replace("13", "8");
    let refused = Raw::ask(&server.url, &upgrade(&old, b""));
    assert_eq!((refused.status, refused.header("sec-websocket-version")), (426, Some("13")));
    assert_eq!(status("sec-websocket-version: 13\r\n"), 400);
    assert_eq!(status("sec-websocket-version: 13\r\nsec-websocket-key: short\r\n"), 400);
    server.stop();
}
