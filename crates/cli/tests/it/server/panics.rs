//! A worker of the server that panics is replaced, and no remote is locked out.
//!
//! Needs a server that can panic: `cargo test -p syncline --features fail-points`.

#![cfg(feature = "fail-points")]

use harness::{World, sql, until};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");
const ITEM: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT);
    INSERT INTO item VALUES (1, 'a'), (2, 'b')";

/// One worker of each kind, so that none is left without it.
fn worlds() -> [World; 2] {
    let worlds = [World::new(PROGRAM, ITEM), World::on_postgres(PROGRAM, ITEM)];
    for world in &worlds {
        world.configure("workers = 1\nupload_appliers = 1");
        world.add_user("ann");
    }
    worlds
}

/// How many panics of workers a log in JSON tells of, by the count in its last such line.
fn panics(log: &str) -> u64 {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let told = lines.filter(|line| line["message"] == "a worker panicked and is replaced");
    let mut counts = told.map(|line| {
        assert_eq!(line["level"], "ERROR", "{line}");
        line["panics"].as_u64().unwrap()
    });
    counts.next_back().unwrap_or(0)
}

// S1, S2, S11: the thread was lost, and all remotes got E4002 until the process ended.
#[test]
fn a_worker_that_panics_is_replaced_and_its_request_answered() {
    let points = [
        "worker-admits",
        "server-upload-before-commit",
        "server-upload-committed",
        "server-download-fetched",
    ];
    for world in worlds() {
        let server = world.serve();
        world.sync("ann", &server);
        server.stop();
        for point in points {
            let json = &["--log-format", "json"];
            std::fs::remove_file(world.path("server.log")).unwrap();
            let server = world.serve_with(json, Some(&format!("{point}=2*panic(x)")));
            for times in 1..=2 {
                let change = format!("UPDATE item SET name = '{point} {times}' WHERE id = 1");
                sql(&world.remote("ann"), &change);
                world.sync_fails("ann", &server, "E9001");
                until("the line in the log", || panics(&server.log()) == times);
            }
            world.sync("ann", &server);
            world.assert_converged(&["ann"]);
            server.stop();
        }
    }
}

// S11: a server without a way to its database must not go on as if it had one: whatever watches
// it learns by the status that it has to be started again.
#[test]
fn a_server_whose_worker_cannot_be_replaced_ends_with_a_failure() {
    let world = World::new(PROGRAM, ITEM);
    world.add_user("ann");
    let points =
        "server-upload-before-commit=1*panic;worker-opens-again=return;worker-gives-up=return";
    let mut server = world.serve_with(&[], Some(points));
    // It may end before the answer has left.
    assert_eq!(world.try_sync("ann", &server, None).code, Some(1));
    let status = server.wait();
    assert_eq!(status.code(), Some(1), "{}", server.log());
    let server = world.serve();
    world.sync("ann", &server);
    world.assert_converged(&["ann"]);
}
