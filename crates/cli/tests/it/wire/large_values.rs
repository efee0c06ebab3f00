//! Values that are larger than any message neither end a worker nor block a remote.
//!
//! Needs a client that can die: `cargo test -p syncline --features fail-points`.

#![cfg(feature = "fail-points")]

use harness::{World, count, sql};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const NAMED: &str = "CREATE TABLE named (id TEXT PRIMARY KEY, n INTEGER);
    CREATE TABLE other (id INTEGER PRIMARY KEY, n INTEGER, text TEXT);";

/// PostgreSQL has no place for such a key in an index; a trigger makes SQLite refuse it too.
const ON_SQLITE: &str = "CREATE TRIGGER vetoed BEFORE INSERT ON named WHEN length(NEW.id) > 1000
    BEGIN SELECT RAISE(ABORT, 'a long key'); END;";

fn worlds() -> [World; 2] {
    let worlds =
        [World::new(PROGRAM, &format!("{NAMED}{ON_SQLITE}")), World::on_postgres(PROGRAM, NAMED)];
    worlds.iter().for_each(|world| world.add_user("ann"));
    worlds
}

fn rejected(result: &Value) -> i64 {
    result["rejected"].as_i64().unwrap()
}

// S1, S2, S9, S11: one message had both rejects and was more than a frame takes, which was a panic
// of the only writer, and again after a restart.
#[test]
fn rejects_with_keys_of_many_megabytes_arrive_also_after_a_restart() {
    for world in worlds() {
        let server = world.serve();
        world.sync("ann", &server);
        let remote = world.remote("ann");
        // 34 MB each, which no compression makes small.
        for _ in 0..2 {
            sql(&remote, "INSERT INTO named VALUES (hex(randomblob(17000000)), 1)");
        }
        sql(&remote, "INSERT INTO named VALUES ('short', 1); INSERT INTO other VALUES (1, 1, '')");
        let died = world.try_sync("ann", &server, Some("client-download-received=return"));
        assert_eq!(died.code, None, "{}", died.stderr);
        server.stop();

        let server = world.serve();
        world.sync("ann", &server);
        assert_eq!(count(&remote, "SELECT count(*) FROM syncline_reject"), 2);
        world.assert_converged(&["ann"]);
        world.center_sql("UPDATE other SET n = 2");
        assert_eq!(rejected(&world.sync("ann", &server)), 0, "they are told once");
        world.assert_converged(&["ann"]);
    }
}

// S2, S9, S11: PostgreSQL quotes the value in its message, and all messages went into one frame.
#[test]
fn rejects_whose_messages_quote_megabytes_arrive() {
    let world = World::on_postgres(PROGRAM, NAMED);
    // Rows as large as these keep busy processors for more than the usual seconds.
    world.configure("idle_in_transaction_timeout_s = 60");
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    let remote = world.remote("ann");
    sql(
        &remote,
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 70)
         INSERT INTO other SELECT n, replace(hex(zeroblob(500000)), '0', 'x'), '' FROM n;
         INSERT INTO other VALUES (100, 1, CAST(randomblob(23000000) AS TEXT)), (101, 1, 'good')",
    );
    let told = world.sync("ann", &server);
    assert_eq!(rejected(&told), 71, "{}", told.to_string().len());
    let longest = count(&remote, "SELECT max(length(CAST(message AS BLOB))) FROM syncline_reject");
    assert!(longest <= 1024, "{longest}");
    world.assert_converged(&["ann"]);
}

// S2, S9: a row of the center that no message carries is reported, and everything else arrives.
#[test]
fn a_row_of_seventy_megabytes_at_the_center_is_told() {
    let on = |world: &World, value: &str| {
        world.center_sql(&format!("INSERT INTO other VALUES (1, 1, {value}), (2, 2, 'small')"));
    };
    let [sqlite, postgres] = worlds();
    on(&sqlite, "hex(zeroblob(35000000))");
    on(&postgres, "repeat('x', 70000000)");
    for world in [sqlite, postgres] {
        let server = world.serve();
        assert_eq!(rejected(&world.sync("ann", &server)), 1);
        assert_eq!(count(&world.remote("ann"), "SELECT sum(id) FROM other"), 2);
        world.center_sql("UPDATE other SET text = 'short'");
        world.sync("ann", &server);
        world.assert_converged(&["ann"]);
    }
}
