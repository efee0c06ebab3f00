//! What a download makes of the remote, on real files.

use crate::testing::{Site, int, text};
use model::{Code, Value};

const T: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT UNIQUE, v INT);
                 INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20);";

fn row(id: i64, u: &str, v: i64) -> Vec<Value> {
    vec![int(id), text(u), int(v)]
}

fn rows(site: &Site) -> Vec<String> {
    site.rows("SELECT * FROM t ORDER BY 1")
}

// S4
#[test]
fn rows_come_change_and_go_and_nothing_is_uploaded_for_it() {
    let mut site = Site::new(T);
    for _ in 0..2 {
        // Twice, because a download may arrive again after a lost answer.
        site.download()
            .upsert("t", &[&row(1, "a", 11), &row(3, "c", 30)])
            .delete("t", &[&[int(2)], &[int(9)]])
            .apply()
            .unwrap();
        assert_eq!(rows(&site), ["1, 'a', 11", "3, 'c', 30"]);
    }
    assert_eq!(site.upload(), Vec::<String>::new());
    assert_eq!(site.rows("SELECT value FROM syncline_state WHERE name = 'counter'"), ["2"]);
    assert_eq!(site.rows("SELECT CAST(watermark AS TEXT) FROM syncline_table"), ["'w'"]);
}

// S4, Trap 10: new rows are written many at once, until one is not new.
#[test]
fn a_known_key_or_a_taken_value_among_many_new_rows_is_written_like_any_other() {
    for conflict in ["", "ON CONFLICT REPLACE", "ON CONFLICT IGNORE"] {
        for (known, taken) in [(3, 40), (19, 18), (20, 21), (40, 3), (50, 34)] {
            let mut site = Site::new(&format!(
                "CREATE TABLE t(id TEXT PRIMARY KEY {conflict}, u TEXT UNIQUE {conflict}, v INT);
                 INSERT INTO t VALUES ('k', 'b', 20), ('x', 'a', 10);"
            ));
            let mut all: Vec<Vec<Value>> = (1..=50)
                .map(|n| vec![text(&format!("n{n:02}")), text(&format!("u{n:02}")), int(n)])
                .collect();
            // One row changes; another gets the value that a third gives up last.
            all[known - 1] = vec![text("k"), text("b"), int(-1)];
            all[taken - 1][1] = text("a");
            all.push(vec![text("x"), text("c"), int(10)]);
            let slices: Vec<&[Value]> = all.iter().map(Vec::as_slice).collect();
            site.download().upsert("t", &slices).apply().unwrap();
            let mut wanted: Vec<String> = all
                .iter()
                .map(|row| {
                    let values: Vec<String> = row.iter().map(|v| v.as_ref().display()).collect();
                    values.join(", ")
                })
                .collect();
            wanted.sort();
            assert_eq!(site.rows("SELECT * FROM t ORDER BY 1"), wanted, "{known} {taken}");
            assert_eq!(site.upload(), Vec::<String>::new());
        }
    }
}

// S4
#[test]
fn a_download_that_fails_leaves_nothing_behind() {
    let mut site = Site::new(T);
    site.write("INSERT INTO t VALUES (9, 'd', 90)");
    let before = site.rows("SELECT name, value FROM syncline_state ORDER BY 1");
    let failure = site
        .download()
        .upsert("t", &[&row(3, "c", 30), &row(4, "d", 40)])
        .delete("t", &[&[int(1)]])
        .apply()
        .unwrap_err();
    assert_eq!(failure.code(), Code::ApplyBlocked, "the change goes up first");
    assert_eq!(failure.table_name(), Some("t"));
    assert_eq!(rows(&site), ["1, 'a', 10", "2, 'b', 20", "9, 'd', 90"]);
    assert_eq!(site.rows("SELECT name, value FROM syncline_state ORDER BY 1"), before);
    // What the application writes through the same connection is captured.
    site.remote.execute("UPDATE t SET v = 0 WHERE id = 1").unwrap();
    assert_eq!(site.upload(), ["insert t (9, 'd', 90)", "update t (1, 'a', 10) -> (1, 'a', 0)"]);
}

// S4: foreign keys are deferred where the file has any, published or not.
#[test]
fn a_table_that_only_the_user_knows_may_refer_to_what_moves() {
    let published = "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
        INSERT INTO t VALUES (1, 'x'), (2, 'y');";
    let mut site = Site::new(published);
    site.write("CREATE TABLE note(of TEXT REFERENCES T(name)); INSERT INTO note VALUES ('x')");
    site.download().upsert("t", &[&[int(2), text("x")]]).delete("t", &[&[int(1)]]).apply().unwrap();
    assert_eq!(site.rows("SELECT * FROM t"), ["2, 'x'"]);
    assert_eq!(site.rows("SELECT * FROM note"), ["'x'"]);
}

#[test]
fn the_users_triggers_do_not_fire_for_downloads() {
    let mut site = Site::new(T);
    site.write(
        "CREATE TRIGGER x AFTER UPDATE ON t BEGIN UPDATE t SET v = -1; END;
         CREATE TRIGGER y AFTER INSERT ON t BEGIN SELECT RAISE(ABORT, 'no'); END;",
    );
    site.download().upsert("t", &[&row(1, "a", 5), &row(3, "c", 6)]).apply().unwrap();
    assert_eq!(rows(&site), ["1, 'a', 5", "2, 'b', 20", "3, 'c', 6"]);
    // Nor after the application has written through the same connection, where they do.
    site.remote.execute("UPDATE t SET v = 7 WHERE id = 2").unwrap();
    assert_eq!(site.upload().len(), 3);
    site.download().upsert("t", &[&row(1, "a", 5), &row(4, "d", 7)]).apply().unwrap();
    assert_eq!(rows(&site), ["1, 'a', 5", "2, 'b', -1", "3, 'c', -1", "4, 'd', 7"]);
    assert_eq!(site.upload(), Vec::<String>::new());
}

// Trap 10
#[test]
fn unique_values_may_swap_rotate_and_shift() {
    let mut site = Site::new(T);
    site.download().upsert("t", &[&row(1, "b", 1), &row(2, "a", 2)]).apply().unwrap();
    assert_eq!(rows(&site), ["1, 'b', 1", "2, 'a', 2"]);

    for (column, nulls) in [
        ("TEXT", ""),
        ("INT NOT NULL", ""),
        ("REAL NOT NULL", ""),
        ("INT NOT NULL CHECK (u > 0)", ""),
    ] {
        let mut site = Site::new(&format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, u {column} UNIQUE {nulls});
             WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 500)
             INSERT INTO t SELECT i, i FROM n;"
        ));
        // Every value moves on by one, and the last takes the first's place.
        let moved: Vec<Vec<Value>> = (1..=500).map(|i| vec![int(i), int(i % 500 + 1)]).collect();
        let slices: Vec<&[Value]> = moved.iter().map(Vec::as_slice).collect();
        site.download().upsert("t", &slices).apply().unwrap();
        assert_eq!(site.rows("SELECT count(*) FROM t WHERE u = id % 500 + 1"), ["500"], "{column}");
        // A chain needs no placeholder.
        let moved: Vec<Vec<Value>> = (1..=500).map(|i| vec![int(i), int(i + 1)]).collect();
        let slices: Vec<&[Value]> = moved.iter().map(Vec::as_slice).collect();
        site.download().upsert("t", &slices).apply().unwrap();
        assert_eq!(site.rows("SELECT count(*) FROM t WHERE u = id + 1"), ["500"], "{column}");
    }
}

// Trap 10
#[test]
fn a_unique_value_moves_from_a_deleted_row_to_a_new_one() {
    let mut site = Site::new(T);
    site.download().upsert("t", &[&row(3, "a", 30)]).delete("t", &[&[int(1)]]).apply().unwrap();
    assert_eq!(rows(&site), ["2, 'b', 20", "3, 'a', 30"]);
}

// Trap 10
#[test]
fn deleted_and_reinserted_keys_are_rows_like_others() {
    let mut site = Site::new(T);
    site.download().delete("t", &[&[int(1)]]).apply().unwrap();
    site.download().upsert("t", &[&row(1, "new", 1)]).apply().unwrap();
    assert_eq!(rows(&site), ["1, 'new', 1", "2, 'b', 20"]);
    assert_eq!(site.upload(), Vec::<String>::new());
}

// Trap 10
#[test]
fn a_local_row_in_the_way_is_uploaded_first() {
    let mut site = Site::new(T);
    site.write("INSERT INTO t VALUES (7, 'c', 70)");
    let failure = site.download().upsert("t", &[&row(3, "c", 30)]).apply().unwrap_err();
    assert_eq!(failure.code(), Code::ApplyBlocked);
    assert_eq!(site.upload(), ["insert t (7, 'c', 70)"]);
}

const FAMILY: &str = "CREATE TABLE p(id INTEGER PRIMARY KEY, best INT REFERENCES c(id));
    CREATE TABLE c(id INTEGER PRIMARY KEY, p INT NOT NULL REFERENCES p(id),
    next INT REFERENCES c(id));";

// Trap 11
#[test]
fn foreign_keys_in_cycles_hold_whatever_the_order() {
    let mut site = Site::new(FAMILY);
    let child = |id, p, next: Option<i64>| vec![int(id), int(p), next.map_or(Value::Null, int)];
    // Children before parents, a cycle between tables, one within a table, and a self-reference.
    site.download()
        .upsert("c", &[&child(10, 1, Some(11)), &child(11, 1, Some(10)), &child(12, 2, Some(12))])
        .upsert("p", &[&[int(1), int(10)], &[int(2), int(12)]])
        .apply()
        .unwrap();
    assert_eq!(site.rows("SELECT count(*) FROM c"), ["3"]);
    // And away again, parents before children.
    site.download()
        .delete("p", &[&[int(1)], &[int(2)]])
        .delete("c", &[&[int(10)], &[int(11)], &[int(12)]])
        .apply()
        .unwrap();
    assert_eq!(site.rows("SELECT count(*) FROM c"), ["0"]);
    assert_eq!(site.rows("PRAGMA foreign_key_check"), Vec::<String>::new());
}

// Trap 11
#[test]
fn restrict_is_checked_at_the_end_too() {
    let mut site = Site::new(
        "CREATE TABLE n(id INTEGER PRIMARY KEY, up INT REFERENCES n ON DELETE RESTRICT);
         WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 20)
         INSERT INTO main.n SELECT i, nullif(i - 1, 0) FROM n;",
    );
    let keys: Vec<[Value; 1]> = (2..=20).map(|id| [int(id)]).collect();
    let slices: Vec<&[Value]> = keys.iter().map(<[Value; 1]>::as_slice).collect();
    site.download().delete("n", &slices).apply().unwrap();
    assert_eq!(site.rows("SELECT id FROM n"), ["1"]);
}

// S3. The child has come for the new holder of the value when the former one is deleted: the
// foreign key then takes it for a child of the former.
#[test]
fn a_child_that_came_for_the_next_holder_of_a_value_is_not_taken_along_with_the_former() {
    for action in ["CASCADE", "SET NULL"] {
        let mut site = Site::new(&format!(
            "CREATE TABLE p(id INTEGER PRIMARY KEY, u TEXT UNIQUE);
             CREATE TABLE c(id INTEGER PRIMARY KEY, u TEXT REFERENCES p(u) ON DELETE {action});
             INSERT INTO p VALUES (1, 'x');"
        ));
        site.download()
            .upsert("c", &[&[int(10), text("x")]])
            .upsert("p", &[&[int(2), text("x")]])
            .delete("p", &[&[int(1)]])
            .apply()
            .unwrap();
        assert_eq!(site.rows("SELECT * FROM p"), ["2, 'x'"]);
        assert_eq!(site.rows("SELECT * FROM c"), ["10, 'x'"], "{action}");
    }
}

// S4, trap 11
#[test]
fn a_row_that_a_table_of_the_user_refers_to_goes_when_that_lets_it_go() {
    let mut site = Site::new("CREATE TABLE p(id INTEGER PRIMARY KEY); INSERT INTO p VALUES (1)");
    // A table of the user's own, whose rows must not be set aside.
    site.write("CREATE TABLE note(p REFERENCES p); INSERT INTO note VALUES (1)");
    // A local change may be the reason, so it is uploaded first.
    site.write("INSERT INTO p VALUES (7)");
    let failure = site.download().delete("p", &[&[int(1)]]).apply().unwrap_err();
    assert_eq!(failure.code(), Code::ApplyBlocked);
    assert_eq!(failure.message(), "after the download a row of note refers to a row that p lacks");
    assert_eq!(site.upload(), ["insert p (7)"]);
    site.download().delete("p", &[&[int(1)]]).apply().unwrap();
    assert_eq!(site.rows("SELECT * FROM p"), ["1", "7"]);
    site.write("DELETE FROM note");
    assert_eq!(site.upload(), Vec::<String>::new(), "what was kept back is no change");
    site.download().apply().unwrap();
    assert_eq!(site.rows("SELECT * FROM p"), ["7"]);
}

// Trap 7
#[test]
fn a_downloaded_row_waits_beside_a_change_and_comes_when_the_change_is_undone() {
    let mut site = Site::new(T);
    site.write("UPDATE t SET v = 99 WHERE id = 1");
    site.download().upsert("t", &[&row(1, "z", 11)]).apply().unwrap();
    assert_eq!(rows(&site)[0], "1, 'a', 99", "the change is not overwritten");
    site.write("UPDATE t SET v = 10 WHERE id = 1");
    assert_eq!(site.upload(), Vec::<String>::new(), "nothing is left to upload");
    site.download().apply().unwrap();
    assert_eq!(rows(&site)[0], "1, 'z', 11", "so the downloaded row applies");
    assert_eq!(site.rows("SELECT * FROM syncline_incoming_t"), Vec::<String>::new());
}

// Trap 7
#[test]
fn a_downloaded_delete_waits_beside_a_change_and_comes_when_the_change_is_undone() {
    let mut site = Site::new(T);
    site.write("UPDATE t SET v = 99 WHERE id = 1; DELETE FROM t WHERE id = 2");
    site.download().delete("t", &[&[int(1)], &[int(2)]]).apply().unwrap();
    assert_eq!(rows(&site), ["1, 'a', 99"]);
    site.write("UPDATE t SET v = 10 WHERE id = 1; INSERT INTO t VALUES (2, 'b', 20)");
    assert_eq!(site.upload(), Vec::<String>::new());
    site.download().apply().unwrap();
    assert_eq!(rows(&site), Vec::<String>::new());
}

// Trap 7
#[test]
fn a_row_that_both_sides_inserted_comes_when_the_local_one_is_deleted() {
    let mut site = Site::new(T);
    site.write("INSERT INTO t VALUES (5, 'mine', 1)");
    site.download().upsert("t", &[&row(5, "theirs", 2)]).apply().unwrap();
    assert_eq!(rows(&site)[2], "5, 'mine', 1");
    site.write("DELETE FROM t WHERE id = 5");
    assert_eq!(site.upload(), Vec::<String>::new());
    site.download().apply().unwrap();
    assert_eq!(rows(&site)[2], "5, 'theirs', 2");
}

// Trap 7
#[test]
fn a_change_that_is_uploaded_leaves_nothing_waiting() {
    let mut site = Site::new(T);
    site.write("UPDATE t SET v = 99 WHERE id = 1");
    site.download().upsert("t", &[&row(1, "z", 11)]).apply().unwrap();
    // The server sees the base that this remote knew, so it sees the conflict.
    assert_eq!(site.upload(), ["update t (1, 'a', 10) -> (1, 'a', 99)"]);
    assert_eq!(site.rows("SELECT * FROM syncline_incoming_t"), Vec::<String>::new());
    assert_eq!(rows(&site)[0], "1, 'a', 99");
}

// Trap 7
#[test]
fn an_incoming_row_that_does_not_fit_yet_goes_on_waiting() {
    let mut site = Site::new(T);
    site.write("UPDATE t SET v = 99 WHERE id = 1; INSERT INTO t VALUES (4, 'z', 4)");
    site.download().upsert("t", &[&row(1, "z", 11)]).apply().unwrap();
    site.write("UPDATE t SET v = 10 WHERE id = 1");
    assert_eq!(site.upload(), ["insert t (4, 'z', 4)"]);
    assert_eq!(rows(&site)[0], "1, 'a', 10");
    // The center refuses the row that has its value.
    let download = site.download().reject("t", &[int(4)], 2, Code::RowNotUnique);
    download.delete("t", &[&[int(4)]]).apply().unwrap();
    assert_eq!(rows(&site), ["1, 'z', 11", "2, 'b', 20"]);
}

/// It told of a UNIQUE value that the center had long freed, and of nothing that one could do.
#[test]
fn a_retry_that_meets_a_unique_value_here_says_to_synchronize_first() {
    let mut site = Site::new(T);
    site.write("INSERT INTO t VALUES (4, 'c', 4)");
    site.upload();
    let download = site.download().reject("t", &[int(4)], 2, Code::RowNotUnique);
    download.delete("t", &[&[int(4)]]).upsert("t", &[&row(3, "c", 30)]).apply().unwrap();
    let id = site.remote.rejects().unwrap()[0].id;
    let refused = site.remote.retry_rejects(&[id], false).unwrap_err();
    assert_eq!(refused.code(), Code::RejectNotRetried);
    assert!(refused.message().ends_with("synchronize first"), "{refused}");
    site.download().upsert("t", &[&row(3, "free", 30)]).apply().unwrap();
    site.remote.retry_rejects(&[id], false).unwrap();
    assert_eq!(rows(&site)[2..], ["3, 'free', 30", "4, 'c', 4"]);
}

// S4, S6
#[test]
fn a_refresh_removes_what_did_not_come() {
    let mut site = Site::new(T);
    site.write("UPDATE t SET v = 99 WHERE id = 2; INSERT INTO t VALUES (5, 'new', 50)");
    site.download().refresh("t").upsert("t", &[&row(3, "c", 30)]).apply().unwrap();
    assert_eq!(rows(&site), ["2, 'b', 99", "3, 'c', 30", "5, 'new', 50"]);
    assert_eq!(site.remote.rejects().unwrap(), []);
    // The changed row was to disappear: it does when its change is undone. The new one stays.
    site.write("UPDATE t SET v = 20 WHERE id = 2");
    assert_eq!(site.upload(), ["insert t (5, 'new', 50)"]);
    site.download().apply().unwrap();
    assert_eq!(rows(&site), ["3, 'c', 30", "5, 'new', 50"]);
}

#[test]
fn a_refresh_of_an_empty_table_is_a_first_fill() {
    let mut site = Site::new("CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT, v INT);");
    site.download().refresh("t").upsert("t", &[&row(3, "c", 30)]).apply().unwrap();
    assert_eq!(rows(&site), ["3, 'c', 30"]);
}

// Trap 10
#[test]
fn a_first_fill_of_many_rows_gets_over_rows_that_stand_in_each_others_way() {
    let mut site = Site::new("CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT UNIQUE, v INT);");
    let mut came: Vec<Vec<Value>> = (0..30).map(|id| row(id, &format!("u{id}"), id)).collect();
    // In one batch: a row with the value that the next one is to have, sent again as it is now.
    came.insert(10, row(11, "u10", 1));
    let came: Vec<&[Value]> = came.iter().map(Vec::as_slice).collect();
    site.download().refresh("t").upsert("t", &came).apply().unwrap();
    let wanted: Vec<String> = (0..30).map(|id| format!("{id}, 'u{id}', {id}")).collect();
    assert_eq!(rows(&site), wanted);
    assert_eq!(site.upload(), Vec::<String>::new());
}

// S4, S11
#[test]
fn a_first_fill_of_many_rows_tells_those_that_are_refused() {
    let mut site = Site::new("CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT, v INT CHECK(v < 9))");
    let came: Vec<Vec<Value>> = (0..20).map(|id| row(id, "u", id)).collect();
    let came: Vec<&[Value]> = came.iter().map(Vec::as_slice).collect();
    site.download().refresh("t").upsert("t", &came).apply().unwrap();
    assert_eq!(rows(&site).len(), 9);
    let rejects = site.remote.rejects().unwrap();
    assert_eq!(rejects.len(), 11);
    assert_eq!(rejects[0].key, r#"{"id":9}"#);
    assert_eq!(rejects[0].message, "CHECK constraint failed: v < 9");
}

#[test]
fn a_refresh_writes_only_rows_that_are_not_stored_identically() {
    let mut site = Site::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, u, v);
         INSERT INTO t VALUES (1, 'a', 0.0), (2, 'b', 2), (3, 'c', 3), (4, NULL, x'34');",
    );
    let (sender, written) = std::sync::mpsc::sync_channel(100);
    let note = move |_, _: &str, table: &str, id| {
        if table == "t" {
            sender.send(id).unwrap();
        }
    };
    site.remote.connection.update_hook(Some(note)).unwrap();
    let came: [&[Value]; 4] = [
        &[int(1), text("a"), Value::Real(-0.0)],
        &[int(2), text("b"), Value::Real(2.0)],
        &[int(3), text("c"), int(3)],
        &[int(4), Value::Null, text("4")],
    ];
    site.download().refresh("t").upsert("t", &came).apply().unwrap();
    assert_eq!(written.try_iter().collect::<Vec<i64>>(), [1, 2, 4]);
    assert_eq!(rows(&site), ["1, 'a', -0", "2, 'b', 2", "3, 'c', 3", "4, NULL, '4'"]);
    assert_eq!(site.rows("SELECT typeof(v) FROM t WHERE id = 2"), ["'real'"]);
}

// Trap 3
#[test]
fn rows_that_a_restored_database_lacks_are_kept_as_rejects() {
    let mut site = Site::new(T);
    site.download().refresh("t").restored().upsert("t", &[&row(1, "a", 10)]).apply().unwrap();
    assert_eq!(rows(&site), ["1, 'a', 10"]);
    let rejects = site.remote.rejects().unwrap();
    assert_eq!(rejects.len(), 1);
    assert_eq!(rejects[0].code, Code::RowLostByRestore.number());
    assert_eq!((rejects[0].table.as_str(), rejects[0].key.as_str()), ("t", r#"{"id":2}"#));
    assert_eq!(rejects[0].row.as_deref(), Some(r#"{"id":2,"u":"b","v":20}"#));
}

// S7, trap 5
#[test]
fn a_reject_keeps_the_row_that_lost_and_is_recorded_once() {
    let mut site = Site::new(T);
    for _ in 0..2 {
        site.download()
            .reject("t", &[int(1)], 4, Code::RowNotUnique)
            .delete("t", &[&[int(1)]])
            .apply()
            .unwrap();
    }
    assert_eq!(rows(&site), ["2, 'b', 20"]);
    let rejects = site.remote.rejects().unwrap();
    assert_eq!(rejects.len(), 1);
    assert_eq!((rejects[0].counter, rejects[0].message.as_str()), (4, "because"));
    assert_eq!(rejects[0].row.as_deref(), Some(r#"{"id":1,"u":"a","v":10}"#));
    assert_eq!(rejects[0].at, "2024-02-29T00:00:00.000Z");
}

const CASCADE: &str = "CREATE TABLE p(id INTEGER PRIMARY KEY);
    CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p ON DELETE CASCADE, v INT);
    INSERT INTO p VALUES (1); INSERT INTO c VALUES (10, 1, 0), (11, 1, 0);";

// S6
#[test]
fn a_delete_takes_the_descendants_along() {
    let mut site = Site::new(CASCADE);
    site.download().delete("p", &[&[int(1)]]).apply().unwrap();
    assert_eq!(site.rows("SELECT * FROM c"), Vec::<String>::new());
    assert_eq!(site.upload(), Vec::<String>::new());
}

// S1
#[test]
fn a_cascade_never_takes_a_changed_row_along() {
    for change in ["UPDATE c SET v = 5 WHERE id = 10", "INSERT INTO c VALUES (12, 1, 5)"] {
        let mut site = Site::new(CASCADE);
        site.write(change);
        let before = site.rows("SELECT * FROM c");
        let failure = site.download().delete("p", &[&[int(1)]]).apply().unwrap_err();
        assert_eq!(failure.code(), Code::ApplyBlocked);
        assert_eq!(site.rows("SELECT * FROM c"), before);
        assert_eq!(site.upload().len(), 1, "the change is still there");
    }
}

// Trap 6
#[test]
fn changes_made_while_the_upload_was_under_way_survive_the_download() {
    let mut site = Site::new(T);
    site.write("UPDATE t SET v = 11 WHERE id = 1");
    site.freeze();
    site.write("UPDATE t SET v = 12 WHERE id = 1; DELETE FROM t WHERE id = 2");
    site.download().upsert("t", &[&row(1, "resolved", 11), &row(2, "b", 21)]).apply().unwrap();
    assert_eq!(rows(&site), ["1, 'a', 12"]);
    assert_eq!(site.upload(), ["update t (1, 'a', 11) -> (1, 'a', 12)", "delete t (2, 'b', 20)",]);
}

// Trap 15
#[test]
fn values_of_every_kind_are_stored_as_they_came() {
    let values = [
        Value::Integer(i64::MIN),
        Value::Integer(i64::MAX),
        Value::Real(f64::INFINITY),
        Value::Real(-0.5),
        Value::Text(b"a\0b".to_vec()),
        Value::Text(vec![0xff, 0x41]),
        Value::Text(Vec::new()),
        Value::Blob(Vec::new()),
        Value::Blob(vec![0, 255]),
        Value::Null,
    ];
    let rows: Vec<Vec<Value>> =
        values.iter().enumerate().map(|(n, value)| vec![int(n as i64), value.clone()]).collect();
    let slices: Vec<&[Value]> = rows.iter().map(Vec::as_slice).collect();
    for table in ["one_by_one", "at_once"] {
        let mut site = Site::new(&format!("CREATE TABLE {table}(id INTEGER PRIMARY KEY, v)"));
        let download = site.download();
        let download = if table == "at_once" { download.refresh(table) } else { download };
        download.upsert(table, &slices).apply().unwrap();
        let sql = format!("SELECT v FROM {table} ORDER BY id");
        let mut statement = site.remote.connection.prepare(&sql).unwrap();
        let mut stored = statement.query([]).unwrap();
        for value in &values {
            let row = stored.next().unwrap().unwrap();
            let found = crate::connection::value(row, 0).unwrap();
            assert!(found.identical(value.as_ref()), "{found:?} is not {value:?}");
        }
        // SQLite has no NaN: it stores NULL.
        drop(stored);
        drop(statement);
        site.download().upsert(table, &[&[int(99), Value::Real(f64::NAN)]]).apply().unwrap();
        assert_eq!(site.rows(&format!("SELECT v FROM {table} WHERE id = 99")), ["NULL"]);
    }
}

#[test]
fn names_and_keys_of_every_kind_are_written() {
    let mut site = Site::new(
        r#"CREATE TABLE "my ""own"" Tab'le"("the Key" TEXT COLLATE NOCASE, b, "select" INT,
           PRIMARY KEY (b, "the Key")) WITHOUT ROWID; CREATE TABLE k(a, b, PRIMARY KEY (a, b));
           INSERT INTO k VALUES (1, 2); INSERT INTO k VALUES (NULL, NULL);"#,
    );
    let name = r#"my "own" Tab'le"#;
    for v in 1..=2 {
        site.download()
            .upsert(name, &[&[text(if v == 1 { "k" } else { "K" }), int(1), int(v)]])
            .refresh("k")
            .upsert("k", &[&[int(3), int(v)]])
            .apply()
            .unwrap();
    }
    assert_eq!(site.rows(r#"SELECT * FROM "my ""own"" Tab'le""#), ["'K', 1, 2"]);
    assert_eq!(site.rows("SELECT * FROM k ORDER BY a"), ["NULL, NULL", "3, 2"]);
    site.download().delete(name, &[&[int(1), text("k")]]).apply().unwrap();
    assert_eq!(site.rows(r#"SELECT * FROM "my ""own"" Tab'le""#), Vec::<String>::new());
    assert_eq!(site.upload(), Vec::<String>::new());
}

// S9
#[test]
fn a_download_of_many_rows_that_wait_for_each_other_is_bounded_by_memory() {
    let mut site = Site::new("CREATE TABLE t(id INTEGER PRIMARY KEY, u INT UNIQUE, pad TEXT);");
    site.write(
        "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
         INSERT INTO t SELECT i, i, hex(zeroblob(100)) FROM n",
    );
    site.upload();
    let moved: Vec<Vec<Value>> =
        (1..=10_000).map(|i| vec![int(i), int(i % 10_000 + 1), text(&"x".repeat(100))]).collect();
    let slices: Vec<&[Value]> = moved.iter().map(Vec::as_slice).collect();
    site.download().upsert("t", &slices).apply().unwrap();
    assert_eq!(site.rows("SELECT count(*) FROM t WHERE u = id % 10000 + 1"), ["10000"]);
    assert_eq!(site.remote.spills.memory_bytes(), 0);
}
