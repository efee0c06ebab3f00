//! What a server does with the frames of a peer.

use super::*;
use model::{Code, Failure, Memory};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const MASK: [u8; 4] = [7, 0, 255, 130];

/// A frame of a client.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    write_masked_head(&mut frame, first, payload.len());
    frame.extend(payload.iter().zip(MASK.into_iter().cycle()).map(|(byte, key)| byte ^ key));
    frame
}

fn write_masked_head(frame: &mut Vec<u8>, first: u8, len: usize) {
    incoming::write_head(frame, 0, len);
    frame[0] = first;
    frame[1] |= 0x80;
    frame.extend_from_slice(&MASK);
}

/// A stream, and its peer.
async fn connected() -> (WebSocket, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    (WebSocket::new(Box::new(stream), Bytes::new(), Arc::new(Memory::default()).hold()), peer)
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test);
}

/// What is read of these bytes, which come in pieces of this size.
async fn read_of(bytes: &[u8], piece: usize) -> (Vec<u8>, Option<Failure>) {
    let (mut stream, mut peer) = connected().await;
    let writing = async {
        for piece in bytes.chunks(piece) {
            // A server that has seen enough closes.
            let _ = peer.write_all(piece).await;
            tokio::task::yield_now().await;
        }
        let _ = peer.shutdown().await;
    };
    let reading = async {
        let mut read = Vec::new();
        let ended = stream.read_to_end(&mut read).await;
        (read, ended.err().map(|error| error.downcast::<Failure>().unwrap()))
    };
    let (read, ()) = tokio::join!(reading, writing);
    read
}

// S9
#[test]
fn messages_are_bytes_wherever_they_and_their_frames_end() {
    let all: Vec<u8> = (0..70_000_u32).map(|n| (n % 251) as u8).collect();
    let bytes = [
        frame(0x82, &all[..1]),
        frame(0x82, &[]),
        frame(0x8a, b"nobody asked"),
        frame(0x02, &all[1..100]),
        frame(0x89, b"are you there?"),
        frame(0x00, &[]),
        frame(0x80, &all[100..400]),
        frame(0x82, &all[400..]),
        frame(0x88, &[3, 232]),
        b"nothing is heard any more".to_vec(),
    ]
    .concat();
    for piece in [1, 3, 1000, bytes.len()] {
        run(async {
            let (read, failure) = read_of(&bytes, piece).await;
            assert!(failure.is_none() && read == all, "{piece}: {failure:?}");
        });
    }
}

// S9, S11
#[test]
fn what_breaks_the_rules_is_refused_with_a_number() {
    let mut huge = Vec::new();
    write_masked_head(&mut huge, 0x82, usize::MAX);
    let mut large = Vec::new();
    write_masked_head(&mut large, 0x82, (256 << 10) + 1);
    let endless = [frame(0x02, &[1; 60_000]), frame(0x00, &[1; 60_000]).repeat(4)].concat();
    let unmasked = vec![0x82, 1, 7];
    let check = |bytes: &[u8], code: Code| {
        run(async {
            let (_, failure) = read_of(bytes, 1000).await;
            assert_eq!(failure.map(|it| it.code()), Some(code), "{:?}", &bytes[..2]);
        });
    };
    for bytes in [&huge, &large, &endless] {
        check(bytes, Code::WebSocketMessageTooLarge);
    }
    for bytes in [
        unmasked,
        frame(0x81, b"text"),
        frame(0xc2, b"compressed"),
        frame(0x83, b"?"),
        frame(0x8b, b"?"),
        frame(0x80, b"of nothing"),
        [frame(0x02, b"one"), frame(0x82, b"another")].concat(),
        frame(0x09, b"in parts"),
        frame(0x89, &[0; 126]),
    ] {
        check(&bytes, Code::WebSocketBroken);
    }
    run(async {
        let full = frame(0x82, &vec![1; 256 << 10]);
        assert_eq!(read_of(&full, 10_000).await.0.len(), 256 << 10);
    });
}

// S9
#[test]
fn a_flood_of_pings_is_answered_by_the_last_one_and_counts_nothing() {
    run(async {
        let memory = Memory::new(1 << 20);
        let (mut stream, mut peer) = connected().await;
        stream.outgoing = Outgoing::new(memory.hold());
        let pings: Vec<u8> = (0..50_000_u32).flat_map(|n| frame(0x89, &n.to_le_bytes())).collect();
        peer.write_all(&[&pings[..], &frame(0x82, b"x")].concat()).await.ok();
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).await.unwrap(), 1);
        assert!(memory.used_bytes() < 64 << 10, "{}", memory.used_bytes());
    });
}

// S9: what lies between is not to take a remote for dead that collects its changes.
#[test]
fn a_peer_that_is_waited_for_hears_a_ping_every_15_s() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let (mut stream, mut peer) = connected().await;
        let mut byte = [0];
        let waited = tokio::time::timeout(Duration::from_secs(50), stream.read(&mut byte)).await;
        assert!(waited.is_err());
        let mut heard = [0; 100];
        assert_eq!(peer.read(&mut heard).await.unwrap(), 6);
        assert_eq!(heard[..6], [0x89, 0, 0x89, 0, 0x89, 0]);
    });
}

// S11: the peer can read why, and no reset destroys it.
#[test]
fn a_connection_ends_with_a_code_and_takes_what_still_comes() {
    for (bytes, code) in [(frame(0x81, b"text"), 1003_u16), (frame(0x82, b"y"), 1000)] {
        run(async {
            let (mut stream, mut peer) = connected().await;
            peer.write_all(&bytes).await.unwrap();
            let read = stream.read(&mut [0; 8]).await;
            assert_eq!(read.is_ok(), code == 1000);
            stream.write_all(b"why").await.unwrap();
            let ending = async { stream.shutdown().await.unwrap() };
            let hearing = async {
                peer.write_all(&[7; 1000]).await.unwrap();
                let mut heard = Vec::new();
                peer.read_to_end(&mut heard).await.unwrap();
                drop(peer);
                heard
            };
            let ((), heard) = tokio::join!(ending, hearing);
            let end = [&[0x82, 3][..], b"why", &[0x88, 2], &code.to_be_bytes()].concat();
            assert_eq!(heard, end);
            assert!(stream.write_all(b"more").await.is_err());
        });
    }
}
