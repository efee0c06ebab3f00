//! Every limit of the server holds, and no session waits for a remote that has stopped (S9, S10).
//!
//! A user who meets a limit reads what to do, and nothing is left half done.

use harness::{
    Network, Outcome, Peer, Server, World, count, finish, peak_memory_bytes, query, sql, time_of,
    until,
};
use model::Code;
use protocol::{MAGIC, Message};
use serde_json::Value;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const ITEMS: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, text TEXT, data BLOB)";

const MIB: u64 = 1 << 20;

/// The smallest values of these limits that the configuration accepts.
const UPLOAD_BYTES_MIN: u64 = 64 << 10;
const FRAME_BYTES_MIN: u64 = 64 << 10;
const STREAM_MEMORY_MIN: u64 = MIB;

/// More than all buffers between two programs of one machine hold.
const UNBUFFERED_ROWS: i64 = 40_000;

/// A time in which a small synchronization is done on the busiest machine, and much less than
/// the minute after which the server gives up a silent peer.
const PROMPT: Duration = Duration::from_secs(20);

fn world(users: &[&str], configuration: &str) -> World {
    let world = World::new(PROGRAM, ITEMS);
    world.configure(configuration);
    for user in users {
        world.add_user(user);
    }
    world
}

/// Adds rows of about 1,000 bytes with the keys from `first` on.
fn add(path: &Path, first: i64, rows: i64) {
    add_wide(path, first, rows, 1000);
}

/// The same with rows of so many bytes.
fn add_wide(path: &Path, first: i64, rows: i64, bytes: usize) {
    let last = first + rows - 1;
    let text = format!(
        "WITH RECURSIVE number(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM number
         WHERE n < {last}) INSERT INTO item SELECT n, printf('%0{bytes}d', n), x'00' FROM number"
    );
    sql(path, &text);
}

fn items(path: &Path) -> i64 {
    count(path, "SELECT count(*) FROM item")
}

fn assert_told_when_to_come_back(error: &serde_json::Value) {
    assert_eq!(error["retry"], true, "{error}");
    assert!(error["retry_after_s"].as_u64().is_some_and(|seconds| seconds >= 1), "{error}");
}

// S10, S9: one remote stops in its download and one in its upload, before a server with a single
// connection to read with, and a single turn at the database. All others continue, and no session
// holds the database.
#[test]
fn remotes_that_stop_keep_nobody_waiting() {
    let world = world(&["ann", "ben", "cleo"], "workers = 1\nsessions_max = 1");
    let server = world.serve();
    for name in ["ann", "ben", "cleo"] {
        world.sync(name, &server);
    }
    add(&world.consolidated(), 1, UNBUFFERED_ROWS);
    add(&world.remote("ben"), 1_000_000, 3000);
    let (to_ann, to_ben) = (Network::new(&server.url), Network::new(&server.url));
    to_ann.stall_download_after(1 << 20);
    to_ben.stall_upload_after(1 << 20);
    let stopped: [Child; 2] =
        [world.sync_through("ann", &to_ann.url), world.sync_through("ben", &to_ben.url)];
    until("both to have stopped", || to_ann.is_stalled() && to_ben.is_stalled());

    let prompt = time_of(|| {
        sql(&world.remote("cleo"), "INSERT INTO item VALUES (-1, 'cleo', NULL)");
        assert_eq!(world.sync("cleo", &server)["uploaded"]["inserts"], 1);
        sql(&world.consolidated(), "INSERT INTO item VALUES (-2, 'center', NULL)");
        assert_eq!(world.sync("cleo", &server)["downloaded"]["upserts"], 1);
    });
    assert!(prompt < PROMPT, "{prompt:?}");
    world.assert_converged(&["cleo"]);
    // Succeeds only where no connection reads or writes.
    let held = query(&world.consolidated(), "PRAGMA wal_checkpoint(TRUNCATE)");
    assert_eq!(held, [["0", "0", "0"]]);

    to_ann.resume();
    to_ben.resume();
    for child in stopped {
        let outcome = finish(child);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
    for name in ["ann", "ben", "cleo"] {
        world.sync(name, &server);
    }
    world.assert_converged(&["ann", "ben", "cleo"]);
}

// S9, S11
#[test]
fn a_full_server_says_when_to_come_back() {
    let world = world(&["ann", "ben"], "transfers_max = 1");
    let server = world.serve();
    let (peer, _) = Peer::admitted(&server.url, "ann", "peer");
    assert_told_when_to_come_back(&world.sync_fails("ben", &server, "E4001"));
    drop(peer);
    until("the place to be free", || world.try_sync("ben", &server, None).code == Some(0));
}

// S9, S11, S4
#[test]
fn an_upload_above_its_limit_is_refused_and_nothing_of_it_applied() {
    let world = world(&["ann", "ben"], &format!("upload_bytes_max = {UPLOAD_BYTES_MIN}"));
    let server = world.serve();
    world.sync("ann", &server);
    add(&world.remote("ann"), 1, 200);
    for _ in 0..2 {
        world.sync_fails("ann", &server, "E4004");
        assert_eq!(items(&world.consolidated()), 0);
    }
    world.sync("ben", &server);
    server.stop();
    let path = world.path("syncline.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace(&UPLOAD_BYTES_MIN.to_string(), "1000000")).unwrap();
    let server = world.serve();
    assert_eq!(world.sync("ann", &server)["uploaded"]["inserts"], 200);
    world.assert_converged(&["ann"]);
}

// S9, S11: before a peer is authenticated, it cannot decide how much memory the server uses.
#[test]
fn a_peer_that_is_not_known_yet_is_read_no_further_than_its_limit() {
    let world = world(&["ann"], "");
    let server = world.serve();
    for len in [(64 << 10) + 1, 64 << 20, u32::MAX] {
        let mut peer = Peer::connect(&server.url);
        peer.send_bytes(&MAGIC);
        peer.send_bytes(&len.to_le_bytes());
        peer.send_bytes(&[1]);
        let Some(Message::Failed(failed)) = peer.receive() else { panic!("no refusal") };
        assert_eq!(failed.code, Code::FrameTooLarge.number());
        // A remote with very many tables needs more.
        assert!(failed.hint.unwrap().contains("unauthenticated_bytes_max"));
    }
    // Many small frames that mean nothing are no way around it.
    let mut peer = Peer::connect(&server.url);
    peer.send_bytes(&MAGIC);
    peer.send_bytes(&Message::Heartbeat.to_frame().unwrap().repeat(20_000));
    assert_eq!(peer.refusal(), Some(Code::FrameTooLarge.number()));
    world.sync("ann", &server);
}

// S9, S11, S4
#[test]
fn a_row_larger_than_a_frame_may_be_is_not_sent() {
    let world = world(&["ann"], &format!("frame_bytes_max = {FRAME_BYTES_MIN}"));
    let server = world.serve();
    world.sync("ann", &server);
    let insert = format!("INSERT INTO item VALUES (1, 'x', zeroblob({FRAME_BYTES_MIN}))");
    sql(&world.remote("ann"), &insert);
    let told = world.sync("ann", &server);
    assert_eq!((&told["too_large"]["code"], &told["error"]), (&"E5009".into(), &Value::Null));
    assert_eq!(items(&world.consolidated()), 0);
    sql(&world.remote("ann"), "DELETE FROM item; INSERT INTO item VALUES (2, 'y', x'00')");
    world.sync("ann", &server);
    world.assert_converged(&["ann"]);
}

// S9, Trap 16
#[test]
fn what_does_not_fit_in_memory_goes_to_disk_and_arrives() {
    let world = world(&["ann", "ben"], &format!("stream_memory_bytes_max = {STREAM_MEMORY_MIN}"));
    let server = world.serve();
    world.sync("ann", &server);
    add(&world.remote("ann"), 1, 6000);
    assert_eq!(world.sync("ann", &server)["uploaded"]["inserts"], 6000);
    assert_eq!(world.sync("ben", &server)["downloaded"]["upserts"], 6000);
    world.assert_converged(&["ann", "ben"]);
    assert!(server.log().contains("rows went to disk"), "{}", server.log());
    server.stop();
    // It really was the disk: without one it is refused.
    world.configure("spill_dir = \"/nowhere\"");
    let server = world.serve();
    add(&world.remote("ann"), 10_000, 6000);
    world.sync_fails("ann", &server, "E4003");
    assert_eq!(items(&world.consolidated()), 6000);
}

// S9, S4, S11
#[test]
fn a_full_spill_refuses_and_leaves_nothing_half_done() {
    let limits =
        format!("stream_memory_bytes_max = {STREAM_MEMORY_MIN}\nspill_bytes_max = {}", 2 * MIB);
    let world = world(&["ann", "ben"], &limits);
    let server = world.serve();
    world.sync("ann", &server);
    world.sync("ben", &server);
    add(&world.remote("ann"), 1, 6000);
    for _ in 0..2 {
        let error = world.sync_fails("ann", &server, "E4003");
        assert_eq!(error["hint"], "synchronize again later; it is the server that lacks room");
        assert_eq!(items(&world.consolidated()), 0);
    }
    // What the refused one took is given back: others have nearly all of it.
    add(&world.remote("ben"), 10_000, 2000);
    assert_eq!(world.sync("ben", &server)["uploaded"]["inserts"], 2000);
    add(&world.consolidated(), 20_000, 6000);
    world.sync_fails("ben", &server, "E4003");
    assert_eq!(items(&world.remote("ben")), 2000);
    server.stop();
    world.configure("# more room");
    let path = world.path("syncline.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace(&format!("\nspill_bytes_max = {}", 2 * MIB), "");
    std::fs::write(&path, text).unwrap();
    let server = world.serve();
    for name in ["ann", "ben"] {
        world.sync(name, &server);
    }
    world.sync("ann", &server);
    world.sync("ben", &server);
    world.assert_converged(&["ann", "ben"]);
    assert_eq!(items(&world.consolidated()), 14_000);
}

/// Runs a client and watches its memory; gives the most it held.
fn sync_watched(world: &World, name: &str, server: &Server) -> u64 {
    let mut client = world.sync_through(name, &server.url);
    let (mut peak, id) = (0, client.id());
    until("the end of a client", || {
        peak = peak.max(peak_memory_bytes(id).unwrap_or(0));
        client.try_wait().unwrap().is_some()
    });
    let outcome: Outcome = finish(client);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    peak
}

/// Compares without reading large tables into this process.
fn assert_same_items(world: &World, name: &str) {
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    for (path, schema) in [(world.consolidated(), "center"), (world.remote(name), "remote")] {
        connection.execute(&format!("ATTACH ?1 AS {schema}"), [path.to_str()]).unwrap();
    }
    for (here, there) in [("center", "remote"), ("remote", "center")] {
        let text = format!(
            "SELECT count(*) FROM (SELECT * FROM {here}.item EXCEPT SELECT * FROM {there}.item)"
        );
        let rows: i64 = connection.query_row(&text, [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0, "only at the {here}");
    }
}

/// What the server may hold while 240 MB pass: 8 MiB of stream, the database's cache, the largest
/// values in hand, digests of the uploaded rows, and what the allocator keeps.
const SERVER_MEMORY_MAX: u64 = 240 * MIB;
/// The same while 160 MB of updates pass, and no large value.
const SERVER_UPDATE_MEMORY_MAX: u64 = 160 * MIB;
const CLIENT_MEMORY_MAX: u64 = 96 * MIB;

fn assert_little_memory(world: &World, name: &str, server: &Server, server_max: u64) {
    let client = sync_watched(world, name, server);
    let server = server.peak_memory_bytes();
    assert!(server < server_max, "{name}: the server took {server} bytes");
    assert!(client < CLIENT_MEMORY_MAX, "{name}: the client took {client} bytes");
    assert_same_items(world, name);
}

// Trap 16, S9: 200,000 rows and large values are inserted, received and changed in bounded
// memory, at both ends.
#[test]
fn large_synchronizations_need_little_memory() {
    let world = world(&["ann", "ben"], &format!("stream_memory_bytes_max = {}", 8 * MIB));
    let server = world.serve();
    world.sync("ann", &server);
    add_wide(&world.remote("ann"), 1, 180_000, 200);
    add_wide(&world.remote("ann"), 1_000_000, 20_000, 4000);
    let large = "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number
        WHERE n < 24) INSERT INTO item SELECT -n, 'large', randomblob(5000000) FROM number";
    sql(&world.remote("ann"), large);
    assert_little_memory(&world, "ann", &server, SERVER_MEMORY_MAX);
    assert_little_memory(&world, "ben", &server, SERVER_MEMORY_MAX);
    server.stop();
    let server = world.serve();
    sql(&world.remote("ben"), "UPDATE item SET text = 'new' || text WHERE id >= 1000000");
    assert_little_memory(&world, "ben", &server, SERVER_UPDATE_MEMORY_MAX);
}
