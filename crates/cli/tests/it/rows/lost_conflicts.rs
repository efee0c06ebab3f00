//! A remote that loses a conflict has both rows in its own file, and can make its change again.

use harness::{Outcome, World, query, sql};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const TABLES: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, n INTEGER, large TEXT);
    INSERT INTO t (id, name, n) VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4);";

fn conflicts(world: &World, arguments: &[&str]) -> Outcome {
    let file = world.remote("bob");
    let mut all = vec!["remote", "conflicts"];
    let file = file.to_str().unwrap();
    all.extend(arguments.iter().map(|it| if *it == "FILE" { file } else { *it }));
    world.syncline.run(&all)
}

fn listed(world: &World) -> Vec<Value> {
    let told = conflicts(world, &["FILE", "--json"]).stdout;
    serde_json::from_str::<Value>(&told).unwrap().as_array().unwrap().clone()
}

fn worlds() -> [World; 2] {
    let worlds = [World::new(PROGRAM, TABLES), World::on_postgres(PROGRAM, TABLES)];
    for world in &worlds {
        world.add_user("ann");
        world.add_user("bob");
    }
    worlds
}

// S5: its user heard of a number and saw neither row.
#[test]
fn who_loses_a_conflict_has_both_rows_and_can_make_the_change_again() {
    for world in worlds() {
        let server = world.serve();
        world.sync("ann", &server);
        world.sync("bob", &server);
        // A column of bob's own is no difference between the rows.
        sql(
            &world.remote("bob"),
            "ALTER TABLE t ADD COLUMN own TEXT; UPDATE t SET own = 'mine' WHERE id = 1",
        );
        sql(
            &world.remote("ann"),
            "UPDATE t SET name = 'of ann', large = printf('%.*c', 50000, 'x') WHERE id IN (1, 2);
             DELETE FROM t WHERE id = 3",
        );
        world.sync("ann", &server);
        sql(
            &world.remote("bob"),
            "UPDATE t SET n = 11 WHERE id = 1; DELETE FROM t WHERE id = 2;
             UPDATE t SET n = 33 WHERE id = 3; UPDATE t SET n = 44 WHERE id = 4",
        );
        let result = world.sync("bob", &server);
        let counted = (&result["conflicts"], &result["conflicts_lost"], &result["rejected"]);
        assert_eq!(counted, (&json!(3), &json!(3), &json!(0)), "{result}");
        let mut told = listed(&world);
        told.sort_by_key(|it| it["key"]["id"].as_i64());
        let seen: Vec<_> = told
            .iter()
            .map(|it| (&it["key"]["id"], &it["lost"]["n"], &it["stayed"]["name"]))
            .collect();
        let (null, ann) = (json!(null), json!("of ann"));
        let wanted = [
            (&json!(1), &json!(11), &ann),
            (&json!(2), &null, &ann),
            (&json!(3), &json!(33), &null),
        ];
        assert_eq!(seen, wanted, "{told:?}");
        assert!(told.iter().all(|it| it["rule"] == "consolidated wins"), "{told:?}");
        let id = told[0]["id"].to_string();
        let shown = conflicts(&world, &["show", "FILE", "--id", &id]).stdout;
        assert!(shown.contains("the row that lost:") && shown.contains("of ann"), "{shown}");

        // Only what bob has changed is changed again.
        assert_eq!(
            conflicts(&world, &["FILE", "retry", "--id", &id]).stdout,
            "retried 1 conflict\n"
        );
        let result = world.sync("bob", &server);
        assert_eq!((&result["conflicts"], &result["uploaded"]["updates"]), (&json!(0), &json!(1)));
        let row = "SELECT name, n, length(large), own FROM t WHERE id = 1";
        assert_eq!(query(&world.remote("bob"), row), [["'of ann'", "11", "50000", "'mine'"]]);

        // The row that stayed has changed again, so that is seen first.
        world.center_sql("UPDATE t SET n = 222 WHERE id = 2");
        world.sync("bob", &server);
        let of = ["retry", "FILE", "--table", "t", "--key", "id=2"];
        let refused = conflicts(&world, &of);
        assert!(refused.stderr.contains("error E5171: 1 of 1 conflict"), "{refused:?}");
        conflicts(&world, &[&of[..], &["--force"]].concat());
        conflicts(&world, &["retry", "FILE", "--table", "t", "--key", "id=3"]);
        world.sync("bob", &server);
        world.sync("ann", &server);
        let rows = query(&world.remote("ann"), "SELECT id, n FROM t ORDER BY id");
        assert_eq!(rows, [["1", "11"], ["3", "33"], ["4", "44"]]);
        assert!(listed(&world).is_empty());
        sql(&world.remote("bob"), "ALTER TABLE t DROP COLUMN own");
        world.assert_converged(&["ann", "bob"]);
    }
}

// S5, trap 5: the answer that told of it was lost.
#[test]
fn a_lost_conflict_is_told_although_the_answer_is_lost_and_until_it_is_dismissed() {
    for world in worlds() {
        let server = world.serve();
        world.sync("ann", &server);
        world.sync("bob", &server);
        sql(&world.remote("ann"), "UPDATE t SET name = 'of ann'");
        world.sync("ann", &server);
        sql(&world.remote("bob"), "UPDATE t SET name = 'of bob', n = n + 1");
        let cut = world.try_sync("bob", &server, Some("client-download-received=return"));
        assert_ne!(cut.code, Some(0), "{cut:?}");
        let result = world.sync("bob", &server);
        assert_eq!(result["conflicts_lost"], 4, "{result}");
        let told = listed(&world);
        assert!(told.iter().all(|it| it["lost"]["name"] == "of bob"), "{told:?}");
        assert!(told.iter().all(|it| it["stayed"]["name"] == "of ann"), "{told:?}");
        assert!(told.iter().all(|it| it["base"]["name"] != "of bob"), "{told:?}");
        assert_eq!(world.sync("bob", &server)["conflicts_lost"], json!(null));
        let status = ["remote", "status", "FILE", "--json"];
        let file = world.remote("bob");
        let status = status.map(|it| if it == "FILE" { file.to_str().unwrap() } else { it });
        assert_eq!(world.syncline.json(&status)["conflicts_lost"], 4);
        let unknown = conflicts(&world, &["dismiss", "FILE", "--id", "99"]);
        assert!(unknown.stderr.contains("error E5170: there is no conflict 99"), "{unknown:?}");
        assert_eq!(
            conflicts(&world, &["dismiss", "FILE", "--all"]).stdout,
            "dismissed 4 conflicts\n"
        );
        assert_eq!(world.syncline.json(&status)["conflicts_lost"], 0);
        world.assert_converged(&["ann", "bob"]);
    }
}

// S5: with a rule that merges, only a change of which something is gone has lost.
#[test]
fn a_change_that_counts_in_full_has_not_lost() {
    for world in worlds() {
        let model = std::fs::read_to_string(world.path("model.toml")).unwrap();
        let merged = model.replace("[table.t]", "[table.t]\nconflict = \"merge\"");
        std::fs::write(world.path("model.toml"), merged).unwrap();
        world.syncline.ok(&["deploy", "--dir", world.path("").to_str().unwrap()]);
        let server = world.serve();
        world.sync("ann", &server);
        world.sync("bob", &server);
        sql(&world.remote("ann"), "UPDATE t SET name = 'of ann' WHERE id < 4");
        world.sync("ann", &server);
        sql(
            &world.remote("bob"),
            "UPDATE t SET n = 11 WHERE id = 1; UPDATE t SET name = 'of bob', n = 22 WHERE id = 2",
        );
        let result = world.sync("bob", &server);
        assert_eq!((&result["conflicts"], &result["conflicts_lost"]), (&json!(2), &json!(1)));
        let told = listed(&world);
        assert_eq!((&told[0]["key"]["id"], &told[0]["stayed"]["n"]), (&json!(2), &json!(22)));
        world.assert_converged(&["bob"]);
    }
}

fn at_center(world: &World, arguments: &[&str]) -> Outcome {
    let folder = world.path("");
    world.syncline.run(&[&["conflicts"], arguments, &["--dir", folder.to_str().unwrap()]].concat())
}

fn noted(world: &World, filters: &[&str]) -> Vec<Value> {
    let told = at_center(world, &[&["list", "--json"], filters].concat());
    serde_json::from_str::<Value>(&told.stdout).unwrap().as_array().unwrap().clone()
}

// S5: an operator saw no key, and had to write the row by hand.
#[test]
fn an_operator_finds_a_conflict_by_its_key_and_resolves_it_for_everybody() {
    for world in worlds() {
        let server = world.serve();
        world.sync("ann", &server);
        world.sync("bob", &server);
        sql(&world.remote("ann"), "UPDATE t SET name = 'of ann?'; DELETE FROM t WHERE id = 4");
        world.sync("ann", &server);
        sql(
            &world.remote("bob"),
            "UPDATE t SET name = 'it''s \\ bob?', n = 11 WHERE id = 1; DELETE FROM t WHERE id = 2;
             UPDATE t SET n = 33 WHERE id >= 3",
        );
        world.sync("bob", &server);
        assert_eq!(noted(&world, &["--user", "ann"]).len(), 0);
        assert_eq!(noted(&world, &["--table", "u"]).len(), 0);
        assert_eq!(noted(&world, &["--rule", "merge"]).len(), 0);
        let filters = ["--user", "bob", "--table", "t", "--rule", "consolidated_wins"];
        let mut told = noted(&world, &[&filters[..], &["--newer-than", "1h"]].concat());
        told.sort_by_key(|it| it["key"]["id"].as_i64());
        assert_eq!(told.len(), 4, "{told:?}");
        let at = told[0]["at"].as_str().unwrap();
        assert!(at.len() == 20 && at.ends_with('Z') && at.contains('T'), "{at}");
        let listed = at_center(&world, &["list"]).stdout;
        assert!(listed.contains("id=1") && listed.contains("key"), "{listed}");

        let resolve = |n: usize, how: &[&str]| {
            let id = told[n]["id"].to_string();
            at_center(&world, &[&["resolve", &id], how].concat())
        };
        for (n, how) in [(0, &["--take", "loser"][..]), (1, &["--take", "loser"])] {
            assert_eq!(resolve(n, how).code, Some(0), "{:?}", resolve(n, how));
        }
        let wrong = resolve(2, &["--set", "id=5"]);
        assert!(wrong.stderr.contains("error E6171") && wrong.stderr.contains("`id`"), "{wrong:?}");
        world.center_sql("UPDATE t SET n = 333 WHERE id = 3");
        let changed = resolve(2, &["--set", "n=44"]);
        assert!(changed.stderr.contains("the row has changed since"), "{changed:?}");
        assert_eq!(resolve(2, &["--set", "n=44", "--null", "name", "--force"]).code, Some(0));
        // It was deleted at the center, and comes back as bob had it.
        assert_eq!(resolve(3, &["--take", "loser"]).code, Some(0));
        let gone = resolve(3, &["--take", "loser"]);
        assert!(gone.stderr.contains("error E6170"), "{gone:?}");
        let none = at_center(&world, &["list"]).stdout;
        assert!(none.starts_with("no conflict is listed; `purge`"), "{none}");
        world.sync("ann", &server);
        world.sync("bob", &server);
        let rows = query(&world.remote("ann"), "SELECT id, name, n FROM t ORDER BY id");
        let wanted = [["1", "'it's \\ bob?'", "11"], ["3", "NULL", "44"], ["4", "'d'", "33"]];
        assert_eq!(rows, wanted);
        world.assert_converged(&["ann", "bob"]);
    }
}
