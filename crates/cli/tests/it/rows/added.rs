//! Two remotes take from one stock.

use harness::{World, query, sql};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const CREATE: &str = "CREATE TABLE stock (id INTEGER PRIMARY KEY, qty INTEGER CHECK (qty >= 0))";

// S3, S5: of two who sold at the same time one sale was lost, and of two equal ones always.
#[test]
fn what_two_remotes_sell_from_one_stock_is_sold_at_all_three() {
    for world in [World::new(PROGRAM, CREATE), World::on_postgres(PROGRAM, CREATE)] {
        let model = "script_version = \"v1\"\n[table.stock]\nconflict = { add = \"qty\" }\n";
        std::fs::write(world.path("model.toml"), model).unwrap();
        world.syncline.ok(&["deploy"]);
        world.center_sql("INSERT INTO stock VALUES (1, 10)");
        let server = world.serve();
        let remotes = ["ann", "ben"];
        for remote in remotes {
            world.add_user(remote);
            world.sync(remote, &server);
        }
        let sell = |remote: &str, count: u32| {
            sql(&world.remote(remote), &format!("UPDATE stock SET qty = qty - {count}"));
        };
        // What both sell, and what is left. The last time there is not enough for both.
        for (ann, ben, left) in [(3, 2, 5), (1, 1, 3), (2, 2, 1)] {
            sell("ann", ann);
            sell("ben", ben);
            for remote in ["ann", "ben", "ann"] {
                world.sync(remote, &server);
            }
            world.assert_converged(&remotes);
            let held = query(&world.remote("ann"), "SELECT qty FROM stock");
            assert_eq!(held, [[left.to_string()]]);
        }
        let rejects = query(&world.remote("ben"), "SELECT code FROM syncline_reject");
        assert_eq!(rejects, [["7002"]]);
    }
}
