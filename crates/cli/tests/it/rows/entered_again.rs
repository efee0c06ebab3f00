//! A row that is deleted at a remote and entered again there is a new row where it loses.

use harness::{World, query, sql};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const TABLES: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT);
    INSERT INTO t VALUES (5, 'known'), (6, 'known');";

fn worlds() -> [World; 2] {
    let worlds = [World::new(PROGRAM, TABLES), World::on_postgres(PROGRAM, TABLES)];
    for world in &worlds {
        world.add_user("ann");
        world.add_user("bob");
    }
    worlds
}

fn rejects(world: &World) -> Vec<String> {
    let file = world.remote("bob");
    let file = file.to_str().unwrap();
    let told = world.syncline.json(&["remote", "rejects", file, "--json"]);
    let line = |it: &Value| format!("{} {} {}", it["key"], it["code"], it["row"]["name"]);
    told.as_array().unwrap().iter().map(line).collect()
}

fn held(world: &World, remote: &str) -> Vec<Vec<String>> {
    query(&world.remote(remote), "SELECT id, name FROM t ORDER BY id")
}

// S5: its user heard nothing of it.
#[test]
fn who_enters_a_deleted_row_again_is_told_where_it_loses() {
    for world in worlds() {
        let server = world.serve();
        world.sync("ann", &server);
        world.sync("bob", &server);
        sql(&world.remote("ann"), "DELETE FROM t; INSERT INTO t VALUES (5, 'of ann')");
        world.sync("ann", &server);
        sql(
            &world.remote("bob"),
            "DELETE FROM t; INSERT INTO t VALUES (5, 'of bob'), (6, 'of bob')",
        );
        let summary = world.sync("bob", &server);
        assert_eq!((&summary["conflicts"], &summary["rejected"]), (&2.into(), &2.into()));
        let mut told = rejects(&world);
        told.sort();
        let wanted = ["{\"id\":5} \"E7007\" \"of bob\"", "{\"id\":6} \"E7007\" \"of bob\""];
        assert_eq!(told, wanted, "{summary}");
        assert_eq!(held(&world, "bob"), [["5", "'of ann'"]]);

        let file = world.remote("bob");
        let retry = ["remote", "rejects", "retry", file.to_str().unwrap(), "--table", "t"];
        world.syncline.ok(&[&retry[..], &["--key", "id=6"]].concat());
        world.sync("bob", &server);
        world.sync("ann", &server);
        assert_eq!(held(&world, "ann"), [["5", "'of ann'"], ["6", "'of bob'"]]);
        world.assert_converged(&["ann", "bob"]);
    }
}
