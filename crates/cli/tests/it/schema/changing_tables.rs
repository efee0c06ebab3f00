//! The tables change at the center while remotes have pending changes; real servers, kills.

use harness::{Server, World, count, sql};
use serde_json::Value;
use std::fs;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const ITEMS: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, qty INTEGER, note TEXT);
    INSERT INTO item VALUES (1, 'nut', 5, 'old'), (2, 'bolt', 6, 'old'), (3, 'cog', 7, 'old')";

/// `qty` is called `quantity`.
const RENAME: &str = "ALTER TABLE item RENAME COLUMN qty TO quantity";
const RENAMED: &str = "[table.item]\nrenamed = { quantity = \"qty\" }";

/// A center with three rows, on each database.
fn each(check: impl Fn(&World)) {
    check(&World::new(PROGRAM, ITEMS));
    check(&World::on_postgres(PROGRAM, ITEMS));
}

fn joined(world: &World) {
    deploy(world, "[table.item]");
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    server.stop();
}

fn deploy(world: &World, model: &str) {
    fs::write(world.path("model.toml"), format!("script_version = \"v1\"\n{model}\n")).unwrap();
    world.syncline.ok(&["deploy"]);
}

/// The owner changes the tables, and deploys the model that says what became of them.
fn change(world: &World, statements: &str, model: &str) -> Server {
    world.center_sql(statements);
    deploy(world, model);
    world.serve()
}

fn written(world: &World, statements: &str) {
    sql(&world.remote("ann"), statements);
}

fn rejects(world: &World) -> Vec<Value> {
    let told = world.syncline.json(&["remote", "rejects", "ann.db", "--json"]);
    told["rejects"].as_array().or(told.as_array()).cloned().unwrap_or_default()
}

// Trap 24: the offline edit of a renamed column vanished (`uploaded 0`), and a pending insert
// arrived with NULL there.
#[test]
fn pending_changes_of_a_renamed_column_arrive_in_it() {
    each(|world| {
        joined(world);
        written(
            world,
            "UPDATE item SET qty = 50 WHERE id = 1; DELETE FROM item WHERE id = 2;
            INSERT INTO item VALUES (4, 'pin', 8, 'new'); UPDATE item SET qty = 70, note = 'n'
            WHERE id = 3",
        );
        let server = change(world, RENAME, RENAMED);
        let result = world.sync("ann", &server);
        assert_eq!(result["uploaded"]["updates"], 2, "{result}");
        assert_eq!((&result["conflicts"], &result["rejected"]), (&0.into(), &0.into()));
        world.assert_converged(&["ann"]);
        assert_eq!(count(&world.remote("ann"), "SELECT sum(quantity) FROM item"), 128);
        assert_eq!(count(&world.remote("ann"), "SELECT count(*) FROM item WHERE note = 'n'"), 1);
        written(world, "UPDATE item SET quantity = 9 WHERE id = 4");
        assert_eq!(world.sync("ann", &server)["uploaded"]["updates"], 1);
        world.assert_converged(&["ann"]);
    });
}

// S1, Trap 24: the client is killed wherever it may be, with the tables of before and of after.
#[test]
fn a_client_that_is_killed_on_the_way_loses_nothing() {
    for point in [
        "client-frozen",
        "client-upload-sent",
        "client-upload-committed",
        "client-schema-changed",
        "client-download-received",
        "client-apply-before-commit",
        "client-apply-committed",
    ] {
        let world = World::new(PROGRAM, ITEMS);
        joined(&world);
        written(
            &world,
            "UPDATE item SET qty = 50 WHERE id = 1; INSERT INTO item VALUES
            (4, 'pin', 8, 'new')",
        );
        let server = change(&world, RENAME, RENAMED);
        let outcome = world.try_sync("ann", &server, Some(&format!("{point}=return")));
        assert!(outcome.code.is_none(), "{point} kills: {outcome:?}");
        let changed = "SELECT count(*) FROM pragma_table_info('item') WHERE name = 'quantity'";
        let name = if count(&world.remote("ann"), changed) == 1 { "quantity" } else { "qty" };
        written(&world, &format!("UPDATE item SET {name} = {name} + 1, note = 'later'"));
        world.sync("ann", &server);
        world.sync("ann", &server);
        world.assert_converged(&["ann"]);
        let sum = "SELECT sum(quantity) FROM item WHERE note = 'later'";
        assert_eq!(world.center_count(sum), 51 + 7 + 8 + 9, "{point}");
    }
}

// Trap 23: a table that left by mistake uploaded its rows when it came back.
#[test]
fn a_table_that_left_and_comes_back_is_compared() {
    each(|world| {
        world.center_sql("CREATE TABLE other (id INTEGER PRIMARY KEY)");
        deploy(world, "[table.item]\n[table.other]");
        world.add_user("ann");
        let server = world.serve();
        world.sync("ann", &server);
        server.stop();
        deploy(world, "[table.other]");
        let server = world.serve();
        world.sync("ann", &server);
        server.stop();
        written(world, "UPDATE item SET note = 'mine' WHERE id = 3");
        world.center_sql("DELETE FROM item WHERE id = 1; UPDATE item SET qty = 0 WHERE id = 2");
        deploy(world, "[table.item]\n[table.other]");
        let server = world.serve();
        let result = world.sync("ann", &server);
        assert_eq!(result["uploaded"]["inserts"], 0, "{result}");
        assert_eq!(result["rejected"], 3, "{result}");
        assert_eq!(rejects(world).len(), 3);
        world.assert_converged(&["ann"]);
        assert_eq!(world.center_count("SELECT count(*) FROM item"), 2, "no deleted row returns");
    });
}

// Trap 24: a pending change from before a column was published set the column to NULL, or was a
// conflict without a cause; with every rule.
#[test]
fn a_newly_published_column_is_no_part_of_a_pending_change() {
    for rule in ["consolidated_wins", "remote_wins", "merge"] {
        each(|world| {
            let narrow = "[table.item]\ncolumns = [\"id\", \"name\", \"qty\"]\n";
            deploy(world, &format!("{narrow}conflict = \"{rule}\""));
            world.add_user("ann");
            let server = world.serve();
            world.sync("ann", &server);
            server.stop();
            written(world, "UPDATE item SET qty = 50 WHERE id = 1");
            deploy(world, &format!("[table.item]\nconflict = \"{rule}\""));
            let server = world.serve();
            let result = world.sync("ann", &server);
            assert_eq!((&result["conflicts"], &result["rejected"]), (&0.into(), &0.into()));
            assert_eq!(
                world.center_count("SELECT count(*) FROM item WHERE qty = 50 AND note = 'old'"),
                1,
                "{rule}"
            );
            world.assert_converged(&["ann"]);
        });
    }
}

// SQLite takes only the letters of ASCII for equal in both cases.
#[test]
fn letters_beyond_ascii_are_others_in_the_other_case() {
    let umlauts = "CREATE TABLE \"Öl\" (id INTEGER PRIMARY KEY, \"ä\" TEXT, \"Ä\" TEXT);
        CREATE TABLE \"öl\" (id INTEGER PRIMARY KEY, \"Ü\" INTEGER REFERENCES \"Öl\");
        INSERT INTO \"Öl\" VALUES (1, 'small', 'large')";
    for world in [World::new(PROGRAM, umlauts), World::on_postgres(PROGRAM, umlauts)] {
        world.add_user("ann");
        let server = world.serve();
        world.sync("ann", &server);
        server.stop();
        written(
            &world,
            "UPDATE \"Öl\" SET \"Ä\" = 'LARGE'; INSERT INTO \"Öl\" VALUES (2, 'a', 'A');
             INSERT INTO \"öl\" VALUES (1, 2)",
        );
        let model = "[table.\"Öl\"]\n[table.\"öl\"]";
        let server = change(&world, "ALTER TABLE \"Öl\" ADD COLUMN \"é\" TEXT", model);
        let told = world.sync("ann", &server);
        assert_eq!((&told["rejected"], &told["uploaded"]["inserts"]), (&0.into(), &2.into()));
        world.sync("ann", &server);
        world.assert_converged(&["ann"]);
        let wanted = "SELECT count(*) FROM \"Öl\" WHERE \"ä\" = 'small' AND \"Ä\" = 'LARGE'";
        assert_eq!(world.center_count(wanted), 1);
    }
}
