//! The schema of the center changes in several ways at once, on both databases.
//!
//! At the same time keys, children and script versions change at remotes.

use harness::{Server, World, count, query, sql};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SHOP: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, qty INTEGER, note TEXT);
    CREATE TABLE part (id INTEGER PRIMARY KEY,
        item_id INTEGER REFERENCES item(id) ON UPDATE CASCADE, word TEXT);
    INSERT INTO item VALUES (1, 'nut', 5, 'old'), (2, 'bolt', 6, NULL), (3, 'pin', 7, 'x');
    INSERT INTO part VALUES (10, 1, 'one'), (20, 2, 'two')";

fn worlds() -> [World; 2] {
    [World::new(PROGRAM, SHOP), World::on_postgres(PROGRAM, SHOP)]
}

/// Ann has synchronized, then edited.
fn joined(world: &World, edits: &str) -> Server {
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    sql(&world.remote("ann"), edits);
    server
}

fn deploy(world: &World, model: &str) {
    let text = format!("script_version = \"v1\"\n{model}");
    std::fs::write(world.path("model.toml"), text).unwrap();
    world.syncline.ok(&["deploy"]);
}

fn rejects(world: &World) -> Vec<String> {
    let printed = world.syncline.json(&["remote", "rejects", "ann.db", "--json"]);
    printed.as_array().unwrap().iter().map(|reject| reject["row"].to_string()).collect()
}

fn clean(summary: &Value) {
    assert_eq!((&summary["conflicts"], &summary["rejected"]), (&json!(0), &json!(0)), "{summary}");
}

/// The rows of the remote, which are those of the center.
fn at_both(world: &World, text: &str) -> Vec<Vec<String>> {
    world.assert_converged(&["ann"]);
    let plain = |value: String| value.trim_matches('\'').to_owned();
    let rows = query(&world.remote("ann"), text).into_iter();
    rows.map(|row| row.into_iter().map(plain).collect()).collect()
}

// H1, Trap 24: a column that is called otherwise twice, and whose first name another one has.
#[test]
fn a_name_that_was_given_up_twice_and_used_again_takes_nothing_along() {
    for world in worlds() {
        let server = joined(
            &world,
            "UPDATE item SET qty = 50 WHERE id = 1; INSERT INTO item VALUES (4, 'cog', 8, NULL)",
        );
        let other = "[table.part]\n[table.item]\n";
        world.center_sql("ALTER TABLE item RENAME COLUMN qty TO quantity");
        deploy(&world, &format!("{other}renamed = {{ quantity = \"qty\" }}\n"));
        world.center_sql("ALTER TABLE item RENAME COLUMN quantity TO amount");
        deploy(&world, &format!("{other}renamed = {{ amount = \"quantity\" }}\n"));
        world.center_sql("ALTER TABLE item ADD COLUMN qty INTEGER DEFAULT -1");
        deploy(&world, &format!("{other}renamed = {{ amount = \"quantity\" }}\n"));
        clean(&world.sync("ann", &server));
        let held = at_both(&world, "SELECT id, amount, qty FROM item WHERE id IN (1, 4)");
        assert_eq!(held, [["1", "50", "-1"], ["4", "8", "-1"]]);
    }
}

// S5, S11, Trap 24: the type of a column changes, at an SQLite center to another storage class.
#[test]
fn a_column_of_another_type_converges_with_changes_waiting() {
    let alters = [
        "CREATE TABLE fresh (id INTEGER PRIMARY KEY, name TEXT, qty TEXT, note TEXT);
         INSERT INTO fresh SELECT * FROM item; DROP TABLE item; ALTER TABLE fresh RENAME TO item",
        "ALTER TABLE item ALTER COLUMN qty TYPE text",
    ];
    let schema = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, qty INTEGER, note TEXT);
        INSERT INTO item VALUES (1, 'nut', 5, 'old'), (2, 'bolt', 6, NULL), (3, 'pin', 7, 'x')";
    let worlds = [World::new(PROGRAM, schema), World::on_postgres(PROGRAM, schema)];
    for (world, alter) in worlds.into_iter().zip(alters) {
        let server = joined(
            &world,
            "UPDATE item SET qty = 50 WHERE id = 1; UPDATE item SET name = 'bolts' WHERE id = 2;
             DELETE FROM item WHERE id = 3; INSERT INTO item VALUES (4, 'cog', 8, NULL)",
        );
        world.center_sql(alter);
        deploy(&world, "[table.item]\n");
        clean(&world.sync("ann", &server));
        let held = at_both(&world, "SELECT id, name, qty, typeof(qty) FROM item ORDER BY id");
        let rows = [["1", "nut", "50"], ["2", "bolts", "6"], ["4", "cog", "8"]];
        let rows = rows.map(|[id, name, qty]| [id, name, qty, "text"]);
        assert_eq!(held, rows);
        sql(&world.remote("ann"), "UPDATE item SET qty = 'many' WHERE id = 4");
        clean(&world.sync("ann", &server));
        assert_eq!(at_both(&world, "SELECT qty FROM item WHERE id = 4"), [["many"]]);
    }
}

// Trap 24, S11: nothing is done while changed tables have pending changes, and the next
// synchronization with an upload uploads them.
#[test]
fn download_only_refuses_and_the_next_synchronization_takes_what_waits() {
    for world in worlds() {
        let edits = "UPDATE item SET qty = 50, note = 'mine' WHERE id = 1";
        let server = joined(&world, edits);
        world.center_sql(
            "ALTER TABLE item RENAME COLUMN qty TO quantity; ALTER TABLE item DROP COLUMN note",
        );
        let item = "[table.part]\n[table.item]\nrenamed = { quantity = \"qty\" }\n";
        deploy(&world, &format!("{item}dropped = [\"note\"]\n"));
        let mut arguments = world.sync_arguments("ann", &server);
        arguments.push("--download-only".to_owned());
        let refused = world.syncline.run(&arguments);
        assert_eq!(refused.code, Some(1));
        assert!(refused.stderr.contains("E5145"), "{}", refused.stderr);
        assert_eq!(rejects(&world), [""; 0]);
        assert_eq!(query(&world.remote("ann"), "SELECT qty FROM item WHERE id = 1"), [["50"]]);
        assert_eq!(world.sync("ann", &server)["rejected"], 1);
        assert!(rejects(&world)[0].contains("mine"));
        let held = "SELECT count(*) FROM item WHERE id = 1 AND quantity = 50";
        assert_eq!((world.center_count(held), count(&world.remote("ann"), held)), (1, 1));
    }
}

// S4, Trap 11, Trap 24: two deployments while parents and their children wait.
#[test]
fn parents_and_children_wait_through_two_deployments() {
    for world in worlds() {
        let server = joined(
            &world,
            "INSERT INTO item VALUES (4, 'cog', 8, NULL); INSERT INTO part VALUES (40, 4, 'four');
             UPDATE part SET item_id = 4 WHERE id = 10; DELETE FROM part WHERE id = 20;
             DELETE FROM item WHERE id = 2",
        );
        world.center_sql("ALTER TABLE part RENAME COLUMN item_id TO of_item");
        deploy(&world, "[table.item]\n[table.part]\nrenamed = { of_item = \"item_id\" }\n");
        world.center_sql("ALTER TABLE part RENAME TO piece; ALTER TABLE item ADD COLUMN x INTEGER");
        deploy(&world, "[table.item]\n[table.piece]\nrenamed_from = \"part\"\n");
        clean(&world.sync("ann", &server));
        let held = at_both(&world, "SELECT id, of_item, word FROM piece ORDER BY id");
        assert_eq!(held, [["10", "4", "one"], ["40", "4", "four"]]);
        let held = at_both(&world, "SELECT id FROM item ORDER BY id");
        assert_eq!(held, [["1"], ["3"], ["4"]]);
    }
}

// S5, Trap 24: a user moves to a script version with other names while changes wait.
#[test]
fn what_waits_goes_along_to_another_script_version() {
    for world in worlds() {
        let config = std::fs::read_to_string(world.path("syncline.toml")).unwrap();
        let both = config.replace("[\"model.toml\"]", "[\"model.toml\", \"newer.toml\"]");
        let server = joined(
            &world,
            "UPDATE item SET qty = 50 WHERE id = 1; INSERT INTO item VALUES (4, 'cog', 8, NULL);
             UPDATE item SET note = 'mine' WHERE id = 2",
        );
        world.center_sql("ALTER TABLE item RENAME COLUMN qty TO quantity");
        std::fs::write(world.path("syncline.toml"), both).unwrap();
        let newer = "script_version = \"v2\"\n[table.item]\n";
        let newer = format!("{newer}names = {{ amount = \"quantity\", qty = \"note\" }}\n");
        std::fs::write(world.path("newer.toml"), newer).unwrap();
        let renamed = "renamed = { quantity = \"qty\" }\nnames = { qty = \"quantity\" }";
        deploy(&world, &format!("[table.part]\n[table.item]\n{renamed}\n"));
        let mut arguments = world.sync_arguments("ann", &server);
        arguments.extend(["--script-version", "v2", "--json"].map(str::to_owned));
        clean(&world.syncline.json(&arguments));
        let text = "SELECT id, amount, qty FROM item WHERE id <> 3 ORDER BY id";
        let held = query(&world.remote("ann"), text);
        assert_eq!(held, [["1", "50", "'old'"], ["2", "6", "'mine'"], ["4", "8", "NULL"]]);
        let there = "SELECT count(*) FROM item WHERE (id = 1 AND quantity = 50)
            OR (id = 2 AND note = 'mine') OR (id = 4 AND quantity = 8)";
        assert_eq!(world.center_count(there), 3);
    }
}

// S7, Trap 24: the column that decides who receives a row comes while changes wait.
#[test]
fn a_partition_by_a_new_column_converges_with_changes_waiting() {
    for world in worlds() {
        let server = joined(
            &world,
            "UPDATE item SET qty = 50 WHERE id = 1; UPDATE item SET qty = 60 WHERE id = 2;
             DELETE FROM item WHERE id = 3; INSERT INTO item VALUES (4, 'cog', 8, NULL)",
        );
        world.center_sql(
            "ALTER TABLE item ADD COLUMN owner TEXT DEFAULT 'ann';
             UPDATE item SET owner = 'bob' WHERE id = 2",
        );
        let item = "[table.item]\npartition = \"owner = {s.username}\"\n";
        deploy(&world, &format!("{item}[table.part]\nparent = \"item\"\n"));
        let summary = world.sync("ann", &server);
        assert_eq!((&summary["conflicts"], &summary["rejected"]), (&json!(0), &json!(1)));
        let told = rejects(&world);
        assert!(told.len() == 1 && told[0].contains("60"), "{told:?}");
        world.sync("ann", &server);
        let held = query(&world.remote("ann"), "SELECT id, qty, owner FROM item ORDER BY id");
        assert_eq!(held, [["1", "50", "'ann'"], ["4", "8", "'ann'"]]);
        let there = "SELECT count(*) FROM item WHERE (id = 1 AND qty = 50) OR (id = 2 AND qty = 6)
            OR (id = 4 AND qty = 8)";
        assert_eq!(world.center_count(there), 3);
        assert_eq!(world.center_count("SELECT count(*) FROM item"), 3);
    }
}

// S11, Trap 23: a table that is not published any more was asked for its log, so that an upload
// with a deletion or a row to blame failed in each attempt.
#[test]
fn a_table_that_is_not_published_any_more_stops_no_upload() {
    for world in worlds() {
        let server = joined(
            &world,
            "UPDATE item SET qty = 50 WHERE id = 1; DELETE FROM item WHERE id = 3;
             INSERT INTO item VALUES (30, 'pin', 7, 'x'), (4, 'cog', 8, NULL), (5, 'x', 9, '');
             DELETE FROM part WHERE id = 20; DELETE FROM item WHERE id = 2;
             UPDATE part SET word = 'uno' WHERE id = 10",
        );
        world.center_sql("DELETE FROM part WHERE id = 20; INSERT INTO item VALUES (4, 'c', 1, '')");
        deploy(&world, "[table.item]\n");
        let summary = world.sync("ann", &server);
        assert_eq!(summary["conflicts"], 1, "{summary}");
        let told = rejects(&world);
        assert!(told.iter().any(|row| row.contains("uno")), "{told:?}");
        let text =
            "SELECT count(*) FROM item WHERE (id, qty) IN ((1, 50), (30, 7), (4, 1), (5, 9))";
        assert_eq!((world.center_count(text), count(&world.remote("ann"), text)), (4, 4));
        assert_eq!(world.center_count("SELECT count(*) FROM item"), 4);
    }
}
