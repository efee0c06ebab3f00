//! A remote ID has an owner (trap 30): its first user, and one file.
//!
//! Before, any user could present any remote ID, receive the rows of that remote, make the center
//! forget its owed rows, and block it by sending rows slowly.

use harness::{Outcome, Peer, Server, World, hello, query, sql};
use model::{Code, Counter, FileSecret, Nonce, Progress, ValueRef, write_value};
use protocol::{
    Hello, MAGIC, Message, Mode, Operation, RowsFrame, TableWatermark, UploadBegin, UploadEnd,
};
use serde_json::{Value, json};
use std::fs;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const NOTES: &str = "CREATE TABLE note (id INTEGER PRIMARY KEY, device TEXT,
        text TEXT CHECK (text <> 'bad'));
    INSERT INTO note VALUES (1, 'till-7', 'secret'), (2, 'till-8', 'other')";

const MODEL: &str = "script_version = \"v1\"
[table.note]
partition = \"device = {s.remote_id}\"
";

/// A world on each database whose rows belong to devices.
fn worlds() -> Vec<(World, Server)> {
    let sqlite = World::without_deployment(PROGRAM, NOTES);
    sqlite.syncline.ok(&["init", ".", "--consolidated", "sqlite:consolidated.db"]);
    let database = harness::postgres::Cluster::shared().database();
    database.sql(NOTES);
    let postgres = World::on_database(PROGRAM, database);
    let url = postgres.database().url();
    postgres.syncline.ok(&["init", ".", "--consolidated", &url]);
    let deployed = |world: World| {
        fs::write(world.path("model.toml"), MODEL).unwrap();
        world.syncline.ok(&["deploy"]);
        world.add_user("ann");
        world.add_user("mallory");
        let server = world.serve();
        (world, server)
    };
    vec![deployed(sqlite), deployed(postgres)]
}

/// Synchronizes a file as this user, with further arguments.
fn try_sync(world: &World, server: &Server, file: &str, user: &str, more: &[&str]) -> Outcome {
    let password = format!("{user}.password");
    let given = ["sync", file, "--server", &server.url, "--user", user, "--json"];
    let given = [&given[..], &["--password-file", &password], more].concat();
    world.syncline.run(&given)
}

fn sync_as(world: &World, server: &Server, file: &str, user: &str, more: &[&str]) -> Value {
    let outcome = try_sync(world, server, file, user, more);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    serde_json::from_str(&outcome.stdout).unwrap()
}

fn refused(world: &World, server: &Server, file: &str, user: &str, more: &[&str], code: &str) {
    let outcome = try_sync(world, server, file, user, more);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    outcome.message(code);
}

const TILL: [&str; 2] = ["--remote-id", "till-7"];

/// What the center knows of the remote, but for the times.
fn known(world: &World) -> i64 {
    let prefix = if world.path("consolidated.db").exists() { "" } else { "syncline." };
    world.center_count(&format!(
        "SELECT epoch * 1000 + counter FROM {prefix}syncline_remote WHERE remote_id = 'till-7'"
    ))
}

// S7, S8, S1, Trap 30
#[test]
fn another_user_gets_a_code_and_nothing_else_happens() {
    for (world, server) in worlds() {
        sync_as(&world, &server, "ann.db", "ann", &TILL);
        sql(
            &world.remote("ann"),
            "PRAGMA ignore_check_constraints = ON;
             INSERT INTO note VALUES (3, 'till-7', 'bad')",
        );
        sync_as(&world, &server, "ann.db", "ann", &["--upload-only"]);
        let before = known(&world);

        refused(&world, &server, "mallory.db", "mallory", &TILL, "E2160");
        for more in ["--ping", "--upload-only", "--download-only"] {
            let more = [&TILL[..], &[more]].concat();
            refused(&world, &server, "mallory.db", "mallory", &more, "E2160");
        }
        assert!(!world.path("mallory.db").exists(), "no file is left of a refused remote ID");
        // A Hello of one that was here, and one that knows everything but the secret.
        for progress in [0, 5, i64::MAX] {
            let forged = Hello {
                counter: Counter(progress),
                progress: Progress(progress),
                nonce_confirmed: Nonce(1),
                ..hello("mallory", "till-7")
            };
            let mut peer = Peer::connect(&server.url);
            peer.send_bytes(&MAGIC);
            peer.send(&Message::Hello(Box::new(forged)));
            assert_eq!(peer.refusal(), Some(Code::RemoteOfAnother.number()));
        }
        assert_eq!(known(&world), before, "epoch and counter are as they were");

        sync_as(&world, &server, "ann.db", "ann", &[]);
        let rejects = world.syncline.json(&["remote", "rejects", "ann.db", "--json"]);
        assert_eq!(rejects[0]["key"], json!({ "id": 3 }), "what ann was owed is not forgotten");
        // Without that ID mallory is a remote as any other, which has no rows.
        let report = sync_as(&world, &server, "mallory.db", "mallory", &[]);
        assert_eq!(report["downloaded"]["upserts"], json!(0));
    }
}

// S8, Trap 30: 18 of 18 attempts were refused while another user sent rows slowly.
#[test]
fn whoever_drips_rows_under_the_id_of_another_keeps_nobody_out() {
    for (world, server) in worlds() {
        sync_as(&world, &server, "ann.db", "ann", &TILL);
        let mut forger = Peer::connect(&server.url);
        forger.send_bytes(&MAGIC);
        forger.send(&Message::Hello(Box::new(hello("mallory", "till-7"))));
        let _ = forger.try_send(&Message::UploadBegin(UploadBegin {
            previous: Progress(0),
            progress: Progress(1),
        }));
        for _ in 0..3 {
            let _ = forger.try_send(&Message::Heartbeat);
            sync_as(&world, &server, "ann.db", "ann", &[]);
        }
        assert_eq!(forger.refusal(), Some(Code::RemoteOfAnother.number()));
    }
}

// Trap 30: what binds is a commit.
#[test]
fn a_ping_binds_nothing_and_the_first_synchronization_does() {
    for (world, server) in worlds() {
        sync_as(&world, &server, "mallory.db", "mallory", &[&TILL[..], &["--ping"]].concat());
        sync_as(&world, &server, "ann.db", "ann", &[&TILL[..], &["--download-only"]].concat());
        refused(&world, &server, "mallory.db", "mallory", &TILL, "E2160");
    }
}

// S7, Trap 30: changes of one user must not be uploaded with the rights of another.
#[test]
fn the_user_of_a_file_changes_only_when_nothing_waits() {
    for (world, server) in worlds() {
        sync_as(&world, &server, "ann.db", "ann", &TILL);
        sql(&world.remote("ann"), "INSERT INTO note VALUES (3, 'till-7', 'waits')");
        refused(&world, &server, "ann.db", "mallory", &[], "E5160");
        sync_as(&world, &server, "ann.db", "ann", &[]);
        // Nothing waits now, but the remote is ann's.
        refused(&world, &server, "ann.db", "mallory", &[], "E2160");
        let status = world.syncline.json(&["remote", "status", "ann.db", "--json"]);
        assert_eq!(status["user"], json!("ann"), "a refused user is not remembered");
        assert_eq!(status["remote_id"], json!("till-7"));
        world.syncline.ok(&["sync", "ann.db", "--password-file", "ann.password"]);
    }
}

// Trap 30, Trap 18: remotes of programs that knew no secret, and no owner.
#[test]
fn a_remote_of_today_is_bound_at_its_next_synchronization() {
    for (world, server) in worlds() {
        sync_as(&world, &server, "ann.db", "ann", &TILL);
        let prefix = if world.path("consolidated.db").exists() { "" } else { "syncline." };
        world.center_sql(&format!("UPDATE {prefix}syncline_remote SET secret = NULL"));
        sql(
            &world.remote("ann"),
            "DELETE FROM syncline_state WHERE name = 'file_secret';
             INSERT INTO note VALUES (3, 'till-7', 'mine')",
        );
        sync_as(&world, &server, "ann.db", "ann", &[]);
        let bound = format!("SELECT count(*) FROM {prefix}syncline_remote WHERE secret IS NULL");
        assert_eq!(world.center_count(&bound), 0);
        refused(&world, &server, "mallory.db", "mallory", &TILL, "E2160");
        assert_eq!(world.center_count("SELECT count(*) FROM note WHERE text = 'mine'"), 1);
    }
}

// S1, Trap 13: a new file took the place of one that did not know what became of its upload; that
// one uploaded it again, and a row that was deleted meanwhile came back.
#[test]
#[cfg(feature = "fail-points")]
fn a_replaced_file_is_told_what_became_of_its_last_upload() {
    for (world, server) in worlds() {
        // Rows without an owner: rows of a device are refused from another file.
        fs::write(world.path("model.toml"), "script_version = \"v1\"\n[table.note]\n").unwrap();
        world.syncline.ok(&["deploy"]);
        sync_as(&world, &server, "ann.db", "ann", &TILL);
        sql(&world.remote("ann"), "INSERT INTO note VALUES (3, 'till-7', 'once')");
        let dead = world.try_sync("ann", &server, Some("client-upload-committed=return"));
        assert_ne!(dead.code, Some(0));
        assert_eq!(world.center_count("SELECT count(*) FROM note WHERE id = 3"), 1);
        sync_as(&world, &server, "new.db", "ann", &TILL);
        sql(&world.remote("new"), "DELETE FROM note WHERE id = 3");
        sync_as(&world, &server, "new.db", "ann", &[]);

        sql(&world.remote("ann"), "INSERT INTO note VALUES (4, 'till-7', 'waits')");
        let report = sync_as(&world, &server, "ann.db", "ann", &[]);
        assert_ne!(report["remote_id"], json!("till-7"), "it is another remote now");
        assert_eq!(world.center_count("SELECT count(*) FROM note WHERE id = 3"), 0);
        assert_eq!(world.center_count("SELECT count(*) FROM note WHERE id = 4"), 1, "what waited");
        let again = sync_as(&world, &server, "new.db", "ann", &[]);
        assert_eq!(again["remote_id"], json!("till-7"));
    }
}

/// The rows of an upload of one row.
fn one_row(id: i64) -> [Message; 2] {
    let mut bytes = Vec::new();
    write_value(&mut bytes, ValueRef::Integer(id));
    write_value(&mut bytes, ValueRef::Text(b"till-9"));
    write_value(&mut bytes, ValueRef::Text(b"late"));
    let rows = RowsFrame { table: 0, operation: Operation::Insert, count: 1, bytes };
    [Message::Rows(rows), Message::UploadEnd(UploadEnd { rows: 1 })]
}

/// Sends a Hello, and what announces an upload behind it.
fn begin_upload(server: &Server, hello: Hello, previous: i64, progress: i64) -> Peer {
    let mut peer = Peer::connect(&server.url);
    peer.send_bytes(&MAGIC);
    peer.send(&Message::Hello(Box::new(Hello { upload_follows: true, ..hello })));
    let (previous, progress) = (Progress(previous), Progress(progress));
    // The server may have closed already.
    let _ = peer.try_send(&Message::UploadBegin(UploadBegin { previous, progress }));
    peer
}

fn send_row(peer: &mut Peer, id: i64) {
    for message in one_row(id) {
        let _ = peer.try_send(&message);
    }
}

fn answers(mut peer: Peer) -> Vec<Message> {
    std::iter::from_fn(|| peer.receive()).collect()
}

/// Uploads one row as the remote that this Hello is of, behind the Hello.
fn upload_with(server: &Server, hello: Hello, id: i64) -> Vec<Message> {
    let mut peer = begin_upload(server, hello, 0, 100);
    send_row(&mut peer, id);
    answers(peer)
}

fn was_served(answers: &[Message]) -> bool {
    answers.iter().any(|it| matches!(it, Message::DownloadEnd(_)))
}

/// The code of the refusal, and the last upload that it tells.
fn refusal(answers: &[Message]) -> (u16, Option<Progress>) {
    match answers.last() {
        Some(Message::Failed(failed)) => (failed.code, failed.progress),
        other => panic!("{other:?} instead of a refusal"),
    }
}

fn rows_of_id(world: &World, id: i64) -> i64 {
    world.center_count(&format!("SELECT count(*) FROM note WHERE id = {id}"))
}

const COPIED: u16 = 2107;

/// Hellos of the file with this secret, which never had an answer.
fn file_of_till_9(server: &Server, secret: u8) -> impl Fn(i64) -> Hello {
    let (_, schema) = Peer::admitted(&server.url, "ann", "probe");
    move |attempt| Hello {
        attempt,
        file_secret: Some(FileSecret::new([secret; 16])),
        schema_fingerprint: Some(schema.fingerprint.clone()),
        ..hello("ann", "till-9")
    }
}

/// The same file, when its first upload had been answered by the download with this number.
fn answered(counter: i64, hello: Hello) -> Hello {
    let (nonce_confirmed, nonce_attempt) = (hello.nonce_attempt, Nonce(4712));
    Hello {
        counter: Counter(counter),
        progress: Progress(100),
        nonce_confirmed,
        nonce_attempt,
        ..hello
    }
}

const TILL_9: [&str; 2] = ["--remote-id", "till-9"];

// S1, S8, Trap 30: two files of one user under one remote ID; the rightful one was kept out for as
// long as the other sent something, and what slept must not be applied when it wakes up.
#[test]
fn a_slow_upload_of_a_replaced_file_keeps_nobody_out_and_is_not_applied() {
    for (world, server) in worlds() {
        let first = file_of_till_9(&server, 7);
        assert!(was_served(&upload_with(&server, first(1_000_001), 9)));
        let mut slow = begin_upload(&server, answered(1, first(1_000_002)), 100, 200);
        for _ in 0..2 {
            slow.send(&Message::Heartbeat);
            let report = sync_as(&world, &server, "new.db", "ann", &TILL_9);
            assert_eq!(report["remote_id"], json!("till-9"), "it took the ID over");
        }
        sql(&world.remote("new"), "INSERT INTO note VALUES (11, 'till-9', 'new')");
        send_row(&mut slow, 10);
        assert_eq!(refusal(&answers(slow)), (COPIED, Some(Progress(100))));
        assert_eq!((rows_of_id(&world, 9), rows_of_id(&world, 10)), (1, 0));
        // However it says it again.
        let waits =
            Hello { outcome: protocol::LastUpload::Unknown, ..answered(1, first(1_000_003)) };
        let mut again = begin_upload(&server, waits, 100, 200);
        send_row(&mut again, 10);
        assert_eq!(refusal(&answers(again)), (COPIED, Some(Progress(100))));
        assert_eq!(rows_of_id(&world, 10), 0);
        sync_as(&world, &server, "new.db", "ann", &[]);
        assert_eq!(rows_of_id(&world, 11), 1, "the file that took over goes on");
    }
}

// S1, Trap 25, Trap 30: the file was replaced before it heard of its first upload. Its late Hello,
// and its next one, have no past, and were taken for those of another new file.
#[test]
fn a_file_replaced_before_it_had_an_answer_is_told_its_upload_and_does_not_repeat_it() {
    for (world, server) in worlds() {
        let (first, second) = (file_of_till_9(&server, 7), file_of_till_9(&server, 8));
        assert!(was_served(&upload_with(&server, first(1_000_002), 9)));
        assert!(was_served(&upload_with(&server, second(1), 12)), "another file takes over");
        world.center_sql("DELETE FROM note WHERE id = 9");
        for (attempt, outcome) in
            [(1_000_001, protocol::LastUpload::Known), (1_000_003, protocol::LastUpload::Unknown)]
        {
            let hello = Hello { outcome, ..first(attempt) };
            let answers = upload_with(&server, hello, 9);
            assert_eq!(refusal(&answers), (COPIED, Some(Progress(100))));
            assert_eq!(rows_of_id(&world, 9), 0, "a deleted row came back");
        }
        // The second keeps the ID, and a third may have it.
        let knows = Hello { mode: Mode::DownloadOnly, ..answered(2, second(2)) };
        let (peer, _) = Peer::greeting(&server.url, knows);
        assert!(was_served(&answers(peer)));
        sync_as(&world, &server, "third.db", "ann", &TILL_9);
        assert_eq!(
            refusal(&upload_with(&server, answered(2, second(3)), 13)),
            (COPIED, Some(Progress(100)))
        );
    }
}

// S1, S8, Trap 30: both are at the database at once. The first is applied, and the one that took
// over afterwards keeps its state.
#[test]
fn a_file_that_takes_over_while_the_other_is_applied_waits_for_its_commit() {
    let (world, server) = worlds().remove(1);
    let first = file_of_till_9(&server, 7);
    assert!(was_served(&upload_with(&server, first(1_000_001), 9)));
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let mut other = world.database().session();
    other.sql("BEGIN; LOCK TABLE note IN SHARE MODE");
    let mut slow = begin_upload(&server, answered(1, first(1_000_002)), 100, 200);
    send_row(&mut slow, 10);
    harness::until("the upload to be applied", || world.center_count(waiting) == 1);
    let given = ["sync", "new.db", "--server", &server.url, "--user", "ann"];
    let given = [&given[..], &["--password-file", "ann.password"], &TILL_9].concat();
    let taking = world.syncline.command(&given).spawn().unwrap();
    harness::until("the other file to wait", || world.center_count(waiting) == 2);
    other.sql("COMMIT");
    let outcome = harness::finish(taking);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    // Its upload was committed. Whether its download came before the other began is open.
    drop(answers(slow));
    assert_eq!(rows_of_id(&world, 10), 1);
    let again = upload_with(&server, answered(1, first(1_000_003)), 14);
    assert_eq!(refusal(&again), (COPIED, Some(Progress(200))));
    assert_eq!(rows_of_id(&world, 14), 0);
}

// S1, Trap 25: an upload of a remote that has tables but no download yet slept on its way,
// succeeded through another server, and woke up: a deleted row returned.
#[test]
fn a_late_upload_of_a_remote_without_a_past_is_not_applied_again() {
    for (world, server) in worlds() {
        for (remote_id, secret) in [("till-9", Some(FileSecret::new([7; 16]))), ("till-10", None)] {
            let (_, schema) = Peer::admitted(&server.url, "ann", "probe");
            let sent = |attempt| Hello {
                attempt,
                file_secret: secret,
                schema_fingerprint: Some(schema.fingerprint.clone()),
                ..hello("ann", remote_id)
            };
            let device = format!("UPDATE note SET device = '{remote_id}' WHERE text = 'late'");
            let answers = upload_with(&server, sent(1_000_002), 9);
            let ended = answers.iter().any(|it| matches!(it, Message::DownloadEnd(_)));
            assert!(ended, "{answers:?}");
            world.center_sql(&device);
            world.center_sql("DELETE FROM note WHERE id = 9");
            let answers = upload_with(&server, sent(1_000_001), 9);
            assert!(matches!(answers.last(), Some(Message::Failed(_))), "{answers:?}");
            assert_eq!(world.center_count("SELECT count(*) FROM note WHERE id = 9"), 0);
            // Meanwhile the remote has gone on: nonce and counter are others.
            let next = Hello {
                counter: Counter(1),
                nonce_confirmed: Nonce(4711),
                nonce_attempt: Nonce(4712),
                progress: Progress(100),
                watermarks: Vec::<TableWatermark>::new(),
                mode: Mode::DownloadOnly,
                ..sent(1_000_003)
            };
            let (_peer, _) = Peer::greeting(&server.url, next);
            if secret.is_some() {
                let answers = upload_with(&server, sent(1_000_001), 9);
                assert!(matches!(answers.last(), Some(Message::Failed(_))), "{answers:?}");
                assert_eq!(world.center_count("SELECT count(*) FROM note WHERE id = 9"), 0);
            }
        }
    }
}

// Trap 30: the numbers that a client presents prove something about that client only.
#[test]
fn no_number_that_a_client_makes_up_makes_others_start_again() {
    for (world, server) in worlds() {
        sync_as(&world, &server, "ann.db", "ann", &TILL);
        let claims = [(i64::MAX, 0), (7, i64::MAX), (i64::MAX, i64::MAX), (9, 9)];
        for (number, (counter, progress)) in claims.into_iter().enumerate() {
            for round in 1..=2 {
                let forged = Hello {
                    counter: Counter(counter),
                    progress: Progress(progress),
                    nonce_confirmed: Nonce(1),
                    mode: Mode::DownloadOnly,
                    nonce_attempt: Nonce(round),
                    ..hello("mallory", &format!("forged-{number}"))
                };
                let mut peer = Peer::connect(&server.url);
                peer.send_bytes(&MAGIC);
                peer.send(&Message::Hello(Box::new(forged)));
                let answers: Vec<Message> = std::iter::from_fn(|| peer.receive()).collect();
                // It is served, and taken for a copy where it says the same again.
                let served = matches!(answers.last(), Some(Message::DownloadEnd(_)));
                assert!(served || round > 1, "{answers:?}");
            }
        }
        let report = sync_as(&world, &server, "ann.db", "ann", &[]);
        assert_eq!(report["downloaded"], json!({ "upserts": 0, "deletes": 0 }));
        assert_eq!(query(&world.remote("ann"), "SELECT id FROM note").concat(), ["1"]);
        let prefix = if world.path("consolidated.db").exists() { "" } else { "syncline." };
        let wrapped = format!("SELECT count(*) FROM {prefix}syncline_remote WHERE counter < 0");
        assert_eq!(world.center_count(&wrapped), 0);
    }
}
