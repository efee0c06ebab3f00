//! A large table that a remote receives for the first time appears as a whole or not at all.
//!
//! Needs a client that can die: `cargo test -p syncline --features fail-points`.

#![cfg(feature = "fail-points")]

use harness::{Server, World, count, peak_memory_bytes, sql, until};
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

/// Enough rows to be filled out of sight.
const ROWS: i64 = 12_000;

const SCHEMA: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, code TEXT UNIQUE, text TEXT);
    CREATE INDEX item_text ON item (substr(text, 1, 8));
    CREATE TABLE part (id INTEGER PRIMARY KEY, item_id INTEGER REFERENCES item (id));";

/// Where a client dies, in the order of what it does.
const POINTS: [&str; 6] = [
    "client-download-received",
    "client-fill-begun",
    "client-fill-written",
    "client-fill-indexed",
    "client-apply-before-commit",
    "client-apply-committed",
];

/// A center with rows of so many bytes.
fn shop(row_bytes: i64, remotes: &[String]) -> (World, Server) {
    let world = World::new(PROGRAM, SCHEMA);
    world.center_sql(&format!(
        "WITH RECURSIVE n(id) AS (VALUES(1) UNION ALL SELECT id + 1 FROM n WHERE id < {ROWS})
         INSERT INTO item SELECT id, 'code ' || id, hex(randomblob({} / 2)) FROM n;
         INSERT INTO part SELECT id, id FROM item WHERE id % 1000 = 0;",
        row_bytes
    ));
    remotes.iter().for_each(|name| world.add_user(name));
    let server = world.serve();
    (world, server)
}

fn items(remote: &Path) -> i64 {
    count(remote, "SELECT count(*) FROM item")
}

/// Tables and indexes under hidden names.
fn hidden(remote: &Path, kind: &str) -> i64 {
    let named = format!("type = '{kind}' AND name LIKE 'syncline!_fill!_%' ESCAPE '!'");
    count(remote, &format!("SELECT count(*) FROM sqlite_schema WHERE {named}"))
}

/// What an application writes between two attempts.
fn write(remote: &Path, id: usize) {
    let item = format!("INSERT INTO item VALUES (-{id}, 'mine {id}', 'x')");
    sql(remote, &format!("{item}; INSERT INTO part VALUES (-{id}, -{id})"));
}

/// The next attempt must leave the remote as one that was never killed.
fn assert_complete(world: &World, server: &Server, name: &str) {
    let remote = world.remote(name);
    world.sync(name, server);
    world.sync(name, server);
    world.assert_converged(&[name]);
    assert_eq!((hidden(&remote, "table"), hidden(&remote, "index")), (0, 0), "{name}");
    assert_eq!(count(&remote, "SELECT count(*) FROM pragma_integrity_check"), 1, "{name}");
    let sound = "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'";
    assert_eq!(count(&remote, sound), 1, "{name}");
    assert_eq!(count(&remote, "SELECT count(*) FROM pragma_foreign_key_check"), 0, "{name}");
}

// S2, S4, S7: kills at every step of a first fill, and changes of the application in between.
#[test]
fn a_first_fill_that_is_killed_shows_all_rows_or_none() {
    let names: Vec<String> = (0..POINTS.len()).map(|number| format!("till-{number}")).collect();
    // Two transactions of rows.
    let (world, server) = shop(1_500, &names);
    for ((name, point), id) in names.iter().zip(POINTS).zip(1..) {
        let died = world.try_sync(name, &server, Some(&format!("{point}=return")));
        assert_eq!(died.code, None, "{point}: {}", died.stderr);
        let remote = world.remote(name);
        let of_others = i64::try_from(id).unwrap() - 1;
        let all = if point == "client-apply-committed" { ROWS + of_others } else { 0 };
        assert_eq!(items(&remote), all, "{point}");
        write(&remote, id);
        assert_complete(&world, &server, name);
    }
}

/// The rows of a table whose memory is measured: 120 MB.
const ROW_BYTES: i64 = 10_000;

/// The program itself without optimization, the cache of SQLite, and a transaction of rows.
const MEMORY_MAX: u64 = 96 << 20;

// S4, S9: while rows are filled out of sight, another program writes and sees none of them.
#[test]
fn an_application_writes_while_a_table_is_filled() {
    let name = "till".to_owned();
    let (world, server) = shop(ROW_BYTES, std::slice::from_ref(&name));
    let remote = world.remote(&name);
    let mut command = world.syncline.command(&world.sync_arguments(&name, &server));
    let mut client = command.env("FAILPOINTS", "client-fill-indexed=pause").spawn().unwrap();
    until("an index of a table that nobody sees", || {
        remote.exists() && hidden(&remote, "index") > 0
    });
    assert_eq!(items(&remote), 0);
    write(&remote, 1);
    let taken = peak_memory_bytes(client.id()).unwrap();
    assert!(taken < MEMORY_MAX, "{taken} bytes for {} of rows", ROW_BYTES * ROWS);
    client.kill().unwrap();
    client.wait().unwrap();
    assert_eq!(items(&remote), 1);
    assert_complete(&world, &server, &name);
}
