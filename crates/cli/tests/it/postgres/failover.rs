//! Another past at the center: a promoted standby, a restored database.

use super::PROGRAM;
use harness::postgres::{ARCHIVING, Cluster, SUPERUSER, TestDatabase, run_client};
use harness::{Server, World, sql};
use serde_json::{Value, json};
use std::fs;

const SHOP: &str = "CREATE TABLE customer (id int PRIMARY KEY, name text);
    CREATE TABLE purchase (id int PRIMARY KEY, customer int NOT NULL REFERENCES customer
        ON DELETE CASCADE, total numeric(10, 2));
    INSERT INTO customer SELECT n, 'customer ' || n FROM generate_series(1, 20) n;
    INSERT INTO purchase SELECT n, n, n * 1.5 FROM generate_series(1, 20) n;";

const NAMES: [&str; 2] = ["ann", "ben"];

fn shop(database: TestDatabase) -> World {
    database.sql(SHOP);
    let world = World::on_database(PROGRAM, database);
    world.syncline.ok(&["init", ".", "--consolidated", &world.database().url()]);
    world.syncline.ok(&["deploy"]);
    for name in NAMES {
        world.add_user(name);
    }
    world
}

fn sync_all(world: &World, server: &Server) {
    for name in NAMES {
        world.sync(name, server);
    }
}

/// The same folder and remotes, with their center in another place.
fn moved(world: World, to: TestDatabase) -> World {
    let config = fs::read_to_string(world.path("syncline.toml")).unwrap();
    let there = config.replace(&world.database().url(), &to.url());
    assert_ne!(config, there);
    fs::write(world.path("syncline.toml"), there).unwrap();
    world.with_database(to)
}

fn converge(world: &World) {
    let server = world.serve();
    for _ in 0..2 {
        sync_all(world, &server);
    }
    world.assert_converged(&NAMES);
    server.stop();
}

/// Uses up transaction ids that leave no trace in what a standby receives.
fn abort_transactions(database: &TestDatabase, count: usize) {
    database.sql(&"BEGIN; SELECT pg_current_xact_id(); ROLLBACK;\n".repeat(count));
}

// Trap 2, S2: the primary assigns numbers to transactions that abort, and is killed before they
// reach a standby. The standby assigns them again, to rows that a remote must not miss, although
// its watermark was issued after them.
#[cfg(feature = "fail-points")]
#[test]
fn rows_of_a_promoted_standby_arrive_though_their_transactions_were_seen() {
    // The database itself may have made its log durable at the wrong moment.
    const ATTEMPTS: usize = 4;
    assert!((0..ATTEMPTS).any(|_| numbers_came_again()), "the standby gave no number again");
}

/// Whether it came to that; if so, all arrived.
#[cfg(feature = "fail-points")]
fn numbers_came_again() -> bool {
    const ABORTED: usize = 500;
    // Aborts are sent when another transaction commits, or after this time.
    let primary = Cluster::start_with("wal_writer_delay = 10s");
    let world = shop(primary.database());
    let name = world.database().name.clone();
    let server = world.serve();
    sync_all(&world, &server);
    server.stop();
    let standby = primary.standby();
    // A download with rows would make the log durable first, and the standby would hear of all.
    sql(&world.remote("ann"), "UPDATE customer SET name = 'before' WHERE id = 1");

    // Between its upload and its download, long enough for what happens meanwhile.
    let server = world.serve_with(&[], Some("server-upload-committed=sleep(3000)"));
    let counted = "SELECT sum(counter) FROM syncline.syncline_remote";
    let before = world.center_count(counted);
    let syncing = world.sync_through("ann", &server.url);
    harness::until("ann's upload to be committed", || world.center_count(counted) > before);
    standby.wait_until_replayed(&primary);
    abort_transactions(world.database(), ABORTED);
    assert_eq!(harness::finish(syncing).code, Some(0));
    let next = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8";
    let next_at_primary = world.center_count(next);
    primary.kill();
    server.kill();
    standby.promote();

    let promoted = standby.database_named(&name);
    if promoted.count(next) + 10 >= next_at_primary {
        return false;
    }
    promoted
        .sql("UPDATE customer SET name = 'after' WHERE id = 2; DELETE FROM customer WHERE id = 3");
    let world = moved(world, promoted);
    sql(&world.remote("ben"), "UPDATE customer SET name = 'ben' WHERE id = 4");
    let server = world.serve();
    // Nothing was lost with the primary: one synchronization each has to do, in this order.
    for name in ["ben", "ann"] {
        world.sync(name, &server);
        world.assert_converged(&[name]);
    }
    server.stop();
    true
}

// Trap 2, Trap 3: the standby did not get everything; what remotes saw of the lost part goes, and
// what they have yet to send arrives.
#[test]
fn a_standby_that_lags_behind_is_promoted_and_all_converge() {
    let primary = Cluster::start();
    let world = shop(primary.database());
    let name = world.database().name.clone();
    let server = world.serve();
    sync_all(&world, &server);
    let standby = primary.standby();
    standby.wait_until_replayed(&primary);
    standby.stop();
    world.database().sql("INSERT INTO customer VALUES (100, 'lost')");
    abort_transactions(world.database(), 100);
    sql(&world.remote("ann"), "INSERT INTO purchase VALUES (500, 1, 5)");
    sync_all(&world, &server);
    world.assert_converged(&NAMES);
    server.stop();
    primary.kill();
    standby.restart();
    standby.promote();

    let promoted = standby.database_named(&name);
    promoted.sql(
        "INSERT INTO customer VALUES (101, 'after'); UPDATE purchase SET total = 7 WHERE id = 1",
    );
    sql(&world.remote("ben"), "UPDATE customer SET name = 'ben' WHERE id = 5");
    let world = moved(world, promoted);
    converge(&world);
    let lost = "SELECT count(*) FROM customer WHERE id = 100";
    assert_eq!(world.center_count(lost), 0);
    // Nor is anything lost where it still was.
    for name in NAMES {
        let told = told(&world, name);
        for row in ["E7005 {id: 100, name: lost}", "E7005 {id: 500, customer: 1, total: 5}"] {
            assert!(told.iter().any(|it| it == row), "{name} lacks {row}: {told:#?}");
        }
    }
    assert_eq!(world.center_count("SELECT count(*) FROM customer WHERE name = 'ben'"), 1);
}

/// The rejects that the remote received, with their content.
fn told(world: &World, name: &str) -> Vec<String> {
    let rejects = world.syncline.json(&["remote", "rejects", &format!("{name}.db"), "--json"]);
    let of = |it: &Value| format!("{} {}", it["code"], it["row"]).replace(['"'], "");
    let spaced = |it: String| it.replace(',', ", ").replace(':', ": ");
    let mut told: Vec<String> = rejects.as_array().unwrap().iter().map(of).map(spaced).collect();
    told.sort();
    told
}

/// Synchronizes by a server whose connections to the database may have ended.
fn sync_in_the_end(world: &World, name: &str, server: &Server) {
    harness::until("the server to find its database", || {
        world.try_sync(name, server, None).code == Some(0)
    });
}

// Trap 2, Trap 3, Trap 30: a base backup, the archived log up to a point before a mistake, another
// timeline. A remote that has received later changes is compared, and stores the rows that it
// loses. No other remote is.
#[test]
fn a_recovery_to_a_point_in_time_compares_who_was_ahead_and_nobody_else() {
    let primary = Cluster::start_with(ARCHIVING);
    let world = shop(primary.database());
    world.add_user("cleo");
    let name = world.database().name.clone();
    let mut recovered = primary.base_backup();
    let server = world.serve();
    sync_all(&world, &server);
    world.database().sql("UPDATE customer SET name = 'before' WHERE id = 1");
    sync_all(&world, &server);
    primary.restore_point("wanted");
    server.stop();
    // The mark of this start does not reach the new timeline.
    let server = world.serve();

    sql(
        &world.remote("ann"),
        "INSERT INTO customer VALUES (50, 'lost'); DELETE FROM purchase WHERE id = 2;
         UPDATE customer SET name = 'ann' WHERE id = 3",
    );
    world.database().sql(
        "INSERT INTO customer VALUES (60, 'lost too'); DELETE FROM purchase WHERE id = 5;
         UPDATE customer SET name = 'late' WHERE id = 4",
    );
    for name in ["ann", "cleo"] {
        world.sync(name, &server);
    }
    server.stop();
    sql(&world.remote("ann"), "UPDATE customer SET name = 'waits' WHERE id = 7");
    primary.archive();
    primary.kill();
    recovered.recover(&primary, "wanted");

    let to = recovered.database_named(&name);
    assert_eq!(to.count("SELECT timeline_id FROM pg_control_checkpoint()"), 2);
    // Under the numbers of transactions that the remotes ahead have seen.
    to.sql(&"UPDATE customer SET name = 'after' WHERE id = 8;".repeat(5));
    to.sql("INSERT INTO customer VALUES (60, 'other')");
    let world = moved(world, to);
    let before = generation(&world);
    let server = world.serve();
    let report = world.sync("ben", &server);
    assert_eq!(report["downloaded"], json!({ "upserts": 2, "deletes": 0 }), "{report}");
    world.assert_converged(&["ben"]);
    for _ in 0..2 {
        for name in ["cleo", "ann", "ben"] {
            world.sync(name, &server);
        }
    }
    world.assert_converged(&["ann", "ben", "cleo"]);
    assert_eq!(generation(&world), before, "the floors judge each remote by itself");
    assert_eq!(world.center_count("SELECT count(*) FROM customer WHERE name = 'waits'"), 1);
    assert!(told(&world, "ben").is_empty());
    for name in ["ann", "cleo"] {
        let expected = [
            "E7005 {id: 50, name: lost}",
            "E7160 {id: 3, name: ann}",
            "E7160 {id: 4, name: late}",
            "E7160 {id: 60, name: lost too}",
            // It cannot know that this one was changed after the recovery.
            "E7160 {id: 8, name: customer 8}",
            "E7161 {id: 2, customer: 2, total: 3}",
            "E7161 {id: 5, customer: 5, total: 7.5}",
        ];
        assert_eq!(told(&world, name), expected, "{name}");
    }
}

// Trap 2: a commit that succeeded is at the synchronous standby; the server stays up all the time.
#[test]
fn a_synchronous_standby_takes_over_below_a_running_server_and_nobody_loses_anything() {
    let primary = Cluster::start();
    let world = shop(primary.database());
    let standby = primary.standby();
    primary.wait_for_standbys();
    let name = world.database().name.clone();
    let promoted = standby.database_named(&name);
    let config = fs::read_to_string(world.path("syncline.toml")).unwrap();
    let [first, second] = [&primary, &standby].map(|it| it.socket_folder().display().to_string());
    let (ports, both) = ((primary.port(), standby.port()), format!("host={first},{second}"));
    let there = config
        .replace(&format!("host={first}"), &both)
        .replace(&format!("port={}", ports.0), &format!("port={},{}", ports.0, ports.1));
    assert_ne!(config, there);
    fs::write(world.path("syncline.toml"), there).unwrap();
    let server = world.serve();
    sync_all(&world, &server);
    sql(&world.remote("ann"), "INSERT INTO customer VALUES (50, 'kept')");
    world.database().sql("UPDATE customer SET name = 'kept' WHERE id = 4");
    world.sync("ann", &server);
    let before = generation(&world);
    sql(&world.remote("ben"), "UPDATE customer SET name = 'ben' WHERE id = 5");
    primary.kill();
    standby.promote();

    promoted.sql("UPDATE customer SET name = 'after' WHERE id = 8; DELETE FROM purchase");
    let world = world.with_database(promoted);
    for name in ["ann", "ben", "ann"] {
        sync_in_the_end(&world, name, &server);
    }
    world.assert_converged(&NAMES);
    assert_eq!(generation(&world), before);
    let kept = "SELECT count(*) FROM customer WHERE name IN ('kept', 'ben', 'after')";
    assert_eq!(world.center_count(kept), 4);
    for name in NAMES {
        assert!(told(&world, name).is_empty(), "{name}: {:?}", told(&world, name));
    }
}

// Trap 3, Trap 30: the machine of the database is taken back to a snapshot while the server, on
// another machine, runs on. Everything that the database knows of itself is the same, and it gives
// the numbers of its transactions out again; receipts prove it.
#[test]
fn a_database_whose_machine_was_set_back_below_a_running_server_is_proven_by_a_receipt() {
    let cluster = Cluster::start();
    let world = shop(cluster.database());
    let server = world.serve();
    sync_all(&world, &server);
    cluster.stop();
    cluster.keep_data();
    cluster.restart();
    sql(
        &world.remote("ann"),
        "INSERT INTO customer VALUES (50, 'lost'); DELETE FROM purchase WHERE id = 2;
         UPDATE customer SET name = 'ann' WHERE id = 3",
    );
    world.database().sql("UPDATE customer SET name = 'late' WHERE id = 4");
    sync_in_the_end(&world, "ann", &server);
    let before = generation(&world);
    cluster.stop();
    cluster.set_back();
    cluster.restart();
    world.database().sql(&"UPDATE customer SET name = 'after' WHERE id = 8;".repeat(9));
    sync_in_the_end(&world, "ben", &server);
    world.assert_converged(&["ben"]);
    assert_eq!(generation(&world), before, "who has seen nothing of it knows nothing");
    world.sync("ann", &server);
    let after = generation(&world);
    assert_ne!(after, before);
    for _ in 0..2 {
        sync_all(&world, &server);
    }
    world.assert_converged(&NAMES);
    assert_eq!(generation(&world), after, "once is enough");
    assert!(told(&world, "ben").is_empty());
    let expected = [
        "E7005 {id: 50, name: lost}",
        "E7160 {id: 3, name: ann}",
        "E7160 {id: 4, name: late}",
        "E7160 {id: 8, name: customer 8}",
        "E7161 {id: 2, customer: 2, total: 3}",
    ];
    assert_eq!(told(&world, "ann"), expected);
}

/// A copy of the database as `pg_dump` takes it.
fn back_up(world: &World) -> String {
    let file = world.path("backup.dump").to_str().unwrap().to_owned();
    run_client(world.database().client("pg_dump").args(["-Fc", "-f", &file]));
    file
}

fn restore(file: &str, into: &TestDatabase) {
    // The database is its owner's, the schema public that of the system, which stays.
    run_client(into.client("pg_restore").args(["--no-owner", "-d", &into.name, file]));
}

/// Goes on for a while, takes the backup in the middle, loses what came after it.
fn restored(world: World, to: &TestDatabase) -> World {
    let server = world.serve();
    sync_all(&world, &server);
    world.database().sql("UPDATE customer SET name = 'before' WHERE id = 1");
    let file = back_up(&world);
    sql(
        &world.remote("ann"),
        "INSERT INTO customer VALUES (50, 'lost'); DELETE FROM purchase WHERE id = 2",
    );
    world.database().sql("INSERT INTO customer VALUES (60, 'lost too')");
    world.sync("ann", &server);
    server.stop();
    sql(&world.remote("ann"), "UPDATE customer SET name = 'waits' WHERE id = 7");
    restore(&file, to);
    to.sql(
        "UPDATE customer SET name = 'restored' WHERE id = 8;
         INSERT INTO customer VALUES (60, 'other')",
    );
    let world = moved(world, to.clone());
    world.syncline.ok(&["deploy"]);
    world
}

fn check_restored(world: &World) {
    converge(world);
    let names =
        world.database().query("SELECT name FROM customer WHERE id IN (1, 7, 8, 60) ORDER BY id");
    assert_eq!(names.concat(), ["before", "waits", "restored", "other"]);
    assert_eq!(world.center_count("SELECT count(*) FROM customer WHERE id = 50"), 0);
    assert_eq!(world.center_count("SELECT count(*) FROM purchase WHERE id = 2"), 1);
}

// Trap 3: restored beside the old one, in the same cluster, whose ids of transactions went on.
#[test]
fn a_database_restored_in_its_cluster_is_noticed_and_all_converge() {
    let world = shop(Cluster::shared().database());
    let to = Cluster::shared().database();
    let world = restored(world, &to);
    check_restored(&world);
}

// Trap 3: restored in a new cluster, where every row is from the future.
#[test]
fn a_database_restored_in_a_new_cluster_is_noticed_and_all_converge() {
    let old = Cluster::start();
    // Far ahead of what a new cluster has given out.
    abort_transactions(&old.database_named("postgres").as_role(SUPERUSER), 3000);
    let world = shop(old.database());
    let new = Cluster::start();
    let to = new.database();
    let world = restored(world, &to);
    drop(old);
    check_restored(&world);
}

fn generation(world: &World) -> String {
    let sql = "SELECT value FROM syncline.syncline_system WHERE name = 'generation'";
    world.database().query(sql).concat().concat()
}

// Trap 3, Trap 30: (a) a dump takes the place of the tables while a server runs on; its connections
// live, and so do its statements.
#[test]
fn a_dump_restored_below_a_running_server_is_noticed_before_anybody_is_served() {
    let world = shop(Cluster::shared().database());
    let server = world.serve();
    sync_all(&world, &server);
    let file = back_up(&world);
    sql(
        &world.remote("ann"),
        "INSERT INTO customer VALUES (50, 'lost'); DELETE FROM purchase WHERE id = 2;
         UPDATE customer SET name = 'ann' WHERE id = 3",
    );
    sync_all(&world, &server);
    let before = generation(&world);
    let database = world.database();
    run_client(database.client("pg_restore").args([
        "--clean",
        "--if-exists",
        "--no-owner",
        "-d",
        &database.name,
        &file,
    ]));
    assert_eq!(generation(&world), before);
    // Ben is not ahead in anything that he would say.
    world.sync("ben", &server);
    let after = generation(&world);
    assert_ne!(after, before);
    for _ in 0..2 {
        sync_all(&world, &server);
    }
    world.assert_converged(&NAMES);
    assert_eq!(generation(&world), after, "once is enough");
    for name in NAMES {
        let expected = [
            "E7005 {id: 50, name: lost}",
            "E7160 {id: 3, name: ann}",
            "E7161 {id: 2, customer: 2, total: 3}",
        ];
        assert_eq!(told(&world, name), expected, "{name}");
    }
}

// Trap 30: a clone made from a template has the numbers of all tables, not that of the database.
#[test]
fn a_remote_that_met_a_clone_disturbs_nobody_at_the_original() {
    let world = shop(Cluster::shared().database());
    let server = world.serve();
    sync_all(&world, &server);
    server.stop();
    let original = world.database().clone();
    let clone = Cluster::shared().database_named(&format!("{}_clone", original.name));
    Cluster::shared().superuser_sql(&format!(
        "CREATE DATABASE {} TEMPLATE {} OWNER {}",
        clone.name,
        original.name,
        harness::postgres::APP_ROLE
    ));
    let before = generation(&world);
    let world = moved(world, clone);
    let server = world.serve();
    assert_ne!(generation(&world), before);
    sql(&world.remote("ann"), "INSERT INTO customer VALUES (50, 'clone')");
    world.sync("ann", &server);
    server.stop();

    let world = moved(world, original);
    let server = world.serve();
    for name in ["ben", "ann", "ben", "ann"] {
        world.sync(name, &server);
    }
    world.assert_converged(&NAMES);
    assert_eq!(generation(&world), before);
    let rejects = world.syncline.json(&["remote", "rejects", "ann.db", "--json"]);
    assert_eq!(rejects[0]["key"], json!({ "id": 50 }));
    assert_eq!(world.syncline.json(&["remote", "rejects", "ben.db", "--json"]), json!([]));
}

// Trap 30: a snapshot below the database is the same in everything that the database knows of
// itself. (c) the mark beside the configuration shows it, and (b) where that is old too a receipt.
#[test]
fn a_database_set_back_in_its_place_is_proven_by_a_mark_or_a_receipt() {
    for mark_set_back in [false, true] {
        let world = shop(Cluster::shared().database());
        let server = world.serve();
        sync_all(&world, &server);
        server.stop();
        let database = world.database();
        database.sql(
            "CREATE SCHEMA kept; CREATE TABLE kept.remote AS TABLE syncline.syncline_remote;
             CREATE TABLE kept.system AS TABLE syncline.syncline_system",
        );
        fs::copy(world.path("syncline.mark"), world.path("kept.mark")).unwrap();
        let server = world.serve();
        sync_all(&world, &server);
        server.stop();
        let before = generation(&world);
        database.sql(
            "TRUNCATE syncline.syncline_remote, syncline.syncline_system;
             INSERT INTO syncline.syncline_remote TABLE kept.remote;
             INSERT INTO syncline.syncline_system TABLE kept.system; DROP SCHEMA kept CASCADE",
        );
        if mark_set_back {
            fs::copy(world.path("kept.mark"), world.path("syncline.mark")).unwrap();
        }
        let server = world.serve();
        assert_eq!(generation(&world) == before, mark_set_back);
        world.sync("ben", &server);
        let after = generation(&world);
        assert_ne!(after, before);
        for _ in 0..2 {
            sync_all(&world, &server);
        }
        assert_eq!(generation(&world), after, "once is enough");
        world.assert_converged(&NAMES);
    }
}
