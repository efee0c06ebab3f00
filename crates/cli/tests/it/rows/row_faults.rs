//! Which errors of SQLite are the fault of a row, and which are not.

use harness::{Server, Syncline, World, count, finish, sql};
use std::os::unix::fs::PermissionsExt;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

/// Tables whose owner refuses a row in one way each. What a row sets off before is noted.
const DOCS: &str = "CREATE TABLE audit (number INTEGER PRIMARY KEY, name TEXT, id INTEGER);
    CREATE TABLE plain (id INTEGER PRIMARY KEY, n INTEGER, body TEXT);
    CREATE TABLE json (id INTEGER PRIMARY KEY, n INTEGER, body TEXT);
    CREATE TABLE abort (id INTEGER PRIMARY KEY, n INTEGER, body TEXT);
    CREATE TABLE fail (id INTEGER PRIMARY KEY, n INTEGER, body TEXT);
    CREATE TABLE rollback (id INTEGER PRIMARY KEY, n INTEGER, body TEXT);
    CREATE TABLE overflow (id INTEGER PRIMARY KEY, n INTEGER, body TEXT);
    CREATE TABLE too_big (id INTEGER PRIMARY KEY, n INTEGER, body TEXT);";

/// Name, and what the trigger of the table does with a row whose `n` is below nothing.
const REFUSALS: [(&str, &str); 6] = [
    ("json", "SELECT json_extract(NEW.body, '$.a')"),
    ("abort", "SELECT RAISE(ABORT, 'not this one') WHERE NEW.n < 0"),
    ("fail", "SELECT RAISE(FAIL, 'not this one') WHERE NEW.n < 0"),
    ("rollback", "SELECT RAISE(ROLLBACK, 'not this one') WHERE NEW.n < 0"),
    ("overflow", "SELECT abs(-9223372036854775807 + NEW.n)"),
    ("too_big", "SELECT length(zeroblob(CASE WHEN NEW.n < 0 THEN 3000000000 END))"),
];

fn docs() -> (World, Server) {
    let mut schema = DOCS.to_owned();
    for (name, refusal) in REFUSALS {
        for event in ["INSERT", "UPDATE"] {
            schema += &format!(
                "CREATE TRIGGER {name}_{event} AFTER {event} ON {name} BEGIN
                     INSERT INTO audit (name, id) VALUES ('{name}', NEW.id);
                     {refusal};
                 END;"
            );
        }
        schema += &format!("INSERT INTO {name} VALUES (1, 1, '{{}}'), (2, 2, '{{}}');");
    }
    schema += "DELETE FROM audit;";
    let world = World::new(PROGRAM, &schema);
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    (world, server)
}

fn rejected(world: &World) -> i64 {
    world.center_count("SELECT count(*) FROM syncline_reject")
}

// S1, S4, S5, S11, Trap 17: a value that a trigger of the owner's could not work with failed the
// upload again and again, and nothing of the remote arrived any more. Changes before a
// `RAISE(FAIL)` stayed although the row was rejected, and changes after a `RAISE(ROLLBACK)` were
// committed alone.
#[test]
fn a_row_that_a_trigger_cannot_take_is_rejected_and_blocks_no_other() {
    let (world, server) = docs();
    let remote = world.remote("ann");
    let mut bad = 0;
    for (name, _) in REFUSALS {
        sql(
            &remote,
            &format!(
                "INSERT INTO {name} VALUES (10, 10, '{{}}'), (11, -1, '{{'), (12, 12, '{{}}');
                 UPDATE {name} SET n = -1, body = '{{' WHERE id = 1;
                 UPDATE {name} SET n = 20 WHERE id = 2;
                 INSERT INTO plain (n) VALUES (1);"
            ),
        );
        bad += 2;
    }
    let told = world.sync("ann", &server);
    assert_eq!(told["rejected"], bad, "{told}");
    assert_eq!(rejected(&world), bad);
    let reasons = "SELECT count(*) FROM syncline_reject
        WHERE message IN ('malformed JSON', 'not this one', 'integer overflow',
                          'string or blob too big')";
    assert_eq!(world.center_count(reasons), bad, "in the words of the database");
    for (name, _) in REFUSALS {
        let sum = format!("SELECT sum(n) FROM {name}");
        assert_eq!(world.center_count(&sum), 10 + 12 + 1 + 20, "{name}");
        let noted = format!("SELECT sum(id) FROM audit WHERE name = '{name}'");
        assert_eq!(world.center_count(&noted), 10 + 12 + 2, "{name}: nothing else was set off");
    }
    assert_eq!(world.center_count("SELECT count(*) FROM plain"), 6);
    world.assert_converged(&["ann"]);
    assert_eq!(world.sync("ann", &server)["rejected"], 0);
    assert_eq!(count(&remote, "SELECT count(*) FROM syncline_reject"), bad);
    world.assert_converged(&["ann"]);
}

// S1, S8, Trap 17: several are applied in one transaction, which one of them ends.
#[test]
fn whoever_shares_a_transaction_that_a_row_ends_loses_nothing() {
    let (world, server) = docs();
    let names = ["ben", "cleo", "dora", "emil", "fay"];
    for (number, name) in names.iter().enumerate() {
        world.add_user(name);
        world.sync(name, &server);
        let id = 100 + number;
        let table = if number % 2 == 1 { "rollback" } else { "plain" };
        let text = format!(
            "INSERT INTO {table} VALUES ({id}, -{id}, '{{}}');
             INSERT INTO plain VALUES ({id}0, 1, '{{}}')"
        );
        sql(&world.remote(name), &text);
    }
    // They wait for the lock together, and go on together.
    let other = rusqlite::Connection::open(world.consolidated()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let running = names.map(|name| world.sync_through(name, &server.url));
    std::thread::sleep(std::time::Duration::from_secs(2));
    other.execute_batch("ROLLBACK").unwrap();
    for child in running {
        let outcome = finish(child);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
    assert_eq!(rejected(&world), 2);
    assert_eq!(world.center_count("SELECT count(*) FROM rollback WHERE n < 0"), 0);
    assert_eq!(world.center_count("SELECT count(*) FROM plain"), 5 + 3);
    for name in names {
        assert_eq!(world.sync(name, &server)["uploaded"]["inserts"], 0, "{name}");
    }
    world.assert_converged(&names);
}

// S4, S11: what the owner of the database has to mend stops the rows that need it, which stay at
// the remote with the reason, and no others.
#[test]
fn what_only_the_owner_can_mend_rejects_the_rows_that_need_it() {
    let (world, server) = docs();
    let remote = world.remote("ann");
    let cases = [
        "SELECT nowhere(NEW.id)",
        "INSERT INTO gone VALUES (NEW.id)",
        "UPDATE audit SET gone = NEW.id",
        "INSERT INTO audit VALUES (NEW.id)",
    ];
    for (number, body) in cases.into_iter().enumerate() {
        let rows = format!(
            "INSERT INTO abort VALUES (5{number}, 1, '{{}}');
             INSERT INTO plain VALUES (5{number}, 1, '{{}}');
             UPDATE abort SET body = '{number}' WHERE id = 1"
        );
        sql(&remote, &rows);
        world
            .center_sql(&format!("CREATE TRIGGER spoilt BEFORE INSERT ON abort BEGIN {body}; END"));
        assert_eq!(world.sync("ann", &server)["rejected"], 1, "{body}");
        assert_eq!(rejected(&world), number as i64 + 1, "{body}");
        let arrived = format!("SELECT count(*) FROM abort WHERE body = '{number}'");
        assert_eq!(world.center_count(&arrived), 1, "{body}");
        world.center_sql("DROP TRIGGER spoilt");
        let kept = format!("SELECT count(*) FROM syncline_reject WHERE row LIKE '%5{number}%'");
        assert_eq!(count(&remote, &kept), 1, "{body}");
        world.sync("ann", &server);
        world.assert_converged(&["ann"]);
    }
}

/// A program that serves with a limit to the size of a file, of so many bytes: what comes behind it
/// is an error of the disk to SQLite.
fn limited(world: &World, bytes: u64) -> Syncline {
    let path = world.path("limited");
    let blocks = bytes / 512;
    let script = format!(
        "#!/bin/sh\ntrap '' XFSZ\n[ \"$1\" = serve ] && ulimit -f {blocks}\n\
         exec '{PROGRAM}' \"$@\"\n"
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    Syncline::new(path, world.path("").as_path())
}

// S2, S11: a disk that cannot be written to is no row's fault: a day's work would be gone from the
// remotes.
#[test]
fn a_disk_that_takes_no_more_fails_the_upload_and_rejects_nothing() {
    let (mut world, server) = docs();
    server.stop();
    let limited = limited(&world, 2 << 20);
    let unlimited = std::mem::replace(&mut world.syncline, limited);
    let server = world.serve();
    let remote = world.remote("ann");
    sql(
        &remote,
        "INSERT INTO plain VALUES (50, 1, '{}'), (51, 1, hex(zeroblob(3000000)));
         UPDATE json SET n = 7 WHERE id = 1",
    );
    for _ in 0..2 {
        let error = world.sync_fails("ann", &server, "E3007");
        assert!(error["message"].as_str().unwrap().contains("disk I/O error"), "{error}");
        assert_eq!(rejected(&world), 0);
        assert_eq!(world.center_count("SELECT count(*) FROM plain"), 0, "all or nothing");
    }
    server.stop();
    world.syncline = unlimited;
    let server = world.serve();
    let told = world.sync("ann", &server);
    assert_eq!((&told["rejected"], &told["uploaded"]["inserts"]), (&0.into(), &2.into()));
    world.assert_converged(&["ann"]);
}

/// The address space of a process, in bytes.
fn address_space(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

// S2, S11: memory that the machine lacks is no row's fault. SQLite is built without its statistics
// of memory, so no limit of its own holds; the system refuses what a trigger asks for.
#[test]
fn a_database_that_gets_no_memory_fails_the_upload_and_rejects_nothing() {
    let schema = "CREATE TABLE plain (id INTEGER PRIMARY KEY, n INTEGER, body TEXT);
        CREATE TRIGGER heavy AFTER INSERT ON plain BEGIN
            SELECT length(randomblob(900000000)) WHERE NEW.n < 0;
        END;";
    let world = World::new(PROGRAM, schema);
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    let remote = world.remote("ann");
    sql(&remote, "INSERT INTO plain VALUES (50, 1, '{}'), (51, -1, '{}'), (52, 1, '{}')");
    let most = address_space(server.id()) + (300 << 20);
    let limited = std::process::Command::new("prlimit")
        .args(["--pid", &server.id().to_string(), &format!("--as={most}")])
        .status();
    assert!(limited.unwrap().success());
    for _ in 0..2 {
        let error = world.sync_fails("ann", &server, "E3001");
        assert!(error["message"].as_str().unwrap().contains("out of memory"), "{error}");
        assert_eq!(rejected(&world), 0);
        assert_eq!(world.center_count("SELECT count(*) FROM plain"), 0, "all or nothing");
    }
    // The same server goes on.
    sql(&remote, "DELETE FROM plain WHERE n < 0");
    assert_eq!(world.sync("ann", &server)["uploaded"]["inserts"], 2);
    world.assert_converged(&["ann"]);
}
