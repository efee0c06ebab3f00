//! `sync --ping`: over every transport the server answers, and nothing else happens.

use harness::{World, count};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

// S11
#[test]
fn a_ping_is_answered_over_every_transport() {
    let world = World::new(PROGRAM, "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)");
    world.syncline.ok(&["cert", "dev"]);
    world.configure("tls_certificate = \"server.pem\"\ntls_key = \"server.key\"");
    world.add_user("ann");
    world.add_user("ben");
    for scheme in ["tcp", "tls", "http", "https", "ws", "wss"] {
        let server = world.serve_at(&format!("{scheme}://127.0.0.1:0"));
        let ping = |name: &str, password: &str| {
            let mut all = world.sync_arguments(name, &server);
            *all.last_mut().unwrap() = format!("{password}.password");
            all.extend(["--ca-file", "ca.pem", "--ping"].map(str::to_owned));
            all
        };
        let said = world.syncline.ok(&ping("ann", "ann"));
        assert!(said.starts_with("the server answers and accepts user ann ("), "{scheme}: {said}");
        world.syncline.fails("E2101", &ping("ann", "ben"));
        // It has no tables, no rows and no place at the center.
        let tables = "SELECT count(*) FROM syncline_table";
        assert_eq!(count(&world.remote("ann"), tables), 0, "{scheme}");
        assert_eq!(world.center_count("SELECT count(*) FROM syncline_remote"), 0, "{scheme}");
        server.stop();
    }
}
