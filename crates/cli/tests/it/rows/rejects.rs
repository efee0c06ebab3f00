//! Rejected rows are counted in every summary, and a person can retry or dismiss them.

use harness::{World, query, sql, until};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const TABLES: &str = "
    CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, data TEXT);
    CREATE TABLE allowed (id INTEGER PRIMARY KEY);
    INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b');";

/// The center refuses negative numbers while `allowed` is empty.
const ON_SQLITE: &str = "
    CREATE TRIGGER inserted BEFORE INSERT ON t
        WHEN NEW.n < 0 AND NOT EXISTS (SELECT 1 FROM allowed)
        BEGIN SELECT RAISE(ABORT, 'negative'); END;
    CREATE TRIGGER updated BEFORE UPDATE ON t
        WHEN NEW.n < 0 AND NOT EXISTS (SELECT 1 FROM allowed)
        BEGIN SELECT RAISE(ABORT, 'negative'); END;";

const ON_POSTGRES: &str = "
    CREATE FUNCTION positive() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.n < 0 AND NOT EXISTS (SELECT FROM allowed) THEN RAISE EXCEPTION 'negative'; END IF;
        RETURN NEW; END $$;
    CREATE TRIGGER positive BEFORE INSERT OR UPDATE ON t
        FOR EACH ROW EXECUTE FUNCTION positive();";

fn command(world: &World, arguments: &[&str]) -> harness::Outcome {
    let file = world.remote("ann");
    let mut all = vec!["remote", "rejects"];
    all.extend(arguments);
    let all: Vec<&str> =
        all.iter().map(|it| if *it == "FILE" { file.to_str().unwrap() } else { *it }).collect();
    world.syncline.run(&all)
}

fn rejects(world: &World) -> Vec<Value> {
    let outcome = command(world, &["FILE", "--json"]);
    serde_json::from_str::<Value>(&outcome.stdout).unwrap().as_array().unwrap().clone()
}

/// The number of the reject of the row with this key.
fn id_of(world: &World, key: i64) -> String {
    let rejects = rejects(world);
    let found = rejects.iter().find(|it| it["key"] == json!({ "id": key }));
    found.unwrap()["id"].to_string()
}

fn worlds() -> [World; 2] {
    let worlds = [
        World::new(PROGRAM, &format!("{TABLES}{ON_SQLITE}")),
        World::on_postgres(PROGRAM, &format!("{TABLES}{ON_POSTGRES}")),
    ];
    worlds.iter().for_each(|world| world.add_user("ann"));
    worlds
}

// An operator saw rejects that somebody had long worked off, and asked again.
#[test]
fn the_center_shows_what_became_of_a_reject_at_its_remote() {
    for world in worlds() {
        let server = world.serve();
        world.sync("ann", &server);
        let wrong = "INSERT INTO t VALUES (3, -3, 'c'), (4, -4, 'd'), (5, -5, 'e')";
        sql(&world.remote("ann"), wrong);
        assert_eq!(world.sync("ann", &server)["rejected"], 3);
        let settled = || {
            let listed = world.syncline.json(&["rejects", "list", "--json"]);
            let mut settled: Vec<(i64, Value)> = listed
                .as_array()
                .unwrap()
                .iter()
                .map(|it| (it["key"]["id"].as_i64().unwrap(), it["settled"].clone()))
                .collect();
            settled.sort_by_key(|(key, _)| *key);
            settled
        };
        assert!(settled().iter().all(|(_, it)| it.is_null()), "{:?}", settled());
        let dismissed = command(&world, &["dismiss", "FILE", "--id", &id_of(&world, 3)]);
        assert_eq!(dismissed.code, Some(0), "{dismissed:?}");
        world.center_sql("INSERT INTO allowed VALUES (1)");
        let retried = command(&world, &["retry", "FILE", "--id", &id_of(&world, 4)]);
        assert_eq!(retried.code, Some(0), "{retried:?}");
        world.sync("ann", &server);
        let told = [(3, json!("dismissed")), (4, json!("retried")), (5, json!(null))];
        until("what became of them", || settled() == told);
        let listed = world.syncline.json(&["rejects", "list", "--json"]);
        let shown = world.syncline.ok(&["rejects", "show", &listed[0]["id"].to_string()]);
        assert!(shown.contains("yes, and dismissed there"), "{shown}");
        let untold = "SELECT count(*) FROM syncline_settled WHERE told = 0";
        assert_eq!(query(&world.remote("ann"), untold), [["0"]], "it is told once");
    }
}

// S5: a deployment that changed the table brought back what was settled long ago, now without its
// row, so that a forced retry of a refused insert deleted the row that somebody else had made.
#[test]
fn what_was_settled_does_not_come_back_with_a_deployment() {
    for world in worlds() {
        world.add_user("bob");
        let server = world.serve();
        world.sync("ann", &server);
        world.sync("bob", &server);
        sql(&world.remote("bob"), "UPDATE t SET data = 'of bob' WHERE id IN (1, 2)");
        world.sync("bob", &server);
        sql(
            &world.remote("ann"),
            "INSERT INTO t VALUES (3, -3, 'c'), (4, -4, 'd');
             UPDATE t SET data = 'of ann' WHERE id IN (1, 2)",
        );
        let told = world.sync("ann", &server);
        assert_eq!((&told["rejected"], &told["conflicts_lost"]), (&json!(2), &json!(2)), "{told}");
        let one = id_of(&world, 3);
        let shown = command(&world, &["show", "FILE", "--id", &one]).stdout;
        assert!(shown.contains("id=3") && !shown.contains("id=4"), "{shown}");
        let listed = command(&world, &["list", "FILE"]).stdout;
        assert!(listed.contains("id=3") && listed.contains("id=4"), "{listed}");
        let which = command(&world, &["retry", "FILE"]).stderr;
        assert!(which.contains("--id") && which.contains("--all"), "{which}");
        command(&world, &["dismiss", "FILE", "--id", &one]);
        world.center_sql("INSERT INTO allowed VALUES (1)");
        command(&world, &["retry", "FILE", "--id", &id_of(&world, 4)]);
        let conflicts = |arguments: &[&str]| {
            let file = world.remote("ann");
            let all = [&["remote", "conflicts"], arguments, &[file.to_str().unwrap()]].concat();
            world.syncline.ok(&all)
        };
        conflicts(&["dismiss", "--all"]);

        world.center_sql("ALTER TABLE t ADD COLUMN more TEXT");
        world.syncline.ok(&["deploy"]);
        let told = world.sync("ann", &server);
        let lost = told.get("conflicts_lost").cloned().unwrap_or_default();
        assert_eq!((&told["rejected"], &lost), (&json!(0), &Value::Null), "{told}");
        assert!(rejects(&world).is_empty(), "{:?}", rejects(&world));
        assert_eq!(conflicts(&["--json"]).trim(), "[]");
        world.assert_converged(&["ann"]);
    }
}

// S5, S11: a refused row had to be typed again, or copied from JSON by hand, and this overwrote
// changes that others had made in the meantime.
#[test]
fn a_retry_is_a_change_of_the_row_as_it_is_and_overwrites_nothing_unseen() {
    for world in worlds() {
        let server = world.serve();
        world.sync("ann", &server);
        sql(
            &world.remote("ann"),
            "UPDATE t SET n = -1, data = 'mine' WHERE id = 1; INSERT INTO t VALUES (3, -3, 'new');
             UPDATE t SET n = -2 WHERE id = 2",
        );
        assert_eq!(world.sync("ann", &server)["rejected"], 3);
        let told = rejects(&world);
        assert_eq!(told[0]["key"], json!({"id": 1}), "{told:?}");
        let shown = command(&world, &["FILE"]).stdout;
        assert!(shown.contains("key      id=1") && shown.contains("  data  mine"), "{shown}");

        world.center_sql("INSERT INTO allowed VALUES (1)");
        world.center_sql("UPDATE t SET data = 'theirs' WHERE id = 2");
        world.sync("ann", &server);
        let [one, two] = [1, 2].map(|key| id_of(&world, key));
        let both = ["retry", "FILE", "--id", &one, "--id", &two];
        let refused = command(&world, &both);
        let told = format!("error E5171: reject {two}: ");
        assert!(refused.stderr.contains(&told), "{refused:?}");
        assert_eq!(rejects(&world).len(), 3, "all or none");
        let done = command(
            &world,
            &["retry", "FILE", "--id", &id_of(&world, 1), "--id", &id_of(&world, 3)],
        );
        assert_eq!(done.stdout, "retried 2 rejects\n", "{done:?}");
        let warned = done.stderr.matches("happens a second time").count();
        assert_eq!(warned, 2, "{done:?}");
        let result = world.sync("ann", &server);
        let expected = json!({"inserts": 1, "updates": 1, "deletes": 0});
        assert_eq!((&result["uploaded"], &result["rejected"]), (&expected, &json!(0)), "{result}");
        let held = query(&world.remote("ann"), "SELECT n, data FROM t ORDER BY id");
        assert_eq!(held, [["-1", "'mine'"], ["2", "'theirs'"], ["-3", "'new'"]]);

        let left = command(&world, &["FILE", "retry", "--all"]);
        let told = format!("retried 0 rejects\nleft reject {two}: the row of t has changed");
        assert!(left.stdout.starts_with(&told) && left.code == Some(1), "{left:?}");
        assert!(
            left.stderr.contains("error E5171: 1 of 1 reject could not be retried"),
            "{left:?}"
        );
        let forced =
            command(&world, &["retry", "FILE", "--table", "t", "--key", "id=2", "--force"]);
        assert_eq!(forced.stdout, "retried 1 reject\n", "{forced:?}");
        world.sync("ann", &server);
        let held = query(&world.remote("ann"), "SELECT n, data FROM t WHERE id = 2");
        assert_eq!(held, [["-2", "'b'"]]);
        assert!(rejects(&world).is_empty());
        world.assert_converged(&["ann"]);
    }
}

// S11: what was refused in an upload alone was counted by no later summary.
#[test]
fn every_summary_counts_what_it_learned_and_rejects_can_be_forgotten() {
    for world in worlds() {
        let server = world.serve();
        world.sync("ann", &server);
        let write = "UPDATE t SET n = -1 WHERE id = 1";
        sql(&world.remote("ann"), write);
        let mut arguments = world.sync_arguments("ann", &server);
        arguments.extend(["--upload-only".to_owned(), "--json".to_owned()]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let alone: Value = serde_json::from_str(&world.syncline.run(&arguments).stdout).unwrap();
        assert_eq!(alone["rejected"], 1, "{alone}");
        assert_eq!(world.sync("ann", &server)["rejected"], 1, "now it is in the reject table");
        assert_eq!(world.sync("ann", &server)["rejected"], 0);
        let unknown = command(&world, &["dismiss", "FILE", "--id", "7"]);
        assert!(unknown.stderr.contains("error E5170"), "{unknown:?}");
        let none = command(&world, &["dismiss", "FILE", "--table", "u"]);
        assert!(none.stderr.contains("error E5170"), "{none:?}");
        assert_eq!(
            command(&world, &["dismiss", "FILE", "--table", "t"]).stdout,
            "dismissed 1 reject\n"
        );
        assert!(rejects(&world).is_empty());
    }
}

// S11: what a dropped table and a restore leave is counted when it is kept, whatever part of a
// synchronization came first.
#[test]
fn every_summary_counts_what_a_dropped_table_and_a_restore_leave() {
    for upload_first in [false, true] {
        let extra = "CREATE TABLE extra (id INTEGER PRIMARY KEY, word TEXT);";
        let world = World::new(PROGRAM, &format!("{TABLES}{extra}{ON_SQLITE}"));
        world.add_user("ann");
        let server = world.serve();
        world.sync("ann", &server);
        // The summary, and what was kept meanwhile, are the same.
        let learn = |server: &harness::Server| {
            let before = rejects(&world).len();
            if upload_first {
                let mut arguments = world.sync_arguments("ann", server);
                arguments.extend(["--upload-only".to_owned(), "--json".to_owned()]);
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                world.syncline.run(&arguments);
            }
            let between = rejects(&world).len();
            let told = world.sync("ann", server);
            let kept = rejects(&world).len();
            assert_eq!(told["rejected"], json!(kept - between), "{upload_first}: {told}");
            kept - before
        };
        sql(&world.remote("ann"), "INSERT INTO extra VALUES (7, 'pending')");
        world.center_sql("DROP TABLE extra");
        let model = "script_version = \"v1\"\ndropped_tables = [\"extra\"]\n\
                     [table.t]\n[table.allowed]\n";
        std::fs::write(world.path("model.toml"), model).unwrap();
        world.syncline.ok(&["deploy"]);
        assert_eq!(learn(&server), 1, "{upload_first}: the row of the dropped table");

        let backup = world.path("backup.db");
        let into = format!("VACUUM INTO '{}'", backup.display());
        harness::ForeignTool::Shell.sql(&world.consolidated(), &format!("{into};"));
        sql(&world.remote("ann"), "INSERT INTO t VALUES (10, 10, 'new')");
        assert_eq!(learn(&server), 0);
        server.stop();
        for suffix in ["-wal", "-shm"] {
            std::fs::remove_file(format!("{}{suffix}", world.consolidated().display())).ok();
        }
        std::fs::copy(&backup, world.consolidated()).unwrap();
        let server = world.serve();
        sql(&world.remote("ann"), "UPDATE t SET n = -1 WHERE id = 2");
        assert_eq!(learn(&server), 2, "{upload_first}: {:?}", rejects(&world));
        assert_eq!(learn(&server), 0);
    }
}
