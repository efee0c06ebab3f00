//! What a key change at the center makes of the remote.

use crate::testing::{Site, int, text};
use model::{Code, Value};

const T: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT UNIQUE, v INT);
                 INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30);";

fn row(id: i64, u: &str, v: i64) -> Vec<Value> {
    vec![int(id), text(u), int(v)]
}

fn rows(site: &Site) -> Vec<String> {
    site.rows("SELECT * FROM t ORDER BY 1")
}

const NONE: Vec<String> = Vec::new();

// S3, S5
#[test]
fn a_row_gets_its_new_key_and_nothing_is_uploaded_for_it() {
    let mut site = Site::new(T);
    for _ in 0..2 {
        // Twice, because a download may arrive again after a lost answer.
        site.download().key_change("t", &[(&[int(1)], &row(9, "a", 11))]).apply().unwrap();
        assert_eq!(rows(&site), ["2, 'b', 20", "3, 'c', 30", "9, 'a', 11"]);
    }
    assert_eq!(site.upload(), NONE);
    // A row that never came is new.
    site.download().key_change("t", &[(&[int(77)], &row(7, "g", 1))]).apply().unwrap();
    assert_eq!(site.rows("SELECT * FROM t WHERE id = 7"), ["7, 'g', 1"]);
}

// Trap 10
#[test]
fn chains_and_swaps_come_out_right_in_every_order() {
    let chain = [
        (vec![int(1)], row(2, "a", 1)),
        (vec![int(2)], row(3, "b", 2)),
        (vec![int(3)], row(4, "c", 3)),
    ];
    let ring = [
        (vec![int(1)], row(2, "a", 1)),
        (vec![int(2)], row(3, "b", 2)),
        (vec![int(3)], row(1, "c", 3)),
    ];
    for (changes, wanted) in [
        (&chain, ["2, 'a', 1", "3, 'b', 2", "4, 'c', 3"]),
        (&ring, ["1, 'c', 3", "2, 'a', 1", "3, 'b', 2"]),
    ] {
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
            let mut site = Site::new(&format!(
                "{T} CREATE TABLE mine(of INT PRIMARY KEY REFERENCES t ON UPDATE CASCADE
                 ON DELETE CASCADE, name); INSERT INTO mine SELECT id, u FROM t;"
            ));
            let published: Vec<_> =
                site.all_tables().into_iter().filter(|table| table.name == "t").collect();
            site.publish(&published);
            let ordered: Vec<(&[Value], &[Value])> =
                order.map(|at| (changes[at].0.as_slice(), changes[at].1.as_slice())).into();
            site.download().key_change("t", &ordered).apply().unwrap();
            assert_eq!(rows(&site), wanted, "{order:?}");
            // What only this file knows has followed its row.
            assert_eq!(
                site.rows("SELECT count(*) FROM mine JOIN t ON t.id = of AND name = u"),
                ["3"],
                "{order:?}"
            );
        }
    }
}

// S3. The center replaced the row that had the key: only the moved one is sent.
#[test]
fn a_row_that_still_has_the_key_makes_way() {
    let mut site = Site::new(T);
    site.download().key_change("t", &[(&[int(1)], &row(2, "a", 1))]).apply().unwrap();
    assert_eq!(rows(&site), ["2, 'a', 1", "3, 'c', 30"]);
    // A former row of the chain is not here: nothing is carried on further than it went.
    let mut site = Site::new(T);
    site.write("DELETE FROM t WHERE id = 2");
    site.settle();
    let changes: [(&[Value], &[Value]); 2] =
        [(&[int(1)], &row(2, "a", 1)), (&[int(2)], &row(5, "b", 2))];
    site.download().key_change("t", &changes).apply().unwrap();
    assert_eq!(rows(&site), ["2, 'a', 1", "3, 'c', 30", "5, 'b', 2"]);
}

const FAMILY: &str = "CREATE TABLE p(id INTEGER PRIMARY KEY, v INT);
    CREATE TABLE t(id INTEGER PRIMARY KEY, p INT REFERENCES p ON UPDATE CASCADE, v INT);
    CREATE TABLE n(p INT REFERENCES p ON UPDATE CASCADE, n INT, v INT, PRIMARY KEY(p, n));
    INSERT INTO p VALUES (1, 0), (2, 0); INSERT INTO t VALUES (10, 1, 0), (20, 2, 0);
    INSERT INTO n VALUES (1, 1, 0), (2, 1, 0);";

// S3, Trap 10: the center swapped two parents, and deleted a child under its new key. No delete
// names the key of the child here, because another row has it now. Its own children go too.
#[test]
fn a_child_that_was_deleted_after_it_moved_makes_way() {
    for action in ["ON UPDATE CASCADE", "", "ON UPDATE CASCADE ON DELETE CASCADE"] {
        let site = || {
            let grandchildren = format!(
                "CREATE TABLE g(p INT, n INT, m INT, v INT, PRIMARY KEY(p, n, m),
                    FOREIGN KEY (p, n) REFERENCES n {action});
                 INSERT INTO g VALUES (1, 1, 1, 1), (1, 1, 2, 1), (2, 1, 1, 2);"
            );
            Site::new(&[&FAMILY.replace("ON UPDATE CASCADE", action), &grandchildren[..]].concat())
        };
        let swap: [(&[Value], &[Value]); 2] =
            [(&[int(1)], &[int(2), int(0)]), (&[int(2)], &[int(1), int(0)])];
        for order in [[0, 1], [1, 0]] {
            let mut site = site();
            site.download()
                .delete("n", &[&[int(2), int(1)]])
                .delete("g", &[&[int(1), int(1), int(2)], &[int(2), int(1), int(1)]])
                .key_change("p", &order.map(|at| swap[at]))
                .key_change("n", &[(&[int(2), int(1)], &[int(1), int(1), int(7)])])
                .key_change("g", &[(&[int(2), int(1), int(1)], &[int(1), int(1), int(1), int(2)])])
                .apply()
                .unwrap();
            assert_eq!(site.rows("SELECT * FROM n"), ["1, 1, 7"], "{action}");
            assert_eq!(site.rows("SELECT * FROM g"), ["1, 1, 1, 2"], "{action}");
            assert_eq!(site.upload(), NONE, "{action}");
        }
        // An edit of it goes up first.
        let mut site = site();
        site.write("UPDATE n SET v = 5 WHERE p = 1");
        let applied = site
            .download()
            .key_change("p", &swap)
            .key_change("n", &[(&[int(2), int(1)], &[int(1), int(1), int(7)])])
            .apply();
        assert!(applied.is_ok() || applied.unwrap_err().code() == Code::ApplyBlocked, "{action}");
        assert_eq!(site.upload(), ["update n (1, 1, 0) -> (1, 1, 5)"], "{action}");
    }
}

// S5: an edit of a child that waits at another remote than the one that changed the key.
#[test]
fn a_change_of_a_child_follows_its_parent_and_is_no_conflict() {
    for action in ["ON UPDATE CASCADE", "", "ON DELETE CASCADE"] {
        let mut site = Site::new(&FAMILY.replace("ON UPDATE CASCADE", action));
        site.write(
            "UPDATE t SET v = 5 WHERE id = 10; INSERT INTO t VALUES (11, 1, 6);
             UPDATE n SET v = 7 WHERE p = 1; INSERT INTO n VALUES (1, 2, 8)",
        );
        site.download()
            .key_change("p", &[(&[int(1)], &[int(3), int(0)])])
            .upsert("t", &[&[int(10), int(3), int(0)]])
            .key_change("n", &[(&[int(1), int(1)], &[int(3), int(1), int(0)])])
            .apply()
            .unwrap();
        assert_eq!(site.rows("SELECT * FROM t"), ["10, 3, 5", "11, 3, 6", "20, 2, 0"]);
        assert_eq!(site.rows("SELECT * FROM n ORDER BY p, n"), ["2, 1, 0", "3, 1, 7", "3, 2, 8"]);
        assert_eq!(
            site.upload(),
            [
                "insert t (11, 3, 6)",
                "update t (10, 3, 0) -> (10, 3, 5)",
                "insert n (3, 2, 8)",
                "update n (3, 1, 0) -> (3, 1, 7)"
            ],
            "{action}"
        );
    }
}

// S5
#[test]
fn parents_that_swap_keep_their_own_children() {
    for edited in [false, true] {
        let mut site = Site::new(FAMILY);
        if edited {
            site.write("UPDATE n SET v = 7 WHERE p = 1; UPDATE t SET v = 7 WHERE p = 1");
        }
        let v = i64::from(edited) * 7;
        let swap: [(&[Value], &[Value]); 2] =
            [(&[int(1)], &[int(2), int(1)]), (&[int(2)], &[int(1), int(2)])];
        let children: [(&[Value], &[Value]); 2] = [
            (&[int(1), int(1)], &[int(2), int(1), int(0)]),
            (&[int(2), int(1)], &[int(1), int(1), int(0)]),
        ];
        site.download()
            .key_change("p", &swap)
            .upsert("t", &[&[int(10), int(2), int(0)], &[int(20), int(1), int(0)]])
            .key_change("n", &children)
            .apply()
            .unwrap();
        assert_eq!(site.rows("SELECT * FROM p"), ["1, 2", "2, 1"]);
        assert_eq!(site.rows("SELECT * FROM t"), [format!("10, 2, {v}"), "20, 1, 0".into()]);
        assert_eq!(
            site.rows("SELECT * FROM n ORDER BY p, n"),
            ["1, 1, 0".into(), format!("2, 1, {v}")]
        );
        let wanted = ["update t (10, 2, 0) -> (10, 2, 7)", "update n (2, 1, 0) -> (2, 1, 7)"];
        assert_eq!(site.upload(), if edited { wanted.to_vec() } else { Vec::new() });
    }
}

// S3: the center's log names the key that the remote knows.
#[test]
fn a_child_that_was_deleted_before_its_parent_moved_is_deleted() {
    let mut site = Site::new(FAMILY);
    site.download()
        .key_change("p", &[(&[int(1)], &[int(3), int(0)])])
        .upsert("n", &[&[int(3), int(9), int(0)]])
        .delete("n", &[&[int(1), int(1)]])
        .apply()
        .unwrap();
    assert_eq!(site.rows("SELECT * FROM n ORDER BY p, n"), ["2, 1, 0", "3, 9, 0"]);
}

// Trap 7
#[test]
fn a_change_under_the_old_key_goes_up_under_the_new_one() {
    let mut site = Site::new(T);
    site.write("UPDATE t SET v = 99 WHERE id = 1; DELETE FROM t WHERE id = 2");
    let changes: [(&[Value], &[Value]); 2] =
        [(&[int(1)], &row(2, "a", 10)), (&[int(2)], &row(5, "b", 20))];
    site.download().key_change("t", &changes).apply().unwrap();
    assert_eq!(rows(&site), ["2, 'a', 99", "3, 'c', 30"]);
    assert_eq!(site.upload(), ["update t (2, 'a', 10) -> (2, 'a', 99)", "delete t (5, 'b', 20)"]);
    // If other columns changed there too, this is a conflict as usual: the base is the row that
    // this remote knew.
    let mut site = Site::new(T);
    site.write("UPDATE t SET v = 99 WHERE id = 1");
    site.download().key_change("t", &[(&[int(1)], &row(9, "z", 11))]).apply().unwrap();
    assert_eq!(site.upload(), ["update t (9, 'a', 10) -> (9, 'a', 99)"]);
    // And it comes when the change is undone.
    let mut site = Site::new(T);
    site.write("UPDATE t SET v = 99 WHERE id = 1");
    site.download().key_change("t", &[(&[int(1)], &row(9, "z", 11))]).apply().unwrap();
    site.write("UPDATE t SET v = 10 WHERE id = 9");
    assert_eq!(site.upload(), NONE);
    assert_eq!(rows(&site)[2], "9, 'z', 11");
    assert_eq!(site.rows("SELECT * FROM syncline_incoming_t"), NONE);
}

// Trap 7
#[test]
fn a_change_under_the_new_key_stays_beside_what_came() {
    let mut site = Site::new(T);
    site.write("INSERT INTO t VALUES (9, 'mine', 1)");
    site.download().key_change("t", &[(&[int(1)], &row(9, "a", 11))]).apply().unwrap();
    assert_eq!(rows(&site), ["2, 'b', 20", "3, 'c', 30", "9, 'mine', 1"]);
    site.write("DELETE FROM t WHERE id = 9");
    assert_eq!(site.upload(), NONE);
    assert_eq!(rows(&site)[2], "9, 'a', 11");
    // Two changes for one key: the uploads tell the center.
    let mut site = Site::new(T);
    site.write("INSERT INTO t VALUES (9, 'mine', 1); UPDATE t SET v = 99 WHERE id = 1");
    let download = site.download().key_change("t", &[(&[int(1)], &row(9, "a", 11))]);
    assert_eq!(download.apply().unwrap_err().code(), Code::ApplyBlocked);
}

// S1, S3, Trap 7: a row that came to the center and got another key there since the last download
// may be sent with its first key. A row of this file's own may have that key.
#[test]
fn a_row_of_its_own_stays_under_a_key_that_another_row_had_at_the_center() {
    let mut site = Site::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v INT);
         CREATE TABLE child(id INTEGER PRIMARY KEY, t INT REFERENCES t ON UPDATE CASCADE);",
    );
    site.write("INSERT INTO t VALUES (7, 1); INSERT INTO child VALUES (70, 7)");
    let changes: [(&[Value], &[Value]); 2] =
        [(&[int(7)], &[int(8), int(2)]), (&[int(9)], &[int(10), int(3)])];
    site.download().key_change("t", &changes).apply().unwrap();
    assert_eq!(rows(&site), ["7, 1", "8, 2", "10, 3"]);
    assert_eq!(site.rows("SELECT * FROM child"), ["70, 7"]);
    assert_eq!(site.upload(), ["insert t (7, 1)", "insert child (70, 7)"]);
}

// Trap 7: both have given the row another key. The center sees it, as it does where the upload
// comes first.
#[test]
fn a_key_that_was_changed_here_too_waits_for_the_center() {
    let mut site =
        Site::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 0);");
    site.write("UPDATE t SET id = 5");
    site.download().key_change("t", &[(&[int(1)], &[int(9), int(0)])]).apply().unwrap();
    assert_eq!(rows(&site), ["5, 0", "9, 0"]);
    assert_eq!(site.upload(), ["key change t (1, 0) -> (5, 0)"]);
}

// A3
#[test]
fn another_spelling_of_the_key_arrives() {
    for edited in [false, true] {
        let mut site = Site::new(
            "CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY, v INT);
             CREATE TABLE c(id INTEGER PRIMARY KEY, k TEXT COLLATE NOCASE REFERENCES t
             ON UPDATE CASCADE);
             INSERT INTO t VALUES ('a', 1), ('b', 2); INSERT INTO c VALUES (1, 'a');",
        );
        if edited {
            site.write("UPDATE t SET v = 9 WHERE k = 'a'");
        }
        site.download().key_change("t", &[(&[text("a")], &[text("A"), int(1)])]).apply().unwrap();
        let v = if edited { 9 } else { 1 };
        assert_eq!(site.rows("SELECT * FROM t"), [format!("'A', {v}"), "'b', 2".into()]);
        let upload: &[&str] = if edited { &["update t ('A', 1) -> ('A', 9)"] } else { &[] };
        assert_eq!(site.upload(), upload);
    }
}

// A3: a center that names no key change deletes one spelling and sends the other. Here both are
// one key: the delete took away the row that had just come, with its children and its edit.
#[test]
fn a_delete_of_another_spelling_leaves_the_row_that_came() {
    for (key, old, new) in [
        ("TEXT COLLATE NOCASE", "'a'", text("A")),
        ("TEXT COLLATE RTRIM", "'a'", text("a ")),
        ("", "1", Value::Real(1.0)),
    ] {
        for edited in [false, true] {
            let mut site = Site::new(&format!(
                "CREATE TABLE t(k {key} PRIMARY KEY, v INT);
                 CREATE TABLE c(id INTEGER PRIMARY KEY, k {key} REFERENCES t ON DELETE CASCADE);
                 INSERT INTO t VALUES ({old}, 1), ('b', 2); INSERT INTO c VALUES (1, {old});"
            ));
            if edited {
                site.write("UPDATE t SET v = 9 WHERE v = 1");
            }
            let old_key = match old {
                "1" => int(1),
                _ => text("a"),
            };
            site.download()
                .upsert("t", &[&[new.clone(), int(1)]])
                .delete("t", &[&[old_key], &[text("b")]])
                .apply()
                .unwrap();
            let spelled = if edited { old.to_owned() } else { new.as_ref().display() };
            let v = if edited { 9 } else { 1 };
            assert_eq!(site.rows("SELECT * FROM t"), [format!("{spelled}, {v}")], "{key}");
            assert_eq!(site.rows("SELECT count(*) FROM c"), ["1"]);
            if edited {
                // The change is undone, so the downloaded row is applied: the key in its new
                // notation.
                site.write("UPDATE t SET v = 1");
                assert_eq!(site.upload(), NONE);
                assert_eq!(
                    site.rows("SELECT * FROM t"),
                    [format!("{}, 1", new.as_ref().display())]
                );
            }
        }
    }
    // The row that is really gone goes, however this file spells it.
    let mut site = Site::new(
        "CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY); INSERT INTO t VALUES ('A'), ('b');",
    );
    site.download().upsert("t", &[&[text("c")]]).delete("t", &[&[text("a")]]).apply().unwrap();
    assert_eq!(site.rows("SELECT * FROM t"), ["'b'", "'c'"]);
}
