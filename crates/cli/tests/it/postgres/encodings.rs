//! Databases whose encoding has not every character.

use super::PROGRAM;
use harness::postgres::Cluster;
use harness::{World, query, sql};

const ITEM: &str = "CREATE TABLE item (id integer PRIMARY KEY, name text);
    CREATE TABLE named (name text PRIMARY KEY, n integer);
    INSERT INTO item VALUES (1, 'Stra' || chr(223) || 'e');
    INSERT INTO named VALUES ('M' || chr(252) || 'ller', 1), ('plain', 1);";

fn latin1() -> World {
    let world = World::deployed_on(PROGRAM, Cluster::shared().database_in("LATIN1"), ITEM);
    world.add_user("ann");
    world
}

fn assert_settled(world: &World, server: &harness::Server) {
    for _ in 0..2 {
        assert_eq!(world.sync("ann", server)["rejected"], 0);
        world.assert_converged(&["ann"]);
    }
}

fn rejects(world: &World) -> Vec<Vec<String>> {
    let of = "SELECT table_name, key, code FROM syncline_reject ORDER BY table_name, key";
    query(&world.remote("ann"), of)
}

// S2, S11: one such row failed every upload of its remote for ever, and was not named.
#[test]
fn a_character_that_the_database_cannot_have_rejects_its_row_alone() {
    let world = latin1();
    let server = world.serve();
    world.sync("ann", &server);
    let remote = world.remote("ann");
    assert_eq!(query(&remote, "SELECT name FROM item"), [["'Straße'"]]);
    assert_eq!(query(&remote, "SELECT name FROM named"), [["'Müller'"], ["'plain'"]]);
    sql(
        &remote,
        "INSERT INTO item VALUES (2, '€ 5'), (3, 'für');
         INSERT INTO named VALUES ('Łódź', 1), ('Köln', 2);
         UPDATE named SET n = 5 WHERE name = 'Müller';
         UPDATE item SET name = 'wie 😀' WHERE id = 1",
    );
    let told = world.sync("ann", &server);
    assert_eq!(told["rejected"], 3, "{told}");
    let codes: Vec<String> = rejects(&world).into_iter().map(|row| row[2].clone()).collect();
    assert_eq!(codes, ["7002"; 3], "{:?}", rejects(&world));
    world.assert_converged(&["ann"]);
    let kept = world.database().text(
        "SELECT table_name || row_key || row_content FROM syncline.syncline_reject ORDER BY 1",
    );
    let kept: Vec<&str> = kept.lines().collect();
    let expected = [
        r#"item{"id":1}{"id":1,"name":"wie \ud83d\ude00"}"#,
        r#"item{"id":2}{"id":2,"name":"\u20ac 5"}"#,
        r#"named{"name":"\u0141ód\u017a"}{"name":"\u0141ód\u017a","n":1}"#,
    ];
    assert_eq!(kept, expected);
    // What is told at the remote is what was written there.
    let row = query(&remote, "SELECT row FROM syncline_reject WHERE key = '{\"id\":2}'");
    assert!(row[0][0].contains("€ 5"), "{row:?}");
    assert_settled(&world, &server);
}

// S2: such a row cannot be there, so a delete of it has nothing to do, and an update is told.
#[test]
fn keys_that_the_database_cannot_have_are_of_no_row() {
    let world = latin1();
    let server = world.serve();
    world.sync("ann", &server);
    let remote = world.remote("ann");
    sql(&remote, "INSERT INTO named VALUES ('€', 1), ('Ω', 1); UPDATE named SET n = 2");
    // As if the rows had been downloaded once.
    sql(&remote, "UPDATE syncline_change_named SET existed = 1, old_name = key_name, old_n = 1");
    sql(&remote, "DELETE FROM named WHERE name = 'Ω'; INSERT INTO item VALUES (9, 'kept')");
    let told = world.sync("ann", &server);
    assert!(told["rejected"].as_i64().unwrap() >= 1, "{told}");
    assert_eq!(world.center_count("SELECT count(*) FROM item WHERE id = 9"), 1);
    assert_eq!(world.center_count("SELECT count(*) FROM named WHERE n = 2"), 2);
    world.assert_converged(&["ann"]);
    assert_settled(&world, &server);
}

// The same without knowledge of the characters: PostgreSQL refuses each.
#[test]
fn every_other_encoding_rejects_the_rows_that_it_cannot_have() {
    let create = "CREATE TABLE item (id integer PRIMARY KEY, name text);
        CREATE TABLE named (name text PRIMARY KEY, n integer);
        INSERT INTO item VALUES (1, 'Stra' || chr(223) || 'e');";
    let database = Cluster::shared().database_in("WIN1252");
    let world = World::deployed_on(PROGRAM, database, create);
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    let remote = world.remote("ann");
    sql(
        &remote,
        "INSERT INTO item VALUES (2, '€ 5'), (3, 'Łódź'), (4, 'last');
         INSERT INTO named VALUES ('Ω', 1), ('€', 1)",
    );
    assert_eq!(world.sync("ann", &server)["rejected"], 2);
    assert_eq!(world.database().text("SELECT sum(id) FROM item").trim(), "7");
    assert_eq!(world.center_count("SELECT count(*) FROM named"), 1);
    let kept = world.database().text("SELECT row_content FROM syncline.syncline_reject ORDER BY 1");
    assert!(kept.contains(r#"{"id":3,"name":"\u0141\u00f3d\u017a"}"#), "{kept}");
    assert_eq!(query(&remote, "SELECT name FROM item WHERE id < 3"), [["'Straße'"], ["'€ 5'"]]);
    assert_eq!(
        rejects(&world).concat(),
        ["'item'", r#"'{"id":3}'"#, "7002", "'named'", r#"'{"name":"Ω"}'"#, "7002",]
    );
    // Nobody can ask such a database for a key that it cannot have: the row stays here.
    assert_eq!(world.sync("ann", &server)["rejected"], 0);
    assert_eq!(query(&remote, "SELECT name FROM named ORDER BY 1"), [["'Ω'"], ["'€'"]]);
    sql(&remote, "DELETE FROM named WHERE name = 'Ω'");
    world.sync("ann", &server);
    world.assert_converged(&["ann"]);
}

// S11: texts that are none would reach remotes.
#[test]
fn a_database_without_an_encoding_is_refused() {
    let world = World::on_database(PROGRAM, Cluster::shared().database_in("SQL_ASCII"));
    let url = world.database().url();
    let failed = world.syncline.run(&["init", ".", "--consolidated", &url]);
    assert_eq!(failed.code, Some(1));
    assert!(failed.stderr.contains("SQL_ASCII"), "{}", failed.stderr);
}

// S11: a name that the database cannot have is refused, with a reason, and no other is.
#[test]
fn names_that_the_database_cannot_have_are_refused() {
    let world = latin1();
    let server = world.serve();
    let lacks = "the encoding of the database lacks a character";
    let sync = |file: &str, user: &str, id: &str| {
        let mut options = vec!["sync", file, "--server", &server.url, "--user", user];
        options.extend(["--password-file", "ann.password", "--remote-id", id]);
        world.syncline.run(&options)
    };
    for refused in [
        sync("a.db", "ann", "r€"),
        sync("b.db", "€nn", "r"),
        world.syncline.run(&["user", "set", "ann", "--claim", "region=€"]),
    ] {
        assert_eq!(refused.code, Some(1));
        assert!(refused.stderr.contains(lacks), "{}", refused.stderr);
    }
    let taken = sync("c.db", "ann", "rü");
    assert_eq!(taken.code, Some(0), "{}", taken.stderr);
    assert_eq!(world.center_count("SELECT count(*) FROM syncline.syncline_remote"), 1);
}
