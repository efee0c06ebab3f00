//! A server ends when it is asked to, whatever its database does (S8, S11).

use super::PROGRAM;
use harness::postgres::{Cluster, TestDatabase};
use harness::{Server, World, sql, until};
use std::process::{Child, Command};

const NOTE: &str = "CREATE TABLE note (id int PRIMARY KEY, text text);
    INSERT INTO note VALUES (1, 'x');";

/// A write to the table `note` waits for an hour.
const SLEEPING: &str = "CREATE FUNCTION nap() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_sleep(3600); RETURN NULL; END';
    CREATE TRIGGER nap AFTER INSERT OR UPDATE ON note FOR EACH ROW EXECUTE FUNCTION nap();";

const NAPS: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event = 'PgSleep'";

const WAITS: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'";

/// A center with a note, and a remote that has changed it.
fn changed(database: TestDatabase) -> (World, Server) {
    let world = World::on_database(PROGRAM, database);
    world.center_sql(NOTE);
    let url = world.database().url();
    world.syncline.ok(&["init", ".", "--consolidated", &url, "--table", "note"]);
    world.syncline.ok(&["deploy"]);
    world.configure("drain_timeout_s = 0");
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    sql(&world.remote("ann"), "UPDATE note SET text = 'y'");
    (world, server)
}

/// Begins a synchronization, again and again until `condition` holds.
fn sync_until(world: &World, server: &Server, condition: &str) -> Child {
    let mut sync = world.sync_through("ann", &server.url);
    until(condition, || {
        if sync.try_wait().unwrap().is_some() {
            sync = world.sync_through("ann", &server.url);
        }
        world.center_count(condition) > 0
    });
    sync
}

/// The change arrives once nothing is in its way.
fn assert_arrives(world: &World) {
    let server = world.serve();
    until("the change to arrive", || world.try_sync("ann", &server, None).code == Some(0));
    assert_eq!(world.center_count("SELECT count(*) FROM note WHERE text = 'y'"), 1);
    server.stop();
}

// S8, S11: a statement that takes an hour is canceled, and the server has ended in good order.
#[test]
fn a_statement_that_does_not_end_is_canceled() {
    let (world, server) = changed(Cluster::shared().database());
    world.center_sql(SLEEPING);
    let mut sync = sync_until(&world, &server, NAPS);
    let mut ending = server;
    ending.terminate();
    assert_eq!(ending.wait().code(), Some(0), "{}", ending.log());
    assert!(!ending.log().contains("are abandoned"), "{}", ending.log());
    sync.wait().unwrap();
    until("the statement to end", || world.center_count(NAPS) == 0);
    assert_eq!(world.center_count("SELECT count(*) FROM note WHERE text = 'x'"), 1);
    world.center_sql("DROP TRIGGER nap ON note");
    assert_arrives(&world);
}

// S8, S11: another session holds the table.
#[test]
fn a_wait_for_a_lock_is_canceled() {
    let (world, server) = changed(Cluster::shared().database());
    let mut other = world.database().session();
    other.sql("BEGIN; LOCK TABLE note IN ACCESS EXCLUSIVE MODE");
    let mut sync = sync_until(&world, &server, WAITS);
    let mut ending = server;
    ending.terminate();
    assert_eq!(ending.wait().code(), Some(0), "{}", ending.log());
    assert!(!ending.log().contains("are abandoned"), "{}", ending.log());
    sync.wait().unwrap();
    other.sql("ROLLBACK");
    assert_arrives(&world);
}

// S8, S11: nothing of the database answers, not even the process that is asked to cancel.
#[test]
fn a_database_that_stands_still_does_not_keep_the_server() {
    let cluster = Cluster::start();
    let (world, server) = changed(cluster.database());
    world.center_sql(SLEEPING);
    let mut sync = sync_until(&world, &server, NAPS);
    let mut ending = server;
    let frozen = cluster.freeze();
    ending.terminate();
    assert_eq!(ending.wait().code(), Some(0), "{}", ending.log());
    assert!(ending.log().contains("are abandoned"), "{}", ending.log());
    sync.wait().unwrap();
    // One that is about to start, and waits for the same database, ends as well.
    let mut command = world.syncline.command(&["serve", "--listen", "tcp://127.0.0.1:0"]);
    let mut starting = command.spawn().unwrap();
    until("the server to expect signals", || catches_term(starting.id()));
    let told = Command::new("kill").arg(starting.id().to_string()).status().unwrap();
    assert!(told.success());
    assert_eq!(starting.wait().unwrap().code(), Some(0));
    drop(frozen);
    world.center_sql("DROP TRIGGER nap ON note");
    assert_arrives(&world);
}

/// Whether a process has said what it does on SIGTERM.
fn catches_term(process: u32) -> bool {
    const TERM: u32 = 15;
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() >> (TERM - 1) & 1 == 1
}

// S4, S8, S11: a statement that takes too long is no fault of any row.
#[test]
fn what_takes_too_long_is_tried_again_and_rejects_nothing() {
    let (world, server) = changed(Cluster::shared().database());
    server.stop();
    world.configure("statement_timeout_s = 1\nlock_timeout_s = 1");
    let server = world.serve();
    world.center_sql(SLEEPING);
    let error = world.sync_fails("ann", &server, "E3002");
    assert_eq!(error["retry"], true, "{error}");
    world.center_sql("DROP TRIGGER nap ON note");
    let mut other = world.database().session();
    other.sql("BEGIN; SELECT FROM note FOR UPDATE");
    let error = world.sync_fails("ann", &server, "E3002");
    assert_eq!(error["retry"], true, "{error}");
    other.sql("ROLLBACK");
    server.stop();
    assert_arrives(&world);
    assert_eq!(world.center_count("SELECT count(*) FROM syncline.syncline_reject"), 0);
}
