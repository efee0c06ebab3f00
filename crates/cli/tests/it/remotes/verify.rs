//! Remotes that are not as they should be: found, told, and mended where that is wanted.

use harness::{
    Outcome, Proxy, Server, Share, Side, World, count, full, query, sql, sql_past_triggers, until,
};
use model::{ValueRef, write_value};
use protocol::{Message, WantedRow};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

/// Values that databases store in ways of their own.
const ON_SQLITE: &str = "
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL, cost NUMERIC, picture BLOB);
CREATE TABLE place (shop TEXT NOT NULL COLLATE NOCASE, shelf INTEGER NOT NULL, note,
    PRIMARY KEY (shop, shelf));
INSERT INTO place VALUES ('North', 1, -0.0), ('south', 2, 'x'), ('West', 3, NULL), ('East', 4, 7);";

const ON_POSTGRES: &str = "
CREATE TABLE item (id BIGINT PRIMARY KEY, name TEXT, price DOUBLE PRECISION, cost NUMERIC(30, 6),
    picture BYTEA);
CREATE TABLE place (shop TEXT NOT NULL, shelf INT NOT NULL, note TIMESTAMPTZ,
    amount NUMERIC, PRIMARY KEY (shop, shelf));
INSERT INTO place VALUES ('North', 1, now(), 1.50), ('south', 2, 'infinity', 'NaN'),
    ('West', 3, NULL, 123456789012345678901234567890.5), ('East', 4, '0044-03-15 BC', -0.0);";

fn rows() -> i64 {
    if full() { 1_000_000 } else { 10_000 }
}

fn fill(world: &World, blob: &str) {
    let rows = rows();
    world.center_sql(&format!(
        "INSERT INTO item WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
             WHERE i < {rows})
         SELECT i, 'item ' || i, CASE i % 3 WHEN 0 THEN -0.0 WHEN 1 THEN i ELSE i / 7.0 END,
             i * 1.25, CASE i % 2 WHEN 0 THEN {blob} END FROM n"
    ));
}

fn worlds() -> [World; 2] {
    let worlds = [World::new(PROGRAM, ON_SQLITE), World::on_postgres(PROGRAM, ON_POSTGRES)];
    fill(&worlds[0], "x'00ff'");
    fill(&worlds[1], r"'\x00ff'::bytea");
    worlds
}

fn arguments(url: &str, more: &[&str]) -> Vec<String> {
    let all = [
        "remote",
        "verify",
        "ann.db",
        "--server",
        url,
        "--password-file",
        "ann.password",
        "--json",
    ];
    all.iter().chain(more).map(ToString::to_string).collect()
}

/// Runs a command, however long a million rows take it.
fn run(world: &World, arguments: &[String]) -> Outcome {
    let output = world.syncline.command(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    Outcome { code: output.status.code(), stdout, stderr }
}

fn sync(world: &World, server: &Server) {
    let outcome = run(world, &world.sync_arguments("ann", server));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

/// Ann has what the center has for her.
fn joined(world: &World) -> Server {
    world.add_user("ann");
    let server = world.serve();
    sync(world, &server);
    server
}

/// What a comparison says that finds no fault, or has mended all.
fn verified(world: &World, server: &Server, more: &[&str]) -> Value {
    let outcome = run(world, &arguments(&server.url, more));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    serde_json::from_str(&outcome.stdout).unwrap()
}

/// What a comparison says that finds one.
fn differs(world: &World, url: &str, more: &[&str]) -> Value {
    let outcome = run(world, &arguments(url, more));
    outcome.message("E5470");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    serde_json::from_str(&outcome.stdout).unwrap()
}

/// Missing, extra and different rows of `item`, and such that were left out.
fn counts(report: &Value) -> [i64; 4] {
    let item = &report["tables"].as_array().unwrap().iter().find(|it| it["table"] == "item");
    ["missing", "extra", "different", "left_out"].map(|name| item.unwrap()[name].as_i64().unwrap())
}

/// Changes rows at Ann's past Syncline: nothing is pending for them.
fn damage(world: &World) {
    sql_past_triggers(
        &world.remote("ann"),
        "UPDATE item SET name = 'damaged' WHERE id = 77;
         DELETE FROM item WHERE id = 5000;
         INSERT INTO item VALUES (5000000, 'nobody knows it', NULL, NULL, NULL)",
    );
}

// S3, S9: one row among many is found with few bytes, and equal rows are equal on both databases.
#[test]
fn rows_that_differ_are_found_with_little_traffic_and_mended() {
    for world in worlds() {
        let server = joined(&world);
        let report = verified(&world, &server, &[]);
        assert_eq!((counts(&report), &report["differences"]), ([0; 4], &0.into()), "{report}");

        damage(&world);
        let proxy = Proxy::new(&server.url);
        let report = differs(&world, &proxy.url, &[]);
        assert_eq!(counts(&report), [1, 1, 1, 0], "{report}");
        let named = report["tables"].to_string();
        for row in ["id = 77", "id = 5000", "id = 5000000"] {
            assert!(named.contains(&format!("\"{row}\"")), "{report}");
        }
        let bytes = |(_, message): &(Side, Message)| message.to_frame().unwrap().len();
        let heard: usize = proxy.heard().iter().map(bytes).sum();
        assert!(heard < 300_000, "{heard} bytes for {} rows", rows());

        // It has only looked.
        let report = differs(&world, &server.url, &["--rows", "0"]);
        assert_eq!(counts(&report), [1, 1, 1, 0], "{report}");
        let report = verified(&world, &server, &["--repair"]);
        assert_eq!((&report["repaired"], &report["remaining"]), (&true.into(), &0.into()));
        world.assert_converged(&["ann"]);
        assert_eq!(counts(&verified(&world, &server, &[])), [0; 4]);
        server.stop();
    }
}

// S1, S3: what waits for the next synchronization is no difference, and no repair overwrites it.
#[test]
fn what_waits_is_left_out_and_survives_a_repair() {
    for world in worlds() {
        world.add_user("ann");
        let server = world.serve_at("http://127.0.0.1:0");
        sync(&world, &server);
        sql(
            &world.remote("ann"),
            "UPDATE item SET name = 'pending' WHERE id IN (9, 12);
             DELETE FROM item WHERE id = 13;
             INSERT INTO item VALUES (6000000, 'other', NULL, NULL, NULL),
                 (6000001, 'pending', NULL, NULL, NULL)",
        );
        world.center_sql("UPDATE item SET name = 'newer' WHERE id IN (10, 12)");
        world.center_sql("DELETE FROM item WHERE id = 11");
        world.center_sql("INSERT INTO item VALUES (7000000, 'newer', NULL, NULL, NULL)");
        let report = verified(&world, &server, &[]);
        assert_eq!(counts(&report)[..3], [0; 3], "{report}");

        let damage = "UPDATE item SET name = 'damaged' WHERE id = 20";
        sql_past_triggers(&world.remote("ann"), damage);
        let report = differs(&world, &server.url, &[]);
        assert_eq!(counts(&report)[..3], [0, 0, 1], "{report}");
        let report = verified(&world, &server, &["--repair"]);
        assert_eq!(report["remaining"], 0, "{report}");
        world.assert_converged(&["ann"]);
        let pending = "SELECT count(*) FROM item WHERE name = 'pending' AND id IN (9, 6000001)
            OR id = 6000000";
        assert_eq!(world.center_count(pending), 3);
        server.stop();
    }
}

// S3, S9: many rows are not asked for one by one, and a lost table is a difference too.
#[test]
fn a_table_of_which_most_differs_is_downloaded_whole() {
    for world in worlds() {
        let server = joined(&world);
        sql_past_triggers(&world.remote("ann"), "DELETE FROM item");
        let report = differs(&world, &server.url, &[]);
        assert_eq!(counts(&report), [rows(), 0, 0, 0], "{report}");
        let report = verified(&world, &server, &["--repair"]);
        assert_eq!(report["remaining"], 0, "{report}");
        world.assert_converged(&["ann"]);
        assert_eq!(count(&world.remote("ann"), "SELECT count(*) FROM syncline_reject"), 0);
    }
}

// Trap 22: equal is not the same. A collation that ignores case takes both keys for one.
#[test]
fn a_key_that_is_spelled_otherwise_differs() {
    for world in worlds() {
        let server = joined(&world);
        let damage = "UPDATE place SET shop = 'NORTH' WHERE shop = 'North'";
        sql_past_triggers(&world.remote("ann"), damage);
        let report = differs(&world, &server.url, &[]);
        assert_eq!(report["differences"], 2, "{report}");
        let report = verified(&world, &server, &["--repair"]);
        assert_eq!(report["remaining"], 0, "{report}");
        world.assert_converged(&["ann"]);
        server.stop();
    }
}

// S3: a table that remotes cannot change has no record of changes, and one that is only uploaded is
// not compared at all.
#[test]
fn tables_of_one_direction_are_compared_where_they_are_downloaded() {
    let create = "CREATE TABLE price (id INTEGER PRIMARY KEY, text TEXT);
        CREATE TABLE visit (id INTEGER PRIMARY KEY, text TEXT);
        INSERT INTO price VALUES (1, 'a'), (2, 'b'), (3, 'c')";
    for world in [World::new(PROGRAM, create), World::on_postgres(PROGRAM, create)] {
        let model = std::fs::read_to_string(world.path("model.toml")).unwrap();
        let model = model.replace("[table.price]", "[table.price]\ndirection = \"download_only\"");
        let model = model.replace("[table.visit]", "[table.visit]\ndirection = \"upload_only\"");
        std::fs::write(world.path("model.toml"), model).unwrap();
        world.syncline.ok(&["deploy"]);
        let server = joined(&world);
        sql(&world.remote("ann"), "INSERT INTO visit VALUES (1, 'here')");
        let report = verified(&world, &server, &[]);
        assert_eq!(report["tables"].as_array().unwrap().len(), 1, "{report}");

        sql_past_triggers(
            &world.remote("ann"),
            "UPDATE price SET text = 'damaged' WHERE id = 2; DELETE FROM price WHERE id = 3",
        );
        let report = differs(&world, &server.url, &[]);
        let price = &report["tables"][0];
        assert_eq!((&price["different"], &price["missing"]), (&1.into(), &1.into()), "{report}");
        let report = verified(&world, &server, &["--repair"]);
        assert_eq!(report["remaining"], 0, "{report}");
        assert_eq!(count(&world.remote("ann"), "SELECT count(*) FROM price WHERE text > 'a'"), 2);
        assert_eq!(world.center_count("SELECT count(*) FROM visit"), 1);
        server.stop();
    }
}

// S7: neither a comparison nor a row that is asked for shows what is behind the fence.
#[test]
fn only_rows_of_the_subscription_are_compared_or_sent() {
    let create = "CREATE TABLE note (id INTEGER PRIMARY KEY, owner TEXT, text TEXT);
        INSERT INTO note VALUES (1, 'ann', 'a'), (2, 'ben', 'b'), (3, 'ann', 'c')";
    for world in [World::new(PROGRAM, create), World::on_postgres(PROGRAM, create)] {
        let model = std::fs::read_to_string(world.path("model.toml")).unwrap();
        let table = "[table.note]";
        let model = model.replace(table, "[table.note]\npartition = \"owner = {s.username}\"");
        std::fs::write(world.path("model.toml"), model).unwrap();
        world.syncline.ok(&["deploy"]);
        let server = joined(&world);
        let report = verified(&world, &server, &[]);
        assert_eq!(report["differences"], 0, "{report}");

        let proxy = Proxy::new(&server.url);
        proxy.forge(|from, message| {
            if let (Side::Client, Message::Hello(hello)) = (from, message) {
                hello.wanted_rows = (1..4).map(wanted).collect();
            }
        });
        let outcome = harness::finish(world.sync_through("ann", &proxy.url));
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert!(outcome.stdout.contains("downloaded 2 rows"), "{outcome:?}");
        let share = [Share::of("note", "t.owner = 'ann'")];
        assert_eq!(world.differences_in("ann", &share), [""; 0]);

        // S9: a key that is none.
        proxy.forge(|from, message| {
            if let (Side::Client, Message::Hello(hello)) = (from, message) {
                hello.wanted_rows = vec![WantedRow { table: 0, key: vec![7] }];
            }
        });
        let outcome = harness::finish(world.sync_through("ann", &proxy.url));
        outcome.message("E1003");
        proxy.forge(|_, _| {});
        sync(&world, &server);
    }
}

fn wanted(id: i64) -> WantedRow {
    let mut key = Vec::new();
    write_value(&mut key, ValueRef::Integer(id));
    WantedRow { table: 0, key }
}

// S11
#[test]
fn what_cannot_be_compared_is_refused_with_a_reason() {
    let create = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
        INSERT INTO note VALUES (1, 'a')";
    let world = World::new(PROGRAM, create);
    world.add_user("ann");
    let server = world.serve();
    // Not a remote yet, and nothing is made of it.
    world.syncline.fails("E5007", &arguments(&server.url, &[]));
    assert!(!world.remote("ann").exists());
    sync(&world, &server);

    let proxy = Proxy::new(&server.url);
    // S9: an answer that is not complete is none.
    proxy.forge(|from, message| {
        if let (Side::Server, Message::Verified(part)) = (from, message) {
            part.end = part.end.map(|entries| entries + 1);
        }
    });
    world.syncline.fails("E1003", &arguments(&proxy.url, &[]));

    world.syncline.ok(&["declare-restored", "--yes"]);
    world.syncline.fails("E2471", &arguments(&server.url, &[]));
    sync(&world, &server);
    verified(&world, &server, &[]);
    world.center_sql("ALTER TABLE note ADD COLUMN more TEXT");
    world.syncline.ok(&["model", "add"]);
    world.syncline.ok(&["deploy"]);
    world.syncline.fails("E2471", &arguments(&server.url, &[]));
    sync(&world, &server);
    verified(&world, &server, &[]);
}

#[test]
fn a_file_is_checked_without_a_server() {
    let world = World::new(PROGRAM, "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)");
    let server = joined(&world);
    server.stop();
    let said = world.syncline.ok(&["remote", "verify", "ann.db"]);
    assert_eq!(said, "ann.db is whole: 1 published table\n");
    // A table of Syncline is gone: nobody can write to `note` any more.
    let (file, copy) = (world.remote("ann"), world.remote("copy"));
    for table in ["change_note", "generation"] {
        std::fs::copy(&file, &copy).unwrap();
        sql(&copy, &format!("DROP TABLE syncline_{table}"));
        world.syncline.fails("E2290", &["remote", "verify", "copy.db"]);
    }
    // An index that lacks an entry.
    sql(
        &world.remote("ann"),
        "CREATE INDEX of_text ON note (text); INSERT INTO note VALUES (1, 'a');
         PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = 'CREATE INDEX of_text ON note (id)' WHERE name = 'of_text'",
    );
    world.syncline.fails("E5001", &["remote", "verify", "ann.db"]);
}

/// Checks the file alone, and expects this code of it, or none.
fn checked(world: &World, code: Option<&str>) -> Value {
    let outcome = world.syncline.run(&["remote", "verify", "ann.db", "--json"]);
    match code {
        Some(code) => drop(outcome.message(code)),
        None => assert_eq!(outcome.code, Some(0), "{outcome:?}"),
    }
    serde_json::from_str::<Value>(&outcome.stdout).unwrap()["file"].clone()
}

// S11: the check created triggers again, said that the file is whole, and said of the table that it
// was never received. Nobody learned that changes may be unknown.
#[test]
fn missing_triggers_are_told_until_their_tables_were_compared() {
    let world = World::new(
        PROGRAM,
        "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
         CREATE TABLE log (id INTEGER PRIMARY KEY, text TEXT);
         INSERT INTO note VALUES (1, 'a')",
    );
    let model = std::fs::read_to_string(world.path("model.toml")).unwrap();
    let up = model.replace("[table.log]", "[table.log]\ndirection = \"upload_only\"");
    assert_ne!(up, model);
    std::fs::write(world.path("model.toml"), up).unwrap();
    world.syncline.ok(&["deploy"]);
    let server = joined(&world);
    let file = world.remote("ann");
    let lost = "DROP TRIGGER syncline_update_note; UPDATE note SET text = 'unseen';
        DROP TRIGGER syncline_insert_log; INSERT INTO log VALUES (1, 'unseen')";

    sql(&file, lost);
    let found = checked(&world, Some("E5471"));
    assert_eq!(found["uncaptured"], json!(["log", "note"]));
    // Those of `log` are there again, and its row waits to be uploaded.
    let found = checked(&world, Some("E5471"));
    assert_eq!((&found["uncaptured"], &found["not_received"]), (&json!(["note"]), &json!([])));
    let told = world.syncline.fails("E5471", &arguments(&server.url, &[]));
    assert!(told.contains("the triggers of table note were missing"), "{told}");
    let said = world.syncline.run(&["remote", "verify", "ann.db"]).stdout;
    assert_eq!(said, "ann.db is whole: 2 published tables\nnote: its triggers were missing\n");
    sync(&world, &server);
    assert_eq!(checked(&world, None)["uncaptured"], json!([]));
    verified(&world, &server, &[]);

    // A repair synchronizes first.
    sql(&file, lost.replace("(1, 'unseen')", "(2, 'unseen')").as_str());
    let report = verified(&world, &server, &["--repair"]);
    assert_eq!([&report["differences"], &report["remaining"]], [0, 0]);
    assert_eq!(world.center_count("SELECT count(*) FROM log"), 2);
    sql(&file, "DROP TRIGGER syncline_delete_log; DELETE FROM log");
    verified(&world, &server, &["--repair"]);
    // What was changed unseen is in the reject table, and what the center has is here.
    assert_eq!(query(&file, "SELECT text FROM note"), [["'a'"]]);
    let rejects = world.syncline.json(&["remote", "rejects", "ann.db", "--json"]);
    assert_eq!(rejects.as_array().unwrap().len(), 2, "{rejects}");
    server.stop();
}

// S4, S11: the rows of a first fill lie under a hidden name until all of it is there.
#[test]
#[cfg(feature = "fail-points")]
fn a_first_fill_that_is_under_way_is_told() {
    for world in worlds() {
        world.add_user("ann");
        let server = world.serve();
        let file = world.remote("ann");
        let hidden = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'syncline_fill%'";
        let mut filling = world.syncline.command(&world.sync_arguments("ann", &server));
        filling.env("FAILPOINTS", "client-apply-before-commit=pause");
        let mut filling = filling.spawn().unwrap();
        until("a hidden table", || file.exists() && count(&file, hidden) > 0);
        world.syncline.fails("E5002", &arguments(&server.url, &["--repair"]));
        let nothing = json!({
            "faults": [], "broken_references": 0, "tables": 2, "uncaptured": [],
            "not_received": ["item", "place"],
        });
        assert_eq!(checked(&world, None), nothing);

        // It dies, and leaves the hidden tables behind.
        filling.kill().unwrap();
        filling.wait().unwrap();
        assert!(count(&file, hidden) > 0);
        assert_eq!(checked(&world, None), nothing);
        let told = world.syncline.fails("E2471", &arguments(&server.url, &[]));
        assert!(told.contains("table item was not received yet"), "{told}");
        let report = verified(&world, &server, &["--repair"]);
        assert_eq!([&report["differences"], &report["remaining"]], [0, 0]);
        assert_eq!((counts(&report), count(&file, hidden)), ([0; 4], 0));
        assert_eq!(checked(&world, None)["not_received"], json!([]));
        server.stop();
    }
}

/// It ended without a word, and with the progress line half drawn where it repaired.
#[test]
fn an_interrupted_comparison_says_that_nothing_is_lost() {
    let world = World::new(PROGRAM, ON_SQLITE);
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    // It takes connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tcp://{}", silent.local_addr().unwrap());
    let line = arguments(&url, &[]);
    let line = &line[..line.len() - 1];
    let interrupted = world.syncline.on_terminal(line, "ann.db is whole", "\x03");
    assert_eq!(interrupted.code, Some(130), "{interrupted:?}");
    let told = "interrupted: nothing is lost; the next `syncline remote verify` begins anew\r\n";
    assert!(interrupted.stdout.ends_with(told), "{interrupted:?}");
    world.syncline.ok(&arguments(&server.url, &[]));
}
