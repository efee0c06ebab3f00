//! The memory that a server uses for its remotes has one budget and returns to the system (S9).
//!
//! It is measured at the real program, whose remotes stop in the middle of a synchronization.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use harness::{Peer, Server, World, full, hello, sql, until};
use model::{Progress, ValueRef, write_value};
use protocol::{Message, Mode, Operation, RowsFrame, UploadBegin, UploadEnd};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const ITEMS: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, text TEXT)";

const MIB: u64 = 1 << 20;

/// The memory that the server is allowed for streams.
const STREAM_MEMORY: u64 = 8 * MIB;

/// What it takes beside: a frame that is looked at by each of the network's threads, small buffers
/// of every connection, and what the allocator keeps.
fn beside() -> u64 {
    2 * frame_bytes() + 24 * MIB
}

/// Bytes of a large frame.
fn frame_bytes() -> u64 {
    if full() { 62 * MIB } else { 24 * MIB }
}

/// Remotes that stop in the middle.
fn sessions() -> usize {
    if full() { 40 } else { 12 }
}

fn world() -> (World, Server) {
    let world = World::new(PROGRAM, ITEMS);
    world.configure(&format!("stream_memory_bytes_max = {STREAM_MEMORY}"));
    world.add_user("ann");
    let server = world.serve();
    (world, server)
}

/// A frame with one row.
fn insert(id: i64, text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_value(&mut bytes, ValueRef::Integer(id));
    write_value(&mut bytes, ValueRef::Text(text));
    let rows = RowsFrame { table: 0, operation: Operation::Insert, count: 1, bytes };
    Message::Rows(rows).to_frame().unwrap()
}

/// A remote that has begun its upload.
fn uploading(server: &Server, remote_id: &str) -> Peer {
    let (mut peer, _) = Peer::admitted(&server.url, "ann", remote_id);
    let (previous, progress) = (Progress(0), Progress(1));
    peer.send(&Message::UploadBegin(UploadBegin { previous, progress }));
    peer
}

// S9, S10: forty remotes with 62 MiB of a frame each took 2.5 GiB, whatever the limit was.
#[test]
fn unfinished_frames_count_and_go_to_disk_and_arrive() {
    let (world, server) = world();
    let text = vec![b'x'; frame_bytes() as usize];
    let frame = insert(1, &text);
    let begun = frame.len() - MIB as usize;
    let mut peers = Vec::new();
    for number in 0..sessions() {
        let mut peer = uploading(&server, &format!("remote-{number}"));
        peer.send_bytes(&frame[..begun]);
        peers.push(peer);
    }
    let peak = server.peak_memory_bytes();
    assert!(peak < STREAM_MEMORY + beside(), "{} remotes: {peak} bytes", peers.len());
    // Nothing of it is lost, and none waits for the others.
    let mut last = peers.pop().unwrap();
    last.send_bytes(&frame[begun..]);
    last.send(&Message::UploadEnd(UploadEnd { rows: 1 }));
    match last.receive() {
        Some(Message::UploadCommitted(committed)) => assert_eq!(committed.inserts, 1),
        other => panic!("{other:?}"),
    }
    let wanted = format!("SELECT count(*) FROM item WHERE length(text) = {}", text.len());
    assert_eq!(world.centre_count(&wanted), 1);
}

// S9: a frame of one row used 57 bytes beside its row, which were not counted.
#[test]
fn frames_of_one_row_count_with_all_that_they_take() {
    let (_world, server) = world();
    let frames: i64 = if full() { 2_000_000 } else { 500_000 };
    let mut peer = uploading(&server, "remote");
    server.forget_peak_memory();
    let before = server.memory_bytes();
    for first in (0..frames).step_by(1000) {
        let together: Vec<u8> = (first..first + 1000).flat_map(|id| insert(id, b"")).collect();
        peer.send_bytes(&together);
    }
    let taken = server.peak_memory_bytes().saturating_sub(before);
    assert!(taken < STREAM_MEMORY + 8 * MIB, "{frames} frames: {taken} bytes");
}

// S9, S10: each remote that stopped in a large row of its download held all of it in memory.
#[test]
fn downloads_that_wait_for_their_remotes_lie_on_disk() {
    let (world, server) = world();
    let insert = format!("INSERT INTO item VALUES (1, printf('%0{}d', 1))", frame_bytes());
    sql(&world.consolidated(), &insert);
    let mut peers = Vec::new();
    for number in 0..sessions() {
        let remote = hello("ann", &format!("remote-{number}"));
        let (mut peer, _) =
            Peer::greeting(&server.url, protocol::Hello { mode: Mode::DownloadOnly, ..remote });
        loop {
            match peer.receive() {
                Some(Message::DownloadBegin(_)) => break,
                Some(Message::SchemaChange(_)) => {}
                other => panic!("{other:?}"),
            }
        }
        peers.push(peer);
    }
    let held = server.memory_bytes();
    let largest = STREAM_MEMORY + beside() + 64 * MIB;
    assert!(held < largest, "{} remotes: {held} bytes", peers.len());
    let row = peers.pop().unwrap().receive();
    assert!(matches!(row, Some(Message::Rows(rows)) if rows.bytes.len() as u64 > frame_bytes()));
}

// S9: 552 MB stayed with the process.
#[test]
fn memory_goes_back_to_the_system_when_the_remotes_have_left() {
    let world = World::new(PROGRAM, ITEMS);
    world.add_user("ann");
    let server = world.serve();
    drop(uploading(&server, "first"));
    let idle = server.memory_bytes();
    let text = vec![b'x'; 100_000];
    let mut peers = Vec::new();
    for number in 0..sessions() {
        let mut peer = uploading(&server, &format!("remote-{number}"));
        for id in 0..150 {
            peer.send_bytes(&insert(id, &text));
        }
        peer.send_bytes(&insert(1_000, &text.repeat(40))[..3_000_000]);
        peers.push(peer);
    }
    until("the server to hold it", || server.memory_bytes() > idle + 100 * MIB);
    drop(peers);
    until("the memory to go back", || server.memory_bytes() < idle + 32 * MIB);
}
