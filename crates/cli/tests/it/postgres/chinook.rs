//! A music shop on PostgreSQL as it is published, without changes by hand.

use super::PROGRAM;
use harness::postgres::Cluster;
use harness::{Dialect, Server, Shop, World};
use serde_json::{Value, json};

/// The shop, and nothing of Syncline yet.
pub(crate) fn on_postgres(shop: Shop) -> World {
    let database = Cluster::shared().database();
    database.sql(&shop.script(Dialect::Postgres));
    World::on_database(PROGRAM, database)
}

pub(crate) fn init(world: &World, url: &str) {
    let init = world.syncline.run(&["init", ".", "--consolidated", url]);
    assert!(init.code == Some(0) && init.stderr.is_empty(), "{init:?}");
    assert!(init.stdout.contains("11 tables published"), "{init:?}");
}

pub(crate) fn synchronize(world: &World, server: &Server, name: &str) -> Value {
    let mut arguments = world.sync_arguments(name, server);
    // With a token beside the password, which is verified only once.
    arguments.extend(["--token-file".to_owned(), format!("{name}.token"), "--json".to_owned()]);
    world.syncline.json(&arguments)
}

// S3, Trap 21, Trap 24: without a hand edit, and both ways; then keys and tables change.
#[test]
fn a_shop_converges_as_it_is() {
    converges_as_it_is(Shop::Generated);
}

// S3, Trap 21, Trap 24
#[test]
#[ignore = "SYNCLINE_TEST_DATA must name the folder with Chinook_PostgreSql.sql"]
fn chinook_converges_as_it_is_needs_syncline_test_data() {
    converges_as_it_is(Shop::Published);
}

fn converges_as_it_is(shop: Shop) {
    let world = on_postgres(shop);
    init(&world, &world.database().url());
    world.syncline.ok(&["deploy"]);
    let checked = world.syncline.run(&["check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    world.add_user("ann");
    world.add_user("ben");
    let server = world.serve();
    synchronize(&world, &server, "ann");
    synchronize(&world, &server, "ben");
    assert_eq!(world.center_tables().len(), 11);
    world.assert_converged(&["ann", "ben"]);

    let changes = "UPDATE customer SET company = 'Straße €' WHERE customer_id % 7 = 3;
        INSERT INTO artist VALUES (1000, 'It''s new'); INSERT INTO album VALUES (1000, '', 1000);
        DELETE FROM playlist_track WHERE track_id % 50 = 1;
        UPDATE invoice_line SET unit_price = 123.45 WHERE invoice_line_id % 100 = 5;
        UPDATE employee SET birth_date = '1969-07-20 20:17:40' WHERE employee_id = 2";
    harness::sql(&world.remote("ann"), changes);
    world.center_sql(
        "UPDATE track SET unit_price = unit_price * 2, composer = NULL WHERE track_id % 3 = 0;
         DELETE FROM invoice_line WHERE invoice_id = 9; DELETE FROM invoice WHERE invoice_id = 9;
         UPDATE employee SET hire_date = '2024-02-29 12:00:00.125' WHERE employee_id = 3",
    );
    for name in ["ann", "ben", "ann"] {
        let report = synchronize(&world, &server, name);
        assert_eq!((&report["conflicts"], &report["rejected"]), (&json!(0), &json!(0)));
    }
    world.assert_converged(&["ann", "ben"]);
    let nothing = synchronize(&world, &server, "ann");
    assert_eq!(nothing["downloaded"], json!({ "upserts": 0, "deletes": 0 }));
    tables_and_keys_change(&world, &server);
}

/// A column gets another name and one is added, while both remotes have changes of them that wait,
/// and rows get other keys at both ends, at the remote one that nobody else knows.
fn tables_and_keys_change(world: &World, server: &Server) {
    harness::sql(
        &world.remote("ann"),
        "UPDATE album SET artist_id = 2 WHERE artist_id = 1000;
         INSERT INTO artist VALUES (1004, 'Ann');
         UPDATE artist SET artist_id = 1001 WHERE artist_id = 1004;
         UPDATE customer SET company = 'by ann' WHERE customer_id % 7 = 4",
    );
    harness::sql(
        &world.remote("ben"),
        "UPDATE customer SET company = 'by ben' WHERE customer_id % 7 = 5;
         INSERT INTO artist VALUES (1002, 'Ben')",
    );
    world.center_sql(
        "BEGIN; INSERT INTO artist SELECT 1003, name FROM artist WHERE artist_id = 1;
         UPDATE album SET artist_id = 1003 WHERE artist_id = 1; DELETE FROM artist
         WHERE artist_id = 1; UPDATE artist SET artist_id = 1 WHERE artist_id = 1003
         AND NOT EXISTS (SELECT 1 FROM album WHERE artist_id = 1003);
         UPDATE invoice_line SET invoice_line_id = 900002 WHERE invoice_line_id = 205; COMMIT;
         ALTER TABLE customer RENAME COLUMN company TO firm;
         ALTER TABLE artist ADD COLUMN country varchar(20) DEFAULT 'somewhere'",
    );
    let model = std::fs::read_to_string(world.path("model.toml")).unwrap();
    let renamed = "[table.customer]\nrenamed = { firm = \"company\" }";
    assert_eq!(model.matches("[table.customer]").count(), 1, "{model}");
    std::fs::write(world.path("model.toml"), model.replace("[table.customer]", renamed)).unwrap();
    world.syncline.ok(&["deploy"]);
    for name in ["ann", "ben"] {
        let report = synchronize(world, server, name);
        assert_eq!((&report["conflicts"], &report["rejected"]), (&json!(0), &json!(0)), "{report}");
    }
    synchronize(world, server, "ann");
    world.assert_converged(&["ann", "ben"]);
    let firms = "SELECT count(*) FROM customer WHERE firm IN ('by ann', 'by ben')
        AND customer_id % 7 IN (4, 5)";
    let customers = "SELECT count(*) FROM customer WHERE customer_id % 7 IN (4, 5)";
    assert_eq!(world.center_count(firms), world.center_count(customers));
    let moved = "SELECT count(*) FROM artist WHERE artist_id IN (1001, 1004)";
    assert_eq!(world.center_count(moved), 1);
    assert_eq!(world.center_count("SELECT count(*) FROM artist WHERE artist_id = 1001"), 1);
    harness::sql(&world.remote("ann"), "UPDATE artist SET country = 'here' WHERE artist_id = 1002");
    synchronize(world, server, "ann");
    synchronize(world, server, "ben");
    world.assert_converged(&["ann", "ben"]);
}
