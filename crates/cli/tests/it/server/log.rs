//! What an operator reads in the log of the server.

use harness::{Peer, World, sql, until};
use model::{Progress, ValueRef, write_value};
use protocol::{Message, Operation, RowsFrame, UploadBegin};
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");
const ITEM: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT);
    INSERT INTO item VALUES (1, 'a'), (2, 'b')";
const PHASES: [&str; 6] =
    ["waiting_ms", "admission_ms", "receiving_ms", "applying_ms", "fetching_ms", "sending_ms"];

const MIB: usize = 1 << 20;
const SPILLED: &str = "rows went to disk, because stream_memory_bytes_max is used up";

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
        world.center_sql("UPDATE item SET name = 'z' WHERE id = 2");
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
        let refreshed = "a remote downloads whole tables again";
        world.sync("ann", &server);
        assert_eq!(lines(&server.log(), refreshed), Vec::<Value>::new(), "it had none");
        world.syncline.ok(&["declare-restored", "--yes"]);
        world.sync("ann", &server);
        let found = lines(&server.log(), refreshed);
        let [line] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&line["level"], &line["tables"]), (&"WARN".into(), &"item".into()));
        world.sync("ann", &server);
        assert_eq!(lines(&server.log(), refreshed).len(), 1);
    }
}

// S9, S11: of a synchronization that failed the line said that nothing went to disk.
#[test]
fn a_failed_synchronization_tells_what_went_to_disk() {
    let world = World::new(PROGRAM, ITEM);
    world.configure(&format!("stream_memory_bytes_max = {MIB}\nspill_bytes_max = {}", 4 * MIB));
    world.add_user("ann");
    let server = world.serve_with(&["--log-format", "json"], None);
    let failed = |count: usize| {
        let found = || lines(&server.log(), "synchronization failed");
        until("the line of it", || found().len() == count);
        found().remove(count - 1)
    };
    // A remote that leaves in the middle of its upload.
    let (mut peer, _) = Peer::admitted(&server.url, "ann", "remote");
    let (previous, progress) = (Progress(0), Progress(1));
    peer.send(&Message::UploadBegin(UploadBegin { previous, progress }));
    for id in 10..13 {
        let mut bytes = Vec::new();
        write_value(&mut bytes, ValueRef::Integer(id));
        write_value(&mut bytes, ValueRef::Text(&vec![b'x'; MIB]));
        let operation = Operation::Insert;
        peer.send(&Message::Rows(RowsFrame { table: 0, operation, count: 1, bytes }));
    }
    drop(peer);
    let line = failed(1);
    assert!(line["spilled_bytes"].as_u64().unwrap() > MIB as u64, "{line}");
    // A download for which the disk is not enough.
    world.center_sql(
        "WITH RECURSIVE number(n) AS (SELECT 3 UNION ALL SELECT n + 1 FROM number WHERE n < 10)
         INSERT INTO item SELECT n, hex(randomblob(500000)) FROM number",
    );
    world.sync_fails("ann", &server, "E4003");
    let line = failed(2);
    assert!(line["spilled_bytes"].as_u64().unwrap() > MIB as u64, "{line}");
    assert_eq!(lines(&server.log(), SPILLED).len(), 2);
}

#[test]
fn the_log_goes_to_a_file_that_is_continued() {
    let world = World::new(PROGRAM, ITEM);
    world.add_user("ann");
    let path = world.path("own.log");
    for start in 1..=2 {
        let server = world.serve_with(&["--log-file", "own.log"], None);
        world.sync("ann", &server);
        let stderr = server.log();
        server.stop();
        assert_eq!(stderr, "");
        let log = std::fs::read_to_string(&path).unwrap();
        assert_eq!(log.matches("server started").count(), start, "{log}");
        assert_eq!(log.matches("synchronized sync_id").count(), start, "{log}");
        assert!(!log.contains('\x1b'), "{log}");
    }
    world.syncline.fails("E6010", &["serve", "--log-file", "/nonexistent/own.log"]);
}

// S11: after it was moved, everything else of the log went into the moved file.
#[test]
fn a_log_file_that_was_moved_is_begun_again_on_sighup() {
    let world = World::new(PROGRAM, ITEM);
    world.add_user("ann");
    let [path, moved] = ["own.log", "own.log-yesterday"].map(|name| world.path(name));
    let server = world.serve_with(&["--log-file", "own.log"], None);
    let synchronized = |path: &Path| {
        std::fs::read_to_string(path).unwrap().matches("synchronized sync_id").count()
    };
    std::fs::rename(&path, &moved).unwrap();
    world.sync("ann", &server);
    assert_eq!((synchronized(&moved), path.exists()), (1, false), "it does not look by itself");
    server.hang_up();
    until("the log to be begun again", || {
        std::fs::read_to_string(&path).is_ok_and(|log| log.contains("configuration reloaded"))
    });
    world.sync("ann", &server);
    assert_eq!((synchronized(&moved), synchronized(&path)), (1, 1));

    // Where it cannot be opened, the server goes on with the file that it has.
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    server.hang_up();
    world.sync("ann", &server);
    std::fs::remove_dir(&path).unwrap();
    server.hang_up();
    until("the log to be begun once more", || path.exists());
    world.sync("ann", &server);
    until("the last line", || synchronized(&path) == 1);
}

#[test]
fn the_journal_is_given_the_level_of_each_line_and_nobody_else() {
    let world = World::new(PROGRAM, ITEM);
    world.add_user("ann");
    let log = File::create(world.path("server.log")).unwrap().metadata().unwrap();
    let stream = format!("{}:{}", log.dev(), log.ino());
    let server = world.serve_with_environment(&[("JOURNAL_STREAM", &stream)]);
    world.sync("ann", &server);
    let lines = server.log();
    for line in lines.lines() {
        let level = if line.contains(" WARN ") { "<4>" } else { "<6>" };
        assert!(line.starts_with(level), "{line}");
    }
    assert!(lines.contains("synchronized"), "{lines}");
    std::fs::write(world.path("ann.password"), "wrong").unwrap();
    world.sync_fails("ann", &server, "E2101");
    let lines = server.log();
    let failed = lines.lines().find(|line| line.contains("synchronization failed")).unwrap();
    assert!(failed.starts_with("<4>"), "{failed}");
    server.stop();
    // The variable is inherited also where standard error goes elsewhere.
    std::fs::remove_file(world.path("server.log")).unwrap();
    let server = world.serve_with_environment(&[("JOURNAL_STREAM", "1:1")]);
    assert!(!server.log().contains('<'), "{}", server.log());
}

#[test]
fn a_supervisor_is_told_when_the_server_is_ready_and_when_it_stops() {
    let world = World::new(PROGRAM, ITEM);
    let path = world.path("notify");
    let supervisor = UnixDatagram::bind(&path).unwrap();
    supervisor.set_read_timeout(Some(harness::WAIT_MAX)).unwrap();
    let heard = || {
        let mut bytes = [0; 100];
        let n = supervisor.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..n]).into_owned()
    };
    let server = world.serve_with_environment(&[("NOTIFY_SOCKET", path.to_str().unwrap())]);
    assert_eq!(heard(), "READY=1");
    // It was true: a connection is accepted.
    world.add_user("ann");
    world.sync("ann", &server);
    server.stop();
    assert_eq!(heard(), "STOPPING=1");
    supervisor.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    assert!(supervisor.recv(&mut [0; 1]).is_err(), "nothing else is said");
}
