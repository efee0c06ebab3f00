//! Errors that scripts of the user's decide about, as remotes and operators meet them.

use harness::{Chance, World, count, sql};
use std::fs;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const TABLES: &str = "
    CREATE TABLE item (id INTEGER PRIMARY KEY, n INTEGER);
    CREATE TABLE taken (n INTEGER PRIMARY KEY);
    CREATE TABLE gone (m INTEGER);
    CREATE TABLE sync_error (action INTEGER, state TEXT);";

const MODEL: &str = "script_version = \"v1\"\n[table.item]\n";

/// A negative number is refused at the center alone.
const INSERT: &str = "INSERT INTO item (id, n) VALUES ({r.id}, {r.n});
    INSERT INTO taken SELECT 1 FROM item WHERE id = {r.id} AND n < 0;
    INSERT INTO taken SELECT 1 FROM item WHERE id = {r.id} AND n < 0";

const REPORT: &str = "INSERT INTO sync_error VALUES ({s.action_code}, {s.sqlstate})";

fn handler(action: &str) -> String {
    format!("SELECT {action}\n  AS action_code")
}

/// A center on SQLite and one on PostgreSQL, with a remote of ann.
fn worlds(action: &str) -> [World; 2] {
    World::on_each(PROGRAM, TABLES).map(|world| {
        fs::write(world.path("model.toml"), MODEL).unwrap();
        fs::create_dir_all(world.path("scripts/v1/item")).unwrap();
        fs::write(world.path("scripts/v1/item/upload_insert.sql"), INSERT).unwrap();
        fs::write(world.path("scripts/v1/handle_error.sql"), handler(action)).unwrap();
        fs::write(world.path("scripts/v1/report_error.sql"), REPORT).unwrap();
        world.syncline.ok(&["deploy"]);
        world.add_user("ann");
        world
    })
}

fn reported(world: &World, action: i64) -> i64 {
    world.center_count(&format!("SELECT count(*) FROM sync_error WHERE action = {action}"))
}

// S11: one server ends, if the operator allows that, and the remote does not go on to the next.
#[test]
fn a_script_ends_the_server_only_where_it_may() {
    for world in worlds("4000") {
        let server = world.serve();
        world.sync("ann", &server);
        sql(&world.remote("ann"), "INSERT INTO item VALUES (1, 1), (2, -1)");
        world.sync_fails("ann", &server, "E3015");
        assert!(server.log().contains("allow_drain is not set"), "{}", server.log());
        assert_eq!((reported(&world, 3000), reported(&world, 4000)), (1, 0));
        server.stop();

        world.configure("allow_drain = true");
        let mut server = world.serve();
        let failure = world.sync_fails("ann", &server, "E3016");
        assert_eq!(failure["retry"], false, "{failure}");
        assert_eq!(server.wait().code(), Some(0), "{}", server.log());
        assert!(server.log().contains("the script handle_error ends the server"));
        assert_eq!((reported(&world, 3000), reported(&world, 4000)), (1, 1));
        assert_eq!(world.center_count("SELECT count(*) FROM item"), 0);

        // What was pending is pending still.
        fs::write(world.path("scripts/v1/handle_error.sql"), handler("1000")).unwrap();
        world.syncline.ok(&["deploy"]);
        let summary = world.sync("ann", &world.serve());
        assert_eq!(summary["rejected"], 1);
        assert_eq!(world.center_count("SELECT count(*) FROM item"), 1);
    }
}

#[test]
fn the_log_names_the_place_where_a_handler_fails() {
    for world in worlds("1000 + (SELECT count(m) FROM gone)") {
        let server = world.serve();
        world.sync("ann", &server);
        sql(&world.remote("ann"), "INSERT INTO item VALUES (1, -1)");
        world.center_sql("ALTER TABLE gone RENAME COLUMN m TO n");
        world.sync_fails("ann", &server, "E3015");
        let place = "handle_error fails, so the upload is canceled: scripts/v1/handle_error.sql:1:";
        let log = server.log();
        let told = log.lines().find(|line| line.contains(place));
        // In the words of the database, which knows the column no more.
        assert!(told.is_some_and(|line| line.contains("column") && line.contains('m')), "{log}");
        assert_eq!(reported(&world, 3000), 1);
    }
}

// S8: a kill may lose a report, and never doubles it.
#[test]
fn a_report_is_written_once_or_not_at_all() {
    let mut chance = Chance::from_environment();
    for world in worlds("1000") {
        let rounds = 10;
        let mut server = world.serve();
        world.sync("ann", &server);
        for round in 0..rounds {
            let row = format!("INSERT INTO item VALUES ({round}, -1)");
            sql(&world.remote("ann"), &row);
            let before = reported(&world, 1000);
            let mut sync = world.sync_through("ann", &server.url);
            std::thread::sleep(Duration::from_millis(chance.below(60)));
            server.kill();
            sync.wait().unwrap();
            server = world.serve();
            world.sync("ann", &server);
            let more = reported(&world, 1000) - before;
            assert!((0..=1).contains(&more), "round {round}: {more}");
        }
        assert_eq!(count(&world.remote("ann"), "SELECT count(*) FROM item"), 0);
        server.stop();
    }
}
