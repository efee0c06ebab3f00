//! What an operator sees of the remotes: who fails, who waits for what, who was not here.

use harness::{Server, World, sql, until};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const TABLES: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, region TEXT, name TEXT);
    INSERT INTO t VALUES (1, 'north', 'a'), (2, 'south', 'b');";

const MODEL: &str = "script_version = \"v1\"\n[table.t]\npartition = \"region = {u.region}\"\n";

fn worlds() -> [World; 2] {
    let worlds = World::on_each(PROGRAM, TABLES);
    for world in &worlds {
        std::fs::write(world.path("model.toml"), MODEL).unwrap();
        world.syncline.ok(&["deploy"]);
        world.add_user_with("ann", &["region=north"]);
        world.add_user_with("ben", &["region=south"]);
    }
    worlds
}

/// The remote of a user, as `fleet list` shows it.
fn listed(world: &World, user: &str) -> Value {
    let fleet = world.syncline.json(&["fleet", "list", "--json"]);
    let of_user = |it: &&Value| it["users"] == json!([user]);
    fleet.as_array().unwrap().iter().find(of_user).unwrap().clone()
}

/// The last synchronizations of the remote of a user.
fn past(world: &World, user: &str) -> Vec<Value> {
    let id = listed(world, user)["remote_id"].clone();
    let shown = world.syncline.json(&["fleet", "show", id.as_str().unwrap(), "--json"]);
    shown["synchronizations"].as_array().unwrap().clone()
}

fn until_noted(world: &World, user: &str, synchronizations: usize) {
    until("its synchronizations", || past(world, user).len() == synchronizations);
}

fn synchronize(world: &World, server: &Server) {
    for user in ["ann", "ben"] {
        world.sync(user, server);
        until_noted(world, user, 1);
    }
}

// A remote that was refused looked like one that was switched off, and nobody saw how many rows
// waited for whom.
#[test]
fn the_fleet_shows_who_fails_and_how_many_rows_wait_for_whom() {
    for world in worlds() {
        let server = world.serve();
        synchronize(&world, &server);
        for user in ["ann", "ben"] {
            let remote = listed(&world, user);
            assert_eq!((&remote["rows_waiting"], &remote["failing"]), (&json!(0), &json!(false)));
            assert!(remote["last_transfer"]["bytes_out"].as_u64().unwrap() > 100, "{remote}");
            // Who upgrades a fleet sees in one list which programs are there.
            assert_eq!(remote["client"], concat!("syncline ", env!("CARGO_PKG_VERSION")));
        }
        // One comes, one goes, and one leaves the north.
        world.center_sql(
            "INSERT INTO t VALUES (3, 'south', 'c'); UPDATE t SET region = 'south' WHERE id = 1;
             DELETE FROM t WHERE id = 2",
        );
        let waiting = ["ann", "ben"].map(|user| listed(&world, user)["rows_waiting"].clone());
        assert_eq!(waiting, [json!(1), json!(3)]);

        world.write_secret("ann.password", "not the password");
        world.sync_fails("ann", &server, "E2101");
        until_noted(&world, "ann", 2);
        let ann = listed(&world, "ann");
        let error = &ann["last_error"];
        assert_eq!((&error["code"], &error["user_proven"]), (&json!("E2101"), &json!(false)));
        assert_eq!((&ann["failing"], &ann["rows_waiting"]), (&json!(true), &json!(1)), "{ann}");
        let table = world.syncline.ok(&["fleet", "list"]);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("remote") && lines[0].ends_with("transfer"), "{table}");
        assert!(lines[1].contains("ann") && lines[1].contains("E2101 "), "{table}");
        assert!(lines[1].contains(" s ago") && lines[2].contains("ben"), "{table}");
        for (filter, seen) in [
            (&["--failing"][..], "ann"),
            (&["--user", "ben"], "ben"),
            (&["--limit", "1"], "ann"),
            (&["--silent-for", "1h"], "no remote is like that"),
        ] {
            let table = world.syncline.ok(&[&["fleet", "list"][..], filter].concat());
            let others = ["ann", "ben"].into_iter().filter(|it| *it != seen);
            assert!(table.contains(seen), "{table}");
            assert!(others.into_iter().all(|it| !table.contains(it)), "{filter:?}: {table}");
        }
        let shown = world.syncline.ok(&["fleet", "show", ann["remote_id"].as_str().unwrap()]);
        assert!(shown.contains("last error      E2101 "), "{shown}");
        assert!(shown.contains("unknown user or wrong password"), "{shown}");
        assert!(shown.contains("synchronized") && shown.contains("rows waiting    1"), "{shown}");

        // What a server knows when it stops is not lost.
        world.sync("ben", &server);
        server.stop();
        let of_ben = past(&world, "ben");
        assert_eq!((of_ben.len(), &of_ben[0]["downloaded"]), (2, &json!(3)), "{of_ben:?}");
        assert!(of_ben[0]["phases_ms"]["fetching"].as_f64().unwrap() > 0.0, "{of_ben:?}");
        assert_eq!(listed(&world, "ben")["rows_waiting"], 0);
    }
}

#[test]
fn more_rows_than_are_counted_are_told_so() {
    for world in worlds() {
        let server = world.serve();
        synchronize(&world, &server);
        let rows: Vec<_> = (10..1010).map(|id| format!("({id}, 'north', 'x')")).collect();
        for (rows, more) in [(rows.join(", "), false), ("(9, 'north', 'x')".to_owned(), true)] {
            world.center_sql(&format!("INSERT INTO t VALUES {rows}"));
            let ann = listed(&world, "ann");
            let waiting = (&ann["rows_waiting"], &ann["rows_waiting_more"]);
            assert_eq!(waiting, (&json!(1000), &json!(more)));
        }
        assert!(world.syncline.ok(&["fleet", "list"]).contains("more than 1,000"));
        sql(&world.remote("ben"), "INSERT INTO t VALUES (5, 'south', 'own')");
        world.sync("ben", &server);
        until_noted(&world, "ben", 2);
        assert_eq!(listed(&world, "ben")["rows_waiting"], 0, "it has its own row");
        // What it was sent because it lost a conflict does not wait any more.
        world.center_sql("UPDATE t SET name = 'center' WHERE id = 2");
        sql(&world.remote("ben"), "UPDATE t SET name = 'ben' WHERE id = 2");
        assert_eq!(world.sync("ben", &server)["conflicts"], 1);
        until_noted(&world, "ben", 3);
        let counted = world.syncline.run(&["fleet", "list"]);
        assert_eq!(
            (listed(&world, "ben")["rows_waiting"].clone(), &*counted.stderr),
            (json!(0), "")
        );
    }
}

#[test]
fn an_upload_alone_changes_nothing_of_what_waits() {
    for world in worlds() {
        let server = world.serve();
        synchronize(&world, &server);
        let mut upload_alone = world.sync_arguments("ben", &server);
        upload_alone.push("--upload-only".to_owned());
        world.syncline.ok(&upload_alone);
        until_noted(&world, "ben", 2);
        world.center_sql("INSERT INTO t VALUES (3, 'south', 'c')");
        assert_eq!(listed(&world, "ben")["rows_waiting"], 1);

        // The same where both are noted together.
        world.sync("ben", &server);
        world.syncline.ok(&upload_alone);
        server.stop();
        assert_eq!(listed(&world, "ben")["rows_waiting"], 0);
    }
}

#[test]
fn rows_wait_for_whom_the_last_download_was_made() {
    for world in worlds() {
        let server = world.serve();
        synchronize(&world, &server);
        let id = listed(&world, "ann")["remote_id"].as_str().unwrap().to_owned();
        world.syncline.ok(&["fleet", "bind", &id, "--user", "ann", "--user", "ben"]);
        world.syncline.ok(&[
            "sync",
            "ann.db",
            "--server",
            &server.url,
            "--user",
            "ben",
            "--password-file",
            "ben.password",
            "--upload-only",
        ]);
        server.stop();
        world.center_sql("INSERT INTO t VALUES (3, 'north', 'c'), (4, 'north', 'd')");
        let remote = world.syncline.json(&["fleet", "show", &id, "--json"]);
        assert_eq!((&remote["user"], &remote["rows_waiting"]), (&json!("ben"), &json!(2)));
    }
}
