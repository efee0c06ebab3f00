//! Keys change at remotes and at the center, through the programs.

use harness::{ForeignTool, Server, World, query, sql};
use serde_json::json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SHOP: &str = "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
    CREATE TABLE visit (customer_id INTEGER NOT NULL REFERENCES customer ON UPDATE CASCADE
        ON DELETE CASCADE, n INTEGER NOT NULL, note TEXT, PRIMARY KEY (customer_id, n));
    CREATE TABLE bill (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customer
        ON UPDATE CASCADE ON DELETE CASCADE, total INTEGER);
    INSERT INTO customer VALUES (1, 'One'), (2, 'Two'), (3, 'Three'), (4, 'Four');
    INSERT INTO visit VALUES (1, 1, 'a'), (1, 2, 'b'), (2, 1, 'c'), (3, 1, 'd');
    INSERT INTO bill VALUES (10, 1, 5), (20, 2, 6), (30, 3, 7);";

fn shop(on_postgres: bool, names: &[&str]) -> (World, Server) {
    let world = match on_postgres {
        true => World::on_postgres(PROGRAM, SHOP),
        false => World::new(PROGRAM, SHOP),
    };
    for name in names {
        world.add_user(name);
    }
    let server = world.serve();
    (world, server)
}

// S5: a key change at a remote took along what others had made for the row.
#[test]
fn a_key_change_keeps_what_others_made_for_the_row() {
    for on_postgres in [false, true] {
        let (world, server) = shop(on_postgres, &["ann", "ben"]);
        world.sync("ann", &server);
        world.sync("ben", &server);
        sql(&world.remote("ben"), "INSERT INTO bill VALUES (11, 1, 99)");
        world.sync("ben", &server);
        // Ann has not seen the bill, and Ben edits under a key that is changing.
        sql(&world.remote("ann"), "UPDATE customer SET id = 100 WHERE id = 1");
        sql(
            &world.remote("ben"),
            "UPDATE visit SET note = 'edited' WHERE customer_id = 1 AND n = 1;
             UPDATE bill SET total = 100 WHERE id = 11",
        );
        let anns = world.sync("ann", &server);
        assert_eq!(anns["rejected"], json!(0));
        assert_eq!(anns["uploaded"]["deletes"], json!(0), "a key change is an update");
        for name in ["ben", "ann", "ben"] {
            world.sync(name, &server);
        }
        world.assert_converged(&["ann", "ben"]);
        let bills = "SELECT id, customer_id FROM bill ORDER BY 1";
        let bills: Vec<String> =
            query(&world.remote("ann"), bills).iter().map(|row| row.join(" ")).collect();
        assert_eq!(bills, ["10 100", "11 100", "20 2", "30 3"]);
    }
}

// S3: two remotes swap keys, and one row is part of both.
#[test]
fn swaps_that_meet_are_told_and_all_agree() {
    for postgres in [false, true] {
        let (world, server) = shop(postgres, &["ann", "ben"]);
        let swap = |name: &str, a: i64, b: i64| {
            let text = format!(
                "UPDATE customer SET id = -1 WHERE id = {a}; UPDATE customer SET id = {a}
             WHERE id = {b}; UPDATE customer SET id = {b} WHERE id = -1"
            );
            sql(&world.remote(name), &text);
        };
        world.sync("ann", &server);
        world.sync("ben", &server);
        swap("ann", 3, 4);
        world.sync("ann", &server);
        swap("ben", 1, 3);
        let bens = world.sync("ben", &server);
        assert_eq!(bens["rejected"], json!(2), "the keys are others' by now");
        for name in ["ann", "ben", "ann"] {
            world.sync(name, &server);
        }
        world.assert_converged(&["ann", "ben"]);
    }
}

// S5: a key that changed at the center came as a delete and a row, and the file's own `ON DELETE`
// took along what only this file knew.
#[test]
fn what_only_a_remote_knows_follows_a_key_that_changes_at_the_center() {
    for postgres in [false, true] {
        for waits in [false, true] {
            let (world, server) = shop(postgres, &["ann"]);
            world.sync("ann", &server);
            sql(
                &world.remote("ann"),
                "CREATE TABLE memo (customer_id INTEGER NOT NULL REFERENCES customer
                     ON UPDATE CASCADE ON DELETE CASCADE, name TEXT);
                 INSERT INTO memo SELECT id, name FROM customer",
            );
            // Two swap, one gets a key of its own, and one goes.
            world.center_sql(
                "UPDATE customer SET id = -1 WHERE id = 1; UPDATE customer SET id = 1 WHERE id = 2;
                 UPDATE customer SET id = 2 WHERE id = -1;
                 UPDATE customer SET id = 30 WHERE id = 3; DELETE FROM customer WHERE id = 4",
            );
            if waits {
                sql(
                    &world.remote("ann"),
                    "UPDATE customer SET name = 'Drei' WHERE id = 3;
                     UPDATE visit SET note = 'mine' WHERE customer_id = 1 AND n = 2;
                     INSERT INTO bill VALUES (11, 1, 8)",
                );
                let mut arguments = world.sync_arguments("ann", &server);
                arguments.push("--download-only".into());
                world.syncline.ok(&arguments);
            }
            let outcome = world.sync("ann", &server);
            assert_eq!((&outcome["conflicts"], &outcome["rejected"]), (&json!(0), &json!(0)));
            let memos = "SELECT m.name FROM memo AS m JOIN customer AS c ON c.id = m.customer_id
                WHERE c.name IN (m.name, 'Drei') ORDER BY 1";
            let memos = query(&world.remote("ann"), memos).concat();
            assert_eq!(memos, ["'One'", "'Three'", "'Two'"], "waits: {waits}");
            world.sync("ann", &server);
            world.assert_converged(&["ann"]);
            if waits {
                let mine = "SELECT customer_id, n FROM visit WHERE note = 'mine'
                    UNION ALL SELECT customer_id, total FROM bill WHERE id = 11";
                let rows = query(&world.remote("ann"), mine);
                assert_eq!(rows, [["2", "2"], ["2", "8"]]);
            }
        }
    }
}

// S3, S5, Trap 21: a child follows its parent and is set back to the old key, which another row has
// then. It is unchanged, so it was not uploaded, and the center's own foreign key moved it.
#[test]
fn rows_that_are_set_back_stay_where_the_user_wants_them() {
    for postgres in [false, true] {
        for edit in ["", ", note = 'edited'"] {
            let (world, server) = shop(postgres, &["ann", "ben"]);
            world.sync("ann", &server);
            world.sync("ben", &server);
            let statements = format!(
                "UPDATE customer SET id = 9 WHERE id = 1;
                 UPDATE customer SET id = 1 WHERE id = 2;
                 UPDATE bill SET customer_id = 1 WHERE id = 10;
                 UPDATE visit SET customer_id = 1{edit} WHERE customer_id = 9 AND n = 2"
            );
            sql(&world.remote("ann"), &statements);
            let held = |name: &str| {
                let remote = world.remote(name);
                let bills = query(&remote, "SELECT id, customer_id FROM bill ORDER BY 1");
                (bills, query(&remote, "SELECT * FROM visit ORDER BY 1, 2"))
            };
            let wanted = held("ann");
            assert_eq!(wanted.0[0], ["10", "1"]);
            let outcome = world.sync("ann", &server);
            assert_eq!((&outcome["conflicts"], &outcome["rejected"]), (&json!(0), &json!(0)));
            world.sync("ben", &server);
            world.assert_converged(&["ann", "ben"]);
            assert_eq!(held("ann"), wanted, "on PostgreSQL: {postgres}");
        }
    }
}

/// Numbers drawn from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> i64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit) as i64
    }
}

/// A change as an application might make it.
fn change(draw: &mut Draw) -> String {
    let (a, b, v) = (draw.below(7), draw.below(7), draw.below(100));
    match draw.below(11) {
        0 => format!("INSERT INTO customer VALUES ({a}, 'new {v}')"),
        1 => format!("UPDATE customer SET name = 'name {v}' WHERE id = {a}"),
        2 => format!("DELETE FROM customer WHERE id = {a}"),
        3 | 4 => format!("UPDATE customer SET id = {b} WHERE id = {a}"),
        5 => format!(
            "UPDATE customer SET id = -1 WHERE id = {a};
             UPDATE customer SET id = {a} WHERE id = {b};
             UPDATE customer SET id = {b} WHERE id = -1"
        ),
        6 => format!("INSERT INTO visit VALUES ({a}, {b}, 'v {v}')"),
        7 => format!("UPDATE visit SET note = 'n {v}' WHERE customer_id = {a}"),
        8 => format!("UPDATE visit SET n = {b} WHERE customer_id = {a} AND n = {v} % 3"),
        9 => format!("INSERT INTO bill VALUES ({v}, {a}, {b})"),
        _ => format!("UPDATE bill SET total = {v}, customer_id = {b} WHERE customer_id = {a}"),
    }
}

// S3: no matter who changes keys, and when, all hold the same in the end.
#[test]
fn everybody_agrees_whoever_changes_keys() {
    for (seed, postgres) in [(0, false), (1, false), (2, false), (3, false), (4, true), (5, true)] {
        let (draw, names) = (&mut Draw(seed), ["ann", "ben"]);
        let (world, server) = shop(postgres, &names);
        for name in names {
            world.sync(name, &server);
        }
        for _ in 0..12 {
            for _ in 0..draw.below(5) {
                let place = match draw.below(5) {
                    0 if !postgres => world.consolidated(),
                    0 => world.remote("ann"),
                    1 | 2 => world.remote("ann"),
                    _ => world.remote("ben"),
                };
                let text = format!("BEGIN; {}; COMMIT;", change(draw));
                // One that breaks a constraint does not happen.
                let _ = ForeignTool::Shell.try_sql(&place, &text);
            }
            let name = names[draw.below(2) as usize];
            if draw.below(4) == 0 {
                // While changes wait.
                let mut arguments = world.sync_arguments(name, &server);
                arguments.push("--download-only".into());
                let outcome = world.syncline.run(&arguments);
                assert_eq!(outcome.code, Some(0), "seed {seed}: {}", outcome.stderr);
            }
            world.sync(name, &server);
        }
        for name in ["ann", "ben", "ann", "ben", "ann"] {
            world.sync(name, &server);
        }
        world.assert_converged(&names);
    }
}
