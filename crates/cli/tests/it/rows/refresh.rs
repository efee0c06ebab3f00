//! Tables that are sent as a whole, with rows that the remote has just uploaded.

use harness::{World, count, sql};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const NOTES: &str = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
    INSERT INTO note VALUES (1, 'center')";

fn notes(world: &World, name: &str) -> i64 {
    count(&world.remote(name), "SELECT count(*) FROM note")
}

// S3, Trap 8: the rows of the file are uploaded, and stay in the file.
#[test]
fn a_file_that_becomes_a_remote_keeps_its_rows() {
    let world = World::new(PROGRAM, NOTES);
    world.add_user("ann");
    let server = world.serve();
    let own = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
        INSERT INTO note VALUES (2, 'ann'), (3, 'ann')";
    sql(&world.remote("ann"), own);
    let result = world.sync("ann", &server);
    assert_eq!(result["uploaded"]["inserts"], 2);
    assert_eq!(notes(&world, "ann"), 3);
    world.assert_converged(&["ann"]);
}

// S3, Trap 8: the change log of the center no longer reaches back to where the remote was.
#[test]
fn a_remote_that_stayed_away_too_long_keeps_what_it_uploads() {
    let world = World::new(PROGRAM, NOTES);
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    server.stop();
    let many = "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number
        WHERE n < 3000) INSERT INTO note SELECT n + 100, 'center' FROM number";
    sql(&world.consolidated(), many);
    sql(&world.consolidated(), "DELETE FROM note WHERE id = 1");
    sql(&world.remote("ann"), "INSERT INTO note VALUES (2, 'ann')");
    world.configure("log_rows_max = 1000");
    let server = world.serve();
    let result = world.sync("ann", &server);
    assert_eq!(result["downloaded"]["upserts"], 3001, "all rows, because the log was cut");
    assert_eq!(notes(&world, "ann"), 3001);
    world.assert_converged(&["ann"]);
}
