//! The rows of any transaction arrive, whatever it contains and however long it takes (S2).

use super::PROGRAM;
use harness::postgres::{PsqlSession, SUPERUSER};
use harness::{Chance, Server, World, count, sql};
use serde_json::json;

const NOTES: &str = "CREATE TABLE note (id int PRIMARY KEY, text text);
    CREATE TABLE line (id int PRIMARY KEY, note int REFERENCES note ON DELETE CASCADE,
        n numeric(9, 2));
    INSERT INTO note SELECT n, 'note ' || n FROM generate_series(1, 100) n;
    INSERT INTO line SELECT n, n, n FROM generate_series(1, 100) n;";

fn notes(names: &[&str]) -> (World, Server) {
    let world = World::on_postgres(PROGRAM, NOTES);
    for name in names {
        world.add_user(name);
    }
    let server = world.serve();
    for name in names {
        world.sync(name, &server);
    }
    (world, server)
}

/// Synchronizes and returns the number of downloaded rows. The remote must have all committed rows.
fn downloaded(world: &World, server: &Server, name: &str) -> u64 {
    let report = world.sync(name, server);
    world.assert_converged(&[name]);
    report["downloaded"]["upserts"].as_u64().unwrap()
}

// S2, Trap 1: a transaction that is open during the whole test neither hides the rows of others
// nor makes them come again, and its own arrive once it has committed.
#[test]
fn a_transaction_open_all_the_time_hides_nothing() {
    let (world, server) = notes(&["ann"]);
    let database = world.database();
    let mut oldest = database.session();
    oldest.sql("BEGIN; INSERT INTO note VALUES (1000, 'oldest')");

    assert_eq!(downloaded(&world, &server, "ann"), 0);
    database.sql("INSERT INTO note VALUES (1001, 'younger')");
    assert_eq!(downloaded(&world, &server, "ann"), 1);
    for _ in 0..3 {
        assert_eq!(downloaded(&world, &server, "ann"), 0, "it came once");
    }
    sql(&world.remote("ann"), "INSERT INTO note VALUES (2000, 'remote')");
    assert_eq!(downloaded(&world, &server, "ann"), 0, "no echo");

    // Rows of subtransactions belong to the transaction, except those that were rolled back.
    let mut nested = database.session();
    nested.sql("BEGIN; INSERT INTO note VALUES (1002, 'outer')");
    nested.sql("SAVEPOINT a; INSERT INTO note VALUES (1003, 'rolled back'); ROLLBACK TO a");
    nested.sql("SAVEPOINT b; UPDATE note SET text = 'inner' WHERE id = 1; RELEASE b");
    nested.sql("SAVEPOINT c; SAVEPOINT d; DELETE FROM line WHERE id = 2; RELEASE c");
    assert_eq!(downloaded(&world, &server, "ann"), 0);
    nested.sql("COMMIT");
    assert_eq!(downloaded(&world, &server, "ann"), 2);
    assert_eq!(count(&world.remote("ann"), "SELECT count(*) FROM line WHERE id = 2"), 0);

    // A prepared transaction has no session any more, and no end yet.
    database.sql("BEGIN; INSERT INTO note VALUES (1004, 'prepared'); PREPARE TRANSACTION 'p'");
    assert_eq!(downloaded(&world, &server, "ann"), 0);
    database.sql("INSERT INTO note VALUES (1005, 'meanwhile')");
    assert_eq!(downloaded(&world, &server, "ann"), 1);
    database.sql("COMMIT PREPARED 'p'");
    assert_eq!(downloaded(&world, &server, "ann"), 1);

    oldest.sql("UPDATE note SET text = 'at last' WHERE id = 1000; COMMIT");
    assert_eq!(downloaded(&world, &server, "ann"), 1);
    assert_eq!(downloaded(&world, &server, "ann"), 0);
}

/// A session of the storm below and the rows that only it writes.
struct Writer {
    session: PsqlSession,
    open: bool,
    first_key: u64,
    written: u64,
}

impl Writer {
    /// One step of a transaction: begin, write, take back, or end it.
    fn step(&mut self, chance: &mut Chance) {
        if !self.open {
            self.session.sql("BEGIN");
            self.open = true;
        }
        let key = self.first_key + self.written;
        let own = self.first_key + chance.below(self.written + 1);
        match chance.below(8) {
            0 | 1 => {
                self.session.sql(&format!("INSERT INTO note VALUES ({key}, 'new')"));
                self.written += 1;
            }
            2 => {
                drop(self.session.sql(&format!(
                    "SAVEPOINT s; UPDATE note SET text = text || '.' WHERE id = {own}"
                )))
            }
            3 => drop(
                self.session
                    .sql(&format!("SAVEPOINT s; DELETE FROM note WHERE id = {own}; ROLLBACK TO s")),
            ),
            4 => drop(self.session.sql(&format!("DELETE FROM note WHERE id = {own}"))),
            5 => self.end("ROLLBACK"),
            _ => self.end("COMMIT"),
        }
    }

    fn end(&mut self, how: &str) {
        self.session.sql(how);
        self.open = false;
    }
}

// S2: transactions that begin and end in any order; after every step the remote has what is
// committed, and only that.
#[test]
fn overlapping_transactions_arrive_as_they_commit() {
    const WRITERS: u64 = 4;
    const STEPS: usize = 60;
    let (world, server) = notes(&["ann"]);
    let mut chance = Chance::usual(1);
    let mut writers: Vec<Writer> = (1..=WRITERS)
        .map(|number| Writer {
            session: world.database().session(),
            open: false,
            first_key: number * 10_000,
            written: 0,
        })
        .collect();
    for step in 0..STEPS {
        let writer = chance.below(WRITERS) as usize;
        writers[writer].step(&mut chance);
        if step % 7 == 0 {
            let id = 100_000 + step;
            let text =
                format!("INSERT INTO note VALUES ({id}, 'remote'); UPDATE line SET n = n + 1");
            sql(&world.remote("ann"), &text);
        }
        world.sync("ann", &server);
        world.assert_converged(&["ann"]);
    }
    for writer in writers.iter_mut().filter(|writer| writer.open) {
        writer.end("COMMIT");
    }
    world.sync("ann", &server);
    world.assert_converged(&["ann"]);
}

// S2, Trap 12: every way that PostgreSQL has to change a row is noticed.
#[test]
fn every_way_to_write_at_the_center_is_noticed() {
    let (world, server) = notes(&["ann", "ben"]);
    let database = world.database();
    let ways = [
        ("a plain insert", "INSERT INTO note VALUES (200, 'a')"),
        ("an insert without columns of ours", "INSERT INTO note (text, id) VALUES ('b', 201)"),
        ("COPY", "COPY note (id, text) FROM STDIN;\n202\tcopied\n203\t\\N\n\\.\n"),
        (
            "COPY in a transaction",
            "BEGIN; COPY line (id, note, n) FROM STDIN;\n300\t1\t7\n\\.\nCOMMIT",
        ),
        (
            "an upsert",
            "INSERT INTO note VALUES (1, 'upserted') ON CONFLICT (id)
            DO UPDATE SET text = EXCLUDED.text",
        ),
        (
            "MERGE",
            "MERGE INTO note USING (VALUES (2), (204)) v(id) ON note.id = v.id
            WHEN MATCHED THEN UPDATE SET text = 'merged'
            WHEN NOT MATCHED THEN INSERT VALUES (v.id, 'merged')",
        ),
        ("an update of keys", "UPDATE note SET id = id + 1000 WHERE id = 201"),
        ("a cascade", "DELETE FROM note WHERE id IN (3, 4)"),
        (
            "keys that swap",
            "BEGIN; UPDATE line SET id = -5 WHERE id = 5;
            UPDATE line SET id = 5 WHERE id = 6; UPDATE line SET id = 6 WHERE id = -5; COMMIT",
        ),
        (
            "delete and insert again",
            "BEGIN; DELETE FROM line WHERE id = 7;
            INSERT INTO line VALUES (7, 8, 0.5); COMMIT",
        ),
        (
            "a row that changes twice",
            "BEGIN; UPDATE note SET text = 'x' WHERE id = 9;
            UPDATE note SET text = 'y' WHERE id = 9; COMMIT",
        ),
        ("TRUNCATE", "TRUNCATE line"),
        ("TRUNCATE and insert", "BEGIN; TRUNCATE line; INSERT INTO line VALUES (1, 1, 1); COMMIT"),
        ("TRUNCATE of both", "TRUNCATE note CASCADE"),
        (
            "rows after TRUNCATE",
            "INSERT INTO note VALUES (1, 'again'); INSERT INTO line VALUES (1, 1)",
        ),
    ];
    for (name, text) in ways {
        database.sql(text);
        for remote in ["ann", "ben"] {
            world.sync(remote, &server);
            let lines = world.differences(remote);
            assert!(lines.is_empty(), "{name}: {remote} differs:\n{}", lines.join("\n"));
        }
    }
    // What a restore and a replication do: the application's triggers do not fire, ours do.
    let text = "SET session_replication_role = replica; INSERT INTO note VALUES (500, 'replica');
        UPDATE note SET text = 'replica' WHERE id = 1; DELETE FROM line";
    database.as_role(SUPERUSER).sql(text);
    for remote in ["ann", "ben"] {
        world.sync(remote, &server);
        let report = world.sync(remote, &server);
        assert_eq!(report["downloaded"], json!({ "upserts": 0, "deletes": 0 }));
    }
    world.assert_converged(&["ann", "ben"]);
}
