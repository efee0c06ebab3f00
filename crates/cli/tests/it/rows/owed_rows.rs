//! A row that a remote is owed, and that a script of the user's cannot read; on every database.

use harness::{Server, World, count, query, sql};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SCHEMA: &str = "CREATE TABLE doc (id INTEGER PRIMARY KEY, n INTEGER, body TEXT);
    CREATE TABLE other (id INTEGER PRIMARY KEY, n INTEGER);
    INSERT INTO doc VALUES (1, 1, '{}'), (2, 2, '{}'), (3, 3, '{}'), (4, 4, '{}'), (5, 5, '{}');
    INSERT INTO other VALUES (1, 1);";

/// What the rejects of a remote say: key and code.
fn rejects(world: &World) -> Vec<String> {
    let sql = "SELECT key, code FROM syncline_reject ORDER BY key, counter";
    query(&world.remote("ann"), sql).into_iter().map(|row| row.concat().replace('\'', "")).collect()
}

fn owed(world: &World) -> i64 {
    world.center_count(&format!("SELECT count(*) FROM {}syncline_owed", prefix(world)))
}

fn prefix(world: &World) -> &'static str {
    if world.consolidated().exists() { "" } else { "syncline." }
}

fn held(world: &World) -> String {
    let rows = query(&world.remote("ann"), "SELECT id, n FROM doc ORDER BY id");
    rows.iter().map(|row| row.join(":")).collect::<Vec<_>>().join(" ")
}

/// Lets the script for reading a row back take no body that is not JSON, or takes that back.
fn spoil(world: &World, spoil: bool) {
    let (mut part, mut by) = match prefix(world) {
        "" => ("\"body\"", "json(\"body\")"),
        _ => ("t.\"body\"", "(t.\"body\"::json)::text"),
    };
    if !spoil {
        (part, by) = (by, part);
    }
    world.center_sql(&format!(
        "UPDATE {}syncline_script SET script = replace(script, '{part}', '{by}')
         WHERE table_name = 'doc' AND event = 'upload_look'",
        prefix(world)
    ));
}

/// On each database; with a trigger that refuses an uploaded row, which is owed then.
fn worlds() -> [World; 2] {
    let lite = "CREATE TRIGGER no BEFORE UPDATE ON doc BEGIN
            SELECT RAISE(ABORT, 'no') WHERE NEW.n = 40; END;";
    let postgres = "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'no'; END $$;
        CREATE TRIGGER no BEFORE UPDATE ON doc FOR EACH ROW WHEN (NEW.n = 40)
            EXECUTE FUNCTION no();";
    [
        World::new(PROGRAM, &format!("{SCHEMA}{lite}")),
        World::on_postgres(PROGRAM, &format!("{SCHEMA}{postgres}")),
    ]
}

/// Ann has changed rows 1 and 2, which somebody else has changed too. Row 1 cannot be read.
fn spoilt(world: &World) -> Server {
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    server.stop();
    spoil(world, true);
    sql(&world.remote("ann"), "UPDATE doc SET n = n * 10 WHERE id IN (1, 2, 3)");
    world.center_sql(
        "UPDATE doc SET n = 11, body = '{' WHERE id = 1;
         UPDATE doc SET n = 22 WHERE id = 2;
         UPDATE doc SET n = 44, body = '{' WHERE id = 4;
         UPDATE other SET n = 2",
    );
    world.serve()
}

// S2, S3, S11, Trap 5: the download failed for one row, again and again: nothing arrived at the
// remote any more.
#[test]
fn an_owed_row_that_a_script_cannot_read_blocks_no_other_and_stays_owed() {
    for world in worlds() {
        let server = spoilt(&world);
        let told = world.sync("ann", &server);
        assert_eq!((&told["conflicts"], &told["rejected"]), (&1.into(), &1.into()), "{told}");
        // What has changed since the last download needs no script for single rows.
        assert_eq!(held(&world), "1:11 2:22 3:30 4:44 5:5");
        assert_eq!(rejects(&world), [r#"{"id":1}7002"#]);
        world.assert_converged(&["ann"]);
        world.sync("ann", &server);
        assert_eq!(owed(&world), 0, "what came is settled");

        // This one does not come by itself: it has not changed since.
        sql(&world.remote("ann"), "UPDATE doc SET n = 40 WHERE id = 4");
        world.center_sql("UPDATE other SET n = 3");
        world.sync("ann", &server);
        assert_eq!(held(&world), "1:11 2:22 3:30 4:40 5:5", "what cannot be read stays");
        assert_eq!(count(&world.remote("ann"), "SELECT n FROM other"), 3, "the others arrive");
        assert_eq!(rejects(&world), [r#"{"id":1}7002"#, r#"{"id":4}7004"#]);
        // It is tried again each time, and reported once.
        for n in [5, 6] {
            world.center_sql(&format!("UPDATE other SET n = {n}"));
            assert_eq!(world.sync("ann", &server)["rejected"], 0);
            assert_eq!(count(&world.remote("ann"), "SELECT n FROM other"), n);
            assert_eq!(owed(&world), 1);
        }
        let told = format!(
            "SELECT count(*) FROM {}syncline_reject WHERE code = 3290 AND operation = 'download'",
            prefix(&world)
        );
        assert_eq!(world.center_count(&told), 1);
        server.stop();
        spoil(&world, false);
        let server = world.serve();
        world.sync("ann", &server);
        world.assert_converged(&["ann"]);
        world.sync("ann", &server);
        assert_eq!(owed(&world), 0, "what came is settled");
    }
}

// S2, S3, S6: a table that is sent as a whole shows by itself what becomes of such a row.
#[test]
fn an_owed_row_that_a_script_cannot_read_comes_with_its_whole_table() {
    for world in worlds() {
        let server = spoilt(&world);
        world.sync("ann", &server);
        let forget = "UPDATE doc SET n = 40 WHERE id = 4; UPDATE doc SET n = 40 WHERE id = 5;
            UPDATE syncline_table SET watermark = NULL";
        sql(&world.remote("ann"), forget);
        world.center_sql("DELETE FROM doc WHERE id = 5");
        world.sync("ann", &server);
        assert_eq!(held(&world), "1:11 2:22 3:30 4:44");
        world.assert_converged(&["ann"]);
        world.sync("ann", &server);
        assert_eq!(owed(&world), 0);
    }
}
