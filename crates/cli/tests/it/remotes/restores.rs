//! A center that was restored or copied, and the evidence for it (trap 30).
//!
//! Before, if a remote claimed more than the center remembered, all others started again: after a
//! forgotten remote, a copied file, or a false claim. Now only the center's own evidence counts,
//! and any other claim concerns the remote that makes it.

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
    assert_eq!(world.center_count("SELECT count(*) FROM customer WHERE id = 10"), 0);
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

fn deploy(world: &World, tables: &str) {
    fs::write(world.path("model.toml"), format!("script_version = \"v1\"\n{tables}")).unwrap();
    world.syncline.ok(&["deploy"]);
}

/// The center is again what it was before [`go_on`]. On PostgreSQL the operator says so, and the
/// rows are taken back by hand.
fn set_back(world: &World, postgres: bool) {
    if !postgres {
        return copy_of(&world.path("backup.db"), &world.consolidated());
    }
    let back = "DELETE FROM customer WHERE id = 10;
        UPDATE customer SET name = 'One' WHERE id = 1;
        INSERT INTO customer VALUES (2, 'Two')";
    world.center_sql(back);
    world.syncline.ok(&["declare-restored", "--yes"]);
}

/// All remotes have gone on, and then the center was set back. No server runs.
fn set_back_shop(postgres: bool) -> World {
    let world = shop(postgres);
    let server = world.serve();
    sync_all(&world, &server);
    server.stop();
    if !postgres {
        back_up(&world);
    }
    let server = world.serve();
    go_on(&world, &server);
    server.stop();
    set_back(&world, postgres);
    world
}

// Trap 3, S5: the restored center gets other tables before it serves again. What a remote holds of
// the former ones still shows that it comes from another past.
#[test]
fn a_restored_center_whose_tables_were_changed_is_noticed() {
    for postgres in [false, true] {
        let world = set_back_shop(postgres);
        world.center_sql("ALTER TABLE customer ADD COLUMN note TEXT");
        world.syncline.ok(&["deploy"]);
        let server = world.serve();
        check_restored(&world, &server);
    }
}

// Trap 3, S5: the remote dies between the other tables and their rows. The next attempt has no
// watermark of these tables, and is compared all the same.
#[test]
#[cfg(feature = "fail-points")]
fn a_restored_center_is_noticed_by_a_remote_that_died_with_new_tables() {
    for postgres in [false, true] {
        let world = set_back_shop(postgres);
        world.center_sql("ALTER TABLE customer ADD COLUMN note TEXT");
        deploy(&world, "[table.customer]\n");
        let server = world.serve();
        for name in NAMES {
            let dead = world.try_sync(name, &server, Some("client-download-received=return"));
            assert_ne!(dead.code, Some(0));
            let columns = "SELECT count(*) FROM pragma_table_info('customer')";
            assert_eq!(count(&world.remote(name), columns), 3, "{name} has the new tables");
        }
        check_restored(&world, &server);
    }
}

// Trap 3, Trap 13, S5: a file is copied when the center has been restored. The copy takes a new
// identity, and what it received under the former one shows that it comes from another past.
#[test]
fn a_copied_file_is_compared_with_a_restored_center() {
    for postgres in [false, true] {
        let world = set_back_shop(postgres);
        let copy = world.path("copy.db");
        copy_of(&world.remote("ann"), &copy);
        let server = world.serve();
        check_restored(&world, &server);
        sql(&world.remote("ann"), "INSERT INTO customer VALUES (20, 'Twenty')");
        let first = world.sync("ann", &server)["remote_id"].clone();
        copy_of(&copy, &world.remote("ann"));
        sql(&world.remote("ann"), "INSERT INTO customer VALUES (21, 'waits')");
        world.sync_fails("ann", &server, "E2109");
        assert_ne!(world.sync("ann", &server)["remote_id"], first, "it is a copy");
        check_restored(&world, &server);
        // Only once: from then on it is a remote like any other.
        let before = rejects(&world, "ann").len();
        world.center_sql("UPDATE customer SET name = 'Drei' WHERE id = 3");
        sync_all(&world, &server);
        assert_eq!(rejects(&world, "ann").len(), before);
        world.assert_converged(&NAMES);
    }
}

// Trap 13: a copy of a file that met no restore has lost nothing, and nothing is recorded.
#[test]
fn a_copied_file_that_met_no_restore_has_nothing_recorded() {
    for postgres in [false, true] {
        let world = shop(postgres);
        let server = world.serve();
        sync_all(&world, &server);
        let copy = world.path("copy.db");
        copy_of(&world.remote("ann"), &copy);
        go_on(&world, &server);
        let first = world.sync("ann", &server)["remote_id"].clone();
        copy_of(&copy, &world.remote("ann"));
        assert_ne!(world.sync("ann", &server)["remote_id"], first, "it is a copy");
        sync_all(&world, &server);
        world.assert_converged(&NAMES);
        assert!(rejects(&world, "ann").is_empty(), "{:?}", rejects(&world, "ann"));
    }
}

// Trap 3, S5: a table was only uploaded when the center was restored. When it is downloaded too,
// the rows that the center has lost are recorded.
#[test]
fn what_was_only_uploaded_is_compared_when_it_is_downloaded() {
    for postgres in [false, true] {
        let world = shop(postgres);
        deploy(&world, "[table.customer]\ndirection = \"upload_only\"\n");
        let server = world.serve();
        sync_all(&world, &server);
        server.stop();
        if !postgres {
            back_up(&world);
        }
        let server = world.serve();
        sql(&world.remote("ann"), "INSERT INTO customer VALUES (10, 'Ten')");
        sync_all(&world, &server);
        assert_eq!(world.center_count("SELECT count(*) FROM customer WHERE id = 10"), 1);
        server.stop();
        if postgres {
            world.center_sql("DELETE FROM customer WHERE id = 10");
            world.syncline.ok(&["declare-restored", "--yes"]);
        } else {
            copy_of(&world.path("backup.db"), &world.consolidated());
        }
        let server = world.serve();
        for _ in 0..2 {
            sync_all(&world, &server);
        }
        server.stop();
        // Told twice: that nobody knows, as of every row of the table, and that it is so.
        let perhaps = |name| rejects(&world, name).iter().filter(|it| it.1 == "E7430").count();
        assert_eq!(told(&world, "ann", 10), (json!("E7430"), json!("Ten")));
        let before = (perhaps("ann"), perhaps("ben"));
        deploy(&world, "[table.customer]\n");
        let server = world.serve();
        sync_all(&world, &server);
        let lost = |it: &(Value, Value, Value)| it.1 == "E7005";
        let [(key, _, row)] =
            rejects(&world, "ann").into_iter().filter(lost).collect::<Vec<_>>().try_into().unwrap();
        assert_eq!((key, &row["name"]), (json!({ "id": 10 }), &json!("Ten")));
        assert!(!rejects(&world, "ben").iter().any(lost));
        assert_eq!((perhaps("ann"), perhaps("ben")), before, "and of no row again");
        world.assert_converged(&NAMES);
    }
}

// Trap 3, Trap 30: (a) the number and the birth of a file that was moved to another file system are
// others, as those of a copy, so it cannot be distinguished from one. All are compared once, and
// lose nothing.
#[test]
fn a_file_that_was_moved_by_copying_is_compared_once_and_nobody_loses_anything() {
    let world = shop(false);
    let server = world.serve();
    sync_all(&world, &server);
    world.center_sql("UPDATE customer SET name = 'Dos' WHERE id = 2");
    world.sync("ben", &server);
    sql(
        &world.remote("cleo"),
        "INSERT INTO customer VALUES (10, 'Ten'); DELETE FROM customer WHERE id = 3",
    );
    server.stop();
    let before = generation(&world);
    let moved = world.path("moved.db");
    query(&world.consolidated(), "PRAGMA wal_checkpoint(TRUNCATE)");
    copy_of(&world.consolidated(), &moved);
    fs::rename(&moved, world.consolidated()).unwrap();
    let server = world.serve();
    let after = generation(&world);
    assert_ne!(after, before);
    let report = world.sync("ben", &server);
    assert_eq!(report["downloaded"]["deletes"], json!(0), "{report}");
    for _ in 0..2 {
        sync_all(&world, &server);
    }
    world.assert_converged(&NAMES);
    assert_eq!(world.center_count("SELECT count(*) FROM customer WHERE id IN (3, 10)"), 1);
    assert!(rejects(&world, "ben").is_empty(), "who had everything is told nothing");
    assert!(rejects(&world, "cleo").iter().all(|(_, code, _)| code == "E7160"));
    server.stop();
    let server = world.serve();
    sync_all(&world, &server);
    assert_eq!(generation(&world), after, "once is enough");
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

// Trap 3, Trap 30: (c) a file of before this server's start is restored below it. No remote is
// served before this is noticed, whatever the first remote has received.
#[test]
fn a_file_of_before_its_start_restored_below_a_running_server_is_proven_by_its_mark() {
    let world = shop(false);
    let server = world.serve();
    sync_all(&world, &server);
    server.stop();
    back_up(&world);
    let server = world.serve();
    sql(&world.remote("ann"), "INSERT INTO customer VALUES (10, 'Ten')");
    world.sync("ann", &server);
    let before = generation(&world);
    let restore = format!(".restore {}\n", world.path("backup.db").display());
    harness::ForeignTool::Shell.sql(&world.consolidated(), &restore);
    world.sync("ben", &server);
    let after = generation(&world);
    assert_ne!(after, before, "ben has seen nothing of what was lost");
    for _ in 0..2 {
        sync_all(&world, &server);
    }
    world.assert_converged(&NAMES);
    assert_eq!(told(&world, "ann", 10), (json!("E7005"), json!("Ten")));
    assert_eq!(generation(&world), after, "once is enough");
    // Another server that starts is no evidence.
    server.stop();
    let server = world.serve();
    sync_all(&world, &server);
    assert_eq!(generation(&world), after);
}

// S1, Trap 3, Trap 30: (a) another file in its place: no other program can find the file that the
// server has open.
#[test]
fn a_file_replaced_below_a_running_server_is_not_written_to() {
    let world = shop(false);
    let server = world.serve();
    sync_all(&world, &server);
    back_up(&world);
    go_on(&world, &server);
    let before = generation(&world);
    copy_of(&world.path("backup.db"), &world.path("beside.db"));
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{suffix}", world.consolidated().display()));
    }
    fs::rename(world.path("beside.db"), world.consolidated()).unwrap();
    sql(&world.remote("cleo"), "INSERT INTO customer VALUES (12, 'waits')");
    world.sync_fails("cleo", &server, "E2235");
    server.stop();
    let server = world.serve();
    assert_ne!(generation(&world), before);
    check_restored(&world, &server);
    assert_eq!(world.center_count("SELECT count(*) FROM customer WHERE id = 12"), 1);
}

// Trap 30: a remote that met a clone of the center comes back; others are not affected.
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
    assert_eq!(world.center_count("SELECT count(*) FROM customer WHERE id = 11"), 1);
    assert!(rejects(&world, "ben").is_empty());
}

// Trap 30, S1: a forgotten remote comes back, does not upload twice, and does not affect others.
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
        world.syncline.ok(&["fleet", "forget", id, "--yes"]);
        world.syncline.fails("E6160", &["fleet", "show", id]);
        world.syncline.fails("E6160", &["fleet", "forget", id, "--yes"]);
        assert_eq!(world.syncline.json(&["fleet", "list", "--json"]).as_array().unwrap().len(), 2);

        world
            .center_sql("DELETE FROM customer WHERE id = 10; INSERT INTO customer VALUES (4, 'F')");
        sql(&world.remote("ann"), "INSERT INTO customer VALUES (11, 'Eleven')");
        for _ in 0..2 {
            sync_all(&world, &server);
        }
        world.assert_converged(&NAMES);
        assert_eq!(world.center_count("SELECT count(*) FROM customer WHERE id = 10"), 0);
        assert_eq!(world.center_count("SELECT count(*) FROM customer WHERE id = 11"), 1);
        assert_eq!(generation(&world), before);
        assert_eq!(told(&world, "ann", 10), (json!("E7005"), json!("Ten")));
        let shown = world.syncline.json(&["fleet", "show", id, "--json"]);
        assert_eq!((&shown["users"], &shown["rejects"]), (&json!(["ann"]), &json!(0)));
        assert!(shown["last_download_age_s"].as_i64().unwrap() < 600, "{shown}");
    }
}

/// Changes a row without a trace.
const UNTRACKED_ON_SQLITE: &str = "UPDATE customer SET name = 'Quiet' WHERE id = 1;
    DELETE FROM syncline_log_customer
    WHERE syncline_sequence = (SELECT max(syncline_sequence) FROM syncline_log_customer)";
const UNTRACKED_ON_POSTGRES: &str = "ALTER TABLE customer ALTER COLUMN name TYPE text
    USING CASE WHEN id = 1 THEN 'Quiet' ELSE name END";

// Trap 30: (d) where nothing else can know, an operator does.
#[test]
fn what_an_operator_declares_restored_is_compared() {
    for postgres in [false, true] {
        let world = shop(postgres);
        let server = world.serve();
        sync_all(&world, &server);
        // By a program that switches tracking off, which none should.
        world.center_sql(if postgres { UNTRACKED_ON_POSTGRES } else { UNTRACKED_ON_SQLITE });
        let before = generation(&world);
        sync_all(&world, &server);
        assert_ne!(world.differences("ann"), Vec::<String>::new(), "nobody can know: {postgres}");
        world.syncline.ok(&["declare-restored", "--yes"]);
        assert_ne!(generation(&world), before);
        sync_all(&world, &server);
        world.assert_converged(&NAMES);
        for name in NAMES {
            assert_eq!(told(&world, name, 1), (json!("E7160"), json!("One")), "{name}");
            assert_eq!(rejects(&world, name).len(), 1, "{name}: nothing else was lost");
        }
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

        world.syncline.ok(&["user", "remove", "ann", "--yes"]);
        world.add_user("ann");
        as_user("ann").message("E2160");
        let shown = world.syncline.json(&["fleet", "show", "till-7", "--json"]);
        assert_eq!(shown["users"], json!([]));
        world.syncline.ok(&["fleet", "bind", "till-7", "--user", "ann"]);
        assert_eq!(as_user("ann").code, Some(0));
    }
}
