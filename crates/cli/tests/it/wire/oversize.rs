//! A row at the center that no message can contain is reported, and all other rows arrive.
//!
//! It arrives when it is small enough or the limit is larger; on every database.

use harness::{Server, World, count, query};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SCHEMA: &str = "
    CREATE TABLE doc (id INTEGER PRIMARY KEY, text TEXT);
    CREATE TABLE page (id INTEGER PRIMARY KEY, doc INTEGER NOT NULL REFERENCES doc, n INTEGER);
    CREATE TABLE word (id INTEGER PRIMARY KEY, page INTEGER REFERENCES page);
    CREATE TABLE other (id INTEGER PRIMARY KEY, n INTEGER);
    INSERT INTO doc VALUES (1, 'small'), (2, 'small');
    INSERT INTO page VALUES (10, 1, 0), (20, 2, 0);
    INSERT INTO word VALUES (100, 10), (200, 20);
    INSERT INTO other VALUES (1, 1);";

/// More than the smallest limit on frames takes.
const LARGE: usize = 70_000;

/// The smallest that the configuration accepts.
const FRAME_BYTES_MIN: usize = 64 << 10;

fn worlds() -> [World; 2] {
    let worlds = [World::new(PROGRAM, SCHEMA), World::on_postgres(PROGRAM, SCHEMA)];
    for world in &worlds {
        world.configure(&format!("frame_bytes_max = {FRAME_BYTES_MIN}"));
        world.add_user("ann");
        world.add_user("ben");
    }
    worlds
}

fn enlarge(world: &World, id: i64) {
    world.center_sql(&format!("UPDATE doc SET text = '{}' WHERE id = {id}", "x".repeat(LARGE)));
}

/// The rejects of a remote, as table and code.
fn rejects(world: &World, name: &str) -> Vec<(String, i64)> {
    let sql = "SELECT table_name, code FROM syncline_reject ORDER BY table_name, key";
    let rows = query(&world.remote(name), sql);
    let text = |text: &str| text.trim_matches('\'').to_owned();
    rows.into_iter().map(|row| (text(&row[0]), row[1].parse().unwrap())).collect()
}

fn ids(world: &World, name: &str, table: &str) -> String {
    let rows = query(&world.remote(name), &format!("SELECT id FROM {table} ORDER BY id"));
    rows.concat().join(",")
}

fn doc(code: i64) -> Vec<(String, i64)> {
    vec![("doc".to_owned(), code)]
}

fn rejected(result: &Value) -> i64 {
    result["rejected"].as_i64().unwrap()
}

// S2, S3, S11, Trap 16: the server ended in a panic for a row of more than 64 MiB, and the remote
// got nothing any more, of any table.
#[test]
fn a_row_that_grew_too_large_is_told_once_and_everything_else_arrives() {
    for world in worlds() {
        let server = world.serve();
        world.sync("ann", &server);
        enlarge(&world, 1);
        world.center_sql("UPDATE other SET n = 2");
        let told = world.sync("ann", &server);
        assert_eq!(rejected(&told), 1, "{told}");
        assert_eq!(query(&world.remote("ann"), "SELECT n FROM other"), [["2"]]);
        let held = query(&world.remote("ann"), "SELECT text FROM doc ORDER BY id");
        assert_eq!(held, [["'small'"], ["'small'"]], "what was there stays");
        assert_eq!(rejects(&world, "ann"), doc(7170));

        // It is reported once, however often it changes, also if the whole table is sent again.
        for change in ["UPDATE other SET n = 3", "UPDATE doc SET text = text || 'y' WHERE id = 1"] {
            world.center_sql(change);
            assert_eq!(rejected(&world.sync("ann", &server)), 0);
        }
        let forget = "UPDATE syncline_table SET watermark = NULL";
        harness::sql(&world.remote("ann"), forget);
        assert_eq!(rejected(&world.sync("ann", &server)), 0);
        assert_eq!(ids(&world, "ann", "doc"), "1,2");
        assert_eq!(rejects(&world, "ann"), doc(7170));

        world.center_sql("UPDATE doc SET text = 'short' WHERE id = 1");
        world.sync("ann", &server);
        world.assert_converged(&["ann"]);
        world.sync("ann", &server);
        assert_eq!(owed(&world), 0, "what came is settled");
    }
}

fn owed(world: &World) -> i64 {
    let schema = if world.consolidated().exists() { "" } else { "syncline." };
    world.center_count(&format!("SELECT count(*) FROM {schema}syncline_owed"))
}

// S2, S3: the row arrives when the limit allows it, although it does not change any more.
#[test]
fn a_row_comes_when_the_limit_becomes_larger() {
    for world in worlds() {
        let server = world.serve();
        world.sync("ann", &server);
        enlarge(&world, 2);
        assert_eq!(rejected(&world.sync("ann", &server)), 1);
        world.sync("ann", &server);
        server.stop();
        let path = world.path("syncline.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace(&FRAME_BYTES_MIN.to_string(), "1000000")).unwrap();
        let server = world.serve();
        world.sync("ann", &server);
        world.assert_converged(&["ann"]);
        world.sync("ann", &server);
        assert_eq!(owed(&world), 0);
    }
}

/// A row got another key and grew too large at once: the remote lets go of the old key, and of
/// nothing that refers to it.
// S2, S3: a key change is one row to the reader, and a deletion and none to the remote.
#[test]
fn a_row_whose_key_changes_is_withheld_under_its_new_key() {
    let schema = "
        CREATE TABLE doc (id INTEGER PRIMARY KEY, text TEXT);
        CREATE TABLE page (id INTEGER PRIMARY KEY,
            doc INTEGER REFERENCES doc ON UPDATE CASCADE);
        INSERT INTO doc VALUES (1, 'a'), (2, 'b'), (3, 'c');
        INSERT INTO page VALUES (10, 1), (20, 2), (30, 3);";
    for world in [World::new(PROGRAM, schema), World::on_postgres(PROGRAM, schema)] {
        world.configure(&format!("frame_bytes_max = {FRAME_BYTES_MIN}"));
        world.add_user("ann");
        let server = world.serve();
        world.sync("ann", &server);
        let large = "x".repeat(LARGE);
        let move_to = |from: i64, to: i64, text: &str| {
            world.center_sql(&format!(
                "UPDATE doc SET id = {to}, text = '{text}' WHERE id = {from};
                 UPDATE page SET doc = {to} WHERE doc = {from}"
            ));
        };
        move_to(1, 4, &large);
        move_to(2, 5, "small");
        // One that is withheld already.
        enlarge(&world, 3);
        assert_eq!(rejected(&world.sync("ann", &server)), 2);
        assert_eq!(ids(&world, "ann", "doc"), "3,5", "doc 3 stays as it was");
        assert_eq!(ids(&world, "ann", "page"), "20,30");
        move_to(3, 6, &large);
        let told = world.sync("ann", &server);
        assert_eq!(rejected(&told), 1, "{told}");
        assert_eq!(ids(&world, "ann", "doc"), "5");
        assert_eq!(ids(&world, "ann", "page"), "20");
        assert!(
            rejects(&world, "ann")
                .iter()
                .all(|(table, code)| (table.as_str(), *code) == ("doc", 7170))
        );
        // Small enough again, once under the key that was reported and once under another.
        world.center_sql("UPDATE doc SET text = 'short' WHERE id = 4");
        move_to(6, 7, "short");
        world.sync("ann", &server);
        assert_eq!(ids(&world, "ann", "doc"), "4,5,7");
        assert_eq!(ids(&world, "ann", "page"), "10,20,30");
        world.assert_converged(&["ann"]);
        world.sync("ann", &server);
        assert_eq!(owed(&world), 0);
    }
}

// S2, S4, S6: a new remote does not hold the row, so that its children would refer to nothing, and
// the whole download was refused.
#[test]
fn a_new_remote_goes_without_the_row_and_its_descendants() {
    for world in worlds() {
        let server = world.serve();
        enlarge(&world, 1);
        let told = world.sync("ann", &server);
        assert_eq!(rejected(&told), 1, "{told}");
        let held = ["doc", "page", "word", "other"].map(|table| ids(&world, "ann", table));
        assert_eq!(held, ["2", "20", "200", "1"]);
        assert_eq!(rejects(&world, "ann"), doc(7170));
        // Their changes in the meantime block no other row.
        world.center_sql("UPDATE page SET n = 1; INSERT INTO page VALUES (11, 1, 0)");
        world.center_sql("INSERT INTO word VALUES (101, 11), (201, 20)");
        world.sync("ann", &server);
        assert_eq!(ids(&world, "ann", "word"), "200,201");
        world.center_sql("UPDATE doc SET text = 'other' WHERE id = 2");
        world.sync("ann", &server);
        world.sync("ann", &server);
        assert_eq!(ids(&world, "ann", "page"), "20");

        world.center_sql("UPDATE doc SET text = 'short' WHERE id = 1");
        world.sync("ann", &server);
        world.sync("ann", &server);
        world.assert_converged(&["ann"]);
    }
}

// S1, S5: what the remote does to a row that is too large meets it as any other change does.
#[test]
fn changes_of_a_row_that_is_withheld_are_uploaded_and_told() {
    for world in worlds() {
        let server = world.serve();
        world.sync("ann", &server);
        enlarge(&world, 1);
        harness::sql(&world.remote("ann"), "UPDATE doc SET text = 'mine' WHERE id = 1");
        let told = world.sync("ann", &server);
        assert_eq!((&told["conflicts"], rejected(&told)), (&Value::from(1), 1), "{told}");
        assert_eq!(rejects(&world, "ann"), doc(7170));
        // Its deletion arrives, and so does what follows under its key.
        world.center_sql("DELETE FROM word WHERE page = 10; DELETE FROM page WHERE doc = 1");
        world.center_sql("DELETE FROM doc WHERE id = 1");
        world.sync("ann", &server);
        assert_eq!(ids(&world, "ann", "doc"), "2");
        world.center_sql("INSERT INTO doc VALUES (1, 'new')");
        world.sync("ann", &server);
        world.sync("ann", &server);
        world.assert_converged(&["ann"]);
        assert_eq!(owed(&world), 0);
    }
}

// S2: many large rows in a batch are separated from small ones, and the center's record names them.
#[test]
fn small_rows_between_large_ones_arrive() {
    for world in worlds() {
        let large = "x".repeat(LARGE);
        for id in 3..40 {
            let text = if id % 3 == 0 { large.as_str() } else { "small" };
            world.center_sql(&format!("INSERT INTO doc VALUES ({id}, '{text}')"));
        }
        let server = world.serve();
        let told = world.sync("ben", &server);
        assert_eq!(rejected(&told), 13, "{told}");
        assert_eq!(count(&world.remote("ben"), "SELECT count(*) FROM doc"), 26);
        assert_eq!(kept(&world, &server), 13);
        world.center_sql("UPDATE doc SET text = 'short'");
        world.sync("ben", &server);
        world.assert_converged(&["ben"]);
    }
}

/// Rejects that the center keeps.
fn kept(world: &World, _running: &Server) -> i64 {
    let schema = if world.consolidated().exists() { "" } else { "syncline." };
    let sql = format!(
        "SELECT count(*) FROM {schema}syncline_reject WHERE code = 7170 AND operation = 'download'"
    );
    world.center_count(&sql)
}

// S1, S11: one row stopped everything, in both directions and for ever.
#[test]
fn a_changed_row_that_is_too_large_stays_pending_and_everything_else_crosses() {
    for world in worlds() {
        let server = world.serve();
        world.sync("ann", &server);
        let at_ann = world.remote("ann");
        let large = "x".repeat(LARGE);
        harness::sql(
            &at_ann,
            &format!(
                "INSERT INTO doc VALUES (3, '{large}'); INSERT INTO page VALUES (30, 3, 0);
                 INSERT INTO word VALUES (300, 30); INSERT INTO other VALUES (2, 2)"
            ),
        );
        for point in ["client-left-behind", "client-upload-sent", "client-upload-committed"] {
            world.center_sql("UPDATE other SET n = n + 1 WHERE id = 1");
            let killed = if cfg!(feature = "fail-points") { Some(point) } else { None };
            let point = killed.map(|point| format!("{point}=panic"));
            let outcome = world.try_sync("ann", &server, point.as_deref());
            assert_eq!(outcome.code == Some(0), killed.is_none());
            harness::sql(&at_ann, "UPDATE doc SET text = text || 'x' WHERE id = 3");
        }
        for _ in 0..2 {
            let outcome = world.try_sync("ann", &server, None);
            assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
            let words = "a changed row of doc (id = 3) has 70010 bytes of at most 65472";
            assert!(outcome.stderr.contains(&format!("warning: E5009: {words}")));
            assert!(outcome.stderr.contains("with them wait 2 rows"), "{}", outcome.stderr);
        }
        let told = world.sync("ann", &server);
        let row = serde_json::json!({
            "table": "doc", "key": "id = 3", "bytes": 70_010, "bytes_max": 65_472,
        });
        assert_eq!(told["too_large"]["rows"], serde_json::json!([row]));
        let status = world.syncline.ok(&["remote", "status", at_ann.to_str().unwrap(), "--json"]);
        let status: Value = serde_json::from_str(&status).unwrap();
        assert_eq!(status["too_large"]["rows"], serde_json::json!([row]));
        assert_eq!(
            (&status["too_large"]["code"], &status["pending"]),
            (&"E5009".into(), &3.into())
        );
        assert_eq!(query(&at_ann, "SELECT n FROM other ORDER BY id"), [["4"], ["2"]]);
        assert_eq!(world.center_count("SELECT count(*) FROM other"), 2);
        assert_eq!(world.center_count("SELECT count(*) FROM page"), 2);

        // There is one answer to all that is sent.
        server.stop();
        let server = world.serve_at("http://127.0.0.1:0");
        harness::sql(&at_ann, "INSERT INTO other VALUES (3, 3)");
        let over_http = world.sync("ann", &server);
        assert_eq!(over_http["too_large"], told["too_large"]);
        assert_eq!(over_http["uploaded"]["inserts"], 1);

        harness::sql(&at_ann, "UPDATE doc SET text = 'short' WHERE id = 3");
        let told = world.sync("ann", &server);
        assert_eq!((&told["uploaded"]["inserts"], &told["too_large"]), (&3.into(), &Value::Null));
        world.assert_converged(&["ann"]);
    }
}
