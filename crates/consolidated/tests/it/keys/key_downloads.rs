//! Rows get other keys at the center. Remotes receive the old keys as deletes, and the rows.

use crate::support::center::{Backend, Center, Download, Remote, Row, int, text};
use crate::support::on_postgres;
use harness::postgres::TestDatabase;
use harness::until;
use std::collections::BTreeMap;
use syncline_consolidated::DownloadedTable;

const FAMILY: &str = "
    CREATE TABLE parent (id INTEGER PRIMARY KEY, v TEXT);
    CREATE TABLE child (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent (id)
        ON UPDATE CASCADE ON DELETE CASCADE, v TEXT);
    CREATE TABLE grandchild (child INTEGER REFERENCES child (id)
        ON UPDATE CASCADE ON DELETE CASCADE, n INTEGER, v TEXT, PRIMARY KEY (child, n));
    INSERT INTO parent VALUES (1, 'a'), (2, 'b'), (3, 'c');
    INSERT INTO child VALUES (10, 1, 'x'), (20, 2, 'z');
    INSERT INTO grandchild VALUES (10, 1, 'p'), (20, 1, 'q');";

const ALL: &str = "[table.parent]\n[table.child]\n[table.grandchild]\n";

/// The tables of the family with their columns, and how many of these are the key.
const TABLES: [(&str, &str, usize); 3] =
    [("parent", "id, v", 1), ("child", "id, parent, v", 1), ("grandchild", "child, n, v", 2)];

/// What a remote holds: by table and key, the rows.
#[derive(Default, Debug, PartialEq)]
struct Held(BTreeMap<(String, String), String>);

fn shown(values: &[model::Value]) -> String {
    values.iter().map(|value| value.as_ref().display()).collect::<Vec<_>>().join(" ")
}

impl Held {
    fn put(&mut self, table: &str, row: &Row) {
        let (.., keys) = *TABLES.iter().find(|(name, ..)| *name == table).unwrap();
        self.0.insert((table.to_owned(), shown(&row[..keys])), shown(row));
    }

    fn take(&mut self, download: &Download) {
        assert!(!download.modes.contains(&DownloadedTable::Refresh) || self.0.is_empty());
        for (table, key) in &download.deletes {
            // Keys that a row had for a while are named too.
            self.0.remove(&(table.clone(), shown(key)));
        }
        download.upserts.iter().for_each(|(table, row)| self.put(table, row));
    }

    /// What the center has.
    fn of(center: &Center) -> Held {
        let mut held = Held::default();
        for (table, columns, _) in TABLES {
            for row in center.rows(&format!("SELECT {columns} FROM {table}")) {
                held.put(table, &row);
            }
        }
        held
    }
}

// S3, S5, Trap 10, Trap 21: one key, chains, swaps and rings, with children whose keys go along,
// and what else happens to the rows.
#[test]
fn a_remote_gets_the_old_keys_as_deletes_and_the_rows_as_rows() {
    Backend::each(|backend| {
        let mut center = Center::on(backend, FAMILY, ALL);
        let (mut remote, mut held) = (Remote::another(), Held::default());
        held.take(&center.synchronize(&mut remote, &[]).1);
        for steps in [
            "UPDATE parent SET id = 7 WHERE id = 1",
            "UPDATE child SET id = 11 WHERE id = 10",
            "UPDATE parent SET id = 8, v = 'other' WHERE id = 7;
             UPDATE parent SET id = 9 WHERE id = 8",
            "UPDATE parent SET id = -1 WHERE id = 2; UPDATE parent SET id = 2 WHERE id = 3;
             UPDATE parent SET id = 3 WHERE id = -1",
            "UPDATE child SET id = -1 WHERE id = 11; UPDATE child SET id = 11 WHERE id = 20;
             UPDATE child SET id = 20 WHERE id = -1",
            "UPDATE parent SET id = 4 WHERE id = 3; UPDATE parent SET id = 3 WHERE id = 2;
             UPDATE parent SET id = 2 WHERE id = 9",
            "UPDATE parent SET id = 5 WHERE id = 4; INSERT INTO parent VALUES (4, 'new')",
            "UPDATE parent SET id = 6 WHERE id = 5; DELETE FROM parent WHERE id = 6",
            "UPDATE child SET id = 12 WHERE id = 20; UPDATE child SET id = 20 WHERE id = 12",
        ] {
            center.try_foreign(&steps.split(';').map(str::to_owned).collect::<Vec<_>>());
            let download = center.synchronize(&mut remote, &[]).1;
            held.take(&download);
            assert_eq!(held, Held::of(&center), "{backend:?}: {steps}: {download:?}");
            let nothing = center.synchronize(&mut remote, &[]).1;
            assert!(nothing.upserts.is_empty() && nothing.deletes.is_empty(), "{steps}");
        }
    });
}

/// The center spells a key otherwise. Where both are one key, it is not deleted.
// Trap 22
#[test]
fn another_spelling_of_a_key_arrives() {
    Backend::each(|backend| {
        let kind = backend.pick("TEXT COLLATE NOCASE", "text");
        let schema = format!(
            "CREATE TABLE word (w {kind} PRIMARY KEY, v TEXT); INSERT INTO word VALUES ('Ann', 'a')"
        );
        let mut center = Center::on(backend, &schema, "[table.word]\n");
        let mut remote = Remote::another();
        center.synchronize(&mut remote, &[]);
        center.foreign("UPDATE word SET w = 'ann'");
        let download = center.synchronize(&mut remote, &[]).1;
        assert_eq!(download.upserts, [("word".to_owned(), vec![text("ann"), text("a")])]);
        let mut deletes = vec![("word".to_owned(), vec![text("Ann")])];
        deletes.retain(|_| backend == Backend::Postgres);
        assert_eq!(download.deletes, deletes, "{backend:?}");
    });
}

fn synchronized(schema: &str, tables: &str) -> (Center, TestDatabase, Remote) {
    let (mut center, database) = on_postgres::center(schema, tables);
    let mut remote = Remote::another();
    center.synchronize(&mut remote, &[]);
    (center, database, remote)
}

/// Which rows have changed since is decided by the transactions that a remote has seen, not by the
/// numbers that they have.
// S2, S3, Trap 1
#[test]
fn keys_that_change_in_transactions_that_overlap_arrive() {
    let (mut center, database, mut remote) = synchronized(FAMILY, ALL);
    let mut held = Held::of(&center);
    let mut early = database.session();
    // The first transaction, committed last.
    early.sql("BEGIN; UPDATE parent SET id = 30 WHERE id = 3");
    let mut late = database.session();
    late.sql("BEGIN; UPDATE parent SET id = 5 WHERE id = 1");
    early.begin("UPDATE parent SET id = 6 WHERE v = 'a'");
    let waits = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    until("the first to wait for the second", || database.count(waits) == 1);
    late.sql("COMMIT");
    early.wait();
    held.take(&center.synchronize(&mut remote, &[]).1);
    assert_eq!(held, Held::of(&center));
    early.sql("COMMIT");
    held.take(&center.synchronize(&mut remote, &[]).1);
    assert_eq!(held, Held::of(&center));
    let nothing = center.synchronize(&mut remote, &[]).1;
    assert!(nothing.upserts.is_empty() && nothing.deletes.is_empty(), "{nothing:?}");
}

/// A key of arrays that changed stopped the remote for good (E3006).
// Trap 15, Trap 22
#[test]
fn keys_of_any_type_change() {
    for (kind, was, is) in [
        ("int[]", "'{1,2}'", "'{3}'"),
        ("text[]", "'{a,\"b c\"}'", "'{}'"),
        ("timestamptz", "'2026-01-02 03:04:05+00'", "'2026-01-02 03:04:06+00'"),
        ("bytea", "'\\x01'", "'\\x02'"),
        ("numeric(5, 2)", "1.5", "2.5"),
        (
            "uuid",
            "'00000000-0000-0000-0000-000000000001'",
            "'00000000-0000-0000-0000-000000000002'",
        ),
    ] {
        let schema = format!(
            "CREATE TABLE t (k {kind} PRIMARY KEY, v int); INSERT INTO t VALUES ({was}, 7)"
        );
        let (mut center, database) = on_postgres::center(&schema, "[table.t]\n");
        let mut remote = Remote::another();
        let first = center.synchronize(&mut remote, &[]).1;
        let known = first.upserts[0].1[0].clone();
        database.sql(&format!("UPDATE t SET k = {is}"));
        let download = center.synchronize(&mut remote, &[]).1;
        assert_eq!(download.deletes, [("t".to_owned(), vec![known])], "{kind}");
        assert_eq!(download.upserts.len(), 1, "{kind}");
        assert_eq!(download.upserts[0].1[1], int(7), "{kind}");
    }
}
