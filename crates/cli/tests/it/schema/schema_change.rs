//! The schema of the center changes while remotes have pending changes, on both databases.

use harness::{Server, World, count, query, sql};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SHOP: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, qty INTEGER, note TEXT);
    CREATE TABLE other (id INTEGER PRIMARY KEY, word TEXT);
    INSERT INTO item VALUES (1, 'nut', 5, 'old'), (2, 'bolt', 6, NULL), (3, 'pin', 7, 'x');
    INSERT INTO other VALUES (1, 'one')";

fn worlds() -> [World; 2] {
    [World::new(PROGRAM, SHOP), World::on_postgres(PROGRAM, SHOP)]
}

/// Ann has synchronized, then edited; meanwhile the center changes its tables and its model.
fn changed(world: &World, edits: &str, alter: &str, model: &str) -> Server {
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    sql(&world.remote("ann"), edits);
    world.center_sql(alter);
    deploy(world, model);
    server
}

fn deploy(world: &World, model: &str) {
    let text = format!("script_version = \"v1\"\n{model}");
    std::fs::write(world.path("model.toml"), text).unwrap();
    world.syncline.ok(&["deploy"]);
}

fn rejects(world: &World) -> Vec<Value> {
    let printed = world.syncline.json(&["remote", "rejects", "ann.db", "--json"]);
    printed.as_array().unwrap().clone()
}

/// The rows of the remote, which are those of the center.
fn at_both(world: &World, text: &str) -> Vec<Vec<String>> {
    world.assert_converged(&["ann"]);
    let plain = |value: String| value.trim_matches('\'').to_owned();
    let rows = query(&world.remote("ann"), text).into_iter();
    rows.map(|row| row.into_iter().map(plain).collect()).collect()
}

// S1, S3, Trap 24: an edit of a column that had got another name vanished (`uploaded 0`).
#[test]
fn edits_of_a_renamed_column_arrive_under_its_new_name() {
    for world in worlds() {
        let server = changed(
            &world,
            "UPDATE item SET qty = 50 WHERE id = 1; UPDATE item SET qty = 60, name = 'bolts' \
             WHERE id = 2; INSERT INTO item VALUES (4, 'cog', 8, NULL); \
             DELETE FROM item WHERE id = 3",
            "ALTER TABLE item RENAME COLUMN qty TO quantity",
            "[table.other]\n[table.item]\nrenamed = { quantity = \"qty\" }\n",
        );
        let summary = world.sync("ann", &server);
        assert_eq!(summary["uploaded"], json!({"inserts": 1, "updates": 2, "deletes": 1}));
        assert_eq!((&summary["conflicts"], &summary["rejected"]), (&json!(0), &json!(0)));
        let held = at_both(&world, "SELECT id, name, quantity FROM item ORDER BY id");
        assert_eq!(held, [["1", "nut", "50"], ["2", "bolts", "60"], ["4", "cog", "8"]]);
        world.sync("ann", &server);
        world.assert_converged(&["ann"]);
    }
}

// S1, S3, Trap 24: swapped names, another table's name, and two deployments while it was away.
#[test]
fn a_remote_follows_swapped_names_and_several_deployments_at_once() {
    for world in worlds() {
        let server = changed(
            &world,
            "UPDATE item SET name = 'nuts', note = 'new' WHERE id = 1;
             INSERT INTO item VALUES (4, 'cog', 8, 'n')",
            "ALTER TABLE item RENAME COLUMN name TO spare;
             ALTER TABLE item RENAME COLUMN note TO name;
             ALTER TABLE item RENAME COLUMN spare TO note",
            "[table.other]\n[table.item]\nrenamed = { name = \"note\", note = \"name\" }\n",
        );
        world.center_sql(
            "ALTER TABLE item RENAME TO thing; ALTER TABLE thing RENAME COLUMN qty TO amount",
        );
        deploy(
            &world,
            "[table.other]\n[table.thing]\nrenamed_from = \"item\"\n\
             renamed = { name = \"note\", note = \"name\", amount = \"qty\" }\n",
        );
        let summary = world.sync("ann", &server);
        assert_eq!((&summary["conflicts"], &summary["rejected"]), (&json!(0), &json!(0)));
        let held = at_both(&world, "SELECT note, name, amount FROM thing WHERE id IN (1, 4)");
        assert_eq!(held, [["nuts", "new", "5"], ["cog", "n", "8"]]);
        sql(&world.remote("ann"), "UPDATE thing SET amount = 9 WHERE id = 4");
        assert_eq!(world.sync("ann", &server)["uploaded"]["updates"], 1);
        world.assert_converged(&["ann"]);
    }
}

// S5, S11, Trap 24: the edit of a dropped column went without a word.
#[test]
fn what_has_no_column_or_table_any_more_is_kept_and_told() {
    for world in worlds() {
        let server = changed(
            &world,
            "UPDATE item SET note = 'mine', qty = 50 WHERE id = 1;
             UPDATE item SET note = 'alone' WHERE id = 2; UPDATE item SET qty = 70 WHERE id = 3;
             UPDATE other SET word = 'uno' WHERE id = 1; INSERT INTO other VALUES (2, 'due')",
            "ALTER TABLE item DROP COLUMN note; DROP TABLE other",
            "dropped_tables = [\"other\"]\n[table.item]\ndropped = [\"note\"]\n",
        );
        let summary = world.sync("ann", &server);
        assert_eq!(summary["conflicts"], 0);
        assert_eq!(summary["rejected"], 4, "{summary}");
        let held = "SELECT count(*) FROM item WHERE (id, qty) IN ((1, 50), (2, 6), (3, 70))";
        assert_eq!((world.center_count(held), count(&world.remote("ann"), held)), (3, 3));
        let told: Vec<String> = rejects(&world).iter().map(|r| r["row"].to_string()).collect();
        assert_eq!(told.len(), 4, "{told:?}");
        for word in ["mine", "alone", "uno", "due"] {
            assert!(told.iter().any(|row| row.contains(word)), "{word}: {told:?}");
        }
        let messages: Vec<Value> = rejects(&world).iter().map(|r| r["message"].clone()).collect();
        let expected = json!("these columns of table item are gone: note = 'mine'");
        assert!(messages.contains(&expected), "{messages:?}");
    }
}

// S5, Trap 24: the center's value of a new column became NULL, or the edit a conflict.
#[test]
fn a_column_that_came_meanwhile_keeps_its_value() {
    for world in worlds() {
        let server = changed(
            &world,
            "UPDATE item SET qty = 50 WHERE id = 1; INSERT INTO item VALUES (4, 'cog', 8, NULL)",
            "ALTER TABLE item ADD COLUMN price INTEGER DEFAULT 9;
             UPDATE item SET price = 70 WHERE id = 1",
            "[table.other]\n[table.item]\nconflict = \"remote_wins\"\n",
        );
        let summary = world.sync("ann", &server);
        assert_eq!((&summary["conflicts"], &summary["rejected"]), (&json!(0), &json!(0)));
        let held = at_both(&world, "SELECT id, qty, price FROM item WHERE id IN (1, 4)");
        assert_eq!(held, [["1", "50", "70"], ["4", "8", "9"]]);
        sql(&world.remote("ann"), "UPDATE item SET price = 71 WHERE id = 1");
        world.sync("ann", &server);
        world.assert_converged(&["ann"]);
        assert_eq!(world.center_count("SELECT price FROM item WHERE id = 1"), 71);
    }
}

// S7, S11: a key with a column that the remote never received: it is unknown which row is meant.
#[test]
fn what_waits_under_another_key_is_kept_and_told() {
    for world in worlds() {
        let server = changed(
            &world,
            "UPDATE item SET qty = 50 WHERE id = 1; INSERT INTO item VALUES (4, 'cog', 8, NULL); \
             UPDATE other SET word = 'uno' WHERE id = 1",
            "CREATE TABLE fresh (code TEXT NOT NULL PRIMARY KEY, id INTEGER, name TEXT,
                 qty INTEGER, note TEXT);
             INSERT INTO fresh SELECT 'c' || id, id, name, qty, note FROM item; DROP TABLE item;
             ALTER TABLE fresh RENAME TO item",
            "[table.other]\n[table.item]\n",
        );
        let summary = world.sync("ann", &server);
        assert_eq!(summary["rejected"], 2, "{summary}");
        let told: Vec<String> = rejects(&world).iter().map(|r| r["row"].to_string()).collect();
        assert!(told.iter().any(|row| row.contains("50")), "{told:?}");
        assert!(told.iter().any(|row| row.contains("cog")), "{told:?}");
        world.sync("ann", &server);
        world.assert_converged(&["ann"]);
        assert_eq!(world.center_count("SELECT count(*) FROM other WHERE word = 'uno'"), 1);
    }
}

// S3, S5: programs of different ages call a column differently, and stay current side by side.
#[test]
fn script_versions_may_name_a_column_differently() {
    for world in worlds() {
        let config = std::fs::read_to_string(world.path("syncline.toml")).unwrap();
        let both = config.replace("[\"model.toml\"]", "[\"model.toml\", \"newer.toml\"]");
        assert_ne!(config, both);
        world.add_user("ann");
        world.add_user("ben");
        let server = world.serve();
        world.sync("ann", &server);
        sql(&world.remote("ann"), "UPDATE item SET qty = 50 WHERE id = 1");
        world.center_sql("ALTER TABLE item RENAME COLUMN qty TO quantity");
        std::fs::write(world.path("syncline.toml"), both).unwrap();
        let newer = "script_version = \"v2\"\n[table.item]\nconflict = \"merge\"\n";
        std::fs::write(world.path("newer.toml"), newer).unwrap();
        let renamed = "renamed = { quantity = \"qty\" }\nnames = { qty = \"quantity\" }";
        deploy(&world, &format!("[table.other]\n[table.item]\n{renamed}\n"));
        let ben = |world: &World, server: &Server| {
            let mut arguments = world.sync_arguments("ben", server);
            arguments.extend(["--script-version", "v2", "--json"].map(str::to_owned));
            world.syncline.json(&arguments)
        };
        assert_eq!(world.sync("ann", &server)["uploaded"]["updates"], 1);
        ben(&world, &server);
        let of_ben = || query(&world.remote("ben"), "SELECT quantity FROM item ORDER BY id");
        assert_eq!(of_ben(), [["50"], ["6"], ["7"]]);
        sql(&world.remote("ben"), "UPDATE item SET quantity = 60 WHERE id = 2");
        sql(&world.remote("ann"), "UPDATE item SET name = 'bolts' WHERE id = 2");
        sql(&world.remote("ann"), "UPDATE item SET qty = 70 WHERE id = 3");
        world.sync("ann", &server);
        assert_eq!(ben(&world, &server)["conflicts"], 1, "merged by the rule of v2");
        world.sync("ann", &server);
        let held = query(&world.remote("ann"), "SELECT name, qty FROM item ORDER BY id");
        assert_eq!(held, [["'nut'", "50"], ["'bolts'", "60"], ["'pin'", "70"]]);
        assert_eq!(of_ben(), [["50"], ["60"], ["70"]]);
        world.syncline.ok(&["check"]);
    }
}

// A model without a list of columns sent a new one to every remote, and nobody was told.
#[test]
fn deploy_names_the_columns_that_are_published_for_the_first_time() {
    for world in worlds() {
        world.center_sql(
            "ALTER TABLE item RENAME COLUMN qty TO quantity;
             ALTER TABLE item ADD COLUMN margin REAL; ALTER TABLE item ADD COLUMN cost REAL;
             ALTER TABLE other ADD COLUMN kept TEXT",
        );
        let model = "script_version = \"v1\"\n[table.other]\ncolumns = [\"id\", \"word\"]\n\
                     [table.item]\nrenamed = { quantity = \"qty\" }\n";
        std::fs::write(world.path("model.toml"), model).unwrap();
        let published = |arguments: &[&str]| -> Vec<String> {
            let notices = world.syncline.json(arguments)["notices"].clone();
            let notices = notices.as_array().unwrap().iter();
            let told = notices.map(|notice| notice.as_str().unwrap().to_owned());
            told.filter(|notice| notice.contains("published")).collect()
        };
        let new = ["item: columns margin, cost are published from now on"];
        assert_eq!(published(&["deploy", "--dry-run", "--json"]), new);
        assert_eq!(published(&["deploy", "--json"]), new);
        assert!(published(&["deploy", "--json"]).is_empty());
    }
}
