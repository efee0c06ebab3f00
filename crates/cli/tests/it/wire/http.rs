//! Synchronizations over HTTP, and over WebSocket, which begins as HTTP.
//!
//! Needs programs that can kill themselves: `cargo test -p syncline --features fail-points`.
//! `http/raw.rs` speaks HTTP by hand, and `http/websocket.rs` has what only WebSocket knows.

#![cfg(feature = "fail-points")]

mod raw;
mod websocket;

use harness::postgres::Cluster;
use harness::{Network, Server, World, hello, until};
use protocol::{Credential, Hello, MAGIC, Message, Mode};
use raw::{Raw, request};
use std::process::Stdio;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const LISTEN: &str = "http://127.0.0.1:0/base/path";

/// The same server speaks WebSocket.
const LISTEN_WEBSOCKET: &str = "ws://127.0.0.1:0/base/path";

const SHOP: &str = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
    INSERT INTO note VALUES (1, 'one'), (2, 'two')";

fn worlds() -> [World; 2] {
    [World::new(PROGRAM, SHOP), World::on_postgres(PROGRAM, SHOP)]
}

/// Ann and Ben have synchronized.
fn served(world: &World, listen: &str) -> Server {
    let server = world.serve_at(listen);
    for user in ["ann", "ben"] {
        world.add_user(user);
        world.sync(user, &server);
    }
    server
}

// S1, S3: Welcome asks for what is too large to go with Hello, and another request brings it.
#[test]
fn uploads_of_any_size_and_downloads_cross() {
    uploads_and_downloads_cross(LISTEN);
}

// S1, S3
#[test]
fn uploads_of_any_size_and_downloads_cross_over_websocket() {
    uploads_and_downloads_cross(LISTEN_WEBSOCKET);
}

fn uploads_and_downloads_cross(listen: &str) {
    for world in worlds() {
        let server = served(&world, listen);
        let begin = listen.strip_suffix("0/base/path").unwrap();
        assert!(server.url.starts_with(begin) && server.url.ends_with("/base/path"));
        for (round, rows) in [(0, 1), (1, 30), (2, 70), (3, 5000)] {
            world.add_notes("ann", 10_000 * (round + 1), rows);
            let report = world.sync("ann", &server);
            assert_eq!(report["uploaded"]["inserts"], rows, "{report}");
            let report = world.sync("ben", &server);
            assert_eq!(report["downloaded"]["upserts"], rows, "{report}");
            world.assert_converged(&["ann", "ben"]);
        }
        for mode in ["--ping", "--upload-only", "--download-only"] {
            world.add_notes("ann", 90_000 + mode.len() as i64 * 100, 60);
            let mut arguments = world.sync_arguments("ann", &server);
            arguments.push(mode.to_owned());
            world.syncline.ok(&arguments);
        }
        world.sync("ann", &server);
        world.sync("ben", &server);
        world.assert_converged(&["ann", "ben"]);
        server.stop();
    }
}

// S3
#[test]
fn rows_travel_encrypted_and_only_to_a_server_that_is_believed() {
    for (world, scheme) in worlds().into_iter().zip(["https", "wss"]) {
        rows_travel_encrypted(&world, scheme);
    }
    for (world, scheme) in worlds().into_iter().zip(["wss", "https"]) {
        rows_travel_encrypted(&world, scheme);
    }
}

fn rows_travel_encrypted(world: &World, scheme: &str) {
    world.syncline.ok(&["cert", "dev"]);
    world.configure("tls_certificate = \"server.pem\"\ntls_key = \"server.key\"");
    let server = world.serve_at(&format!("{scheme}://127.0.0.1:0/base"));
    assert!(server.url.starts_with(&format!("{scheme}://127.0.0.1:")), "{}", server.url);
    let arguments = |name: &str| {
        let believes = ["--ca-file".to_owned(), "ca.pem".to_owned()];
        [&world.sync_arguments(name, &server)[..], &believes].concat()
    };
    for name in ["ann", "ben"] {
        world.add_user(name);
        world.syncline.ok(&arguments(name));
    }
    world.add_notes("ann", 1000, 300);
    world.syncline.ok(&arguments("ann"));
    world.syncline.ok(&arguments("ben"));
    world.assert_converged(&["ann", "ben"]);
    // Another file knows nothing of the authority.
    world.add_user("cyd");
    world.sync_fails("cyd", &server, "E2320");
    server.stop();
}

// S1, S4: wherever the connection is cut, nothing is lost or doubled.
#[test]
fn cuts_at_any_byte_lose_and_double_nothing() {
    cut_at_any_byte(LISTEN);
}

// S1, S4
#[test]
fn cuts_at_any_byte_lose_and_double_nothing_over_websocket() {
    cut_at_any_byte(LISTEN_WEBSOCKET);
}

fn cut_at_any_byte(listen: &str) {
    for world in worlds() {
        let server = served(&world, listen);
        let mut next = 100;
        let rows = 60;
        {
            let ups = [1, 1500, 50_000];
            let downs = [1, 400, 1000];
            let ups = ups.into_iter().map(|bytes| (Some(bytes), None));
            for (up, down) in ups.chain(downs.into_iter().map(|bytes| (None, Some(bytes)))) {
                world.add_notes("ann", next, rows);
                world.center_sql(&format!("INSERT INTO note VALUES ({}, 'center')", next + rows));
                next += rows + 1;
                let network = Network::new(&server.url);
                up.inspect(|bytes| network.stall_upload_after(*bytes));
                down.inspect(|bytes| network.stall_download_after(*bytes));
                let mut client = world.sync_through("ann", &network.url_of(&server.url));
                let mut ended = false;
                until("the cut, or the end", || {
                    ended = client.try_wait().unwrap().is_some();
                    ended || network.is_stalled()
                });
                drop(network);
                let status = client.wait().unwrap();
                assert!(ended || !status.success() || up.is_some(), "{up:?} {down:?}");
                sync_until_done(&world, &server);
            }
        }
        world.sync("ben", &server);
        world.assert_converged(&["ann", "ben"]);
        server.stop();
    }
}

/// A predecessor of which the server has not learned that it is gone is taken over in seconds.
fn sync_until_done(world: &World, server: &Server) {
    until("a synchronization", || {
        let outcome = world.try_sync("ann", server, None);
        let passing = ["E1006", "E2110", "E2113", "E4270"];
        let done = outcome.code == Some(0);
        assert!(done || passing.iter().any(|it| outcome.stderr.contains(it)), "{outcome:?}");
        done
    });
}

// S1: the acknowledgement of a committed upload is lost, and asked for.
#[test]
fn a_lost_acknowledgement_is_learned_of_by_the_next_hello() {
    lose_acknowledgements(LISTEN);
}

// S1
#[test]
fn a_lost_acknowledgement_is_learned_of_by_the_next_hello_over_websocket() {
    lose_acknowledgements(LISTEN_WEBSOCKET);
}

fn lose_acknowledgements(listen: &str) {
    for world in worlds() {
        let server = served(&world, listen);
        // WebSocket answers first, so the end of its handshake has to pass.
        let (first, later) = if listen == LISTEN { (10, 900) } else { (240, 650) };
        for (round, rows) in [(1, 2), (2, 80)] {
            world.add_notes("ann", round * 1000, rows);
            let server_url = server.url.clone();
            let network = Network::new(&server_url);
            // The head of the last response has more bytes.
            let before = world.center_count("SELECT count(*) FROM note");
            let mut client = match rows {
                2 => {
                    network.stall_download_after(first);
                    world.sync_through("ann", &network.url_of(&server_url))
                }
                _ => {
                    let client = world.sync_through("ann", &network.url_of(&server_url));
                    network.stall_download_after(later);
                    client
                }
            };
            until("the upload to be committed", || {
                world.center_count("SELECT count(*) FROM note") == before + rows
            });
            until("the answer to be held back", || {
                network.is_stalled() || client.try_wait().unwrap().is_some()
            });
            drop(network);
            client.wait().unwrap();
            sync_until_done(&world, &server);
            assert_eq!(world.center_count("SELECT count(*) FROM note"), before + rows);
            world.sync("ben", &server);
            world.assert_converged(&["ann", "ben"]);
        }
        server.stop();
    }
}

// S1, S4: killed at every dangerous moment, at either end.
#[test]
fn kills_over_http_lose_and_double_nothing() {
    kill_at_any_moment(LISTEN);
}

// S1, S4
#[test]
fn kills_over_websocket_lose_and_double_nothing() {
    kill_at_any_moment(LISTEN_WEBSOCKET);
}

fn kill_at_any_moment(listen: &str) {
    let server_points =
        ["server-upload-received", "server-upload-committed", "server-download-half-sent"];
    let client_points = ["client-frozen", "client-upload-sent", "client-upload-committed"];
    for world in worlds() {
        let mut server = served(&world, listen);
        let mut next = 100;
        for rows in [60] {
            for point in client_points {
                world.add_notes("ann", next, rows);
                next += rows;
                let points = format!("{point}=return");
                let killed = world.try_sync("ann", &server, Some(&points));
                assert_ne!(killed.code, Some(0), "{point}: {killed:?}");
                sync_until_done(&world, &server);
            }
            for point in server_points {
                let url = server.url.clone();
                server.kill();
                world.add_notes("ann", next, rows);
                next += rows;
                // So that there is a download, too.
                world.center_sql(&format!("INSERT INTO note VALUES ({next}, 'center')"));
                next += 1;
                let dying = world.serve_at_with(&url, &format!("{point}=return"));
                let killed = world.try_sync("ann", &dying, None);
                assert_ne!(killed.code, Some(0), "{point}: {killed:?}");
                drop(dying);
                server = world.serve_at(&url);
                sync_until_done(&world, &server);
            }
            world.sync("ben", &server);
            world.assert_converged(&["ann", "ben"]);
        }
        server.stop();
    }
}

/// A request body with this Hello.
fn body(hello: Hello) -> Vec<u8> {
    let mut body = MAGIC.to_vec();
    Message::Hello(Box::new(hello)).encode(&mut body).unwrap();
    body
}

fn ping(user: &str, password: &str) -> Vec<u8> {
    let credential = Credential::Password(password.to_owned());
    body(Hello { mode: Mode::Ping, credential, ..hello(user, "r") })
}

// S11: for those between the two, and for their logs; the body says the same in more words.
#[test]
fn the_status_says_what_became_of_hello() {
    let world = World::new(PROGRAM, SHOP);
    world.configure("password_delay_max_s = 3600\nunauthenticated_bytes_max = 16384");
    world.add_user("ann");
    let server = world.serve_at(LISTEN);

    let welcome = Raw::post(&server.url, &ping("ann", "ann-password"));
    assert_eq!(welcome.status, 200, "{welcome:?}");
    assert_eq!(welcome.header("content-type"), Some("application/vnd.syncline"));
    assert_eq!(welcome.header("cache-control"), Some("no-store"));
    assert_eq!(welcome.header("x-accel-buffering"), Some("no"));
    assert!(matches!(welcome.messages()[..], [Message::Welcome(_)]), "{welcome:?}");

    let refused = |raw: &Raw, status, code| {
        assert_eq!(raw.status, status, "{raw:?}");
        match &raw.messages()[..] {
            [Message::Failed(failed)] => assert_eq!(failed.code, code, "{raw:?}"),
            other => panic!("{other:?}"),
        }
    };
    refused(&Raw::post(&server.url, &ping("ann", "wrong")), 401, 2101);
    refused(&Raw::post(&server.url, b"GET / HTTP/1.1"), 200, 1001);
    let long = Hello { client: "x".repeat(20_000), ..hello("ann", "r") };
    refused(&Raw::post(&server.url, &body(long)), 413, 1004);
    for _ in 0..2 {
        Raw::post(&server.url, &ping("ann", "wrong"));
    }
    let slowed = Raw::post(&server.url, &ping("ann", "wrong"));
    refused(&slowed, 429, 4260);
    assert!(slowed.header("retry-after").is_some(), "{slowed:?}");
    assert_eq!(Raw::post(&server.url, b"").status, 400);
    server.stop();
}

// S9, S11
#[test]
fn a_server_without_a_place_says_when_to_come_back() {
    let world = World::new(PROGRAM, SHOP);
    world.configure("connections_max = 2");
    world.add_user("ann");
    let server = world.serve_at(LISTEN);
    // A request takes a place when it comes.
    let half: Vec<Raw> = (0..2).map(|_| Raw::begin(&server.url, 100, b"SYNCLINE")).collect();
    until("a refusal", || {
        let full = Raw::post(&server.url, &ping("ann", "ann-password"));
        full.status == 503 && full.header("retry-after").is_some()
    });
    drop(half);
    until("a place", || Raw::post(&server.url, &ping("ann", "ann-password")).status == 200);
    server.stop();
}

// S11: a balancer went on to send remotes to a server without its database.
#[test]
fn a_server_whose_database_is_away_is_not_ready() {
    let cluster = Cluster::start();
    let postgres = World::deployed_on(PROGRAM, cluster.database(), SHOP);
    let (server, status) = (postgres.serve_at(LISTEN), |url: &str, path: &str| {
        let line = format!("GET /base/path/{path} HTTP/1.1");
        Raw::ask(url, &request(&line, "", b"")).status
    });
    assert_eq!(status(&server.url, "ready"), 200);
    cluster.stop();
    let time = harness::time_of(|| assert_eq!(status(&server.url, "ready"), 503));
    assert!(time < Duration::from_secs(5), "a second, on a machine with time: {time:?}");
    assert_eq!(status(&server.url, "health"), 200);
    cluster.restart();
    until("the database", || status(&server.url, "ready") == 200);
    server.stop();

    let sqlite = World::new(PROGRAM, SHOP);
    let server = sqlite.serve_at(LISTEN);
    assert_eq!(status(&server.url, "ready"), 200);
    let (file, away) = (sqlite.consolidated(), sqlite.path("away.db"));
    std::fs::rename(&file, &away).unwrap();
    assert_eq!(status(&server.url, "ready"), 503);
    std::fs::rename(&away, &file).unwrap();
    assert_eq!(status(&server.url, "ready"), 200);
}

#[test]
fn the_other_paths_are_for_balancers_browsers_and_the_curious() {
    let world = World::new(PROGRAM, SHOP);
    world.configure("allowed_origins = [\"https://app.example\"]");
    world.add_user("ann");
    let server = world.serve_at(LISTEN);
    let ask = |line: &str, headers: &str| Raw::ask(&server.url, &request(line, headers, b""));
    assert_eq!(ask("GET /base/path/health HTTP/1.1", "").status, 200);
    let ready = ask("GET /base/path/ready HTTP/1.1", "");
    assert_eq!((ready.status, ready.body.as_slice()), (200, &b"ready\n"[..]));
    assert_eq!(ask("HEAD /base/path/ready HTTP/1.1", "").status, 200);
    assert_eq!(ask("GET /health HTTP/1.1", "").status, 404);
    assert_eq!(ask("POST /base/path/../sync HTTP/1.1", "").status, 404);
    let get = ask("GET /base/path/sync HTTP/1.1", "");
    assert_eq!((get.status, get.header("allow")), (405, Some("POST, OPTIONS")));
    assert_eq!(ask("POST /base/path/sync HTTP/1.1", "content-type: text/plain\r\n").status, 415);

    let asks = "OPTIONS /base/path/sync HTTP/1.1";
    let may = ask(asks, "origin: https://app.example\r\n");
    assert_eq!(may.status, 204);
    assert_eq!(may.header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(may.header("access-control-allow-methods"), Some("POST"));
    let may_not = ask(asks, "origin: https://evil.example\r\n");
    assert_eq!((may_not.status, may_not.header("access-control-allow-origin")), (403, None));
    let body = ping("ann", "ann-password");
    let post = "POST /base/path/sync HTTP/1.1";
    for (origin, status) in [("https://app.example", 200), ("https://evil.example", 403)] {
        let headers = format!("origin: {origin}\r\ncontent-type: application/vnd.syncline\r\n");
        assert_eq!(Raw::ask(&server.url, &request(post, &headers, &body)).status, status);
    }
    server.stop();
}

// S9: neither heads nor silence hold a connection for long.
#[test]
fn long_heads_slow_heads_and_slow_bodies_are_ended() {
    let world = World::new(PROGRAM, SHOP);
    world.configure("hello_timeout_s = 1\nidle_timeout_s = 1");
    world.add_user("ann");
    let server = world.serve_at(LISTEN);
    let long = format!("x: {}\r\n", "x".repeat(200 << 10));
    assert_eq!(Raw::ask(&server.url, &request("GET /x HTTP/1.1", &long, b"")).status, 431);
    let many = "x: y\r\n".repeat(100);
    assert_eq!(Raw::ask(&server.url, &request("GET /x HTTP/1.1", &many, b"")).status, 431);
    // A head that does not come to its end, and a connection that nothing is asked over.
    assert!(Raw::open(&server.url, b"POST /base/path/sync HT").closes());
    assert!(Raw::open(&server.url, b"").closes());
    // A body that does not come.
    let silent = Raw::begin(&server.url, 100, b"SYNCLINE").read();
    assert!(matches!(&silent.messages()[..], [Message::Failed(it)] if it.code == 1007));
    server.stop();
}

// S10: what is under way when the server stops is finished, and new requests learn of it.
#[test]
fn a_server_that_stops_finishes_its_responses() {
    let world = World::new(PROGRAM, SHOP);
    let server = served(&world, LISTEN);
    world.add_notes("ann", 1000, 3000);
    let arguments = world.sync_arguments("ann", &server);
    let mut command = world.syncline.command(&arguments);
    let mut client = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the request", || {
        server.log().matches("synchronized").count() > 2 || client.try_wait().unwrap().is_some()
    });
    server.stop();
    client.wait().unwrap();
    let server = world.serve_at(LISTEN);
    sync_until_done(&world, &server);
    world.sync("ben", &server);
    world.assert_converged(&["ann", "ben"]);
}
