//! Every program is killed at every dangerous moment, and nothing is lost or done twice (S1, S4).
//!
//! Needs programs that can kill themselves: `cargo test -p syncline --features fail-points`.

#![cfg(feature = "fail-points")]

use crate::kill::{CLIENT_POINTS, SERVER_POINTS};
use harness::{World, count, sql, until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

// Without a key of the application's own, a change that is applied twice shows.
const LEDGER: &str = "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
    CREATE TABLE entry (id TEXT PRIMARY KEY NOT NULL, account_id INTEGER REFERENCES account,
        amount INTEGER NOT NULL);
    CREATE TABLE audit (n INTEGER);
    CREATE TRIGGER audited AFTER INSERT ON entry BEGIN INSERT INTO audit VALUES (1); END;
    INSERT INTO account VALUES (1, 100), (2, 200), (3, 300)";

fn world() -> World {
    let world = World::new(PROGRAM, LEDGER);
    world.add_user("ann");
    let server = world.serve();
    world.sync("ann", &server);
    server.stop();
    sql(
        &world.remote("ann"),
        "INSERT INTO entry VALUES ('a', 1, 5), ('b', 2, 7); UPDATE account SET balance = 105
         WHERE id = 1; DELETE FROM account WHERE id = 3",
    );
    sql(&world.consolidated(), "UPDATE account SET balance = 222 WHERE id = 2");
    world
}

/// What holds after every crash, once everything ran again.
fn check(world: &World) {
    // More work on rows whose fate the remote does not know yet (trap 6).
    sql(
        &world.remote("ann"),
        "UPDATE entry SET amount = 6 WHERE id = 'a'; DELETE FROM entry WHERE id = 'b';
         INSERT INTO entry VALUES ('c', 1, 1)",
    );
    let server = world.serve();
    // The dead predecessor is taken over within seconds (S8).
    until("a synchronization", || world.try_sync("ann", &server, None).code == Some(0));
    world.sync("ann", &server);
    let lines = world.differences("ann");
    assert!(lines.iter().all(|line| line.starts_with("audit")), "{lines:?}");
    let center = world.consolidated();
    assert_eq!(count(&center, "SELECT sum(amount) FROM entry"), 7);
    assert_eq!(count(&center, "SELECT balance FROM account WHERE id = 1"), 105);
    assert_eq!(count(&center, "SELECT count(*) FROM account WHERE id = 3"), 0);
    let broken = "SELECT count(*) FROM pragma_foreign_key_check";
    assert_eq!(count(&world.remote("ann"), broken), 0);
}

#[test]
fn a_client_killed_at_any_moment_loses_nothing() {
    for point in CLIENT_POINTS {
        let world = world();
        let server = world.serve();
        let outcome = world.try_sync("ann", &server, Some(&format!("{point}=return")));
        // The outcome is learned only where there was one to learn.
        let expected = if *point == "client-outcome-learned" { Some(0) } else { None };
        assert_eq!(outcome.code, expected, "{point}: {outcome:?}");
        server.stop();
        check(&world);
    }
}

#[test]
fn a_client_killed_again_while_it_learns_the_outcome_loses_nothing() {
    for first in ["client-frozen", "client-upload-sent", "client-upload-committed"] {
        let world = world();
        let server = world.serve();
        assert_eq!(world.try_sync("ann", &server, Some(&format!("{first}=return"))).code, None);
        sql(&world.remote("ann"), "UPDATE entry SET amount = 9 WHERE id = 'a'");
        until("the second crash", || {
            world.try_sync("ann", &server, Some("client-outcome-learned=return")).code.is_none()
        });
        server.stop();
        check(&world);
    }
}

#[test]
fn a_server_killed_at_any_moment_loses_nothing() {
    for point in SERVER_POINTS {
        let world = world();
        let mut server = world.serve_with(&[], Some(&format!("{point}=return")));
        let outcome = world.try_sync("ann", &server, None);
        assert_eq!(outcome.code, Some(1), "{point}: {outcome:?}");
        until("the server to die", || server.has_ended());
        check(&world);
    }
}
