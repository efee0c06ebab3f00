//! Scripts that users write: files, `scripts export` and `scripts check`, on both databases.

use harness::postgres::Cluster;
use harness::{World, query, sql};
use serde_json::{Value, json};
use std::fs;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const TABLES: &str = "
    CREATE TABLE visit (id INTEGER PRIMARY KEY, note TEXT, seen_by TEXT NOT NULL);
    CREATE TABLE \"odd name\" (id INTEGER PRIMARY KEY, note TEXT);
    INSERT INTO visit VALUES (1, 'a', 'center'), (2, 'b', 'center');";

const MODEL: &str = "script_version = \"v1\"
    [table.visit]
    columns = [\"id\", \"note\"]
    [table.\"odd name\"]\n";

const INSERT: &str = "-- The column is not published.
INSERT INTO visit (id, note, seen_by)
VALUES ({ml r.id, r.note}, {a.1} || ' of ' || {s.username})\n";

/// A center on SQLite and one on PostgreSQL, whose visits are inserted by a user's script.
fn worlds() -> [World; 2] {
    let database = Cluster::shared().database();
    database.sql(TABLES);
    let url = database.url();
    let on_sqlite = World::without_deployment(PROGRAM, TABLES);
    let on_postgres = World::on_database(PROGRAM, database);
    deploy(&on_sqlite, "sqlite:consolidated.db");
    deploy(&on_postgres, &url);
    [on_sqlite, on_postgres]
}

fn deploy(world: &World, url: &str) {
    world.syncline.ok(&["init", ".", "--consolidated", url]);
    fs::write(world.path("model.toml"), MODEL).unwrap();
    write(world, "v1/visit/upload_insert.sql", INSERT);
    world.syncline.ok(&["deploy"]);
    world.add_user("ann");
}

fn write(world: &World, path: &str, text: &str) {
    let path = world.path(&format!("scripts/{path}"));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn remove(world: &World, path: &str) {
    fs::remove_file(world.path(&format!("scripts/{path}"))).unwrap();
}

fn listed(world: &World) -> Vec<Value> {
    let listed = world.syncline.json(&["scripts", "check", "--json"]);
    listed["scripts"].as_array().unwrap().clone()
}

fn of(listed: &[Value], table: &str, event: &str) -> Value {
    let is_it = |it: &&Value| it["table"] == table && it["event"] == event;
    listed.iter().find(is_it).unwrap().clone()
}

const DEPLOYED: &str = "nothing to do";

#[test]
fn an_own_script_sets_what_the_remote_does_not_know() {
    for world in worlds() {
        let server = world.serve();
        world.sync("ann", &server);
        sql(&world.remote("ann"), "INSERT INTO visit VALUES (9, 'n'), (10, 'm')");
        let mut arguments = world.sync_arguments("ann", &server);
        arguments.extend(["--auth-parameter", "van 7", "--json"].map(str::to_owned));
        let summary = world.syncline.json(&arguments);
        assert_eq!(summary["uploaded"]["inserts"], 2);
        assert_eq!((&summary["rejected"], &summary["conflicts"]), (&json!(0), &json!(0)));
        // Unlike the table as a whole, nothing of it comes back.
        assert_eq!(summary["downloaded"]["upserts"], 0);
        let seen = "SELECT count(*) FROM visit WHERE id > 8 AND seen_by = 'van 7 of ann'";
        assert_eq!(world.center_count(seen), 2);
        // What is passed may be a secret.
        let log = fs::read_to_string(world.path("server.log")).unwrap();
        assert!(!log.contains("van 7"));
    }
}

#[test]
fn exported_scripts_are_generated_until_they_are_changed() {
    for world in worlds() {
        let exported = world.syncline.ok(&["scripts", "export"]);
        assert!(exported.contains("scripts/v1/odd%20name/upload_update.sql\n"), "{exported}");
        assert!(!exported.contains("visit/upload_insert.sql"), "a file is not overwritten");
        let text = fs::read_to_string(world.path("scripts/v1/visit/upload_insert.sql")).unwrap();
        assert_eq!(text, INSERT);
        assert!(world.syncline.ok(&["deploy"]).contains(DEPLOYED));
        let before = listed(&world);
        assert_eq!(of(&before, "visit", "upload_insert")["origin"], "own");
        assert_eq!(of(&before, "visit", "upload_update")["origin"], "generated");

        let path = "v1/visit/upload_update.sql";
        let text = fs::read_to_string(world.path(&format!("scripts/{path}"))).unwrap();
        write(&world, path, &text.replace("SET", "set"));
        let after = of(&listed(&world), "visit", "upload_update");
        assert_eq!((&after["origin"], &after["outdated"]), (&json!("own"), &json!(false)));
        assert!(!world.syncline.ok(&["deploy"]).contains(DEPLOYED));
        let shown = world.syncline.ok(&["scripts", "show"]);
        assert!(shown.contains("event upload_update, yours\n-- syncline: generated "), "{shown}");

        // The model makes another text: the file stays in use, and that is told.
        fs::write(world.path("model.toml"), MODEL.replace("\"note\"]", "\"note\", \"seen_by\"]"))
            .unwrap();
        let after = of(&listed(&world), "visit", "upload_update");
        assert_eq!((&after["origin"], &after["outdated"]), (&json!("own"), &json!(true)));
        let words = "visit upload_update: own over a generated one that has changed since";
        assert!(world.syncline.ok(&["scripts", "check"]).contains(words));

        remove(&world, path);
        assert_eq!(of(&listed(&world), "visit", "upload_update")["origin"], "generated");
    }
}

#[test]
fn one_table_or_event_is_exported_and_unknown_ones_are_refused() {
    let [world, _] = worlds();
    let exported = world.syncline.ok(&["scripts", "export", "visit", "upload_delete"]);
    assert_eq!(exported, "scripts/v1/visit/upload_delete.sql\n");
    write(&world, "v1/visit/upload_delete.sql", "DELETE FROM visit WHERE id = {r.id}");
    world.syncline.ok(&["scripts", "export", "visit", "upload_delete", "--force"]);
    assert_eq!(of(&listed(&world), "visit", "upload_delete")["origin"], "generated");
    world.syncline.fails("E6003", &["scripts", "export", "nobody"]);
    world.syncline.fails("E6003", &["scripts", "export", "visit", "upload_inset"]);
}

#[test]
fn every_mistake_is_a_line_with_its_place_and_nothing_is_deployed() {
    for world in worlds() {
        let before = world.syncline.ok(&["scripts", "show"]);
        write(&world, "v1/visit/upload_inset.sql", "SELECT 1");
        write(&world, "v1/visit/upload_update.sql", "UPDATE visit SET note = 'x';\nCOMMIT;");
        write(&world, "v1/visit/upload_delete.sql", "DELETE FROM visit\nWHERE idd = {r.id}");
        write(&world, "v1/odd%20name/upload_insert.sql", "SELECT {r.nope}");
        write(&world, "v1/odd%20name/upload_fence.sql", "SELECT 1");
        write(&world, "v1/begin_uploads.sql", "SELECT 1");
        write(&world, "v2/visit/upload_insert.sql", "SELECT 1");
        write(&world, "v1/README.md", "what these are for");
        let outcome = world.syncline.run(&["deploy"]);
        assert_eq!(outcome.code, Some(1));
        for place in [
            "scripts/v1/visit/upload_inset.sql:1:1: there is no event upload_inset",
            "scripts/v1/visit/upload_update.sql:2:1: COMMIT: ",
            "scripts/v1/visit/upload_delete.sql:2:7: ",
            "scripts/v1/odd%20name/upload_insert.sql:1:9: unknown parameter {r.nope}",
            "scripts/v1/odd%20name/upload_fence.sql:1:1: upload_fence is always generated",
            "scripts/v1/begin_uploads.sql:1:1: there is no event begin_uploads",
            "scripts/v2: no model has the script version v2",
        ] {
            let found = outcome.stderr.lines().filter(|line| line.contains(place)).count();
            assert_eq!(found, 1, "{place}: {outcome:?}");
        }
        assert_eq!(world.syncline.ok(&["scripts", "show"]), before);
        let outcome = world.syncline.run(&["deploy", "--dry-run"]);
        assert!(outcome.stderr.starts_with("error E6151: "), "{outcome:?}");
    }
}

// What is ignored stays at the remote until the center's row changes, and is told.
#[test]
fn ignored_rows_are_counted_and_stay_at_the_remote() {
    for world in worlds() {
        write(&world, "_all/visit/upload_update.sql", "--{ml_ignore} the office decides");
        write(&world, "_all/nobody/upload_update.sql", "--{ignore}");
        let words = "visit: upload_update is ignored: rows may differ";
        let deployed = world.syncline.ok(&["deploy"]);
        assert!(deployed.contains(words), "{deployed}");
        assert!(world.syncline.ok(&["check"]).contains(words));
        let server = world.serve();
        world.sync("ann", &server);
        sql(&world.remote("ann"), "UPDATE visit SET note = 'mine'");
        let summary = world.sync("ann", &server);
        assert_eq!((&summary["ignored"], &summary["rejected"]), (&json!(2), &json!(0)));
        assert_eq!(summary["uploaded"]["updates"], 0);
        let summary = world.sync("ann", &server);
        assert_eq!(summary["ignored"], Value::Null, "they are not pending");
        let notes = || query(&world.remote("ann"), "SELECT note FROM visit ORDER BY id");
        assert_eq!(notes(), [["'mine'"], ["'mine'"]]);
        world.center_sql("UPDATE visit SET note = 'office' WHERE id = 1");
        world.sync("ann", &server);
        assert_eq!(notes(), [["'office'"], ["'mine'"]]);
        let log = fs::read_to_string(world.path("server.log")).unwrap();
        assert!(log.contains("ignored=2") || log.contains("\"ignored\":2"), "{log}");
    }
}

// A cursor decides what a remote has. Other values of what it names send the table anew, and what
// is kept stays.
#[test]
fn an_own_cursor_decides_which_rows_a_remote_has() {
    for world in worlds() {
        world.center_sql("INSERT INTO visit VALUES (3, 'secret', 'office')");
        let cursor = "SELECT id, note FROM visit WHERE seen_by = {a.1}";
        write(&world, "v1/visit/download_cursor.sql", cursor);
        world.syncline.ok(&["deploy"]);
        let server = world.serve();
        let sync = |of: &str| {
            let mut arguments = world.sync_arguments("ann", &server);
            arguments.extend(["--auth-parameter", of, "--json"].map(str::to_owned));
            world.syncline.json(&arguments)
        };
        let ids = || query(&world.remote("ann"), "SELECT id FROM visit ORDER BY id");
        sync("center");
        assert_eq!(ids(), [["1"], ["2"]]);
        sync("office");
        assert_eq!(ids(), [["3"]]);
        // The row that the cursor hides is owed, because the insert of its key is a reject.
        sql(&world.remote("ann"), "INSERT INTO visit VALUES (1, 'mine'), (8, 'new')");
        let summary = sync("office");
        let counts = (&summary["rejected"], &summary["uploaded"]["inserts"]);
        assert_eq!(counts, (&json!(1), &json!(2)));
        assert_eq!(ids(), [["3"], ["8"]]);
        assert_eq!(sync("office")["rejected"], 0);
        let model = MODEL.replace("[table.visit]", "[table.visit]\nrefresh = \"keep\"");
        fs::write(world.path("model.toml"), model).unwrap();
        world.syncline.ok(&["deploy"]);
        sync("center");
        assert_eq!(ids(), [["1"], ["2"], ["3"], ["8"]]);
        write(&world, "v1/visit/download_cursor.sql", "--{ignore}");
        fs::write(world.path("model.toml"), MODEL).unwrap();
        world.syncline.ok(&["deploy"]);
        world.center_sql("UPDATE visit SET note = 'changed'");
        assert_eq!(sync("center")["downloaded"]["upserts"], 0);
        assert_eq!(ids(), [["1"], ["2"], ["3"], ["8"]]);
    }
}
