//! The same remote never synchronizes twice at once, and a dead client locks none out (S8).

use harness::{Network, Peer, Server, World, count, finish, hello, query, sql, time_of, until};
use model::{Code, FileSecret, Progress, ValueRef, write_value};
use protocol::{Failed, Hello, MAGIC, Message, Operation, RowsFrame, UploadBegin};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

// `seen` tells which rows arrived, and how often.
const NOTES: &str = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
    CREATE TABLE seen (id INTEGER);
    CREATE TRIGGER note_seen AFTER INSERT ON note BEGIN INSERT INTO seen VALUES (new.id); END";

/// When the server takes a silent synchronization for dead, in seconds.
const TAKEOVER_AFTER_S: u64 = 2;

/// "Not for more than seconds": the time above, the successor's patience, and a slow machine.
const LOCKED_OUT_MAX: Duration = Duration::from_secs(10);

fn notes() -> (World, Server) {
    let world = World::new(PROGRAM, NOTES);
    world.configure(&format!("takeover_after_s = {TAKEOVER_AFTER_S}"));
    world.add_user("ann");
    let server = world.serve();
    (world, server)
}

/// Adds so many rows of 200 bytes to ann's remote.
fn write(world: &World, rows: i64) {
    let text = format!(
        "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number
         WHERE n < {rows}) INSERT INTO note SELECT (SELECT coalesce(max(id), 0) FROM note) + n,
         printf('%0200d', n) FROM number"
    );
    sql(&world.remote("ann"), &text);
}

fn assert_arrived_once(world: &World, rows: i64) {
    let seen = query(&world.consolidated(), "SELECT count(*), count(DISTINCT id) FROM seen");
    assert_eq!(seen, [[rows.to_string(), rows.to_string()]]);
    let lines = harness::differences(&world.consolidated(), &world.remote("ann"), &["note".into()]);
    assert!(lines.is_empty(), "{lines:?}");
}

/// Says that it is over when it goes.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// What the file of ann drew once.
fn secret_of(world: &World) -> FileSecret {
    let secret = "SELECT hex(value) FROM syncline_state WHERE name = 'file_secret'";
    let digits = query(&world.remote("ann"), secret).concat().concat();
    let digits = digits.trim_matches('\'');
    FileSecret::new(u128::from_str_radix(digits, 16).unwrap().to_be_bytes())
}

// S8
#[test]
fn a_second_process_on_the_same_file_is_refused() {
    let (world, server) = notes();
    world.sync("ann", &server);
    write(&world, 10);
    let network = Network::new(&server.url);
    network.stall_upload_after(0);
    let first = world.sync_through("ann", &network.url);
    until("the first process to be under way", || network.is_stalled());
    for _ in 0..3 {
        let error = world.sync_fails("ann", &server, "E5002");
        assert_eq!(error["retry"], true);
    }
    world.syncline.fails("E5002", &["remote", "reset", "ann.db", "--discard-pending"]);
    world.syncline.fails("E5002", &["remote", "detach", "ann.db"]);
    // Changes of other programs in this time are uploaded the next time.
    write(&world, 5);
    network.resume();
    assert_eq!(finish(first).code, Some(0));
    world.sync("ann", &server);
    assert_arrived_once(&world, 15);
}

// S8: no matter who comes first, each change arrives once.
#[test]
fn processes_that_race_for_a_file_break_nothing() {
    const ROUNDS: i64 = 5;
    let (world, server) = notes();
    world.sync("ann", &server);
    for _ in 0..ROUNDS {
        write(&world, 20);
        let racers: Vec<Child> = (0..5).map(|_| world.sync_through("ann", &server.url)).collect();
        write(&world, 1);
        let mut arrived = 0;
        for racer in racers {
            let outcome = finish(racer);
            match outcome.code {
                Some(0) => arrived += 1,
                _ => drop(outcome.message("E5002")),
            }
        }
        assert!(arrived > 0);
    }
    world.sync("ann", &server);
    assert_arrived_once(&world, ROUNDS * 21);
}

/// One row of `note` as the peer uploads it.
fn row(id: i64) -> Message {
    let mut bytes = Vec::new();
    write_value(&mut bytes, ValueRef::Integer(id));
    write_value(&mut bytes, ValueRef::Text(b"peer"));
    Message::Rows(RowsFrame { table: 0, operation: Operation::Insert, count: 1, bytes })
}

// S8, S11: a predecessor that dripped rows kept its remote for as long as it liked. A later attempt
// of the same file replaces it where it waits for the network, and it cannot write any more.
#[test]
fn a_later_attempt_replaces_a_predecessor_that_drips() {
    let world = World::new(PROGRAM, NOTES);
    // Waiting for the idle timeout would take longer than this test.
    world.configure("takeover_after_s = 3600");
    world.add_user("ann");
    let server = world.serve();
    let mut arguments = world.sync_arguments("ann", &server);
    arguments.extend(["--json", "--remote-id", "till-7"].map(str::to_owned));
    let attempt = || world.syncline.run(&arguments);
    let ping = [&arguments[..], &["--ping".to_owned()]].concat();
    assert_eq!(world.syncline.run(&ping).code, Some(0));

    // Another process of the same file: another file would not have to wait for it.
    let hello =
        Hello { file_secret: Some(secret_of(&world)), attempt: 0, ..hello("ann", "till-7") };
    let (mut first, _) = Peer::greeting(&server.url, hello);
    match first.receive() {
        Some(Message::SchemaChange(change)) => assert_eq!(change.schema.tables.len(), 1),
        other => panic!("{other:?} instead of a schema"),
    }
    first.send(&Message::UploadBegin(UploadBegin { previous: Progress(0), progress: Progress(1) }));
    first.send(&row(1001));

    let living = AtomicBool::new(true);
    let locked_out = std::thread::scope(|scope| {
        scope.spawn(|| {
            for id in 1002.. {
                // The server closes in the end.
                if !living.load(Ordering::Relaxed) || first.try_send(&row(id)).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        // Also when an assertion fails, or the scope would wait without end.
        let _stop = Stop(&living);
        // A ping takes nothing from another synchronization.
        world.syncline.run(&ping).message("E2110");
        time_of(|| until("the takeover", || attempt().code == Some(0)))
    });
    assert!(locked_out < LOCKED_OUT_MAX, "{locked_out:?}");
    assert_taken_over(&world, &server, &mut first);
    assert_eq!(attempt().code, Some(0));
}

/// The operator is warned, the predecessor is refused, and nothing of it is there.
fn assert_taken_over(world: &World, server: &Server, first: &mut Peer) {
    let log = server.log();
    let told = |line: &str| line.contains("WARN") && line.contains("was taken over");
    assert!(log.lines().any(told), "the operator is told: {log}");
    assert_eq!(first.refusal(), Some(Code::Superseded.number()));
    assert_eq!(count(&world.consolidated(), "SELECT count(*) FROM note"), 0);
}

/// How the server refuses a peer, as its first word.
fn refusal(answer: Option<Message>) -> Failed {
    match answer {
        Some(Message::Failed(failed)) => failed,
        other => panic!("{other:?} instead of a refusal"),
    }
}

// S8, S11: what is no later attempt is sent the time to come back while the first makes progress;
// when the first stalls it is taken over.
#[test]
fn a_living_synchronization_is_kept_and_a_stalled_one_taken_over() {
    let (world, server) = notes();
    let greet = || {
        let mut peer = Peer::connect(&server.url);
        peer.send_bytes(&MAGIC);
        // As a backup of the same file would.
        let hello = Hello { attempt: 7, ..hello("ann", "till-7") };
        peer.send(&Message::Hello(Box::new(hello)));
        (peer.receive(), peer)
    };
    let (welcome, mut first) = greet();
    assert!(matches!(welcome, Some(Message::Welcome(_))), "{welcome:?}");
    assert!(matches!(first.receive(), Some(Message::SchemaChange(_))));
    first.send(&Message::UploadBegin(UploadBegin { previous: Progress(0), progress: Progress(1) }));
    first.send(&row(1001));
    let living = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while living.load(Ordering::Relaxed) {
                // The server may have closed already: what this test is about then fails below.
                let _ = first.try_send(&Message::Heartbeat);
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        // Also when an assertion fails, or the scope would wait without end.
        let _stop = Stop(&living);
        let refused = time_of(|| {
            // Each attempt waits a second for its predecessor.
            for _ in 0..=TAKEOVER_AFTER_S {
                let failed = refusal(greet().0);
                assert_eq!(failed.code, Code::AlreadySynchronizing.number());
                assert!(failed.retry_after_s.is_some_and(|s| s >= 1), "{failed:?}");
            }
        });
        assert!(refused > Duration::from_secs(TAKEOVER_AFTER_S));
    });
    // Then it comes through to the database, which has seen this attempt already.
    let taken_over = || refusal(greet().0).code == Code::Superseded.number();
    let locked_out = time_of(|| until("the takeover", taken_over));
    assert!(locked_out < LOCKED_OUT_MAX, "{locked_out:?}");
    assert_taken_over(&world, &server, &mut first);
}

/// Kills ann's client in the middle of an upload; the server does not learn of it.
fn kill_in_upload(world: &World, server: &Server) -> Network {
    let network = Network::new(&server.url);
    network.stall_upload_after(300_000);
    let mut client = world.sync_through("ann", &network.url);
    until("the middle of the upload", || network.is_stalled());
    client.kill().unwrap();
    client.wait().unwrap();
    network
}

// S8, S1: the server still waits for the rest of an upload whose client is dead.
#[test]
fn a_client_that_died_in_its_upload_does_not_lock_out_its_successor() {
    let (world, server) = notes();
    world.sync("ann", &server);
    write(&world, 5000);
    let network = kill_in_upload(&world, &server);
    write(&world, 1);
    let arguments = world.sync_arguments("ann", &server);
    let locked_out = time_of(|| {
        until("the successor", || {
            let outcome = world.syncline.run(&arguments);
            if outcome.code != Some(0) {
                outcome.message("E2110");
            }
            outcome.code == Some(0)
        });
    });
    assert!(locked_out < LOCKED_OUT_MAX, "{locked_out:?}");
    // What the network still holds of the first upload comes too late.
    network.resume();
    world.sync("ann", &server);
    assert_arrived_once(&world, 5001);
}

// S8, S1: the client is dead, and so is the connection: the successor need not wait.
#[test]
fn a_client_that_died_with_its_connection_is_followed_at_once() {
    let (world, server) = notes();
    world.sync("ann", &server);
    write(&world, 5000);
    drop(kill_in_upload(&world, &server));
    // It would be refused after a second if the server had not noticed.
    world.sync("ann", &server);
    assert_arrived_once(&world, 5000);
}
