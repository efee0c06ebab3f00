//! Uploads in which some rows break foreign keys, and how they are found.
//!
//! A row that cannot stay is rejected, with its reason, and so is what refers to it. All other rows
//! are applied, in whatever order they were sent.

use crate::support::center::{
    Backend, Center, Download, Remote, Upload, int, text, upload_and_count,
};
use model::{Code, Value};

const NODES: &str = "CREATE TABLE node (id INTEGER PRIMARY KEY, up INTEGER REFERENCES node);";

/// A row that refers to another one; 0 is no reference.
fn refer(table: &'static str, id: i64, to: i64) -> Upload {
    Upload::Insert(table, vec![int(id), if to == 0 { Value::Null } else { int(to) }])
}

/// The rejected rows, each by its table and key, all of which broke a foreign key.
fn rejects(download: &Download) -> Vec<String> {
    let mut told = Vec::new();
    for (table, key, code) in &download.rejects {
        assert_eq!(*code, Code::RowReferences.number(), "{table} {key:?}");
        told.push(format!("{table} {}", key[0].as_ref().display()));
    }
    told.sort();
    told
}

fn begin(backend: Backend, schema: &str, tables: &str) -> (Center, Remote) {
    let mut center = Center::on(backend, schema, tables);
    let mut remote = Remote::another();
    center.synchronize(&mut remote, &[]);
    (center, remote)
}

/// The messages that the operator sees.
fn messages(center: &Center) -> Vec<String> {
    let rows = center.rows("SELECT message FROM syncline_reject ORDER BY message");
    rows.iter().map(|row| row[0].as_ref().display().to_string().replace('\'', "")).collect()
}

// S5, S7, Trap 11: a chain comes with its end first, with its beginning first, or mixed. A row
// beside it refers to nothing.
#[test]
fn a_chain_in_any_order_is_applied_beside_a_row_without_a_parent() {
    let last = 300;
    let orders: [fn(i64) -> i64; 3] = [|n| n, |n| 301 - n, |n| n * 8 % 301];
    for order in orders {
        let (mut center, mut remote) = begin(Backend::Sqlite, NODES, "[table.node]\n");
        let chain = (1..=last).map(order).map(|id| refer("node", id, (id + 1) % (last + 1)));
        let rows: Vec<Upload> = chain.chain([refer("node", 1000, 999)]).collect();
        let (applied, download) = center.synchronize(&mut remote, &rows);
        assert_eq!((applied.rejected, rejects(&download)), (1, vec!["node 1000".to_owned()]));
        assert_eq!(center.value("SELECT count(*) FROM node"), int(last));
        assert_eq!(messages(&center), ["node refers to a missing row of node"]);
    }
}

// S5, S7, Trap 11: rows of two tables refer to each other, alone and beside rows without a parent.
#[test]
fn a_circle_of_two_tables_is_applied_with_or_without_rejects_beside_it() {
    Backend::each(|backend| {
        let schema = backend.pick(
            "CREATE TABLE person (id INTEGER PRIMARY KEY, team INTEGER REFERENCES team);
             CREATE TABLE team (id INTEGER PRIMARY KEY, head INTEGER REFERENCES person);",
            "CREATE TABLE person (id INTEGER PRIMARY KEY, team INTEGER);
             CREATE TABLE team (id INTEGER PRIMARY KEY, head INTEGER REFERENCES person);
             ALTER TABLE person ADD FOREIGN KEY (team) REFERENCES team;",
        );
        let tables = "[table.person]\n[table.team]\n";
        let (mut center, mut remote) = begin(backend, schema, tables);
        let (applied, _) =
            center.synchronize(&mut remote, &[refer("person", 1, 10), refer("team", 10, 1)]);
        assert_eq!(applied.rejected, 0, "{backend:?}");
        let rows = [
            refer("person", 2, 20),
            refer("person", 3, 99),
            refer("team", 20, 2),
            refer("team", 30, 3),
            refer("person", 4, 20),
        ];
        let (applied, download) = center.synchronize(&mut remote, &rows);
        assert_eq!(applied.rejected, 2, "{backend:?}");
        assert_eq!(rejects(&download), ["person 3", "team 30"], "{backend:?}");
        assert_eq!(center.list("SELECT id AS v FROM person ORDER BY id"), "1,2,4", "{backend:?}");
        assert_eq!(center.list("SELECT id AS v FROM team ORDER BY id"), "10,20", "{backend:?}");
    });
}

// S4, S7, Trap 11: others have given a parent children. It stays, and comes back.
#[test]
fn a_delete_of_a_parent_with_children_of_others_is_rejected_and_the_rest_applied() {
    Backend::each(|backend| {
        let schema = "CREATE TABLE a (id INTEGER PRIMARY KEY, v TEXT);
            CREATE TABLE b (id INTEGER PRIMARY KEY, a INTEGER REFERENCES a);
            INSERT INTO a VALUES (1, 'x'), (2, 'y'), (3, 'z'); INSERT INTO b VALUES (30, 3);";
        let (mut center, mut remote) = begin(backend, schema, "[table.a]\n[table.b]\n");
        center.foreign("INSERT INTO b VALUES (10, 1)");
        let parent = |id: i64, v: &str| vec![int(id), text(v)];
        let rows = [
            Upload::Insert("a", parent(4, "new")),
            refer("b", 40, 4),
            Upload::Delete("a", parent(1, "x")),
            Upload::Delete("a", parent(2, "y")),
            Upload::Delete("a", parent(3, "z")),
            Upload::Delete("b", vec![int(30), int(3)]),
        ];
        let (applied, download) = center.synchronize(&mut remote, &rows);
        assert_eq!((applied.rejected, applied.conflicts), (1, 0), "{backend:?}");
        assert_eq!(rejects(&download), ["a 1"], "{backend:?}");
        assert!(download.upserts.contains(&("a".to_owned(), parent(1, "x"))), "{backend:?}");
        assert_eq!(center.list("SELECT id AS v FROM a ORDER BY id"), "1,4", "{backend:?}");
        assert_eq!(center.list("SELECT id AS v FROM b ORDER BY id"), "10,40", "{backend:?}");
    });
}

// S4, S7, Trap 11: what refers to a rejected row is rejected too, on all levels, and nothing of it
// is left at the center.
#[test]
fn what_hangs_on_a_child_without_a_parent_is_rejected_with_its_content() {
    let schema = "CREATE TABLE a (id INTEGER PRIMARY KEY);
        CREATE TABLE b (id INTEGER PRIMARY KEY, a INTEGER REFERENCES a);
        CREATE TABLE c (id INTEGER PRIMARY KEY, b INTEGER REFERENCES b);
        CREATE TABLE d (id INTEGER PRIMARY KEY, c INTEGER REFERENCES c);
        INSERT INTO a VALUES (1), (2);";
    let tables = "[table.a]\n[table.b]\n[table.c]\n[table.d]\n";
    let (mut center, mut remote) = begin(Backend::Sqlite, schema, tables);
    center.foreign("DELETE FROM a WHERE id = 2");
    center.synchronize(&mut remote, &[]);
    let rows = [
        refer("b", 10, 1),
        refer("b", 20, 2),
        refer("c", 100, 10),
        refer("c", 200, 20),
        refer("d", 1000, 100),
        refer("d", 2000, 200),
        refer("d", 2001, 200),
    ];
    let (applied, download) = center.synchronize(&mut remote, &rows);
    assert_eq!(applied.rejected, 4);
    assert_eq!(rejects(&download), ["b 20", "c 200", "d 2000", "d 2001"]);
    assert_eq!(download.deletes.len(), 4, "the remote must not keep what is not at the center");
    let left = "SELECT id AS v FROM b UNION SELECT id FROM c UNION SELECT id FROM d ORDER BY 1";
    assert_eq!(center.list(left), "10,100,1000");
    let noted = center.rows("SELECT row_content FROM syncline_reject WHERE table_name = 'd'");
    assert!(noted.iter().all(|row| row[0].as_ref().display().to_string().contains("200")));
}

// S4, S7: the owner's trigger inserts a row without a parent. Nothing of it remains, and the reason
// names the table of the trigger.
#[test]
fn a_row_whose_trigger_inserts_one_without_a_parent_is_rejected_for_its_trigger() {
    let schema = "CREATE TABLE account (id INTEGER PRIMARY KEY); INSERT INTO account VALUES (1);
        CREATE TABLE booking (id INTEGER PRIMARY KEY, account INTEGER REFERENCES account);
        CREATE TABLE t (id INTEGER PRIMARY KEY, account INTEGER);
        CREATE TRIGGER book AFTER INSERT ON t
            BEGIN INSERT INTO booking VALUES (NEW.id, NEW.account); END;";
    let (mut center, mut remote) = begin(Backend::Sqlite, schema, "[table.t]\n");
    let rows = [refer("t", 1, 1), refer("t", 2, 9), refer("t", 3, 1)];
    let (applied, download) = center.synchronize(&mut remote, &rows);
    assert_eq!((applied.rejected, rejects(&download)), (1, vec!["t 2".to_owned()]));
    assert_eq!(center.list("SELECT id AS v FROM booking ORDER BY id"), "1,3");
    let why = "a trigger of t leaves a row that refers to a missing row";
    assert_eq!(messages(&center), [why]);
}

// S5, S7, Trap 11: each of them is told. The upload does not fail, and its rows are read a few
// times only, which takes seconds.
#[test]
fn a_thousand_bad_rows_among_three_thousand_are_told_after_few_attempts() {
    let schema = "CREATE TABLE a (id INTEGER PRIMARY KEY, up INTEGER REFERENCES a);
        CREATE TABLE b (id INTEGER PRIMARY KEY, a INTEGER REFERENCES a);
        CREATE INDEX a_up ON a (up); CREATE INDEX b_a ON b (a);
        CREATE TABLE strict (id INTEGER REFERENCES a);
        CREATE TRIGGER watch AFTER INSERT ON b WHEN NEW.id % 9 = 2
            BEGIN INSERT INTO strict VALUES (NEW.id + 100000); END;
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
            INSERT INTO a SELECT i, NULL FROM n UNION ALL SELECT 500 + i, NULL FROM n;";
    let (mut center, mut remote) = begin(Backend::Sqlite, schema, "[table.a]\n[table.b]\n");
    center.foreign("INSERT INTO b SELECT 9 * id + 50004, id FROM a WHERE id <= 500");
    let mut rows = Vec::new();
    // Circles of two among them, and rows that refer to nothing.
    rows.extend(
        (1..=500).map(|n| refer("a", 1000 + n, 1000 + if n % 2 == 1 { n + 1 } else { n - 1 })),
    );
    rows.extend((1..=250).map(|n| refer("a", 2000 + n, 9000 + n)));
    // A ninth part of them has a trigger that breaks another foreign key.
    rows.extend(
        (1..=2250).map(|n| refer("b", 9 * n + i64::from(n % 9 == 0) * 2, 500 + n % 500 + 1)),
    );
    rows.extend((1..=500).map(|n| Upload::Delete("a", vec![int(n), Value::Null])));
    let session = center.session(&remote);
    center.writer.begin().unwrap();
    let uploaded = upload_and_count(center.writer.as_mut(), &session, &remote, &rows);
    center.writer.commit().unwrap();
    let (applied, reads) = uploaded.unwrap();
    let download = center.download(&mut remote, &applied);
    assert_eq!((applied.rejected, rejects(&download).len()), (1000, 1000));
    assert_eq!(center.value("SELECT count(*) FROM a"), int(1500));
    assert_eq!(center.value("SELECT count(*) FROM b"), int(2500));
    assert_eq!(center.value("SELECT count(*) FROM strict"), int(0));
    assert!(reads <= 12, "{reads}");
}

// S5, Trap 26: children before their parents had the foreign keys looked at, and a delete of a row
// that others had deleted too was rejected for the orphan that they had left.
#[test]
fn an_old_orphan_makes_no_row_look_guilty() {
    let schema = "CREATE TABLE a (id INTEGER PRIMARY KEY);
        CREATE TABLE b (id INTEGER PRIMARY KEY, a INTEGER REFERENCES a);
        INSERT INTO a VALUES (1); INSERT INTO b VALUES (10, 1);";
    let (mut center, mut remote) = begin(Backend::Sqlite, schema, "[table.a]\n[table.b]\n");
    center.foreign("DELETE FROM a WHERE id = 1");
    let rows =
        [refer("b", 20, 2), Upload::Insert("a", vec![int(2)]), Upload::Delete("a", vec![int(1)])];
    let (applied, _) = center.synchronize(&mut remote, &rows);
    assert_eq!((applied.rejected, applied.conflicts), (0, 0));
    assert_eq!(center.list("SELECT id AS v FROM b ORDER BY id"), "10,20");
}

// S5, S7, Trap 10: each row is to take the value of the next one, and the last one cannot move. An
// attempt without it found the next one, so that the upload failed after a hundred of them.
#[test]
fn a_long_row_of_values_that_cannot_move_fails_no_upload() {
    let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT UNIQUE);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 130)
            INSERT INTO t SELECT i, 'v' || i FROM n;";
    let (mut center, mut remote) = begin(Backend::Sqlite, schema, "[table.t]\n");
    center.foreign("INSERT INTO t VALUES (1000, 'v131')");
    let row = |id: i64, v: i64| vec![int(id), text(&format!("v{v}"))];
    let shift = (1..=130).map(|n| Upload::Update("t", row(n, n), row(n, n + 1)));
    let rows: Vec<Upload> = shift.chain([Upload::Insert("t", row(2000, 2000))]).collect();
    let (applied, download) = center.synchronize(&mut remote, &rows);
    assert_eq!((applied.rejected, download.rejects.len()), (130, 130));
    assert!(download.rejects.iter().all(|(_, _, code)| *code == Code::RowNotUnique.number()));
    assert_eq!(center.value("SELECT count(*) FROM t WHERE v = 'v' || id"), int(131));
}
