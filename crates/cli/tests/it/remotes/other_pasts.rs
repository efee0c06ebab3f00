//! Remotes and centers that remember different pasts.
//!
//! Restored from a backup, copied, undone, owed a row: the past is compared and never assumed.

use harness::{ForeignTool, Server, World, count, query, sql};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SHOP: &str = "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT UNIQUE, phone TEXT
        CHECK (phone <> 'bad'));
    CREATE TABLE purchase (id TEXT PRIMARY KEY NOT NULL,
        customer INTEGER NOT NULL REFERENCES customer, total REAL);
    CREATE TABLE arrival (n INTEGER PRIMARY KEY, id TEXT);
    CREATE TRIGGER arrived AFTER INSERT ON purchase BEGIN
        INSERT INTO arrival (id) VALUES (NEW.id); END;
    INSERT INTO customer VALUES (1, 'One', '1'), (2, 'Two', '2'), (3, 'Three', '3');
    INSERT INTO purchase VALUES ('a', 1, 1.5), ('b', 2, 2.5); DELETE FROM arrival";

/// A shop that does not publish its list of arrivals, with these users.
fn shop(names: &[&str]) -> World {
    let world = World::without_deployment(PROGRAM, SHOP);
    let init = ["init", ".", "--consolidated", "sqlite:consolidated.db"];
    world.syncline.ok(&[&init[..], &["--table", "customer", "--table", "purchase"]].concat());
    world.syncline.ok(&["deploy"]);
    for name in names {
        world.add_user(name);
    }
    world
}

fn sync_all(world: &World, server: &Server, names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| world.sync(name, server)).collect()
}

fn assert_converged(world: &World, names: &[&str]) {
    let tables = ["customer".to_owned(), "purchase".to_owned()];
    for name in names {
        let lines = harness::differences(&world.consolidated(), &world.remote(name), &tables);
        assert!(lines.is_empty(), "{name} differs:\n{}", lines.join("\n"));
        let broken = "SELECT count(*) FROM pragma_foreign_key_check";
        assert_eq!(count(&world.remote(name), broken), 0);
    }
}

fn rejects(world: &World, name: &str) -> Vec<Value> {
    let file = format!("{name}.db");
    let printed = world.syncline.json(&["remote", "rejects", &file, "--json"]);
    printed.as_array().unwrap().clone()
}

/// Only the database and not its log, as a backup program takes it.
fn back_up(from: &Path, to: &Path) {
    ForeignTool::Shell.sql(from, &format!("VACUUM INTO '{}';", to.display()));
}

fn restore(backup: &Path, to: &Path) {
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{suffix}", to.display()));
    }
    fs::copy(backup, to).unwrap();
}

// Trap 3, S3: the center comes back without what remotes have seen and sent since.
#[test]
fn a_restored_center_and_remotes_that_went_on_converge() {
    let names = ["ann", "ben", "cleo"];
    let world = shop(&names);
    let server = world.serve();
    sync_all(&world, &server, &["ann", "ben"]);
    server.stop();
    back_up(&world.consolidated(), &world.path("backup.db"));

    let server = world.serve();
    sql(
        &world.remote("ann"),
        "INSERT INTO customer VALUES (10, 'Ann''s', NULL); UPDATE customer SET phone = 'new'
         WHERE id = 1; DELETE FROM purchase WHERE id = 'b'",
    );
    sql(&world.consolidated(), "INSERT INTO customer VALUES (20, 'Center''s', 'gone')");
    sync_all(&world, &server, &["ann", "ben", "cleo"]);
    sql(&world.remote("ann"), "INSERT INTO purchase VALUES ('waits', 10, 1), ('stays', 1, 2)");
    sql(&world.remote("ben"), "UPDATE customer SET phone = 'lost' WHERE id = 20");
    server.stop();
    restore(&world.path("backup.db"), &world.consolidated());
    // The same numbers are given out again, for other rows.
    sql(&world.consolidated(), "INSERT INTO customer VALUES (20, 'Another', NULL)");
    sql(&world.consolidated(), "UPDATE customer SET phone = 'restored' WHERE id = 3");

    let server = world.serve();
    for _ in 0..2 {
        sync_all(&world, &server, &names);
    }
    assert_converged(&world, &names);
    let center = query(&world.consolidated(), "SELECT id, name, phone FROM customer ORDER BY id");
    let expected = [
        ["1", "'One'", "'1'"],
        ["2", "'Two'", "'2'"],
        ["3", "'Three'", "'restored'"],
        ["20", "'Another'", "NULL"],
    ];
    assert_eq!(center, expected);
    let purchases = query(&world.consolidated(), "SELECT id FROM purchase ORDER BY id");
    assert_eq!(purchases.concat(), ["'a'", "'b'", "'stays'"]);
    let lost = |name: &str, key: Value| {
        let rejects = rejects(&world, name);
        let found = rejects.iter().find(|reject| reject["key"] == key);
        let reject = found.unwrap_or_else(|| panic!("{name} lacks {key}: {rejects:?}"));
        (reject["code"].clone(), reject["row"].clone())
    };
    for name in names {
        let (code, row) = lost(name, json!({"id": 10}));
        assert_eq!(code, json!("E7005"), "{name}");
        assert!(row.to_string().contains("Ann's"), "{name}: {row}");
    }
    assert_eq!(
        lost("ann", json!({"id": "waits"})).0,
        json!("E7003"),
        "{:?}",
        rejects(&world, "ann")
    );
}

// Trap 3: a restore is noticed even if no row was lost, without an operator.
#[test]
fn a_restore_right_after_the_backup_costs_nothing() {
    let world = shop(&["ann"]);
    let server = world.serve();
    world.sync("ann", &server);
    server.stop();
    back_up(&world.consolidated(), &world.path("backup.db"));
    let server = world.serve();
    sync_all(&world, &server, &["ann", "ann"]);
    server.stop();
    restore(&world.path("backup.db"), &world.consolidated());
    sql(&world.remote("ann"), "UPDATE customer SET phone = 'kept' WHERE id = 1");
    let server = world.serve();
    let report = world.sync("ann", &server);
    assert_eq!((&report["conflicts"], &report["rejected"]), (&json!(0), &json!(0)));
    sync_all(&world, &server, &["ann"]);
    assert_converged(&world, &["ann"]);
    let phone = query(&world.consolidated(), "SELECT phone FROM customer WHERE id = 1");
    assert_eq!(phone, [["'kept'"]]);
    assert_eq!(rejects(&world, "ann"), Vec::<Value>::new());
}

/// Synchronizes a file that is not named like its user.
fn sync_file(world: &World, server: &Server, file: &str) -> Value {
    let given = ["sync", file, "--server", &server.url, "--user", "ann", "--password-file"];
    world.syncline.json(&[&given[..], &["ann.password", "--json"]].concat())
}

// Trap 13, S1: both copies of a file synchronize, and every row of both arrives once.
#[test]
fn a_copied_remote_becomes_one_of_its_own_with_its_changes() {
    let world = shop(&["ann"]);
    let server = world.serve();
    sync_file(&world, &server, "ann.db");
    sql(
        &world.remote("ann"),
        "INSERT INTO purchase VALUES ('before', 1, 1); UPDATE customer SET phone = 'both'
         WHERE id = 1; DELETE FROM purchase WHERE id = 'b'",
    );
    // One copy before the original synchronizes, one after, one of the first copy.
    back_up(&world.remote("ann"), &world.remote("early"));
    sql(&world.remote("early"), "INSERT INTO purchase VALUES ('early', 1, 1)");
    sql(&world.remote("ann"), "INSERT INTO purchase VALUES ('ann', 1, 1)");
    let mut ids = vec![sync_file(&world, &server, "ann.db")["remote_id"].clone()];
    sql(&world.remote("ann"), "INSERT INTO purchase VALUES ('ann again', 1, 1)");
    back_up(&world.remote("ann"), &world.remote("late"));
    sql(&world.remote("late"), "INSERT INTO purchase VALUES ('late', 2, 1)");
    fs::copy(world.remote("early"), world.remote("second")).unwrap();
    sql(&world.remote("second"), "INSERT INTO purchase VALUES ('second', 2, 1)");

    let others = ["early.db", "late.db", "second.db"];
    for file in others {
        let report = sync_file(&world, &server, file);
        assert_eq!((&report["conflicts"], &report["rejected"]), (&json!(0), &json!(0)), "{file}");
        ids.push(report["remote_id"].clone());
    }
    let all = ["ann.db", "early.db", "late.db", "second.db"];
    for _ in 0..2 {
        for (number, file) in all.iter().enumerate() {
            let id = sync_file(&world, &server, file)["remote_id"].clone();
            // A file that was first after its copy was made keeps the identity of both.
            if number != 0 && number != 2 {
                assert_eq!(id, ids[number], "an identity is taken once");
            } else {
                ids[number] = id;
            }
        }
    }
    let distinct: std::collections::BTreeSet<String> = ids.iter().map(Value::to_string).collect();
    assert_eq!(distinct.len(), 4, "{ids:?}");
    assert_converged(&world, &["ann", "early", "late", "second"]);
    let arrivals = query(&world.consolidated(), "SELECT id FROM arrival ORDER BY id").concat();
    let expected = ["'ann again'", "'ann'", "'before'", "'early'", "'late'", "'second'"];
    let mut expected: Vec<String> = expected.map(str::to_owned).into();
    expected.sort_by_key(|id| id.trim_matches('\'').to_owned());
    let mut found = arrivals;
    found.sort_by_key(|id| id.trim_matches('\'').to_owned());
    assert_eq!(found, expected);
}

fn download_only(world: &World, server: &Server, name: &str) -> harness::Outcome {
    let mut arguments = world.sync_arguments(name, server);
    arguments.push("--download-only".to_owned());
    world.syncline.run(&arguments)
}

// Trap 7: what was downloaded for a row that is changed here is there when the change is undone.
#[test]
fn a_skipped_download_is_applied_when_the_change_is_undone() {
    let undone = [
        (
            "UPDATE customer SET phone = 'mine' WHERE id = 1",
            "UPDATE customer SET phone = 'theirs' WHERE id = 1",
            "UPDATE customer SET phone = '1' WHERE id = 1",
        ),
        (
            "UPDATE customer SET phone = 'mine' WHERE id = 3",
            "DELETE FROM customer WHERE id = 3",
            "UPDATE customer SET phone = '3' WHERE id = 3",
        ),
        (
            "DELETE FROM customer WHERE id = 3",
            "UPDATE customer SET phone = 'theirs' WHERE id = 3",
            "INSERT INTO customer VALUES (3, 'Three', '3')",
        ),
        (
            "INSERT INTO customer VALUES (4, 'Mine', NULL)",
            "INSERT INTO customer VALUES (4, 'Theirs', NULL)",
            "DELETE FROM customer WHERE id = 4",
        ),
    ];
    for (number, (change, meanwhile, undo)) in undone.iter().enumerate() {
        let world = shop(&["ann"]);
        let server = world.serve();
        world.sync("ann", &server);
        sql(&world.remote("ann"), change);
        sql(&world.consolidated(), meanwhile);
        for _ in 0..=number % 2 {
            let outcome = download_only(&world, &server, "ann");
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
        }
        sql(&world.remote("ann"), undo);
        let report = world.sync("ann", &server);
        assert_eq!(report["uploaded"], json!({ "inserts": 0, "updates": 0, "deletes": 0 }));
        assert_eq!(report["conflicts"], json!(0), "{change}");
        assert_converged(&world, &["ann"]);
    }
}

// Trap 7, S5: and when it is not undone, the conflict is seen although the row came before.
#[test]
fn a_skipped_download_is_a_conflict_when_the_change_stays() {
    let world = shop(&["ann"]);
    let server = world.serve();
    world.sync("ann", &server);
    sql(
        &world.remote("ann"),
        "UPDATE customer SET phone = 'mine' WHERE id = 1; DELETE FROM customer WHERE id = 3;
         INSERT INTO customer VALUES (4, 'Mine', NULL); INSERT INTO purchase VALUES ('p', 2, 1)",
    );
    sql(
        &world.consolidated(),
        "UPDATE customer SET phone = 'theirs' WHERE id IN (1, 3);
         INSERT INTO customer VALUES (4, 'Theirs', NULL), (5, 'Five', NULL)",
    );
    assert_eq!(download_only(&world, &server, "ann").code, Some(0));
    let mine = query(&world.remote("ann"), "SELECT id, name, phone FROM customer ORDER BY id");
    let expected = [
        ["1", "'One'", "'mine'"],
        ["2", "'Two'", "'2'"],
        ["4", "'Mine'", "NULL"],
        ["5", "'Five'", "NULL"],
    ];
    assert_eq!(mine, expected, "nothing of ann's is touched");
    let report = world.sync("ann", &server);
    assert_eq!(report["conflicts"], json!(3));
    world.sync("ann", &server);
    assert_converged(&world, &["ann"]);
}

// S3, S4: a download that cannot lie beside a waiting change is refused as a whole, and comes
// behind its upload.
#[test]
fn what_a_waiting_change_is_in_the_way_of_comes_behind_its_upload() {
    let blocked = [
        // The same unique value; a parent that goes from below its new child.
        (
            "INSERT INTO customer VALUES (4, 'Same', NULL)",
            "INSERT INTO customer VALUES (5, 'Same', NULL)",
        ),
        ("INSERT INTO purchase VALUES ('p', 3, 1)", "DELETE FROM customer WHERE id = 3"),
        ("UPDATE purchase SET customer = 3 WHERE id = 'a'", "DELETE FROM customer WHERE id = 3"),
        // A parent that was deleted here.
        ("DELETE FROM customer WHERE id = 3", "INSERT INTO purchase VALUES ('p', 3, 1)"),
    ];
    for (change, meanwhile) in blocked {
        let world = shop(&["ann"]);
        let server = world.serve();
        world.sync("ann", &server);
        sql(&world.remote("ann"), change);
        sql(
            &world.consolidated(),
            &format!("{meanwhile}; INSERT INTO customer VALUES (9, 'N', '')"),
        );
        for _ in 0..2 {
            let outcome = download_only(&world, &server, "ann");
            assert_eq!(outcome.code, Some(1), "{change}: {outcome:?}");
            assert!(outcome.stderr.contains("E5146"), "{change}: {outcome:?}");
            let arrived = query(&world.remote("ann"), "SELECT name FROM customer WHERE id = 9");
            assert!(arrived.is_empty(), "{change}: {arrived:?}");
        }
        assert_eq!(world.sync("ann", &server)["rejected"], json!(1), "{change}");
        world.sync("ann", &server);
        assert_converged(&world, &["ann"]);
    }
}

// Trap 5: the row of a loser comes back although it is older than what the loser has seen, and
// although the download of that synchronization never arrived.
#[test]
fn a_loser_gets_its_row_back_even_when_the_download_is_lost() {
    let lost = [
        "UPDATE customer SET phone = 'bad' WHERE id = 1",
        "UPDATE customer SET name = 'Two' WHERE id = 1",
        "DELETE FROM customer WHERE id = 2",
        "INSERT INTO customer VALUES (4, 'Four', 'bad')",
    ];
    for change in lost {
        let world = shop(&["ann"]);
        let server = world.serve();
        world.sync("ann", &server);
        world.sync("ann", &server);
        // Constraints that only the center enforces, for those who switch them off.
        let off = "PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF;";
        if change.contains("'Two'") {
            sql(&world.consolidated(), "UPDATE customer SET name = 'Deux' WHERE id = 2");
            world.sync("ann", &server);
            sql(&world.consolidated(), "UPDATE customer SET name = 'Two' WHERE id = 2");
        }
        ForeignTool::Python.sql(&world.remote("ann"), &format!("{off}{change};"));
        let mut arguments = world.sync_arguments("ann", &server);
        arguments.extend(["--upload-only".to_owned(), "--json".to_owned()]);
        let report = world.syncline.json(&arguments);
        assert_eq!(report["rejected"], json!(1), "{change}");
        world.sync("ann", &server);
        assert_converged(&world, &["ann"]);
        assert_eq!(rejects(&world, "ann").len(), 1, "{change}");
        let quiet = world.sync("ann", &server);
        assert_eq!(quiet["downloaded"], json!({ "upserts": 0, "deletes": 0 }), "told once");
    }
}

// S11: a remote of one center does not mix with another, and starts over only on demand.
#[test]
fn a_remote_of_another_database_is_refused_until_it_is_reset() {
    let (world, other) = (shop(&["ann"]), shop(&["ann"]));
    let (server, other_server) = (world.serve(), other.serve());
    world.sync("ann", &server);
    sql(&world.remote("ann"), "INSERT INTO customer VALUES (4, 'Waits', NULL)");
    let arguments = world.sync_arguments("ann", &other_server);
    world.syncline.fails("E2108", &arguments);
    let four = "SELECT count(*) FROM customer WHERE id = 4";
    assert_eq!(count(&other.consolidated(), four), 0);
    // What waits is not lost to the right center.
    world.sync("ann", &server);
    assert_eq!(count(&world.consolidated(), four), 1);
    world.syncline.ok(&["remote", "reset", "ann.db"]);
    world.syncline.ok(&arguments);
    world.syncline.ok(&arguments);
    let tables = ["customer".to_owned(), "purchase".to_owned()];
    let lines = harness::differences(&other.consolidated(), &world.remote("ann"), &tables);
    assert!(lines.is_empty(), "{lines:?}");
}
