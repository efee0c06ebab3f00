//! A centre that was restored or copied, and what proves it (trap 30).
//!
//! Every remote that claimed more than the centre remembered made all others start again: one that
//! was forgotten in all honesty, one that had met a clone, one that lied. Now only the centre's own
//! evidence does; any other claim concerns the remote that makes it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use harness::{Server, Syncline, World, count, query, sql};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SHOP: &str = "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT);
    INSERT INTO customer VALUES (1, 'One'), (2, 'Two'), (3, 'Three')";

const NAMES: [&str; 3] = ["ann", "ben", "cleo"];

/// On SQLite, or on PostgreSQL.
fn shop(postgres: bool) -> World {
    let world = match postgres {
        true => World::on_postgres(PROGRAM, SHOP),
        false => World::new(PROGRAM, SHOP),
    };
    NAMES.iter().for_each(|name| world.add_user(name));
    world
}

fn sync_all(world: &World, server: &Server) {
    for name in NAMES {
        world.sync(name, server);
    }
}

fn copy_of(from: &Path, to: &Path) {
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{suffix}", to.display()));
    }
    fs::copy(from, to).unwrap();
}

/// The file as a backup program takes it.
fn back_up(world: &World) {
    let into = format!("VACUUM INTO '{}'", world.path("backup.db").display());
    harness::ForeignTool::Shell.sql(&world.consolidated(), &format!("{into};"));
}

fn generation(world: &World) -> String {
    let system = match world.consolidated().exists() {
        true => return query(&world.consolidated(), GENERATION).concat().concat(),
        false => GENERATION.replace("syncline_system", "syncline.syncline_system"),
    };
    world.database().query(&system).concat().concat()
}

const GENERATION: &str = "SELECT value FROM syncline_system WHERE name = 'generation'";

fn rejects(world: &World, name: &str) -> Vec<(Value, Value, Value)> {
    let file = format!("{name}.db");
    let printed = world.syncline.json(&["remote", "rejects", &file, "--json"]);
    let of = |it: &Value| (it["key"].clone(), it["code"].clone(), it["row"].clone());
    printed.as_array().unwrap().iter().map(of).collect()
}

fn told(world: &World, name: &str, key: i64) -> (Value, Value) {
    let all = rejects(world, name);
    let found = all.iter().find(|(it, ..)| *it == json!({ "id": key }));
    let (_, code, row) = found.unwrap_or_else(|| panic!("{name} lacks {key}: {all:?}")).clone();
    (code, row["name"].clone())
}

/// Goes on after a backup: inserts 10, changes 1, deletes 2, all uploaded by ann.
fn go_on(world: &World, server: &Server) {
    sql(
        &world.remote("ann"),
        "INSERT INTO customer VALUES (10, 'Ten'); UPDATE customer SET name = 'Uno' WHERE id = 1;
         DELETE FROM customer WHERE id = 2",
    );
    sync_all(world, server);
    world.assert_converged(&NAMES);
}

/// All converge on what the backup had, and each remote keeps what it had to give up.
fn check_restored(world: &World, server: &Server) {
    for _ in 0..2 {
        sync_all(world, server);
    }
    world.assert_converged(&NAMES);
    assert_eq!(world.centre_count("SELECT count(*) FROM customer WHERE id = 10"), 0);
    for name in NAMES {
        assert_eq!(told(world, name, 10), (json!("E7005"), json!("Ten")), "{name}: removed");
        assert_eq!(told(world, name, 1), (json!("E7160"), json!("Uno")), "{name}: overwritten");
        assert_eq!(told(world, name, 2), (json!("E7161"), json!("Two")), "{name}: back again");
    }
}

// Trap 3, Trap 30: (c) the folder of the server has a mark that the backup lacks.
#[test]
fn a_file_that_was_copied_back_is_noticed_before_anybody_is_served() {
    let world = shop(false);
    let server = world.serve();
    sync_all(&world, &server);
    server.stop();
    back_up(&world);
    let server = world.serve();
    go_on(&world, &server);
    server.stop();
    let before = generation(&world);
    copy_of(&world.path("backup.db"), &world.consolidated());
    let server = world.serve();
    let after = generation(&world);
    assert_ne!(after, before);
    check_restored(&world, &server);
    assert_eq!(generation(&world), after, "once is enough");
    server.stop();
    let server = world.serve();
    sync_all(&world, &server);
    assert_eq!(generation(&world), after, "nor is it found again");
    assert!(fs::read_to_string(world.path("server.log")).unwrap().contains("was restored"));
}

// Trap 3, Trap 30: (b) a snapshot of the machine has the old mark too; receipts prove it, once.
#[test]
fn a_snapshot_of_the_machine_is_proven_by_a_receipt() {
    let world = shop(false);
    let server = world.serve();
    sync_all(&world, &server);
    server.stop();
    back_up(&world);
    fs::copy(world.path("syncline.mark"), world.path("backup.mark")).unwrap();
    let server = world.serve();
    go_on(&world, &server);
    server.stop();
    copy_of(&world.path("backup.db"), &world.consolidated());
    fs::copy(world.path("backup.mark"), world.path("syncline.mark")).unwrap();
    let server = world.serve();
    let before = generation(&world);
    world.sync("ben", &server);
    let after = generation(&world);
    assert_ne!(after, before);
    check_restored(&world, &server);
    assert_eq!(generation(&world), after, "the receipts of the others prove nothing new");
}

// Trap 3, Trap 30: the file is restored below a server that runs on, as SQLite's shell does it.
#[test]
fn a_file_restored_below_a_running_server_is_proven_by_a_receipt() {
    let world = shop(false);
    let server = world.serve();
    sync_all(&world, &server);
    back_up(&world);
    go_on(&world, &server);
    let before = generation(&world);
    let restore = format!(".restore {}\n", world.path("backup.db").display());
    harness::ForeignTool::Shell.sql(&world.consolidated(), &restore);
    world.sync("cleo", &server);
    let after = generation(&world);
    assert_ne!(after, before);
    check_restored(&world, &server);
    assert_eq!(generation(&world), after);
}

// Trap 30: a remote that met a clone of the centre comes back; nobody else notices.
#[test]
fn a_remote_that_met_a_clone_is_compared_alone() {
    let world = shop(false);
    let server = world.serve();
    sync_all(&world, &server);
    server.stop();
    let clone = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(world.path("")).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".log") {
            fs::copy(entry.path(), clone.path().join(name)).unwrap();
        }
    }
    let config = fs::read_to_string(clone.path().join("syncline.toml")).unwrap();
    let there = clone.path().join("consolidated.db");
    let config =
        config.replace(&world.consolidated().display().to_string(), &there.display().to_string());
    fs::write(clone.path().join("syncline.toml"), config).unwrap();
    let before = generation(&world);

    let syncline = Syncline::new(PROGRAM, clone.path());
    let mut cloned = syncline.command(&["serve", "--listen", "tcp://127.0.0.1:0"]);
    cloned.stdout(std::process::Stdio::piped());
    let mut cloned = cloned.spawn().unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(cloned.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    let url = line.trim().strip_prefix("listening on ").unwrap().to_owned();
    assert_ne!(query(&there, GENERATION).concat().concat(), before, "(a) it is another file");
    sql(&world.remote("ann"), "INSERT INTO customer VALUES (10, 'Ten')");
    let outcome = harness::finish(world.sync_through("ann", &url));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(count(&there, "SELECT count(*) FROM customer WHERE id = 10"), 1);
    cloned.kill().unwrap();
    cloned.wait().unwrap();

    let server = world.serve();
    sql(&world.remote("ann"), "INSERT INTO customer VALUES (11, 'Eleven')");
    for _ in 0..2 {
        for name in ["ben", "ann", "cleo"] {
            world.sync(name, &server);
        }
    }
    world.assert_converged(&NAMES);
    assert_eq!(generation(&world), before, "nobody else starts again");
    assert_eq!(told(&world, "ann", 10), (json!("E7005"), json!("Ten")));
    assert_eq!(world.centre_count("SELECT count(*) FROM customer WHERE id = 11"), 1);
    assert!(rejects(&world, "ben").is_empty());
}

// Trap 30, S1: a forgotten remote comes back, does not upload twice, and disturbs nobody.
#[test]
#[cfg(feature = "fail-points")]
fn a_forgotten_remote_comes_back_without_harm() {
    for postgres in [false, true] {
        let world = shop(postgres);
        let server = world.serve();
        sync_all(&world, &server);
        sql(&world.remote("ann"), "INSERT INTO customer VALUES (10, 'Ten')");
        let dead = world.try_sync("ann", &server, Some("client-upload-committed=return"));
        assert_ne!(dead.code, Some(0));
        let before = generation(&world);
        let fleet = world.syncline.json(&["fleet", "list", "--json"]);
        let of_ann = |it: &&Value| it["users"] == json!(["ann"]);
        let id = fleet.as_array().unwrap().iter().find(of_ann).unwrap()["remote_id"].clone();
        let id = id.as_str().unwrap();
        world.syncline.ok(&["fleet", "forget", id]);
        world.syncline.fails("E6160", &["fleet", "show", id]);
        world.syncline.fails("E6160", &["fleet", "forget", id]);
        assert_eq!(world.syncline.json(&["fleet", "list", "--json"]).as_array().unwrap().len(), 2);

        world
            .centre_sql("DELETE FROM customer WHERE id = 10; INSERT INTO customer VALUES (4, 'F')");
        sql(&world.remote("ann"), "INSERT INTO customer VALUES (11, 'Eleven')");
        for _ in 0..2 {
            sync_all(&world, &server);
        }
        world.assert_converged(&NAMES);
        assert_eq!(world.centre_count("SELECT count(*) FROM customer WHERE id = 10"), 0);
        assert_eq!(world.centre_count("SELECT count(*) FROM customer WHERE id = 11"), 1);
        assert_eq!(generation(&world), before);
        assert_eq!(told(&world, "ann", 10), (json!("E7005"), json!("Ten")));
        let shown = world.syncline.json(&["fleet", "show", id, "--json"]);
        assert_eq!((&shown["users"], &shown["owed"]), (&json!(["ann"]), &json!(0)));
        assert!(shown["behind_s"].as_i64().unwrap() < 600, "{shown}");
    }
}

// Trap 30: (d) where nothing else can know, an operator does.
#[test]
fn what_an_operator_declares_restored_is_compared() {
    for postgres in [false, true] {
        let world = shop(postgres);
        let server = world.serve();
        sync_all(&world, &server);
        // By a program that switches tracking off, which nobody should.
        let before = generation(&world);
        world.syncline.ok(&["declare-restored"]);
        assert_ne!(generation(&world), before);
        sync_all(&world, &server);
        world.assert_converged(&NAMES);
        assert!(rejects(&world, "ann").is_empty(), "nothing was lost");
        let after = generation(&world);
        sync_all(&world, &server);
        assert_eq!(generation(&world), after);
    }
}

// Trap 30: a device that two people share, and a namesake, who inherits nothing.
#[test]
fn a_remote_is_bound_to_several_users_and_to_no_namesake() {
    for postgres in [false, true] {
        let world = shop(postgres);
        let server = world.serve();
        let as_user = |user: &str| {
            let password = format!("{user}.password");
            let given = ["sync", "till.db", "--server", &server.url, "--remote-id", "till-7"];
            world
                .syncline
                .run(&[&given[..], &["--user", user, "--password-file", &password]].concat())
        };
        assert_eq!(as_user("ann").code, Some(0));
        as_user("ben").message("E2160");
        world.syncline.fails("E6008", &["fleet", "bind", "till-7", "--user", "nobody"]);
        world.syncline.fails("E6160", &["fleet", "bind", "till-8", "--any"]);
        world.syncline.ok(&["fleet", "bind", "till-7", "--user", "ann", "--user", "ben"]);
        assert_eq!(as_user("ben").code, Some(0));
        assert_eq!(as_user("ann").code, Some(0));
        as_user("cleo").message("E2160");
        world.syncline.ok(&["fleet", "bind", "till-7", "--any"]);
        assert_eq!(as_user("cleo").code, Some(0));
        world.syncline.ok(&["fleet", "bind", "till-7", "--user", "ann"]);

        world.syncline.ok(&["user", "remove", "ann"]);
        world.add_user("ann");
        as_user("ann").message("E2160");
        let shown = world.syncline.json(&["fleet", "show", "till-7", "--json"]);
        assert_eq!(shown["users"], json!([]));
        world.syncline.ok(&["fleet", "bind", "till-7", "--user", "ann"]);
        assert_eq!(as_user("ann").code, Some(0));
    }
}
