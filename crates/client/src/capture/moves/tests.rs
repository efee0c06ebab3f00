//! A row that gets another key is the same row: uploaded as one change, whatever else happens.

use super::*;
use crate::progress;
use crate::progress::state;
use crate::testing::{Site, WRITERS};
use std::collections::{BTreeMap, BTreeSet};

/// Whatever program executes `changes` on tables made by `tables`, this is uploaded.
fn check(tables: &str, changes: &str, expected: &[&str]) {
    for writer in WRITERS {
        let mut site = Site::new(tables);
        site.write_as(writer, changes);
        let mut lines = site.upload();
        lines.sort();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(lines, expected, "{writer:?}: {changes}");
        assert_eq!(site.upload(), Vec::<String>::new(), "nothing is uploaded twice");
        assert_eq!(site.rows("SELECT * FROM syncline_moved_t"), Vec::<String>::new());
    }
}

const T: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT UNIQUE, v INT);
                 INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30);";

// S5, Trap 10: a key change went up as delete and insert. At the center ON DELETE CASCADE then
// wiped children that this remote never had.
#[test]
fn a_key_change_is_one_change() {
    check(T, "UPDATE t SET id = 9 WHERE id = 1", &["key change t (1, 'a', 10) -> (9, 'a', 10)"]);
    check(
        T,
        "UPDATE t SET v = 0 WHERE id = 1; UPDATE t SET id = 8 WHERE id = 1;
         UPDATE t SET u = 'z' WHERE id = 8; UPDATE t SET id = 9, v = 1 WHERE id = 8",
        &["key change t (1, 'a', 10) -> (9, 'z', 1)"],
    );
    let parts = "CREATE TABLE t(a, b INT, c TEXT, v, PRIMARY KEY(c, a)) WITHOUT ROWID;
                 INSERT INTO t VALUES (1, 2, 'x', 3), (1, 2, 'y', 4);";
    check(
        parts,
        "UPDATE t SET a = 2 WHERE c = 'x'; UPDATE t SET a = a, c = c, v = 5 WHERE c = 'y'",
        &[
            "key change t (1, 2, 'x', 3) -> (2, 2, 'x', 3)",
            "update t (1, 2, 'y', 4) -> (1, 2, 'y', 5)",
        ],
    );
}

// Trap 10
#[test]
fn chains_and_swaps_keep_each_row_apart() {
    check(
        T,
        "UPDATE t SET id = 4 WHERE id = 3; UPDATE t SET id = 3 WHERE id = 2;
         UPDATE t SET id = 2 WHERE id = 1",
        &[
            "key change t (1, 'a', 10) -> (2, 'a', 10)",
            "key change t (2, 'b', 20) -> (3, 'b', 20)",
            "key change t (3, 'c', 30) -> (4, 'c', 30)",
        ],
    );
    check(
        T,
        "UPDATE t SET id = 9 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2;
         UPDATE t SET id = 2 WHERE id = 9",
        &["key change t (1, 'a', 10) -> (2, 'a', 10)", "key change t (2, 'b', 20) -> (1, 'b', 20)"],
    );
    check(
        T,
        "UPDATE t SET id = 9 WHERE id = 1; UPDATE t SET id = 1, v = 11 WHERE id = 9",
        &["update t (1, 'a', 10) -> (1, 'a', 11)"],
    );
}

#[test]
fn what_is_inserted_deleted_or_replaced_on_the_way_is_no_key_change() {
    // Inserted here: the center never knew the first key.
    check(
        T,
        "INSERT INTO t VALUES (7, 'g', 70); UPDATE t SET id = 8 WHERE id = 7",
        &["insert t (8, 'g', 70)"],
    );
    check(
        T,
        "UPDATE t SET id = 9 WHERE id = 1; DELETE FROM t WHERE id = 9",
        &["delete t (1, 'a', 10)"],
    );
    // Another row takes the key that was left.
    check(
        T,
        "UPDATE t SET id = 9 WHERE id = 1; INSERT INTO t VALUES (1, 'n', 0)",
        &["key change t (1, 'a', 10) -> (9, 'a', 10)", "insert t (1, 'n', 0)"],
    );
    check(
        T,
        "UPDATE t SET id = 9 WHERE id = 1; INSERT INTO t VALUES (1, 'n', 0);
         UPDATE t SET id = 7 WHERE id = 1; DELETE FROM t WHERE id = 9",
        &["delete t (1, 'a', 10)", "insert t (7, 'n', 0)"],
    );
    // Another row takes the key of one that was deleted.
    check(
        T,
        "DELETE FROM t WHERE id = 2; UPDATE t SET id = 2 WHERE id = 1",
        &["key change t (1, 'a', 10) -> (2, 'a', 10)", "delete t (2, 'b', 20)"],
    );
    check(
        T,
        "UPDATE OR REPLACE t SET id = 2 WHERE id = 1; UPDATE OR REPLACE t SET id = 2 WHERE id = 3",
        &[
            "delete t (1, 'a', 10)",
            "delete t (2, 'b', 20)",
            "key change t (3, 'c', 30) -> (2, 'c', 30)",
        ],
    );
    // SQLite gives the number of a deleted row to the next one, which has nothing to do with it.
    check(
        T,
        "UPDATE t SET id = 100 WHERE id = 1; DELETE FROM t WHERE id = 100;
         INSERT INTO t VALUES (100, 'n', 0)",
        &["delete t (1, 'a', 10)", "insert t (100, 'n', 0)"],
    );
    check(
        T,
        "UPDATE t SET id = 9 WHERE id = 1;
         INSERT INTO t VALUES (9, 'x', 0) ON CONFLICT (id) DO UPDATE SET v = 5;
         INSERT OR IGNORE INTO t VALUES (9, 'y', 0)",
        &["key change t (1, 'a', 10) -> (9, 'a', 5)"],
    );
}

// An ignored update fires triggers before it, and then does not happen.
#[test]
fn an_update_that_is_ignored_or_fails_moves_nothing() {
    check(T, "UPDATE OR IGNORE t SET id = 2 WHERE id = 1", &[]);
    check(T, "UPDATE OR IGNORE t SET id = 9, u = 'b' WHERE id = 1", &[]);
    check(T, "BEGIN; UPDATE t SET id = 9 WHERE id = 1; ROLLBACK", &[]);
    let mut site = Site::new(T);
    site.try_write("UPDATE OR FAIL t SET id = 2 WHERE id = 1").unwrap_err();
    assert_eq!(site.upload(), Vec::<String>::new());
}

// A3
#[test]
fn another_spelling_of_an_equal_key_is_a_key_change() {
    let any = "CREATE TABLE t(k PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 2);";
    check(any, "UPDATE t SET k = 1.0", &["key change t (1, 2) -> (1, 2)"]);
    let rtrim = "CREATE TABLE t(k TEXT COLLATE RTRIM PRIMARY KEY, v INT);
                 INSERT INTO t VALUES ('a', 1), ('b', 2);";
    check(rtrim, "UPDATE t SET k = 'a  ' WHERE v = 1", &["key change t ('a', 1) -> ('a  ', 1)"]);
    check(
        rtrim,
        "UPDATE t SET k = 'c' WHERE v = 1; UPDATE t SET k = 'c ' WHERE v = 1;
         UPDATE t SET k = 'd' WHERE v = 2; UPDATE t SET k = 'b ' WHERE v = 2",
        &["key change t ('a', 1) -> ('c ', 1)", "key change t ('b', 2) -> ('b ', 2)"],
    );
    check(rtrim, "UPDATE t SET k = k || '  '; UPDATE t SET k = rtrim(k)", &[]);
}

// Trap 11
#[test]
fn the_keys_of_children_follow_by_the_tables_own_foreign_keys() {
    let tables = "CREATE TABLE t(id INTEGER PRIMARY KEY);
         CREATE TABLE c(p REFERENCES t ON UPDATE CASCADE, n INT, v, PRIMARY KEY(p, n));
         INSERT INTO t VALUES (1), (2); INSERT INTO c VALUES (1, 1, 'x'), (2, 1, 'y');";
    check(
        tables,
        "UPDATE t SET id = 3 WHERE id = 1; UPDATE c SET v = 'z' WHERE p = 3",
        &["key change t (1) -> (3)", "key change c (1, 1, 'x') -> (3, 1, 'z')"],
    );
}

#[test]
fn rows_that_lose_or_get_a_key_are_no_key_changes() {
    let tables = "CREATE TABLE t(k TEXT PRIMARY KEY, v); INSERT INTO t VALUES ('a', 1), (NULL, 2);";
    check(
        tables,
        "UPDATE t SET k = 'b' WHERE v = 1; UPDATE t SET k = NULL WHERE v = 1;
         UPDATE t SET k = 'c' WHERE v = 2",
        &["delete t ('a', 1)", "insert t ('c', 2)"],
    );
    check(
        tables,
        "UPDATE t SET k = 'b' WHERE v = 1; UPDATE t SET k = NULL WHERE v = 1;
         INSERT INTO t VALUES ('b', 3)",
        &["delete t ('a', 1)", "insert t ('b', 3)"],
    );
}

// Trap 6
#[test]
fn a_frozen_key_change_stays_as_it_was_frozen() {
    let mut site = Site::new(T);
    site.write("UPDATE t SET id = 9 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2");
    site.freeze();
    let frozen = site.frozen_upload();
    assert_eq!(
        frozen,
        ["key change t (1, 'a', 10) -> (9, 'a', 10)", "key change t (2, 'b', 20) -> (1, 'b', 20)"]
    );
    for change in [
        "UPDATE t SET id = 8 WHERE id = 9",
        "UPDATE t SET v = 0",
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO t VALUES (9, 'new', 0)",
        "UPDATE t SET id = 2 WHERE id = 8",
    ] {
        site.write(change);
        assert_eq!(site.frozen_upload(), frozen, "after {change}");
    }
    let state = state::State::read(&site.remote.connection).unwrap();
    let tables = site.tables();
    progress::commit_frozen(&site.remote.connection, &tables, state.frozen.unwrap(), None).unwrap();
    assert_eq!(
        site.upload(),
        [
            "key change t (9, 'a', 10) -> (2, 'a', 0)",
            "insert t (9, 'new', 0)",
            "update t (3, 'c', 30) -> (3, 'c', 0)",
            "delete t (1, 'b', 20)",
        ]
    );
}

// Trap 6
#[test]
fn key_changes_that_were_not_committed_merge_with_later_ones() {
    let check = |first: &str, second: &str, expected: &[&str]| {
        let mut site = Site::new(T);
        site.write(first);
        let state = site.freeze();
        site.write(second);
        let tables = site.tables();
        let (frozen, open) = (state.frozen.unwrap(), state.open_generation);
        progress::merge_back(&site.remote.connection, &tables, frozen, open).unwrap();
        assert_eq!(site.upload(), expected, "{first}; {second}");
    };
    check(
        "UPDATE t SET id = 8 WHERE id = 1",
        "UPDATE t SET id = 9 WHERE id = 8",
        &["key change t (1, 'a', 10) -> (9, 'a', 10)"],
    );
    check("UPDATE t SET id = 8 WHERE id = 1", "UPDATE t SET id = 1 WHERE id = 8", &[]);
    check(
        "INSERT INTO t VALUES (8, 'h', 0)",
        "UPDATE t SET id = 9 WHERE id = 8",
        &["insert t (9, 'h', 0)"],
    );
    check(
        "UPDATE t SET id = 8 WHERE id = 1",
        "DELETE FROM t WHERE id = 8; INSERT INTO t VALUES (1, 'n', 0)",
        &["update t (1, 'a', 10) -> (1, 'n', 0)"],
    );
    check(
        "UPDATE t SET id = 8 WHERE id = 1",
        "UPDATE t SET id = 7 WHERE id = 8; UPDATE t SET id = 8 WHERE id = 2",
        &["key change t (1, 'a', 10) -> (7, 'a', 10)", "key change t (2, 'b', 20) -> (8, 'b', 20)"],
    );
    check(
        "UPDATE t SET id = 8 WHERE id = 1; INSERT INTO t VALUES (1, 'n', 0)",
        "UPDATE t SET id = 9 WHERE id = 1",
        &["key change t (1, 'a', 10) -> (8, 'a', 10)", "insert t (9, 'n', 0)"],
    );
    check(
        "UPDATE t SET v = 0 WHERE id = 1",
        "UPDATE t SET id = 9 WHERE id = 1",
        &["key change t (1, 'a', 10) -> (9, 'a', 0)"],
    );
    check(
        "UPDATE t SET id = 8 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2",
        "UPDATE t SET id = 2 WHERE id = 8",
        &["key change t (1, 'a', 10) -> (2, 'a', 10)", "key change t (2, 'b', 20) -> (1, 'b', 20)"],
    );
}

/// A row of the model: key, value, and the tag that it was inserted with.
type Rows = BTreeMap<i64, (i64, i64)>;

/// Numbers drawn from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> i64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit) as i64
    }
}

fn image(text: &str) -> (i64, (i64, i64)) {
    let values: Vec<i64> =
        text.trim_matches(['(', ')']).split(", ").map(|value| value.parse().unwrap()).collect();
    (values[0], (values[1], values[2]))
}

/// Does to the rows of the center what an upload says, which must fit to them row by row.
fn replay(center: &mut Rows, lines: &[String], plain: bool) {
    let (mut arriving, mut gone) = (Vec::new(), BTreeSet::new());
    let leave = |center: &mut Rows, old: &str| {
        let (key, row) = image(old);
        assert_eq!(
            center.remove(&key),
            Some(row),
            "the old image is that of the center: {lines:?}"
        );
        row
    };
    for line in lines {
        let (operation, images) = line.split_once(" t ").unwrap();
        match operation {
            "insert" => arriving.push((image(images), false)),
            "delete" => drop(gone.insert(leave(center, images).1)),
            "update" | "key change" => {
                let (old, new) = images.split_once(" -> ").unwrap();
                let before = leave(center, old);
                let (key, after) = image(new);
                assert_eq!(key == image(old).0, operation == "update", "{line}");
                let same = before.1 == after.1;
                if !same {
                    gone.insert(before.1);
                }
                arriving.push(((key, after), same));
            }
            other => panic!("{other}"),
        }
    }
    for ((key, row), same) in arriving {
        assert!(same || !plain || !gone.contains(&row.1), "torn apart: {lines:?}");
        assert_eq!(
            center.insert(key, row),
            None,
            "a key is free when a row comes to it: {lines:?}"
        );
    }
}

fn live(site: &Site) -> Rows {
    site.rows("SELECT * FROM t").iter().map(|row| image(row)).collect()
}

/// A change as an application might make it. Plain ones never give a key to a new row that another
/// has had, so that rows can be distinguished by their tags.
fn change(draw: &mut Draw, fresh: &mut i64, plain: bool) -> String {
    let (a, b, v) = (draw.below(7), draw.below(7), draw.below(5));
    *fresh += 1;
    let tag = *fresh;
    match draw.below(if plain { 6 } else { 12 }) {
        0 if plain => format!("INSERT INTO t VALUES ({}, {v}, {tag})", tag + 1000),
        0 | 6 => format!("INSERT OR IGNORE INTO t VALUES ({a}, {v}, {tag})"),
        1 => format!("UPDATE t SET v = {v} WHERE id = {a}"),
        2 => format!("DELETE FROM t WHERE id = {a}"),
        3 => format!("UPDATE OR IGNORE t SET id = {b} WHERE id = {a}"),
        4 => format!(
            "UPDATE t SET id = -1 WHERE id = {a}; UPDATE t SET id = {a} WHERE id = {b};
             UPDATE t SET id = {b} WHERE id = -1"
        ),
        5 => format!("UPDATE OR IGNORE t SET id = {a} WHERE id = (SELECT max(id) FROM t)"),
        7 => format!("REPLACE INTO t VALUES ({a}, {v}, {tag})"),
        8 => format!("UPDATE OR REPLACE t SET id = {b} WHERE id = {a}"),
        9 => format!(
            "INSERT INTO t VALUES ({a}, {v}, {tag}) ON CONFLICT (id) DO UPDATE SET v = excluded.v"
        ),
        10 => "UPDATE t SET id = -id - 10; UPDATE t SET id = -id - 10".into(),
        _ => format!("BEGIN; UPDATE OR REPLACE t SET id = {b} WHERE id = {a}; ROLLBACK"),
    }
}

// S1, S3: whatever is changed, frozen, committed and merged in whatever order, the uploads make of
// the rows of the center the rows of here, and a row that only got another key stays the same row.
#[test]
fn uploads_of_random_changes_make_the_rows_of_here() {
    for seed in 0..120 {
        let (plain, draw) = (seed % 2 == 0, &mut Draw(seed));
        let mut fresh = 100;
        let mut site = Site::new(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v INT, tag INT);
             INSERT INTO t VALUES (0, 0, 1), (1, 0, 2), (2, 0, 3), (3, 0, 4);",
        );
        let mut center = live(&site);
        let writer = Connection::open(site.path()).unwrap();
        for _ in 0..6 {
            let mut frozen = None;
            for _ in 0..2 {
                for _ in 0..draw.below(6) {
                    let sql = change(draw, &mut fresh, plain);
                    writer.execute_batch(&sql).unwrap();
                }
                let tables = site.tables();
                match frozen.take() {
                    None => {
                        let state = site.freeze();
                        frozen = state
                            .frozen
                            .map(|it| (it, state.open_generation, site.frozen_upload()));
                    }
                    Some((generation, open, lines)) => {
                        assert_eq!(site.frozen_upload(), lines, "seed {seed}");
                        let connection = &site.remote.connection;
                        if draw.below(2) == 0 {
                            replay(&mut center, &lines, plain);
                            progress::commit_frozen(connection, &tables, generation, None).unwrap();
                        } else {
                            progress::merge_back(connection, &tables, generation, open).unwrap();
                        }
                    }
                }
            }
            if let Some((generation, _, lines)) = frozen {
                replay(&mut center, &lines, plain);
                let tables = site.tables();
                progress::commit_frozen(&site.remote.connection, &tables, generation, None)
                    .unwrap();
            }
        }
        let lines = site.upload();
        replay(&mut center, &lines, plain);
        assert_eq!(center, live(&site), "seed {seed}");
    }
}
