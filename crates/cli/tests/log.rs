//! What an operator reads in the log of the server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use harness::{World, sql};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");
const ITEM: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT);
    INSERT INTO item VALUES (1, 'a'), (2, 'b')";
const PHASES: [&str; 6] =
    ["waiting_ms", "admission_ms", "receiving_ms", "applying_ms", "fetching_ms", "sending_ms"];

/// The lines of a log in JSON with this message.
fn lines(log: &str, message: &str) -> Vec<Value> {
    let parsed = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    parsed.filter(|line| line["message"] == message).collect()
}

fn both() -> [World; 2] {
    [World::new(PROGRAM, ITEM), World::on_postgres(PROGRAM, ITEM)]
}

/// `docs/concepts/performance.md` promised the time of each phase, and the log had the whole only.
// S11
#[test]
fn a_synchronization_is_one_line_with_the_time_of_each_phase() {
    for world in both() {
        world.add_user("ann");
        let server = world.serve_with(&["--log-format", "json"], None);
        world.sync("ann", &server);
        sql(&world.remote("ann"), "UPDATE item SET name = 'c'; DELETE FROM item WHERE id = 1");
        world.centre_sql("UPDATE item SET name = 'z' WHERE id = 2");
        world.sync("ann", &server);
        let found = lines(&server.log(), "synchronized");
        let [first, second] = &found[..] else { panic!("{found:?}") };
        for line in [first, second] {
            let ms = |name: &str| {
                line[name].as_f64().unwrap_or_else(|| panic!("{name} is missing in {line}"))
            };
            let sum: f64 = PHASES.iter().map(|name| ms(name)).sum();
            // A duration is cut to whole milliseconds.
            assert!(sum <= ms("duration_ms") + 1.0, "{line}");
            for worked in ["admission_ms", "applying_ms", "fetching_ms", "sending_ms"] {
                assert!(ms(worked) > 0.0, "{worked} in {line}");
            }
            assert_eq!((&line["level"], &line["spilled_bytes"]), (&"INFO".into(), &0.into()));
            assert!(ms("bytes_in") > 0.0 && ms("bytes_out") > 0.0, "{line}");
        }
        let counts = ["uploaded", "downloaded", "conflicts", "rejected"];
        assert_eq!(counts.map(|name| first[name].as_u64().unwrap()), [0, 2, 0, 0], "{first}");
        assert_eq!(counts.map(|name| second[name].as_u64().unwrap()), [2, 1, 1, 0], "{second}");
    }
}

// S11: what an operator should look at is a warning.
#[test]
fn tables_that_a_remote_receives_whole_again_are_a_warning() {
    for world in both() {
        world.add_user("ann");
        let server = world.serve_with(&["--log-format", "json"], None);
        let refreshed = "a remote receives tables whole that it had";
        world.sync("ann", &server);
        assert_eq!(lines(&server.log(), refreshed), Vec::<Value>::new(), "it had none");
        world.syncline.ok(&["declare-restored"]);
        world.sync("ann", &server);
        let found = lines(&server.log(), refreshed);
        let [line] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&line["level"], &line["tables"]), (&"WARN".into(), &"item".into()));
        world.sync("ann", &server);
        assert_eq!(lines(&server.log(), refreshed).len(), 1);
    }
}
