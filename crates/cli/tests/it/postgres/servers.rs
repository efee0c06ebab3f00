//! Several server processes on one database: each may serve each remote (S3, S8).

use super::PROGRAM;
use harness::{Peer, Server, World, hello, sql, until};
use model::{Code, Counter, Nonce, Progress, ValueRef, write_value};
use protocol::{
    Hello, LastUpload, Message, Operation, RowsFrame, UploadBegin, UploadCommitted, UploadEnd,
    UploadState,
};

const NOTES: &str = "CREATE TABLE note (id int PRIMARY KEY, text text);
    CREATE TABLE seen (n int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id int);
    CREATE FUNCTION note_seen() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO seen (id) VALUES (NEW.id); RETURN NULL; END';
    CREATE TRIGGER note_seen AFTER INSERT ON note FOR EACH ROW EXECUTE FUNCTION note_seen();";

fn notes(names: &[&str]) -> World {
    let world = World::on_database(PROGRAM, harness::postgres::Cluster::shared().database());
    world.center_sql(NOTES);
    let url = world.database().url();
    world.syncline.ok(&["init", ".", "--consolidated", &url, "--table", "note"]);
    world.syncline.ok(&["deploy"]);
    for name in names {
        world.add_user(name);
    }
    world
}

fn assert_seen_once(world: &World, notes: i64) {
    assert_eq!(world.center_count("SELECT count(*) FROM note"), notes);
    assert_eq!(world.center_count("SELECT count(*) FROM seen"), notes);
    assert_eq!(world.center_count("SELECT count(DISTINCT id) FROM seen"), notes);
}

fn assert_converged(world: &World, names: &[&str]) {
    for name in names {
        let lines = world.differences_in(name, &[harness::Share::whole("note")]);
        assert!(lines.is_empty(), "{name} differs:\n{}", lines.join("\n"));
    }
}

// S3, S8: remotes go to either server, both at once, and all agree.
#[test]
fn two_servers_share_a_database() {
    const ROUNDS: i64 = 6;
    let names = ["ann", "ben", "cleo", "dora"];
    let world = notes(&names);
    let servers = [world.serve(), world.serve()];
    for round in 0..ROUNDS {
        std::thread::scope(|scope| {
            for (index, name) in names.iter().enumerate() {
                let (world, server) = (&world, &servers[(index + round as usize) % 2]);
                scope.spawn(move || {
                    world.sync(name, server);
                    let id = 1000 * (index as i64 + 1) + round;
                    let text = format!(
                        "INSERT INTO note VALUES ({id}, '{name}');
                         UPDATE note SET text = text || '{index}' WHERE id % 4 = {index}"
                    );
                    sql(&world.remote(name), &text);
                    world.sync(name, server);
                });
            }
        });
    }
    for name in names.iter().chain(&names) {
        world.sync(name, &servers[0]);
    }
    assert_converged(&world, &names);
    assert_seen_once(&world, ROUNDS * names.len() as i64);
}

fn sync_elsewhere(world: &World, name: &str, server: &Server) {
    until("another server to take over", || world.try_sync(name, server, None).code == Some(0));
}

// S1, S8: a server dies with an upload in its hands, another takes over, nothing is done twice.
#[cfg(feature = "fail-points")]
#[test]
fn a_killed_server_is_followed_by_another() {
    let points =
        ["server-upload-received", "server-upload-before-commit", "server-upload-committed"];
    let world = notes(&["ann"]);
    let living = world.serve();
    world.sync("ann", &living);
    for (number, point) in (1..).zip(points) {
        let mut dying = world.serve_with(&[], Some(&format!("{point}=return")));
        sql(&world.remote("ann"), &format!("INSERT INTO note VALUES ({number}, 'x')"));
        assert_ne!(world.try_sync("ann", &dying, None).code, Some(0), "{point}");
        until("the server to die", || dying.has_ended());
        sql(&world.remote("ann"), &format!("INSERT INTO note VALUES ({number} + 100, 'x')"));
        sync_elsewhere(&world, "ann", &living);
        assert_converged(&world, &["ann"]);
        assert_seen_once(&world, 2 * number);
    }
}

// S8: a server that freezes in the middle of an upload holds the row of its remote in a
// transaction. Neither that nor the session it still has locks the remote out.
#[test]
fn a_server_that_freezes_is_followed_by_another() {
    let world = notes(&["ann"]);
    world.configure("takeover_after_s = 1");
    world.center_sql("INSERT INTO note VALUES (1, 'x')");
    let living = world.serve();
    world.sync("ann", &living);
    let freezing = world.serve();
    sql(&world.remote("ann"), "UPDATE note SET text = 'y'; INSERT INTO note VALUES (2, 'x')");

    // Another session holds a row that the upload needs, so it is frozen there.
    let mut other = world.database().session();
    other.sql("BEGIN; SELECT FROM note WHERE id = 1 FOR UPDATE");
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND wait_event_type = 'Lock'";
    let mut first = world.sync_through("ann", &freezing.url);
    until("the upload to wait", || {
        // It waits for seconds only, and then tries again.
        if first.try_wait().unwrap().is_some() {
            first = world.sync_through("ann", &freezing.url);
        }
        world.center_count(waits) > 0
    });
    freezing.freeze();
    other.sql("ROLLBACK");
    // The file is locked by its process, which may die as well.
    first.kill().unwrap();
    first.wait().unwrap();
    sync_elsewhere(&world, "ann", &living);
    assert_converged(&world, &["ann"]);
    assert_seen_once(&world, 2);
    freezing.kill();
    world.sync("ann", &living);
    assert_seen_once(&world, 2);
}

/// Uploads one note under number 1, or nothing, and hears how that ended.
fn upload(peer: &mut Peer, note: Option<i64>) -> Option<Message> {
    let progress = Progress(i64::from(note.is_some()));
    peer.send(&Message::UploadBegin(UploadBegin { previous: Progress(0), progress }));
    if let Some(id) = note {
        let mut bytes = Vec::new();
        write_value(&mut bytes, ValueRef::Integer(id));
        write_value(&mut bytes, ValueRef::Text(b"peer"));
        let operation = Operation::Insert;
        peer.send(&Message::Rows(RowsFrame { table: 0, operation, count: 1, bytes }));
    }
    peer.send(&Message::UploadEnd(UploadEnd { rows: u64::from(note.is_some()) }));
    peer.receive()
}

// S8, Trap 6: a large upload waits for its Welcome, for which the database is not asked where
// nothing is in doubt. An attempt at another server in the meantime learns that it was not
// committed, and from then on it cannot be.
#[test]
fn an_upload_that_was_let_in_is_shut_out_by_whoever_asks_for_it() {
    let world = notes(&["ann"]);
    let (first, other) = (world.serve(), world.serve());
    let (mut peer, schema) = Peer::admitted(&first.url, "ann", "till-7");
    assert!(matches!(upload(&mut peer, None), Some(Message::UploadCommitted(_))));
    let mut last = peer.receive();
    while !matches!(last, Some(Message::DownloadEnd(_))) {
        last = peer.receive();
    }
    let again = || Hello {
        counter: Counter(1),
        nonce_confirmed: Nonce(4711),
        nonce_attempt: Nonce(4712),
        schema_fingerprint: Some(schema.fingerprint.clone()),
        ..hello("ann", "till-7")
    };

    let (mut late, welcome) = Peer::greeting(&first.url, again());
    assert_eq!((welcome.upload, welcome.progress), (UploadState::Send, None));
    let asking = Hello { outcome: LastUpload::Unknown, ..again() };
    let (mut asking, welcome) = Peer::greeting(&other.url, asking);
    assert_eq!((welcome.upload, welcome.progress), (UploadState::Send, Some(Progress(0))));
    match upload(&mut late, Some(1)) {
        Some(Message::Failed(failed)) => assert_eq!(failed.code, Code::Superseded.number()),
        other => panic!("{other:?} instead of a refusal"),
    }
    assert_seen_once(&world, 0);
    let committed = UploadCommitted { progress: Progress(1), inserts: 1, ..Default::default() };
    assert_eq!(upload(&mut asking, Some(2)), Some(Message::UploadCommitted(committed)));
    assert_seen_once(&world, 1);
}
