//! Tables that come back to a remote after they were declared otherwise at the center.

use harness::{Server, World, query, sql};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SHOP: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, qty INTEGER);
    CREATE TABLE word (id INTEGER PRIMARY KEY, text TEXT);
    INSERT INTO item VALUES (1, 'nut', 5), (2, 'bolt', 6), (3, 'pin', 7)";

fn worlds() -> [World; 2] {
    [World::new(PROGRAM, SHOP), World::on_postgres(PROGRAM, SHOP)]
}

fn deploy(world: &World, model: &str) {
    let text = format!("script_version = \"v1\"\n{model}");
    std::fs::write(world.path("model.toml"), text).unwrap();
    world.syncline.ok(&["deploy"]);
}

/// The rows that the reject table keeps, by the names in them.
fn kept(world: &World) -> Vec<String> {
    let printed = world.syncline.json(&["remote", "rejects", "ann.db", "--json"]);
    let rejects = printed.as_array().unwrap();
    let mut rows: Vec<String> = rejects.iter().map(|it| it["row"].to_string()).collect();
    rows.sort_unstable();
    rows
}

/// Ann has the table; it leaves her in this way, she changes two rows, and adds one.
fn left(world: &World, leave: fn(&World, &Server)) -> Server {
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    leave(world, &server);
    sql(
        &world.remote("ann"),
        "UPDATE item SET name = 'nut of Ann' WHERE id = 1;
         UPDATE item SET name = 'bolt of Ann', qty = NULL WHERE id = 2;
         INSERT INTO item VALUES (9, 'cog of Ann', 1)",
    );
    server
}

fn detach(world: &World, _: &Server) {
    world.syncline.ok(&["remote", "detach", "ann.db"]);
}

fn publish_no_more(world: &World, server: &Server) {
    deploy(world, "[table.word]\n");
    world.sync("ann", server);
}

const WAYS: [fn(&World, &Server); 2] = [detach, publish_no_more];

fn assert_told(world: &World, server: &Server) {
    let rejected = world.sync("ann", server)["rejected"].clone();
    world.sync("ann", server);
    let names = query(&world.remote("ann"), "SELECT name FROM item ORDER BY name");
    assert_eq!(names.concat(), ["'bolt'", "'nut'", "'pin'"]);
    let kept = kept(world);
    for text in ["nut of Ann", "bolt of Ann", "cog of Ann"] {
        assert!(kept.iter().any(|row| row.contains(text)), "{text} of {kept:?}");
    }
    assert_eq!(rejected, kept.len(), "{kept:?}");
}

// S3, S11, Trap 23: the key got another name while the table was away. All rows got the same key,
// one of them stayed, and the others were gone without a record.
#[test]
fn rows_of_a_table_that_comes_back_under_another_key_are_told() {
    for leave in WAYS {
        for world in worlds() {
            let server = left(&world, leave);
            world.center_sql("ALTER TABLE item RENAME COLUMN id TO number");
            deploy(&world, "[table.item]\nrenamed = { number = \"id\" }\n[table.word]\n");
            assert_told(&world, &server);
            // It is unknown to which rows they belong.
            let retry = ["remote", "rejects", "retry", "ann.db", "--all", "--force"];
            world.syncline.fails("E5172", &retry);
        }
    }
}

// S3, S11, Trap 23: a row that the table does not take any more was gone without a record.
#[test]
fn rows_that_a_table_that_comes_back_does_not_take_are_told() {
    let required = [
        "CREATE TABLE spare (id INTEGER PRIMARY KEY, name TEXT, qty INTEGER NOT NULL);
         INSERT INTO spare SELECT * FROM item; DROP TABLE item; ALTER TABLE spare RENAME TO item",
        "ALTER TABLE item ALTER COLUMN qty SET NOT NULL",
    ];
    for leave in WAYS {
        for (world, required) in worlds().into_iter().zip(required) {
            let server = left(&world, leave);
            world.center_sql(required);
            deploy(&world, "[table.item]\n[table.word]\n");
            assert_told(&world, &server);
        }
    }
}

// S5, Trap 23: the table first comes back for uploads only, so nothing is compared. When it was
// downloaded again later, the rows of the time between went without a record.
#[test]
fn rows_of_a_table_that_comes_back_for_uploads_first_are_told() {
    for leave in WAYS {
        for world in worlds() {
            let server = left(&world, leave);
            deploy(&world, "[table.item]\ndirection = \"upload_only\"\n[table.word]\n");
            world.sync("ann", &server);
            world.sync("ann", &server);
            assert_eq!(world.center_count("SELECT count(*) FROM item"), 3, "none is uploaded");
            deploy(&world, "[table.item]\n[table.word]\n");
            assert_told(&world, &server);
        }
    }
}

// S3, S11: a table that is no longer published refers to a key that is another column now. SQLite
// refused every change of the parent, and each synchronization ended in E9001.
#[test]
fn a_table_of_the_users_own_may_refer_to_a_key_that_is_none_any_more() {
    let model = "[table.item]\n[table.part]\n";
    for world in worlds() {
        world.center_sql(
            "CREATE TABLE part (id INTEGER PRIMARY KEY, item INTEGER REFERENCES item (id),
                 name TEXT);
             INSERT INTO part VALUES (1, 1, 'thread'), (2, 3, 'tip')",
        );
        deploy(&world, model);
        world.add_user("ann");
        let server = world.serve();
        world.sync("ann", &server);
        deploy(&world, "[table.item]\n");
        world.sync("ann", &server);
        detach(&world, &server);
        world.center_sql("DELETE FROM part");
        world.center_sql("ALTER TABLE item RENAME COLUMN id TO number");
        deploy(&world, "[table.item]\nrenamed = { number = \"id\" }\n");
        world.sync("ann", &server);
        // Rows of the parent come, change and go, here and at the center.
        world.center_sql(
            "UPDATE item SET name = 'screw' WHERE number = 1; DELETE FROM item WHERE number = 3",
        );
        sql(&world.remote("ann"), "INSERT INTO item (number, name) VALUES (8, 'cog')");
        world.sync("ann", &server);
        let names = query(&world.remote("ann"), "SELECT name FROM item ORDER BY name");
        assert_eq!(names.concat(), ["'bolt'", "'cog'", "'screw'"]);
        // The table is left as it was.
        let parts = query(&world.remote("ann"), "SELECT name FROM part ORDER BY name");
        assert_eq!(parts.concat(), ["'thread'", "'tip'"]);
    }
}
