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

// S1, S5, Trap 21: an application that changes the key of a synchronized row hears of it at once,
// and nothing is uploaded. A row that nobody else knows may get another key.
#[test]
fn a_synchronized_row_keeps_its_key_at_a_remote() {
    for on_postgres in [false, true] {
        let (world, server) = shop(on_postgres, &["ann", "ben"]);
        world.sync("ann", &server);
        world.sync("ben", &server);
        let remote = world.remote("ann");
        for tool in [ForeignTool::Shell, ForeignTool::Python] {
            let change = "UPDATE customer SET id = 100 WHERE id = 1";
            let told = tool.try_sql(&remote, change).stderr;
            assert!(told.contains("the key of a synchronized row of table customer"), "{told}");
            assert!(told.contains("delete the row and insert it again"), "{told}");
        }
        sql(
            &remote,
            "INSERT INTO customer VALUES (7, 'Seven'); INSERT INTO visit VALUES (7, 1, 'e');
             UPDATE customer SET id = 8 WHERE id = 7",
        );
        let anns = world.sync("ann", &server);
        assert_eq!(anns["uploaded"], json!({"inserts": 2, "updates": 0, "deletes": 0}));
        let told = ForeignTool::Shell.try_sql(&remote, "UPDATE visit SET n = 2 WHERE n = 1");
        assert!(told.stderr.contains("table visit"), "{}", told.stderr);
        world.sync("ben", &server);
        world.assert_converged(&["ann", "ben"]);
        let visits = query(&world.remote("ben"), "SELECT note FROM visit WHERE customer_id = 8");
        assert_eq!(visits, [["'e'"]]);
    }
}

// S3, Trap 21: where the center changes keys, remotes get deletes and rows, and children as their
// own rows say.
#[test]
fn keys_that_change_at_the_center_arrive_as_deletes_and_rows() {
    for postgres in [false, true] {
        let (world, server) = shop(postgres, &["ann"]);
        world.sync("ann", &server);
        // Two swap, one gets a key of its own, and one goes.
        world.center_sql(
            "UPDATE customer SET id = -1 WHERE id = 1; UPDATE customer SET id = 1 WHERE id = 2;
             UPDATE customer SET id = 2 WHERE id = -1;
             UPDATE customer SET id = 30 WHERE id = 3; DELETE FROM customer WHERE id = 4",
        );
        let outcome = world.sync("ann", &server);
        assert_eq!((&outcome["conflicts"], &outcome["rejected"]), (&json!(0), &json!(0)));
        world.assert_converged(&["ann"]);
        let bills = query(&world.remote("ann"), "SELECT id, customer_id FROM bill ORDER BY 1");
        assert_eq!(bills, [["10", "2"], ["20", "1"], ["30", "30"]]);
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
                let blocked = outcome.stderr.contains("E5146");
                assert!(outcome.code == Some(0) || blocked, "seed {seed}: {}", outcome.stderr);
            }
            world.sync(name, &server);
        }
        for name in ["ann", "ben", "ann", "ben", "ann"] {
            world.sync(name, &server);
        }
        world.assert_converged(&names);
    }
}
