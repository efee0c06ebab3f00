//! Chinook as it is published, without a hand edit.
//!
//! Reads the scripts in the folder that SYNCLINE_TEST_DATA names, by default
//! `../shared/data/chinook` beside the checkout.

use crate::PROGRAM;
use harness::postgres::Cluster;
use harness::{Server, World};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

pub(crate) fn script(name: &str) -> String {
    let folder = std::env::var_os("SYNCLINE_TEST_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/chinook"),
        PathBuf::from,
    );
    let path = folder.join(name);
    std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("SYNCLINE_TEST_DATA: {}: {error}", path.display()))
}

/// Chinook as published, and nothing of ours yet.
pub(crate) fn chinook_on_postgres() -> World {
    let text = script("Chinook_PostgreSql.sql");
    let (_, tables) = text.split_once("\\c chinook;").unwrap();
    let database = Cluster::shared().database();
    database.sql(tables);
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

// S3: without a hand edit, and both ways.
#[test]
fn chinook_converges_as_it_is_needs_syncline_test_data() {
    let world = chinook_on_postgres();
    init(&world, &world.database().url());
    world.syncline.ok(&["deploy"]);
    let checked = world.syncline.run(&["check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    world.add_user("ann");
    world.add_user("ben");
    let server = world.serve();
    synchronize(&world, &server, "ann");
    synchronize(&world, &server, "ben");
    assert_eq!(world.centre_tables().len(), 11);
    world.assert_converged(&["ann", "ben"]);

    let changes = "UPDATE customer SET company = 'Straße €' WHERE customer_id % 7 = 3;
        INSERT INTO artist VALUES (1000, 'It''s new'); INSERT INTO album VALUES (1000, '', 1000);
        DELETE FROM playlist_track WHERE track_id % 50 = 1;
        UPDATE invoice_line SET unit_price = 123.45 WHERE invoice_line_id % 100 = 5;
        UPDATE employee SET birth_date = '1969-07-20 20:17:40.000000' WHERE employee_id = 2";
    harness::sql(&world.remote("ann"), changes);
    world.centre_sql(
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
}
