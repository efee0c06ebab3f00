//! What only PostgreSQL does to an upload.

use crate::support::center::{self, Backend, Center, Remote, Row, Upload, int, text};
use model::{Code, Value};

fn pair(id: i64, other: impl Into<Option<i64>>) -> Row {
    vec![int(id), other.into().map_or(Value::Null, int)]
}

fn center(schema: &str, tables: &str) -> (Center, Remote) {
    let mut center = Center::on(Backend::Postgres, schema, tables);
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    (center, remote)
}

// Trap 14
#[test]
fn an_upload_that_meets_another_one_is_applied_again() {
    // A sequence is not rolled back: the first two attempts are chosen as victims.
    let (mut center, mut remote) = center(
        "CREATE TABLE t (id integer PRIMARY KEY, n integer);
         CREATE SEQUENCE attempts;
         CREATE FUNCTION collide() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF nextval('attempts') < 3 THEN
                 RAISE EXCEPTION 'deadlock detected' USING ERRCODE = '40P01';
             END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER collide BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION collide();",
        "[table.t]\n",
    );
    let inserts = [Upload::Insert("t", pair(1, 1)), Upload::Insert("t", pair(2, 2))];
    let (applied, download) = center.synchronize(&mut remote, &inserts);
    assert_eq!((applied.inserts, applied.rejected, download.filtered), (2, 0, 2));
    assert_eq!(center.list("SELECT id FROM t ORDER BY id"), "1,2");
}

// S7, Trap 19
#[test]
fn a_few_bad_rows_are_found_among_many_good_ones() {
    let (mut center, mut remote) = center(
        "CREATE TABLE t (id integer PRIMARY KEY, n integer CHECK (n < 1000) UNIQUE);
         INSERT INTO t VALUES (0, 0);",
        "[table.t]\n",
    );
    let value = |id: i64| match id {
        17 | 400 => 5000,
        333 => 0,
        id => id,
    };
    let inserts: Vec<Upload> =
        (1..=500).map(|id| Upload::Insert("t", pair(id, value(id)))).collect();
    let (applied, download) = center.synchronize(&mut remote, &inserts);
    assert_eq!((applied.inserts, applied.rejected, applied.conflicts), (500, 3, 0));
    assert_eq!(download.told(), ["t 17 E7002", "t 333 E7001", "t 400 E7002"]);
    assert_eq!((download.filtered, download.deletes.len()), (497, 3));
    assert_eq!(center.value("SELECT count(*) FROM t"), int(498));
}

// S5, Trap 19
#[test]
fn conflicts_among_many_rows_are_found_and_resolved_together() {
    for (rule, ours) in [("consolidated_wins", 0), ("remote_wins", 30)] {
        let (mut center, mut remote) = center(
            "CREATE TABLE t (id integer PRIMARY KEY, n integer);
             INSERT INTO t SELECT n, 0 FROM generate_series(1, 300) AS n;",
            &format!("[table.t]\nconflict = \"{rule}\"\n"),
        );
        center.foreign(
            "UPDATE t SET n = 7 WHERE id % 15 = 0; DELETE FROM t WHERE id % 30 = 1;
             UPDATE t SET n = -id WHERE id % 30 = 2",
        );
        let updates: Vec<Upload> =
            (1..=300).map(|id| Upload::Update("t", pair(id, 0), pair(id, -id))).collect();
        let (applied, download) = center.synchronize(&mut remote, &updates);
        assert_eq!((applied.conflicts, applied.rejected), (30, 0), "{rule}");
        assert_eq!(center.value("SELECT count(*) FROM t WHERE n = -id"), int(270 + ours), "{rule}");
        let (lost, deleted) = if ours == 0 { (20, 10) } else { (0, 0) };
        assert_eq!((download.upserts.len(), download.deletes.len()), (lost, deleted), "{rule}");
        assert_eq!(center.value("SELECT count(*) FROM syncline.syncline_conflict"), int(30));
        let first = center.value(
            "SELECT old_row || new_row || coalesce(consolidated_row, '')
             FROM syncline.syncline_conflict ORDER BY conflict_id LIMIT 1",
        );
        assert_eq!(
            first,
            text(r#"{"id":1,"n":0}{"id":1,"n":-1}"#),
            "{rule}: nothing was left of it"
        );
    }
}

// Trap 11
#[test]
fn rows_of_two_tables_that_refer_to_each_other_come_and_go() {
    for deferrable in ["", "DEFERRABLE"] {
        let (mut center, mut remote) = center(
            &format!(
                "CREATE TABLE person (id integer PRIMARY KEY, team integer);
                 CREATE TABLE team (id integer PRIMARY KEY, lead integer
                     REFERENCES person {deferrable});
                 ALTER TABLE person ADD FOREIGN KEY (team) REFERENCES team {deferrable};"
            ),
            "[table.person]\n[table.team]\n",
        );
        let rows = [
            Upload::Insert("person", pair(1, 10)),
            Upload::Insert("team", pair(10, 1)),
            // There was never a team 99.
            Upload::Insert("person", pair(2, 99)),
        ];
        let (applied, download) = center.synchronize(&mut remote, &rows);
        assert_eq!(download.told(), ["person 2 E7003"], "{deferrable}");
        assert_eq!(applied.conflicts, 0, "{deferrable}");
        assert_eq!(center.list("SELECT team FROM person"), "10", "{deferrable}");
        assert_eq!(center.list("SELECT lead FROM team"), "1", "{deferrable}");
        assert!(download.upserts.is_empty(), "{deferrable}: {:?}", download.upserts);
        let rows = [Upload::Delete("person", pair(1, 10)), Upload::Delete("team", pair(10, 1))];
        let (applied, _) = center.synchronize(&mut remote, &rows);
        assert_eq!((applied.rejected, applied.conflicts), (0, 0), "{deferrable}");
        assert_eq!(center.value("SELECT count(*) FROM person"), int(0), "{deferrable}");
    }
}

/// The remote lacks the foreign key: it adds a child, changes another, and deletes their parent. It
/// received the answer that both were taken, and both were gone.
// S5, S11
#[test]
fn a_row_that_a_delete_of_the_same_upload_takes_along_is_told() {
    for between in [false, true] {
        let parent = if between { "middle" } else { "parent" };
        let (mut center, mut remote) = center(
            &format!(
                "CREATE TABLE parent (id integer PRIMARY KEY, n integer);
                 CREATE TABLE middle (id integer PRIMARY KEY REFERENCES parent ON DELETE CASCADE);
                 CREATE TABLE child (id integer PRIMARY KEY, parent integer
                     REFERENCES {parent} ON DELETE CASCADE);
                 INSERT INTO parent VALUES (1, 1), (2, 2);
                 INSERT INTO middle VALUES (1), (2);
                 INSERT INTO child VALUES (10, 1), (20, 2);"
            ),
            "[table.parent]\n[table.child]\n",
        );
        let changes = [
            Upload::Insert("child", pair(11, 1)),
            Upload::Insert("child", pair(21, 2)),
            Upload::Update("child", pair(20, 2), pair(20, 1)),
            Upload::Delete("parent", pair(1, 1)),
        ];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        assert_eq!((applied.rejected, applied.conflicts), (2, 0), "{between}");
        assert_eq!(download.told(), ["child 11 E7197", "child 20 E7197"], "{between}");
        assert_eq!(center.list("SELECT id FROM child ORDER BY id"), "21", "{between}");
        let mut gone: Vec<String> =
            download.deletes.iter().map(|(_, key)| key[0].as_ref().display()).collect();
        gone.sort();
        gone.dedup();
        assert_eq!(gone, ["10", "11", "20"], "{between}: {download:?}");
    }
}

// Trap 10
#[test]
fn unique_values_swap_in_columns_of_every_kind() {
    for (kind, constraint) in [
        ("integer NOT NULL", "UNIQUE"),
        ("integer NOT NULL", "UNIQUE DEFERRABLE"),
        ("text NOT NULL", "UNIQUE"),
        ("numeric(5) NOT NULL", "UNIQUE"),
        ("integer", "UNIQUE"),
    ] {
        let (mut center, mut remote) = center(
            &format!(
                "CREATE TABLE t (id integer PRIMARY KEY, v {kind} {constraint});
                 INSERT INTO t VALUES (1, 11), (2, 22), (3, 33), (4, 44);"
            ),
            "[table.t]\n",
        );
        let value = |n: i64| if kind.starts_with("text") { text(&n.to_string()) } else { int(n) };
        let change = |id: i64, from: i64, to: i64| {
            Upload::Update("t", vec![int(id), value(from)], vec![int(id), value(to)])
        };
        // A ring of three, and a row that takes a value that no row gives up.
        let ring = [change(1, 11, 22), change(2, 22, 33), change(3, 33, 11)];
        let (applied, _) = center.synchronize(&mut remote, &ring);
        assert_eq!((applied.rejected, applied.conflicts), (0, 0), "{kind} {constraint}");
        assert_eq!(center.list("SELECT v FROM t ORDER BY id"), "22,33,11,44");
        let (applied, download) =
            center.synchronize(&mut remote, &[change(1, 22, 33), change(2, 33, 44)]);
        assert_eq!(applied.rejected, 2, "{kind} {constraint}: {:?}", download.rejects);
        assert!(download.rejects.iter().all(|(_, _, code)| *code == Code::RowNotUnique.number()));
        assert_eq!(download.upserts.len(), 2, "{kind}: the remote has the old rows again");
    }
}

#[test]
fn a_script_by_the_row_runs_for_each() {
    let mut center = Center::on(
        Backend::Postgres,
        "CREATE TABLE t (id integer PRIMARY KEY, n integer)",
        "[table.t]\n",
    );
    center.foreign(
        "UPDATE syncline.syncline_script
         SET script = 'INSERT INTO t (id, n) VALUES ({r.id}, {ml r.n} * 2)'
         WHERE event = 'upload_insert'",
    );
    center.reconnect();
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    let inserts: Vec<Upload> = (1..=3).map(|id| Upload::Insert("t", pair(id, id))).collect();
    let (applied, download) = center.synchronize(&mut remote, &inserts);
    assert_eq!((applied.inserts, applied.rejected), (3, 0));
    assert_eq!(center.list("SELECT n FROM t ORDER BY id"), "2,4,6");
    assert_eq!(download.upserts.len(), 3, "the center made them different");
}

/// One statement would change the row once.
// S1
#[test]
fn two_changes_of_one_row_in_one_batch_are_not_taken_for_one() {
    let (mut center, mut remote) = center(
        "CREATE TABLE t (id integer PRIMARY KEY, n integer); INSERT INTO t VALUES (1, 0)",
        "[table.t]\n",
    );
    let twice =
        [Upload::Update("t", pair(1, 0), pair(1, 1)), Upload::Update("t", pair(1, 1), pair(1, 2))];
    let (applied, _) = center.synchronize(&mut remote, &twice);
    assert_eq!((applied.updates, applied.conflicts, applied.rejected), (2, 0, 0));
    assert_eq!(center.value("SELECT n FROM t"), int(2));
}

/// Many rows appear behind statements whose plans were kept when there was hardly one.
#[test]
fn an_upload_finds_rows_by_index_although_tables_were_empty_when_it_was_first_planned() {
    const MANY: i64 = 50_000;
    let (mut center, mut remote) = center(
        "CREATE TABLE parent (id integer PRIMARY KEY) WITH (autovacuum_enabled = off);
         CREATE TABLE child (id integer PRIMARY KEY, parent integer REFERENCES parent)
             WITH (autovacuum_enabled = off);
         INSERT INTO parent VALUES (1);",
        "[table.parent]\n[table.child]\n",
    );
    for table in ["syncline_remote", "syncline_owed"] {
        center.foreign(&format!("ALTER TABLE syncline.{table} SET (autovacuum_enabled = off)"));
    }
    // The rows of 8 are enough for plans of foreign keys, 8 uploads for those of our own.
    for upload in 0..8 {
        let ids = upload * 8 + 1..upload * 8 + 9;
        let rows: Vec<Upload> = ids.map(|id| Upload::Insert("child", pair(id, 1))).collect();
        center.synchronize(&mut remote, &rows);
    }
    center.foreign(&format!(
        "INSERT INTO parent SELECT generate_series(2, {MANY});
         INSERT INTO child SELECT g, g FROM generate_series(1000, {MANY}) AS g;
         INSERT INTO syncline.syncline_remote
         SELECT 'other' || g, 'ann', 'v1', 0, 0, 0, 0, 0 FROM generate_series(1, {MANY}) AS g;
         INSERT INTO syncline.syncline_owed
         SELECT 'other' || g, 'child', '', 1 FROM generate_series(1, {MANY}) AS g;"
    ));
    let rows = [
        Upload::Insert("child", pair(100, 2)),
        Upload::Update("child", pair(1, 1), pair(1, MANY)),
        Upload::Delete("child", pair(2, 1)),
    ];
    let applied = center.upload(&mut remote, &rows).unwrap();
    assert_eq!((applied.inserts, applied.updates, applied.deletes), (1, 1, 1));
    assert_eq!((applied.conflicts, applied.rejected), (0, 0));

    // What a connection has read is known for certain when it is gone.
    let url = center.url.to_string();
    drop(center);
    let ours = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND application_name = 'syncline'";
    while center::psql(&url, ours).trim() != "0" {
        std::thread::yield_now();
    }
    let read = center::psql(
        &url,
        "SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_all_tables
         WHERE relname IN ('parent', 'child', 'syncline_remote', 'syncline_owed')",
    );
    let read: i64 = read.trim().parse().unwrap();
    assert!(read < MANY, "{read} rows were read in the order of the tables");
}
