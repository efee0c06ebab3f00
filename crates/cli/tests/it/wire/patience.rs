//! How long the server waits for a peer: for as long as bytes move, and not for single ones (S9).

use harness::{Peer, Server, World, hello, until};
use model::{Code, Progress, ValueRef, write_value};
use protocol::{MAGIC, Message, Operation, RowsFrame, UploadBegin, UploadEnd};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");
const NOTE: &str = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)";

fn both() -> [World; 2] {
    [World::new(PROGRAM, NOTE), World::on_postgres(PROGRAM, NOTE)]
}

fn serve(world: &World, configuration: &str) -> Server {
    world.configure(configuration);
    world.add_user("ann");
    world.serve()
}

/// A row of `note` with so many bytes of text.
fn row(id: i64, len: usize) -> Message {
    let mut bytes = Vec::new();
    write_value(&mut bytes, ValueRef::Integer(id));
    write_value(&mut bytes, ValueRef::Text(&vec![b'x'; len]));
    Message::Rows(RowsFrame { table: 0, operation: Operation::Insert, count: 1, bytes })
}

/// A peer that has begun its upload.
fn uploading(server: &Server) -> Peer {
    let (mut peer, _) = Peer::admitted(&server.url, "ann", "till");
    peer.send(&Message::UploadBegin(UploadBegin { previous: Progress(0), progress: Progress(1) }));
    peer
}

/// Says the same again and again, until the server ends it; gives the code.
fn ended(peer: &mut Peer, every: Duration, mut next: impl FnMut(i64) -> Message) -> Option<u16> {
    let mut number = 0;
    until("the end of patience", || {
        number += 1;
        std::thread::sleep(every);
        peer.try_send(&next(number)).is_err()
    });
    peer.refusal()
}

// S9, S11: with single bytes a peer kept a connection, with its memory, without a limit.
#[test]
fn who_drips_an_upload_is_ended_and_who_is_slow_is_not() {
    for world in both() {
        slow_and_dripping_uploads(&world);
    }
}

fn slow_and_dripping_uploads(world: &World) {
    const ROWS: i64 = 30;
    let server = serve(world, "progress_bytes_per_s_min = 1000\nprogress_window_s = 1");
    let mut slow = uploading(&server);
    for id in 1..=ROWS {
        std::thread::sleep(Duration::from_millis(100));
        slow.send(&row(id, 1000));
    }
    slow.send(&Message::UploadEnd(UploadEnd { rows: ROWS as u64 }));
    assert!(matches!(slow.receive(), Some(Message::UploadCommitted(_))));
    let mut drips = uploading(&server);
    let code = ended(&mut drips, Duration::from_millis(50), |id| row(1000 + id, 1));
    assert_eq!(code, Some(Code::PeerTooSlow.number()));
    assert_eq!(world.center_count("SELECT count(*) FROM note"), ROWS);
}

// S9: heartbeats kept a connection for ever.
#[test]
fn heartbeats_alone_keep_a_connection_for_a_while_only() {
    for world in both() {
        let server = serve(&world, "progress_window_s = 1\npatience_s = 2");
        let mut peer = uploading(&server);
        let code = ended(&mut peer, Duration::from_millis(50), |_| Message::Heartbeat);
        assert_eq!(code, Some(Code::PeerTooSlow.number()));
    }
}

// S9: a modem could not say who it is in a constant time, and a dripping one must not have long.
#[test]
fn a_hello_has_the_time_that_its_bytes_take() {
    let bytes = Message::Hello(Box::new(hello("ann", "till"))).to_frame().unwrap();
    let said = |world: &World, rate: u64, piece: usize| {
        let limits = format!("hello_timeout_s = 1\nprogress_bytes_per_s_min = {rate}");
        let server = serve(world, &limits);
        let mut peer = Peer::connect(&server.url);
        peer.send_bytes(&MAGIC);
        for piece in bytes.chunks(piece) {
            std::thread::sleep(Duration::from_millis(200));
            if peer.try_send_bytes(piece).is_err() {
                break;
            }
        }
        match peer.receive() {
            Some(Message::Failed(failed)) => Some(failed.code),
            other => {
                assert!(matches!(other, Some(Message::Welcome(_))), "{other:?}");
                None
            }
        }
    };
    for world in both() {
        // Two seconds, where one would be too little.
        assert_eq!(said(&world, 16, bytes.len() / 9), None);
    }
    for world in both() {
        assert_eq!(said(&world, 1_000_000, 1), Some(Code::PeerTooSlow.number()));
    }
}

/// A server whose download is larger than all buffers on the way, and a peer that waits for it.
fn downloading(world: &World, configuration: &str) -> (Server, Peer) {
    let server = serve(world, configuration);
    fill(world, 20_000);
    let mut peer = uploading(&server);
    peer.send(&Message::UploadEnd(UploadEnd { rows: 0 }));
    (server, peer)
}

/// Puts so many rows of a thousand bytes at the center.
fn fill(world: &World, rows: u32) {
    let rows = format!(
        "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number
            WHERE n < {rows}) INSERT INTO note SELECT n, "
    );
    let text = match world.consolidated().exists() {
        true => "printf('%01000d', n) FROM number",
        false => "repeat('0', 1000) FROM number",
    };
    world.center_sql(&format!("{rows}{text}"));
}

// S9: the same for rows that the server sends. A peer that reads a little from time to time was
// never silent.
#[test]
fn who_hardly_takes_its_download_is_ended_and_who_is_slow_is_not() {
    for world in both() {
        let (_server, mut slow) = downloading(&world, "progress_window_s = 4");
        loop {
            match slow.receive() {
                Some(Message::DownloadEnd(_)) => break,
                Some(_) => std::thread::sleep(Duration::from_millis(100)),
                None => panic!("the server has closed"),
            }
        }
    }
    // So fast that the buffer of the peer does not count, which takes all that fits at once.
    let fast = "progress_bytes_per_s_min = 1000000\nprogress_window_s = 2";
    for world in both() {
        let (server, mut drips) = downloading(&world, fast);
        until("the end of patience", || {
            std::thread::sleep(Duration::from_millis(50));
            drips.receive_bytes(8 << 10);
            server.log().contains("E4271")
        });
    }
}
