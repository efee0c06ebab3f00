//! Uploads: conflicts, rejects, what is owed, what does not come back; on every database.

use crate::support::center::{self, Backend, Center, Remote, Row, Upload, int, text, upload};
use model::{Code, Value};

fn row(id: i64, a: &str, b: &str) -> Row {
    vec![int(id), text(a), text(b)]
}

/// A table with one row that the remote has seen.
fn one_row(backend: Backend, rule: &str) -> (Center, Remote) {
    let mut center = Center::on(
        backend,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b TEXT);
         INSERT INTO t VALUES (1, 'a', 'b');",
        &format!("[table.t]\nconflict = {rule}\n"),
    );
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    (center, remote)
}

/// One row, what the center does meanwhile, what the remote did, and what both hold in the end
/// (`None`: no row), with the number of conflicts.
fn conflict(
    center: &mut Center,
    rule: &str,
    central: &str,
    remote_did: Upload,
    end: Option<(&str, &str)>,
    conflicts: u64,
) {
    center.foreign("DELETE FROM t");
    center.foreign("INSERT INTO t VALUES (1, 'a', 'b')");
    let mut remote = Remote::another();
    center.synchronize(&mut remote, &[]);
    center.foreign(central);
    let uploaded = match &remote_did {
        Upload::Insert(_, new) | Upload::Update(_, _, new) | Upload::Again(_, _, new) => {
            Some(new.clone())
        }
        Upload::Delete(..) => None,
    };
    // A new row that does not win is told.
    let lost = matches!(remote_did, Upload::Insert(..)) && rule != "\"remote_wins\"";
    let (applied, download) = center.synchronize(&mut remote, &[remote_did]);
    let what = format!("{:?}: {rule}, {central}", center.url);
    assert_eq!(applied.conflicts, conflicts, "{what}");
    assert_eq!(applied.rejected, u64::from(lost), "{what}");
    let at_center = match center.value("SELECT count(*) FROM t WHERE id = 1") {
        Value::Integer(0) => None,
        _ => Some(vec![
            int(1),
            center.value("SELECT a FROM t WHERE id = 1"),
            center.value("SELECT b FROM t WHERE id = 1"),
        ]),
    };
    assert_eq!(at_center, end.map(|(a, b)| row(1, a, b)), "{what}: at the center");
    // The remote applies what it is sent.
    let mut at_remote = uploaded;
    for (_, upsert) in &download.upserts {
        at_remote = Some(upsert.clone());
    }
    if !download.deletes.is_empty() {
        at_remote = None;
    }
    assert_eq!(at_remote, at_center, "{what}: at the remote");
}

// S5
#[test]
fn each_rule_resolves_each_pair_of_changes() {
    Backend::each(|backend| {
        for rule in ["\"consolidated_wins\"", "\"remote_wins\"", "\"merge\""] {
            each_pair_of_changes(&mut one_row(backend, rule).0, rule);
        }
    });
}

fn each_pair_of_changes(center: &mut Center, rule: &str) {
    let update = || Upload::Update("t", row(1, "a", "b"), row(1, "mine", "b"));
    let delete = || Upload::Delete("t", row(1, "a", "b"));
    let insert = || Upload::Insert("t", row(1, "mine", "b"));
    let changed = "UPDATE t SET b = 'theirs'";
    let deleted = "DELETE FROM t";
    let mut check =
        |central: &str, did, end, conflicts| conflict(center, rule, central, did, end, conflicts);
    match rule {
        "\"consolidated_wins\"" => {
            check(changed, update(), Some(("a", "theirs")), 1);
            check(deleted, update(), None, 1);
            check(changed, delete(), Some(("a", "theirs")), 1);
            check(changed, insert(), Some(("a", "theirs")), 1);
        }
        "\"remote_wins\"" => {
            check(changed, update(), Some(("mine", "b")), 1);
            check(deleted, update(), Some(("mine", "b")), 1);
            check(changed, delete(), None, 1);
            check(changed, insert(), Some(("mine", "b")), 1);
        }
        _ => {
            check(changed, update(), Some(("mine", "theirs")), 1);
            check("UPDATE t SET a = 'theirs'", update(), Some(("theirs", "b")), 1);
            check(deleted, update(), Some(("mine", "b")), 1);
            check(changed, delete(), Some(("a", "theirs")), 1);
        }
    }
    // No conflict: nothing happened meanwhile, or both did the same.
    check("SELECT 1", update(), Some(("mine", "b")), 0);
    check("SELECT 1", delete(), None, 0);
    check("UPDATE t SET a = 'mine'", update(), Some(("mine", "b")), 0);
    check(deleted, delete(), None, 0);
}

// S5
#[test]
fn a_difference_that_a_collation_hides_is_a_conflict_all_the_same() {
    Backend::each(a_difference_that_a_collation_hides_is_a_conflict_all_the_same_on);
}

fn a_difference_that_a_collation_hides_is_a_conflict_all_the_same_on(backend: Backend) {
    let mut center = Center::on(
        backend,
        backend.pick(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE);
             INSERT INTO t VALUES (1, 'ann');",
            "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2',
                 deterministic = false);
             CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT COLLATE nocase);
             INSERT INTO t VALUES (1, 'ann');",
        ),
        "[table.t]\n",
    );
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    center.foreign("UPDATE t SET a = 'ANN'");
    let update = Upload::Update("t", vec![int(1), text("ann")], vec![int(1), text("eve")]);
    let (applied, _) = center.synchronize(&mut remote, &[update]);
    assert_eq!(applied.conflicts, 1);
    assert_eq!(center.value("SELECT a FROM t"), text("ANN"));
}

// S5
#[test]
fn the_later_row_wins_and_a_time_in_the_future_counts_as_now() {
    Backend::each(the_later_row_wins_and_a_time_in_the_future_counts_as_now_on);
}

fn the_later_row_wins_and_a_time_in_the_future_counts_as_now_on(backend: Backend) {
    let make = || {
        let mut center = Center::on(
            backend,
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, at TEXT);
             INSERT INTO t VALUES (1, 'a', '2020-01-01 00:00:00');",
            "[table.t]\nconflict = { latest = \"at\" }\n",
        );
        let mut remote = Remote::new("r");
        center.synchronize(&mut remote, &[]);
        (center, remote)
    };
    let update =
        |at: &str| Upload::Update("t", row(1, "a", "2020-01-01 00:00:00"), row(1, "mine", at));
    for (at, winner) in [("2021-01-01 00:00:00", "theirs"), ("2023-01-01 00:00:00", "mine")] {
        let (mut center, mut remote) = make();
        center.foreign("UPDATE t SET a = 'theirs', at = '2022-01-01 00:00:00'");
        let (applied, _) = center.synchronize(&mut remote, &[update(at)]);
        assert_eq!(applied.conflicts, 1);
        assert_eq!(center.value("SELECT a FROM t"), text(winner), "{at}");
    }
    let (mut center, mut remote) = make();
    let (_, download) = center.synchronize(&mut remote, &[update("2999-01-01 00:00:00")]);
    let clamped = backend.pick(
        "SELECT at <= strftime('%Y-%m-%d %H:%M:%f', 'now') FROM t",
        "SELECT (at <= to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS'))::int FROM t",
    );
    assert_eq!(center.value(clamped), int(1));
    assert_eq!(download.upserts.len(), 1, "the remote receives the corrected time");
}

// Trap 5
#[test]
fn a_loser_is_told_until_it_has_proof_of_having_heard() {
    Backend::each(a_loser_is_told_until_it_has_proof_of_having_heard_on);
}

fn a_loser_is_told_until_it_has_proof_of_having_heard_on(backend: Backend) {
    let (mut center, mut remote) = one_row(backend, "\"consolidated_wins\"");
    // The winner arrived at the remote before it lost: its watermark is newer than the row.
    center.foreign("UPDATE t SET a = 'theirs'");
    center.synchronize(&mut remote, &[]);
    let stale = Upload::Update("t", row(1, "a", "b"), row(1, "mine", "b"));
    let before = remote.clone();
    let applied = center.upload(&mut remote, &[stale]).unwrap();
    assert_eq!(applied.conflicts, 1);
    // The download is lost, twice.
    for attempt in 0..3 {
        let mut receiver = before.clone();
        receiver.identity = remote.identity;
        let applied = center.upload(&mut receiver, &[]).unwrap();
        let download = center.download(&mut receiver, &applied);
        assert_eq!(download.upserts, [("t".into(), row(1, "theirs", "b"))], "attempt {attempt}");
        remote.identity.counter = receiver.identity.counter;
        remote.identity.nonce_confirmed = receiver.identity.nonce_confirmed;
        if attempt == 2 {
            remote = receiver;
        }
    }
    let (_, download) = center.synchronize(&mut remote, &[]);
    assert!(download.upserts.is_empty(), "what it was owed is settled");
    assert_eq!(
        center
            .value(&format!("SELECT count(*) FROM {}syncline_owed", backend.pick("", "syncline."))),
        int(0)
    );
}

// Trap 8
#[test]
fn uploaded_rows_do_not_come_back_unless_the_center_made_them_different() {
    Backend::each(uploaded_rows_do_not_come_back_unless_the_center_made_them_different_on);
}

fn uploaded_rows_do_not_come_back_unless_the_center_made_them_different_on(backend: Backend) {
    let mut center = Center::on(
        backend,
        &format!(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b TEXT);
             CREATE TABLE other (id INTEGER PRIMARY KEY, n INTEGER);
             INSERT INTO other VALUES (1, 0);{}",
            backend.pick(
                "CREATE TRIGGER upper AFTER INSERT ON t WHEN NEW.a = 'shout' BEGIN
                     UPDATE t SET a = 'SHOUT' WHERE id = NEW.id;
                     UPDATE other SET n = n + 1;
                 END;",
                "CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                     UPDATE t SET a = 'SHOUT' WHERE id = NEW.id;
                     UPDATE other SET n = n + 1;
                     RETURN NULL;
                 END $$;
                 CREATE TRIGGER upper AFTER INSERT ON t FOR EACH ROW
                     WHEN (NEW.a = 'shout') EXECUTE FUNCTION shout();",
            )
        ),
        "[table.t]\n[table.other]\n",
    );
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    let inserts =
        [Upload::Insert("t", row(1, "quiet", "x")), Upload::Insert("t", row(2, "shout", "x"))];
    let (_, download) = center.synchronize(&mut remote, &inserts);
    let mut upserts = download.upserts;
    upserts.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(
        upserts,
        [("other".into(), vec![int(1), int(1)]), ("t".into(), row(2, "SHOUT", "x"))]
    );
    assert_eq!(download.filtered, 1);
    let (_, download) =
        center.synchronize(&mut remote, &[Upload::Delete("t", row(1, "quiet", "x"))]);
    assert_eq!((download.deletes.len(), download.filtered), (0, 1));
}

// Trap 8: the effects of an upload without triggers of users.
#[test]
fn what_a_foreign_key_did_to_other_rows_of_the_uploaded_table_comes_down() {
    Backend::each(what_a_foreign_key_did_to_other_rows_of_the_uploaded_table_comes_down_on);
}

fn what_a_foreign_key_did_to_other_rows_of_the_uploaded_table_comes_down_on(backend: Backend) {
    let mut center = Center::on(
        backend,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT,
             boss INTEGER REFERENCES t (id) ON DELETE SET NULL);
         CREATE TABLE line (id INTEGER PRIMARY KEY,
             t_id INTEGER NOT NULL REFERENCES t (id) ON DELETE CASCADE);
         INSERT INTO t VALUES (1, 'a', NULL), (2, 'b', 1), (3, 'c', NULL);
         INSERT INTO line VALUES (1, 1), (2, 3);",
        "[table.t]\n[table.line]\n",
    );
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    let boss = |id, name: &str, boss| vec![int(id), text(name), boss];
    let uploaded = [
        Upload::Insert("t", boss(4, "d", Value::Null)),
        Upload::Insert("line", vec![int(3), int(4)]),
        Upload::Delete("t", boss(1, "a", Value::Null)),
    ];
    let (applied, download) = center.synchronize(&mut remote, &uploaded);
    assert_eq!((applied.rejected, applied.conflicts), (0, 0));
    assert_eq!(download.upserts, [("t".into(), boss(2, "b", Value::Null))]);
    assert_eq!(download.deletes, [("line".into(), vec![int(1)])]);
    assert_eq!(download.filtered, 3);
}

// Trap 8: SQLite's affinities make other values of some, of which no log tells.
#[test]
fn a_value_that_sqlite_stores_otherwise_comes_back() {
    let mut center =
        Center::new("CREATE TABLE t (id INTEGER PRIMARY KEY, n NUMERIC, s TEXT);", "[table.t]\n");
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    let row = |id, n: Value, s: Value| vec![int(id), n, s];
    let plain = [
        Upload::Insert("t", row(1, text("2026-01-02"), text("1"))),
        Upload::Insert("t", row(2, Value::Real(1.5), Value::Null)),
    ];
    let (_, download) = center.synchronize(&mut remote, &plain);
    assert_eq!((download.upserts.len(), download.filtered), (0, 2));
    let (_, download) = center.synchronize(
        &mut remote,
        &[
            Upload::Insert("t", row(3, text("1e3"), text("x"))),
            Upload::Insert("t", row(4, int(5), text("y"))),
            Upload::Insert("t", row(5, Value::Real(2.0), int(7))),
        ],
    );
    let mut upserts: Vec<Row> = download.upserts.into_iter().map(|(_, row)| row).collect();
    upserts.sort_by_key(|row| format!("{row:?}"));
    assert_eq!(upserts, [row(3, int(1000), text("x")), row(5, int(2), text("7"))]);
    assert_eq!(download.filtered, 1);
}

// Trap 10
#[test]
fn unique_values_swap_and_keys_change_hands() {
    Backend::each(unique_values_swap_and_keys_change_hands_on);
}

fn unique_values_swap_and_keys_change_hands_on(backend: Backend) {
    let mut center = Center::on(
        backend,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT NOT NULL UNIQUE, b TEXT CHECK (b <> 'no'));
         INSERT INTO t VALUES (1, 'x', ''), (2, 'y', ''), (3, 'z', '');",
        "[table.t]\n",
    );
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    let swap = [
        Upload::Update("t", row(1, "x", ""), row(1, "y", "")),
        Upload::Update("t", row(2, "y", ""), row(2, "x", "")),
    ];
    let (applied, _) = center.synchronize(&mut remote, &swap);
    assert_eq!((applied.rejected, applied.conflicts), (0, 0));
    assert_eq!(center.list("SELECT a AS v FROM t ORDER BY id"), "y,x,z");
    // A primary key changed at the remote: the new row comes before the old one's delete.
    let moved = [Upload::Insert("t", row(9, "z", "")), Upload::Delete("t", row(3, "z", ""))];
    let (applied, _) = center.synchronize(&mut remote, &moved);
    assert_eq!(applied.rejected, 0);
    assert_eq!(center.value("SELECT id FROM t WHERE a = 'z'"), int(9));
}

// S7
#[test]
fn a_row_that_breaks_a_constraint_is_rejected_alone_and_its_key_is_owed() {
    Backend::each(a_row_that_breaks_a_constraint_is_rejected_alone_and_its_key_is_owed_on);
}

fn a_row_that_breaks_a_constraint_is_rejected_alone_and_its_key_is_owed_on(backend: Backend) {
    let mut center = Center::on(
        backend,
        &format!(
            "CREATE TABLE t
                 (id INTEGER PRIMARY KEY, a TEXT NOT NULL UNIQUE, b TEXT CHECK (b <> 'no'));
             INSERT INTO t VALUES (1, 'x', '');{}",
            backend.pick(
                "CREATE TRIGGER veto BEFORE INSERT ON t WHEN NEW.b = 'veto'
                     BEGIN SELECT RAISE(ABORT, 'not you'); END;
                 CREATE TRIGGER skip BEFORE INSERT ON t WHEN NEW.b = 'skip'
                     BEGIN SELECT RAISE(IGNORE); END;",
                "CREATE FUNCTION veto() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                     IF NEW.b = 'veto' THEN RAISE EXCEPTION 'not you'; END IF;
                     RETURN CASE WHEN NEW.b = 'skip' THEN NULL ELSE NEW END;
                 END $$;
                 CREATE TRIGGER veto BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION veto();",
            )
        ),
        "[table.t]\n",
    );
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    let rows = [
        Upload::Insert("t", row(2, "fine", "")),
        Upload::Insert("t", row(3, "x", "")),
        Upload::Insert("t", row(4, "checked", "no")),
        Upload::Insert("t", vec![int(5), Value::Null, text("")]),
        Upload::Insert("t", row(6, "vetoed", "veto")),
        Upload::Insert("t", row(7, "skipped", "skip")),
        Upload::Insert("t", row(8, "fine too", "")),
    ];
    let (applied, download) = center.synchronize(&mut remote, &rows);
    assert_eq!((applied.inserts, applied.rejected), (7, 5));
    assert_eq!(center.list("SELECT id AS v FROM t ORDER BY id"), "1,2,8");
    let rejects: Vec<(Row, u16)> =
        download.rejects.iter().map(|(_, k, c)| (k.clone(), *c)).collect();
    let expected = |id, code: Code| (vec![int(id)], code.number());
    assert_eq!(
        rejects,
        [
            expected(3, Code::RowNotUnique),
            expected(4, Code::RowRefused),
            expected(5, Code::RowRefused),
            expected(6, Code::RowVetoed),
            expected(7, Code::RowVetoed),
        ]
    );
    assert_eq!(download.deletes.len(), 5, "the remote must not keep what is not at the center");
}

// Trap 11
#[test]
fn foreign_keys_in_any_order_and_broken_ones_are_rejected_with_what_hangs_on_them() {
    Backend::each(foreign_keys_on);
}

fn foreign_keys_on(backend: Backend) {
    let mut center = Center::on(
        backend,
        "CREATE TABLE person (id INTEGER PRIMARY KEY, boss INTEGER REFERENCES person);
         CREATE TABLE task (id INTEGER PRIMARY KEY, person INTEGER NOT NULL REFERENCES person);
         INSERT INTO person VALUES (1, NULL), (2, 1);",
        "[table.person]\n[table.task]\n",
    );
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    let pair = |a: i64, b: i64| vec![int(a), int(b)];
    // Children before parents, and two that refer to each other.
    let rows = [
        Upload::Insert("task", pair(1, 11)),
        Upload::Insert("person", pair(11, 12)),
        Upload::Insert("person", pair(12, 11)),
    ];
    let (applied, _) = center.synchronize(&mut remote, &rows);
    assert_eq!(applied.rejected, 0);
    // Meanwhile the center deleted 2, which the remote gives work to; and it has work for 12,
    // whom the remote deletes.
    center.foreign("DELETE FROM person WHERE id = 2; INSERT INTO task VALUES (5, 1)");
    let rows = [
        Upload::Insert("person", pair(20, 2)),
        Upload::Insert("task", pair(6, 20)),
        Upload::Insert("task", pair(7, 11)),
        Upload::Delete("person", vec![int(1), Value::Null]),
    ];
    let (applied, download) = center.synchronize(&mut remote, &rows);
    assert_eq!(applied.rejected, 3);
    let rejects = download.told();
    assert_eq!(rejects, ["person 1 E7003", "person 20 E7003", "task 6 E7003"]);
    assert_eq!(center.list("SELECT id AS v FROM task ORDER BY id"), "1,5,7");
}

// Trap 17
#[test]
fn a_failed_upload_takes_nothing_with_it_from_its_group() {
    Backend::each(a_failed_upload_takes_nothing_with_it_from_its_group_on);
}

fn a_failed_upload_takes_nothing_with_it_from_its_group_on(backend: Backend) {
    let (mut center, remote) = one_row(backend, "\"consolidated_wins\"");
    let other = Remote::new("other");
    let (session, other_session) = (center.session(&remote), center.session(&other));
    center.writer.begin().unwrap();
    upload(center.writer.as_mut(), &session, &remote, &[Upload::Insert("t", row(2, "", ""))])
        .unwrap();
    // A value where a new row lacks one fails the whole upload, in its second row.
    let broken = [
        Upload::Insert("t", row(3, "", "")),
        Upload::Insert("t", vec![int(4), Value::Absent, text("")]),
    ];
    assert!(upload(center.writer.as_mut(), &other_session, &other, &broken).is_err());
    assert!(!center.writer.transaction_lost());
    center.writer.commit().unwrap();
    assert_eq!(center.list("SELECT id AS v FROM t ORDER BY id"), "1,2");
}

// Trap 15
#[test]
fn every_storage_class_arrives_as_it_was() {
    let backend = Backend::Sqlite;
    let mut center =
        Center::on(backend, "CREATE TABLE t (id INTEGER PRIMARY KEY, a)", "[table.t]\n");
    let values = [
        Value::Null,
        int(i64::MIN),
        int(i64::MAX),
        Value::Real(f64::INFINITY),
        Value::Real(-0.0),
        Value::Real(5e-324),
        Value::Text(b"with\0NUL".to_vec()),
        Value::Text(vec![0xff, 0xfe, b'x']),
        text("12"),
        text(""),
        text("naïve 東京 🚀"),
        Value::Blob(vec![]),
        Value::Blob(vec![0, 1, 255]),
    ];
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    let rows: Vec<Upload> = values
        .iter()
        .enumerate()
        .map(|(id, value)| Upload::Insert("t", vec![int(id as i64), value.clone()]))
        .collect();
    let (applied, download) = center.synchronize(&mut remote, &rows);
    assert_eq!((applied.rejected, download.filtered), (0, values.len() as u64));
    let mut other = Remote::new("other");
    let (_, download) = center.synchronize(&mut other, &[]);
    for (id, value) in values.iter().enumerate() {
        let (_, arrived) = &download.upserts[id];
        assert!(arrived[1].as_ref().identical(value.as_ref()), "{value:?} became {arrived:?}");
    }
    // And each can be updated and deleted: the old image is recognized.
    let changes: Vec<Upload> = values
        .iter()
        .enumerate()
        .map(|(id, value)| {
            Upload::Update(
                "t",
                vec![int(id as i64), value.clone()],
                vec![int(id as i64), text("new")],
            )
        })
        .collect();
    let (applied, _) = center.synchronize(&mut remote, &changes);
    assert_eq!(applied.conflicts, 0);
}

// S5
#[test]
fn an_old_value_that_was_not_captured_is_the_new_one() {
    Backend::each(an_old_value_that_was_not_captured_is_the_new_one_on);
}

fn an_old_value_that_was_not_captured_is_the_new_one_on(backend: Backend) {
    let mut center = Center::on(
        backend,
        backend.pick(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, photo BLOB, note TEXT);
             INSERT INTO t VALUES (1, x'00', 'n');",
            "CREATE TABLE t (id INTEGER PRIMARY KEY, photo BYTEA, note TEXT);
             INSERT INTO t VALUES (1, '\\x00', 'n');",
        ),
        "[table.t]\n",
    );
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    let old = vec![int(1), Value::Absent, text("n")];
    let new = vec![int(1), Value::Blob(vec![0]), text("m")];
    let (applied, _) = center.synchronize(&mut remote, &[Upload::Update("t", old, new)]);
    assert_eq!(applied.conflicts, 0);
    assert_eq!(center.value("SELECT note FROM t"), text("m"));
    // In the meantime another user changed a row that this remote kept: an ordinary conflict.
    center.foreign(backend.pick("UPDATE t SET photo = x'ff'", "UPDATE t SET photo = '\\xff'"));
    let old = vec![int(1), Value::Absent, text("m")];
    let new = vec![int(1), Value::Blob(vec![0]), text("k")];
    let (applied, download) = center.synchronize(&mut remote, &[Upload::Update("t", old, new)]);
    assert_eq!(applied.conflicts, 1);
    assert_eq!(
        center.list(
            backend
                .pick("SELECT hex(photo) AS v FROM t", "SELECT upper(encode(photo, 'hex')) FROM t")
        ),
        "FF"
    );
    assert_eq!(download.upserts.len(), 1);
}

// Trap 5
#[test]
fn what_an_upload_alone_leaves_owed_comes_with_the_next_download() {
    Backend::each(what_an_upload_alone_leaves_owed_comes_with_the_next_download_on);
}

fn what_an_upload_alone_leaves_owed_comes_with_the_next_download_on(backend: Backend) {
    let (mut center, mut remote) = one_row(backend, "\"consolidated_wins\"");
    center.foreign("UPDATE t SET a = 'theirs'");
    center.synchronize(&mut remote, &[]);
    let session = center.session(&remote);
    let stale = [Upload::Update("t", row(1, "a", "b"), row(1, "mine", "b"))];
    center.writer.begin().unwrap();
    let applied = center::upload_only(center.writer.as_mut(), &session, &remote, &stale).unwrap();
    center.writer.commit().unwrap();
    assert_eq!(applied.conflicts, 1);
    remote.identity.progress = applied.progress;
    let (_, download) = center.synchronize(&mut remote, &[]);
    assert_eq!(download.upserts, [("t".into(), row(1, "theirs", "b"))]);
    let (_, download) = center.synchronize(&mut remote, &[]);
    assert!(download.upserts.is_empty(), "and is settled by that one");
}
