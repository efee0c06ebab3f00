//! A row keeps its key from its first upload on.

use super::{T, check};
use crate::progress;
use crate::progress::state::State;
use crate::testing::{Site, WRITERS};

/// A program executes `changes`; its last statement fails with this message, and nothing is done.
fn check_refused(tables: &str, changes: &str, message: &str) {
    let whole = format!("BEGIN; {changes}; COMMIT");
    for writer in WRITERS {
        let mut site = Site::new(tables);
        let before = site.rows("SELECT * FROM t");
        let told = site.try_write_as(writer, &whole).unwrap_err();
        assert!(told.contains(message), "{writer:?}: {changes}: {told}");
        assert_eq!(site.rows("SELECT * FROM t"), before, "{writer:?}: {changes}");
        assert_eq!(site.upload(), Vec::<String>::new(), "{writer:?}: {changes}");
    }
}

const CANNOT_CHANGE: &str = "syncline: the key of a synchronized row of table t cannot change; \
                             delete the row and insert it again";

// S1, S5, Trap 21: the application learns at once that a key which others know cannot change.
#[test]
fn a_row_that_the_center_knows_keeps_its_key() {
    for changes in [
        "UPDATE t SET id = 9 WHERE id = 1",
        "UPDATE t SET rowid = 9 WHERE id = 1",
        "UPDATE t SET _rowid_ = 9, v = 0 WHERE id = 1",
        "UPDATE OR IGNORE t SET id = 9 WHERE id = 1",
        "UPDATE OR REPLACE t SET id = 2 WHERE id = 1",
        "UPDATE t SET id = id + 10",
        "UPDATE t SET v = 0; UPDATE t SET id = 9 WHERE id = 1",
        "INSERT INTO t VALUES (1, 'x', 0) ON CONFLICT DO UPDATE SET id = 9",
        // It was there when the center was heard last, whatever has become of it since.
        "DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 'x', 0);
         UPDATE t SET id = 9 WHERE id = 1",
    ] {
        check_refused(T, changes, CANNOT_CHANGE);
    }
    let parts = "CREATE TABLE t(a, b INT, c TEXT, PRIMARY KEY(c, a)) WITHOUT ROWID;
                 INSERT INTO t VALUES (1, 2, 'x');";
    check_refused(parts, "UPDATE t SET a = 2", CANNOT_CHANGE);
    check_refused(parts, "UPDATE t SET a = 1.0", CANNOT_CHANGE);
    check(parts, "UPDATE t SET a = 1, c = 'x', b = 3", &["update t (1, 2, 'x') -> (1, 3, 'x')"]);
    let nullable = "CREATE TABLE t(k TEXT PRIMARY KEY, v); INSERT INTO t VALUES ('a', 1);";
    check_refused(nullable, "UPDATE t SET k = NULL", CANNOT_CHANGE);
    // The key of a child that goes along with a UNIQUE value of its parent.
    let child = "CREATE TABLE p(id INTEGER PRIMARY KEY, code TEXT UNIQUE);
                 CREATE TABLE t(code TEXT PRIMARY KEY REFERENCES p(code) ON UPDATE CASCADE);
                 INSERT INTO p VALUES (1, 'a'); INSERT INTO t VALUES ('a');";
    let site = Site::new(child);
    site.write("PRAGMA foreign_keys = ON");
    let told = site.try_write("UPDATE p SET code = 'b'").unwrap_err().to_string();
    assert!(told.contains(CANNOT_CHANGE), "{told}");
}

#[test]
fn a_key_is_spelled_as_the_center_knows_it() {
    let nocase =
        "CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY, v INT); INSERT INTO t VALUES ('Ab', 1);";
    let spelled = "syncline: a row of table t was synchronized with this key in another spelling";
    check_refused(nocase, "UPDATE t SET k = 'aB'", CANNOT_CHANGE);
    check_refused(nocase, "REPLACE INTO t VALUES ('AB', 3)", spelled);
    check_refused(nocase, "DELETE FROM t; INSERT INTO t VALUES ('ab', 1)", spelled);
    let by_update = "DELETE FROM t; INSERT INTO t VALUES ('x', 1); UPDATE t SET k = 'ab'";
    check_refused(nocase, by_update, spelled);
    // The upload of the delete may have failed.
    let mut site = Site::new(nocase);
    site.write("DELETE FROM t");
    site.freeze();
    let told = site.try_write("INSERT INTO t VALUES ('ab', 1)").unwrap_err().to_string();
    assert!(told.contains(spelled), "{told}");
    site.write("INSERT INTO t VALUES ('Ab', 1)");
}

// S1: what nobody else knows may have any key until it is uploaded.
#[test]
fn a_row_that_was_never_uploaded_may_get_another_key() {
    check(
        T,
        "INSERT INTO t VALUES (7, 'g', 70); UPDATE t SET id = 8 WHERE id = 7;
         UPDATE t SET id = 9, v = 90 WHERE id = 8",
        &["insert t (9, 'g', 90)"],
    );
    // To the key of a row that goes, or that REPLACE puts out of its way.
    check(
        T,
        "INSERT INTO t VALUES (7, 'g', 70); DELETE FROM t WHERE id = 1;
         UPDATE t SET id = 1 WHERE id = 7; INSERT INTO t VALUES (8, 'h', 80);
         UPDATE OR REPLACE t SET id = 2 WHERE id = 8",
        &[
            "update t (1, 'a', 10) -> (1, 'g', 70)",
            "again t (1)",
            "update t (2, 'b', 20) -> (2, 'h', 80)",
        ],
    );
    // Not while nobody knows whether its upload was committed; again once it was not.
    let mut site = Site::new(T);
    site.write("INSERT INTO t VALUES (7, 'g', 70)");
    site.freeze();
    let change = "UPDATE t SET id = 8 WHERE id = 7";
    let refused = site.try_write(change).unwrap_err().to_string();
    assert!(refused.contains(CANNOT_CHANGE), "{refused}");
    let tables = site.tables();
    let state = State::read(&site.remote.connection).unwrap();
    let (frozen, open) = (state.frozen.unwrap(), state.open_generation);
    progress::keep_back(&site.remote.connection, tables.iter(), frozen, open).unwrap();
    site.write(change);
    assert_eq!(site.rows("SELECT id FROM t WHERE id > 3"), ["8"]);
}
