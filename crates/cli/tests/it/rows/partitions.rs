//! Partitions through the real program: no remote ever has a row of another's partition.

use harness::{Chance, ForeignTool, Network, Server, Share, World, count, finish, full, until};
use serde_json::json;
use std::fs;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SCHEMA: &str = "
CREATE TABLE customer (id INTEGER PRIMARY KEY, rep INTEGER, name TEXT);
CREATE INDEX customer_rep ON customer (rep);
CREATE TABLE invoice (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL REFERENCES customer
    ON DELETE CASCADE, note TEXT);
CREATE INDEX invoice_customer ON invoice (customer);
CREATE TABLE line (id INTEGER PRIMARY KEY, invoice INTEGER NOT NULL REFERENCES invoice
    ON DELETE CASCADE, note TEXT);
CREATE INDEX line_invoice ON line (invoice);
CREATE TABLE member (person TEXT, project TEXT, PRIMARY KEY (person, project));
CREATE TABLE task (id INTEGER PRIMARY KEY, project TEXT, customer INTEGER REFERENCES customer
    ON DELETE SET NULL, note TEXT);
CREATE INDEX task_project ON task (project);
INSERT INTO customer VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 2, 'c'), (4, 2, 'd'), (5, 3, 'e');
INSERT INTO invoice VALUES (1, 1, ''), (2, 2, ''), (3, 3, ''), (4, 4, ''), (5, 5, '');
INSERT INTO line VALUES (1, 1, ''), (2, 2, ''), (3, 3, ''), (4, 4, ''), (5, 5, '');
INSERT INTO member VALUES ('ann', 'p'), ('ben', 'p'), ('ben', 'q'), ('cleo', 'q');
INSERT INTO task VALUES (1, 'p', 1, ''), (2, 'q', 3, '');
";

const MODEL: &str = "script_version = \"v1\"
[table.customer]
partition = \"rep = {u.rep}\"
conflict = \"remote_wins\"
may_leave = true
[table.invoice]
parent = \"customer\"
[table.line]
parent = \"invoice\"
conflict = \"merge\"
[table.task]
partition = \"project IN (SELECT project FROM member WHERE person = {s.username})\"
";

/// Users and the representative that they work for.
const USERS: [(&str, u64); 4] = [("ann", 1), ("ben", 1), ("cleo", 2), ("dora", 3)];

fn world() -> World {
    let world = World::without_deployment(PROGRAM, SCHEMA);
    world.syncline.ok(&["init", ".", "--consolidated", "sqlite:consolidated.db"]);
    fs::write(world.path("model.toml"), MODEL).unwrap();
    let notices = world.syncline.run(&["deploy"]);
    assert_eq!(notices.code, Some(0), "{notices:?}");
    let left_out = "the foreign key of task to customer is left out at remotes";
    assert!(format!("{notices:?}").contains(left_out), "{notices:?}");
    for (user, rep) in USERS {
        world.add_user(user);
        world.syncline.ok(&["user", "set", user, "--claim", &format!("rep={rep}")]);
    }
    world
}

/// What the remote of `user` is to hold, asked of the database in plain SQL.
fn shares(user: &str, rep: u64) -> [Share; 4] {
    let customers = format!("SELECT id FROM customer WHERE rep = {rep}");
    let invoices = format!("SELECT id FROM invoice WHERE customer IN ({customers})");
    [
        Share::of("customer", &format!("t.rep = {rep}")),
        Share::of("invoice", &format!("t.customer IN ({customers})")),
        Share::of("line", &format!("t.invoice IN ({invoices})")),
        Share::of(
            "task",
            &format!("t.project IN (SELECT project FROM member WHERE person = '{user}')"),
        ),
    ]
}

/// Synchronizes a remote, which then holds its share and nothing else.
fn synchronize(world: &World, server: &Server, user: &str, rep: u64) -> serde_json::Value {
    let report = world.sync(user, server);
    let differences = world.differences_in(user, &shares(user, rep));
    assert!(differences.is_empty(), "{user}:\n{}\n{report}", differences.join("\n"));
    report
}

/// A statement that a program may run at the center or at a remote. Some are refused there.
fn statement(chance: &mut Chance, everywhere: bool) -> String {
    let mut key = || 1 + chance.below(12);
    let (key, other, note) = (key(), key(), key());
    let (rep, project) = (1 + chance.below(3), *chance.choose(&["p", "q", "r"]));
    let person = *chance.choose(&["ann", "ben", "cleo", "dora"]);
    match chance.below(if everywhere { 11 } else { 13 }) {
        0 | 1 => format!("UPDATE customer SET rep = {rep} WHERE id = {key}"),
        2 => format!("UPDATE customer SET name = 'n{note}' WHERE id = {key}"),
        3 => format!("INSERT INTO customer VALUES ({key}, {rep}, 'new')"),
        4 => format!("DELETE FROM customer WHERE id = {key}"),
        5 => format!("INSERT INTO invoice VALUES ({key}, {other}, 'new')"),
        6 => format!("UPDATE invoice SET customer = {other}, note = 'm' WHERE id = {key}"),
        7 => format!("INSERT INTO line VALUES ({key}, {other}, 'new')"),
        8 => format!("UPDATE line SET note = 'm{note}' WHERE id = {key}"),
        9 => format!("INSERT INTO task VALUES ({key}, '{project}', NULL, 'new')"),
        10 => format!("UPDATE task SET project = '{project}' WHERE id = {key}"),
        11 => format!("INSERT INTO member VALUES ('{person}', '{project}')"),
        _ => format!("DELETE FROM member WHERE person = '{person}' AND project = '{project}'"),
    }
}

// S3, S6, S7
#[test]
fn remotes_hold_their_own_rows_and_no_others_whatever_happens() {
    let mut chance = if full() { Chance::from_environment() } else { Chance::from_seed(5) };
    let world = world();
    let server = world.serve();
    for (user, rep) in USERS {
        synchronize(&world, &server, user, rep);
    }
    let (mut uploaded, mut downloaded, mut rejected) = (0, 0, 0);
    for _ in 0..if full() { 300 } else { 40 } {
        for _ in 0..3 {
            // Whatever breaks a constraint has not happened.
            let sql = statement(&mut chance, false);
            ForeignTool::Shell.try_sql(&world.consolidated(), &sql);
        }
        let (user, rep) = *chance.choose(&USERS);
        for _ in 0..chance.below(4) {
            let sql = statement(&mut chance, true);
            ForeignTool::Shell.try_sql(&world.remote(user), &sql);
        }
        let report = synchronize(&world, &server, user, rep);
        uploaded += report["uploaded"]["inserts"].as_u64().unwrap()
            + report["uploaded"]["updates"].as_u64().unwrap();
        downloaded += report["downloaded"]["upserts"].as_u64().unwrap();
        rejected += report["rejected"].as_u64().unwrap();
    }
    for (user, rep) in USERS {
        synchronize(&world, &server, user, rep);
    }
    assert!(uploaded > 10 && downloaded > 10 && rejected > 0, "{uploaded} {downloaded} {rejected}");
}

/// A row that is added below a parent while the download is on its way that takes the parent away:
/// nothing is lost without a word, and the synchronization succeeds.
// S6, S7, S11
#[test]
fn a_child_that_is_added_while_its_parent_leaves_is_rejected_and_told() {
    let world = world();
    let server = world.serve();
    synchronize(&world, &server, "ann", 1);
    ForeignTool::Shell.sql(&world.consolidated(), "UPDATE customer SET rep = 2 WHERE id = 1");
    let network = Network::new(&server.url);
    network.stall_download_after(1);
    let child = world.sync_through("ann", &network.url);
    until("the download to be on its way", || network.is_stalled());
    ForeignTool::Shell.sql(&world.remote("ann"), "INSERT INTO invoice VALUES (77, 1, 'late')");
    network.resume();
    let outcome = finish(child);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    synchronize(&world, &server, "ann", 1);
    let told = r#"SELECT count(*) FROM syncline_reject
        WHERE table_name = 'invoice' AND key = '{"id":77}' AND code = 7006 AND row LIKE '%late%'"#;
    assert_eq!(count(&world.remote("ann"), told), 1);
}

/// Changes of a row that went to another user in the meantime are stored at the remote.
// S7, S11
#[test]
fn an_edit_of_a_row_that_has_left_is_kept_as_a_reject() {
    let world = world();
    let server = world.serve();
    synchronize(&world, &server, "ann", 1);
    let edit = "UPDATE invoice SET note = 'paid' WHERE id = 1; DELETE FROM line WHERE id = 1;
        UPDATE customer SET name = 'B' WHERE id = 2";
    ForeignTool::Shell.sql(&world.remote("ann"), edit);
    ForeignTool::Shell.sql(&world.consolidated(), "UPDATE customer SET rep = 2 WHERE id = 1");
    let report = synchronize(&world, &server, "ann", 1);
    assert_eq!(report["rejected"], 2, "{report}");
    assert_eq!(report["conflicts"], 0, "{report}");
    let kept = "SELECT count(*) FROM syncline_reject WHERE code = 7006 AND row LIKE '%paid%'";
    assert_eq!(count(&world.remote("ann"), kept), 1);
    let center = "SELECT count(*) FROM customer, invoice, line
        WHERE customer.name = 'B' AND invoice.id = 1 AND invoice.note = '' AND line.id = 1";
    assert_eq!(count(&world.consolidated(), center), 1);
    synchronize(&world, &server, "cleo", 2);
}

// Trap 4
#[test]
fn another_claim_brings_other_rows() {
    let world = world();
    let server = world.serve();
    synchronize(&world, &server, "ann", 1);
    assert_eq!(synchronize(&world, &server, "ann", 1)["sent_again"], json!(null));
    world.syncline.ok(&["user", "set", "ann", "--claim", "rep=2"]);
    let changed = synchronize(&world, &server, "ann", 2);
    // Two customers, each with an invoice and a line.
    assert_eq!(changed["sent_again"], json!({ "left": 6, "came": 6 }), "{changed}");
    world.syncline.ok(&["user", "set", "ann", "--claim", "rep="]);
    let text = world.syncline.ok(&world.sync_arguments("ann", &server));
    let told =
        "downloaded 0 rows, 0 deletes; in tables sent again as a whole 6 rows left, 0 came (";
    assert!(text.contains(told), "{text}");
    synchronize(&world, &server, "ann", 99);
}
