//! What foreign programs do to the tables is what is uploaded.

mod keys;

use crate::progress;
use crate::testing::{Site, WRITERS, Writer};

/// Whatever program executes `changes` on tables made by `tables`, this is uploaded.
fn check(tables: &str, changes: &str, expected: &[&str]) {
    for writer in WRITERS {
        check_writer(writer, tables, changes, expected);
    }
}

fn check_writer(writer: Writer, tables: &str, changes: &str, expected: &[&str]) {
    let mut site = Site::new(tables);
    site.write_as(writer, changes);
    let mut lines = site.upload();
    lines.sort();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(lines, expected, "{writer:?}: {changes}");
    assert_eq!(site.upload(), Vec::<String>::new(), "nothing is uploaded twice");
}

const T: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT UNIQUE, v INT);
                 INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30);";

// S1
#[test]
fn plain_changes_are_captured_as_their_net_effect() {
    check(T, "INSERT INTO t VALUES (4, 'd', 40)", &["insert t (4, 'd', 40)"]);
    check(T, "UPDATE t SET v = 11 WHERE id = 1", &["update t (1, 'a', 10) -> (1, 'a', 11)"]);
    check(T, "DELETE FROM t WHERE id = 1", &["delete t (1, 'a', 10)"]);
    check(
        T,
        "DELETE FROM t",
        &["delete t (1, 'a', 10)", "delete t (2, 'b', 20)", "delete t (3, 'c', 30)"],
    );
    let thrice = "UPDATE t SET v = 0; UPDATE t SET v = 1 WHERE id = 1; DELETE FROM t WHERE id > 1;
                  INSERT INTO t VALUES (3, 'x', 0); UPDATE t SET v = 5 WHERE id = 3";
    check(
        T,
        thrice,
        &[
            "update t (1, 'a', 10) -> (1, 'a', 1)",
            "delete t (2, 'b', 20)",
            "update t (3, 'c', 30) -> (3, 'x', 5)",
            "again t (3)",
        ],
    );
}

// S5: where such a row loses, its user is told.
#[test]
fn a_row_that_is_entered_again_is_marked() {
    let (new, marked) = ("update t (1, 'a', 10) -> (1, 'n', 0)", "again t (1)");
    for verb in ["INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE", "REPLACE"] {
        let changes = format!("DELETE FROM t WHERE id = 1; {verb} INTO t VALUES (1, 'n', 0)");
        check(T, &changes, &[new, marked]);
    }
    // In steps, by a key that SQLite gives, by an upsert, and by a move.
    let steps = "UPDATE t SET v = 5; DELETE FROM t; INSERT INTO t VALUES (1, 'm', 1);
        DELETE FROM t; INSERT INTO t(u, v) VALUES ('n', 0) ON CONFLICT DO UPDATE SET v = 9";
    let rest = ["delete t (2, 'b', 20)", "delete t (3, 'c', 30)"];
    check(T, steps, &[&[new, marked], &rest[..]].concat());
    let moved = "DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (8, 'n', 0);
        UPDATE t SET id = 1 WHERE id = 8";
    check(T, moved, &[new, marked]);
    let two = "CREATE TABLE t(a TEXT, b INT, v TEXT, PRIMARY KEY (b, a)) WITHOUT ROWID;
        INSERT INTO t VALUES ('x', 1, 'old')";
    let changes = "DELETE FROM t; INSERT INTO t VALUES ('x', 1, 'new')";
    check(two, changes, &["update t ('x', 1, 'old') -> ('x', 1, 'new')", "again t (1, 'x')"]);
}

#[test]
fn a_row_that_was_never_gone_is_not_marked() {
    let changed = ["update t (1, 'a', 10) -> (1, 'a', 0)"];
    for changes in [
        "UPDATE t SET v = 0 WHERE id = 1",
        "INSERT OR REPLACE INTO t VALUES (1, 'a', 0)",
        "INSERT INTO t VALUES (1, 'a', 0) ON CONFLICT DO UPDATE SET v = excluded.v",
        "UPDATE OR REPLACE t SET v = 0 WHERE id = 1; INSERT OR IGNORE INTO t VALUES (1, 'z', 9)",
        "UPDATE t SET v = 1 WHERE id = 1; REPLACE INTO t VALUES (1, 'a', 0)",
    ] {
        check(T, changes, &changed);
    }
    check(T, "DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 'a', 10)", &[]);
    let gone = "DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 'n', 0); DELETE FROM t
        WHERE id = 1";
    check(T, gone, &["delete t (1, 'a', 10)"]);
}

// Trap 6: the upload with the delete may have been committed, or not.
#[test]
fn a_row_that_is_entered_again_while_its_delete_is_under_way_is_marked_where_that_is_undone() {
    let mut site = Site::new(T);
    site.write("DELETE FROM t WHERE id = 1");
    let frozen = site.freeze().frozen.unwrap();
    site.write("INSERT INTO t VALUES (1, 'n', 0)");
    assert_eq!(site.frozen_upload(), ["delete t (1, 'a', 10)"]);
    let tables = site.tables();
    let open = crate::progress::state::State::read(&site.remote.connection).unwrap();
    progress::merge_back(&site.remote.connection, &tables, frozen, open.open_generation).unwrap();
    assert_eq!(site.upload(), ["update t (1, 'a', 10) -> (1, 'n', 0)", "again t (1)"]);
}

#[test]
fn what_is_undone_is_no_change() {
    check(T, "INSERT INTO t VALUES (4, 'd', 40); DELETE FROM t WHERE id = 4", &[]);
    check(T, "UPDATE t SET v = 11; UPDATE t SET v = id * 10", &[]);
    check(T, "DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 'a', 10)", &[]);
    check(T, "UPDATE t SET v = v", &[]);
    check(T, "BEGIN; DELETE FROM t; ROLLBACK", &[]);
    check(T, "INSERT OR IGNORE INTO t VALUES (1, 'z', 0), (9, 'a', 0)", &[]);
    check(T, "REPLACE INTO t VALUES (1, 'a', 10)", &[]);
}

// Trap 9
#[test]
fn replace_records_what_it_removes_by_key_and_by_unique_value() {
    check(
        T,
        "INSERT OR REPLACE INTO t VALUES (1, 'b', 99)",
        &["update t (1, 'a', 10) -> (1, 'b', 99)", "delete t (2, 'b', 20)"],
    );
    check(
        T,
        "INSERT OR REPLACE INTO t VALUES (7, 'b', 99)",
        &["insert t (7, 'b', 99)", "delete t (2, 'b', 20)"],
    );
    // The base that an earlier change recorded survives the replacement.
    check(
        T,
        "UPDATE t SET v = 0 WHERE id = 2; REPLACE INTO t VALUES (2, 'c', 1)",
        &["update t (2, 'b', 20) -> (2, 'c', 1)", "delete t (3, 'c', 30)"],
    );
    let two = "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE, w UNIQUE);
               INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'y');";
    check(
        two,
        "REPLACE INTO t VALUES (3, 'a', 'y')",
        &["insert t (3, 'a', 'y')", "delete t (1, 'a', 'x')", "delete t (2, 'b', 'y')"],
    );
}

// Trap 9
#[test]
fn update_or_replace_records_what_it_removes() {
    check(
        T,
        "UPDATE OR REPLACE t SET u = 'b' WHERE id = 1",
        &["update t (1, 'a', 10) -> (1, 'b', 10)", "delete t (2, 'b', 20)"],
    );
}

// Trap 9
#[test]
fn unique_indexes_of_every_kind_are_honoured() {
    let collated = "CREATE TABLE t(id INTEGER PRIMARY KEY, u);
                    CREATE UNIQUE INDEX i ON t(u COLLATE NOCASE);
                    INSERT INTO t VALUES (1, 'a');";
    check(collated, "REPLACE INTO t VALUES (2, 'A')", &["insert t (2, 'A')", "delete t (1, 'a')"]);
    let partial = "CREATE TABLE t(id INTEGER PRIMARY KEY, u, on_shelf);
                   CREATE UNIQUE INDEX i ON t(u) WHERE on_shelf;
                   INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 0);";
    check(
        partial,
        "REPLACE INTO t VALUES (3, 'a', 1)",
        &["insert t (3, 'a', 1)", "delete t (1, 'a', 1)"],
    );
    let generated = "CREATE TABLE t(id INTEGER PRIMARY KEY, u, low AS (lower(u)));
                     CREATE UNIQUE INDEX i ON t(low);
                     INSERT INTO t(id, u) VALUES (1, 'a'), (2, 'b');";
    check(
        generated,
        "UPDATE OR REPLACE t SET u = 'A' WHERE id = 2",
        &["update t (2, 'b') -> (2, 'A')", "delete t (1, 'a')"],
    );
    let several = "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b, UNIQUE(a, b));
                   INSERT INTO t VALUES (1, 'x', 'y'), (2, 'x', NULL);";
    check(
        several,
        "REPLACE INTO t VALUES (3, 'x', 'y'), (4, 'x', NULL)",
        &["insert t (3, 'x', 'y')", "insert t (4, 'x', NULL)", "delete t (1, 'x', 'y')"],
    );
}

// Trap 9: an index that the user adds after the triggers were made.
#[test]
fn an_index_added_later_is_known_from_the_next_synchronization_on() {
    let mut site =
        Site::new("CREATE TABLE t(id INTEGER PRIMARY KEY, u); INSERT INTO t VALUES (1, 'a');");
    site.write("CREATE UNIQUE INDEX i ON t(u)");
    assert_eq!(site.upload(), Vec::<String>::new());
    site.write("REPLACE INTO t VALUES (2, 'a')");
    assert_eq!(site.upload(), ["insert t (2, 'a')", "delete t (1, 'a')"]);
}

#[test]
fn dropped_triggers_come_back_with_the_next_synchronization() {
    let mut site = Site::new(T);
    site.write("DROP TRIGGER syncline_update_t; DROP TRIGGER syncline_insert_t");
    assert_eq!(site.upload(), Vec::<String>::new());
    site.write("UPDATE t SET v = 0 WHERE id = 1");
    assert_eq!(site.upload(), ["update t (1, 'a', 10) -> (1, 'a', 0)"]);
}

#[test]
fn upserts_are_captured_as_what_they_did() {
    let upsert = "INSERT INTO t VALUES (1, 'a', 5), (8, 'h', 6)
                  ON CONFLICT (id) DO UPDATE SET v = excluded.v";
    check(T, upsert, &["update t (1, 'a', 10) -> (1, 'a', 5)", "insert t (8, 'h', 6)"]);
    check(T, "INSERT INTO t VALUES (1, 'z', 5) ON CONFLICT DO NOTHING", &[]);
}

// Trap 11
#[test]
fn foreign_key_actions_are_captured() {
    let cascade = "CREATE TABLE p(id INTEGER PRIMARY KEY);
         CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE);
         CREATE TABLE n(id INTEGER PRIMARY KEY, p REFERENCES p ON DELETE SET NULL);
         INSERT INTO p VALUES (1), (2); INSERT INTO c VALUES (10, 1), (11, 2);
         INSERT INTO n VALUES (20, 1);";
    check(
        cascade,
        "DELETE FROM p WHERE id = 1",
        &["delete p (1)", "delete c (10, 1)", "update n (20, 1) -> (20, NULL)"],
    );
    check(
        cascade,
        "INSERT INTO p VALUES (4); UPDATE c SET p = 4 WHERE id = 11;
         UPDATE p SET id = 5 WHERE id = 4",
        &["insert p (5)", "update c (11, 2) -> (11, 5)"],
    );
}

#[test]
fn vacuum_moves_rowids_and_no_row() {
    let tables = "CREATE TABLE t(k TEXT PRIMARY KEY, v INT);
                  INSERT INTO t VALUES ('a', 1), ('b', 2), ('c', 3);";
    check(
        tables,
        "DELETE FROM t WHERE k = 'a'; VACUUM; UPDATE t SET v = 9 WHERE k = 'c'",
        &["delete t ('a', 1)", "update t ('c', 3) -> ('c', 9)"],
    );
}

#[test]
fn rows_without_a_key_are_left_alone() {
    let tables =
        "CREATE TABLE t(k TEXT PRIMARY KEY, u UNIQUE, v); INSERT INTO t VALUES ('a', 1, 1);";
    let changes = "INSERT INTO t VALUES (NULL, 2, 2), (NULL, 3, 3); UPDATE t SET v = 9;
                   DELETE FROM t WHERE k = 'a'; UPDATE t SET k = 'n' WHERE u = 2;
                   INSERT INTO t VALUES ('m', 5, 5); UPDATE t SET k = NULL WHERE k = 'm';
                   REPLACE INTO t VALUES ('o', 3, 4); DELETE FROM t WHERE k IS NULL";
    check(
        tables,
        changes,
        &["delete t ('a', 1, 1)", "insert t ('n', 2, 9)", "insert t ('o', 3, 4)"],
    );
}

#[test]
fn keys_are_equal_where_the_table_says_so() {
    let nocase =
        "CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY, v INT); INSERT INTO t VALUES ('Ab', 1);";
    check(nocase, "UPDATE t SET v = 2 WHERE k = 'AB'", &["update t ('Ab', 1) -> ('Ab', 2)"]);
    check(
        nocase,
        "DELETE FROM t; INSERT INTO t VALUES ('Ab', 3), ('b', 4);
         UPDATE t SET k = 'B' WHERE k = 'b'",
        &["update t ('Ab', 1) -> ('Ab', 3)", "again t ('Ab')", "insert t ('B', 4)"],
    );
    // A value that differs only in case is a change, whatever the column's collation.
    let value = "CREATE TABLE t(k INTEGER PRIMARY KEY, v TEXT COLLATE NOCASE);
            INSERT INTO t VALUES (1, 'a');";
    check(value, "UPDATE t SET v = 'A'", &["update t (1, 'a') -> (1, 'A')"]);
    let parts = "CREATE TABLE t(a, b INT, c TEXT, v, PRIMARY KEY(c, a)) WITHOUT ROWID;
                 INSERT INTO t VALUES (1, 2, 'x', 3), (1, 2, 'y', 4);";
    check(
        parts,
        "UPDATE t SET v = 5 WHERE c = 'y'; DELETE FROM t WHERE c = 'x'",
        &["update t (1, 2, 'y', 4) -> (1, 2, 'y', 5)", "delete t (1, 2, 'x', 3)"],
    );
    let strict = "CREATE TABLE t(k ANY PRIMARY KEY, v) STRICT;";
    let strict = strict.replace("v)", "v ANY)") + "INSERT INTO t VALUES ('1', 0), (1, 0);";
    check(&strict, "UPDATE t SET v = 1 WHERE k = '1'", &["update t ('1', 0) -> ('1', 1)"]);
}

#[test]
fn names_may_have_spaces_quotes_and_capitals() {
    let tables = r#"CREATE TABLE "my ""own"" Tab'le"("the Key" TEXT PRIMARY KEY,
            "a ""b" UNIQUE, "select");
                    INSERT INTO "my ""own"" Tab'le" VALUES ('k', 1, 2);"#;
    let changes = r#"UPDATE "MY ""OWN"" TAB'LE" SET "select" = 3;
            REPLACE INTO "my ""own"" Tab'le" VALUES ('l', 1, 4)"#;
    check(
        tables,
        changes,
        &[r#"delete my "own" Tab'le ('k', 1, 2)"#, r#"insert my "own" Tab'le ('l', 1, 4)"#],
    );
}

// C3. The user's trigger is newer than ours and fires first: it changes the row again before an
// AFTER trigger of Syncline would see the first change. Recorded after the event, the new row would
// be an update of a row that the server never saw, and the update would have an old image that
// the server never had: both would be lost as conflicts.
#[test]
fn a_trigger_that_stamps_rows_does_not_disturb_the_base() {
    for key in ["INTEGER PRIMARY KEY", "INTEGER PRIMARY KEY AUTOINCREMENT", "TEXT PRIMARY KEY"] {
        for writer in WRITERS {
            let mut site = Site::new(&format!(
                "CREATE TABLE t(id {key}, v TEXT, stamp INT); INSERT INTO t VALUES (1, 'old', 0)"
            ));
            site.write(
                "CREATE TRIGGER a AFTER INSERT ON t BEGIN
                 UPDATE t SET stamp = 1 WHERE id IS NEW.id; END;
                 CREATE TRIGGER b AFTER UPDATE OF v ON t BEGIN
                 UPDATE t SET stamp = stamp + 1 WHERE id = NEW.id; END;
                 CREATE TRIGGER c AFTER DELETE ON t BEGIN
                 INSERT INTO t VALUES (OLD.id, 'undead', 0); END;",
            );
            let insert = if key.starts_with("TEXT") {
                "(id, v) VALUES (2, 'new')"
            } else {
                "(v) VALUES ('new')"
            };
            site.write_as(
                writer,
                &format!("INSERT INTO t {insert}; UPDATE t SET v = 'newer' WHERE id = 1"),
            );
            let quote =
                |n: i32| if key.starts_with("TEXT") { format!("'{n}'") } else { n.to_string() };
            let (one, two) = (quote(1), quote(2));
            assert_eq!(
                site.upload(),
                [
                    format!("insert t ({two}, 'new', 1)"),
                    format!("update t ({one}, 'old', 0) -> ({one}, 'newer', 1)"),
                ]
            );
            site.write_as(writer, "DELETE FROM t WHERE id = 1");
            assert_eq!(
                site.upload(),
                [
                    format!("update t ({one}, 'newer', 1) -> ({one}, 'undead', 1)"),
                    format!("again t ({one})"),
                ]
            );
        }
    }
}

#[test]
fn keys_that_sqlite_chooses_are_foreseen() {
    // The trigger is made after ours, so it fires first.
    let tables = "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, v INT);
                  INSERT INTO t(v) VALUES (1), (2); DELETE FROM t WHERE id = 2;";
    let changes = "CREATE TRIGGER a AFTER INSERT ON t
                   BEGIN UPDATE t SET v = v + 1 WHERE id = NEW.id; END;
                   INSERT INTO t(v) VALUES (10), (20)";
    check(tables, changes, &["insert t (3, 11)", "insert t (4, 21)"]);
    let negative =
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (-7, 0), (-1, 0);";
    check(
        negative,
        "DELETE FROM t WHERE id = -1; INSERT INTO t(v) VALUES (1); REPLACE INTO t VALUES (-1, 2)",
        &["insert t (-6, 1)", "update t (-1, 0) -> (-1, 2)"],
    );
    let last =
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (9223372036854775807, 0);";
    let mut site = Site::new(last);
    site.write("INSERT INTO t(v) VALUES ('random')");
    assert_eq!(site.upload().len(), 1);
}

const LARGE: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, v, photo BLOB, note CLOB,
        u TEXT UNIQUE);
                     INSERT INTO t VALUES (1, 10, x'0102', 'long', 'a'),
                     (2, 20, x'03', 'text', 'b');";

// `v` has no declared type, so it may be large as well.
#[test]
fn large_columns_are_captured_only_where_they_change() {
    check(
        LARGE,
        "UPDATE t SET u = 'z' WHERE id = 1",
        &["update t (1, <unchanged>, <unchanged>, <unchanged>, 'a') \
             -> (1, 10, <2 bytes>, 'long', 'z')"],
    );
    check(
        LARGE,
        "UPDATE t SET u = 'z' WHERE id = 1; UPDATE t SET photo = x'09' WHERE id = 1",
        &["update t (1, <unchanged>, <2 bytes>, <unchanged>, 'a') \
             -> (1, 10, <1 bytes>, 'long', 'z')"],
    );
    // The first value is the base, not the one in between.
    check(
        LARGE,
        "UPDATE t SET note = 'one'; UPDATE t SET note = 'two' WHERE id = 1;
         DELETE FROM t WHERE id = 2",
        &[
            "update t (1, <unchanged>, <unchanged>, 'long', 'a') -> (1, 10, <2 bytes>, 'two', 'a')",
            "delete t (2, 20, <1 bytes>, 'text', 'b')",
        ],
    );
    check(
        LARGE,
        "UPDATE t SET photo = x'09'; UPDATE t SET photo = x'0102' WHERE id = 1;
         UPDATE t SET photo = x'03' WHERE id = 2",
        &[],
    );
    check(
        LARGE,
        "UPDATE t SET u = 'c' WHERE id = 1; REPLACE INTO t VALUES (2, 1, x'', '', 'c')",
        &[
            "delete t (1, 10, <2 bytes>, 'long', 'a')",
            "update t (2, 20, <1 bytes>, 'text', 'b') -> (2, 1, <0 bytes>, '', 'c')",
        ],
    );
    // 1 and 1.0, and 'a' and x'61', are different values that compare equal or are of one length.
    check(
        LARGE,
        "UPDATE t SET v = 10.0 WHERE id = 1",
        &["update t (1, 10, <unchanged>, <unchanged>, 'a') -> (1, 10, <2 bytes>, 'long', 'a')"],
    );
}

// Trap 15
#[test]
fn values_of_every_kind_arrive_unchanged() {
    let tables = "CREATE TABLE t(id INTEGER PRIMARY KEY, v NUMERIC, w);";
    let changes = "INSERT INTO t VALUES
        (1, -9223372036854775808, 9223372036854775807), (2, 9e999, -9e999), (3, 9e999 - 9e999, ''),
        (4, x'', zeroblob(3)), (5, char(97, 0, 98), CAST(x'ff41' AS TEXT)), (6, 1.5, 2.0)";
    for writer in WRITERS {
        let mut site = Site::new(tables);
        site.write_as(writer, changes);
        assert_eq!(
            site.upload(),
            [
                "insert t (1, -9223372036854775808, 9223372036854775807)",
                "insert t (2, inf, -inf)",
                // SQLite has no NaN: it stores NULL.
                "insert t (3, NULL, '')",
                "insert t (4, <0 bytes>, <3 bytes>)",
                "insert t (5, 'a\0b', '\u{fffd}A')",
                "insert t (6, 1.5, 2)",
            ]
        );
        site.write_as(writer, "DELETE FROM t WHERE id = 5");
        assert_eq!(site.upload(), ["delete t (5, 'a\0b', '\u{fffd}A')"]);
    }
}

// Trap 6
#[test]
fn changes_after_the_freeze_do_not_alter_what_is_on_its_way() {
    let mut site = Site::new(LARGE);
    site.write(
        "UPDATE t SET u = 'x' WHERE id = 1; INSERT INTO t VALUES (3, 30, x'05', 'new', 'c');
         DELETE FROM t WHERE id = 2",
    );
    site.freeze();
    let frozen = site.frozen_upload();
    assert_eq!(
        frozen,
        [
            "insert t (3, 30, <1 bytes>, 'new', 'c')",
            "update t (1, <unchanged>, <unchanged>, <unchanged>, 'a') \
             -> (1, 10, <2 bytes>, 'long', 'x')",
            "delete t (2, 20, <1 bytes>, 'text', 'b')",
        ]
    );
    for change in [
        "UPDATE t SET u = 'y', v = 11 WHERE id = 1",
        "UPDATE t SET note = 'other' WHERE id = 1",
        "DELETE FROM t WHERE id = 3",
        "INSERT INTO t VALUES (2, 1, x'', '', 'again')",
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO t VALUES (3, 0, NULL, NULL, 'again, too')",
    ] {
        site.write(change);
        assert_eq!(site.frozen_upload(), frozen, "after {change}");
    }
    // A second attempt does not freeze again while the first one's outcome is unknown.
    let state = site.freeze();
    assert_eq!(site.frozen_upload(), frozen);
    // Once the first is known to be committed, the rest follows, against what was sent.
    let tables = site.tables();
    progress::commit_frozen(&site.remote.connection, &tables, state.frozen.unwrap(), None).unwrap();
    assert_eq!(
        site.upload(),
        [
            "insert t (2, 1, <0 bytes>, '', 'again')",
            "update t (3, 30, <1 bytes>, 'new', 'c') -> (3, 0, NULL, NULL, 'again, too')",
            "delete t (1, 10, <2 bytes>, 'long', 'x')",
            "again t (3)",
        ]
    );
}

// Trap 6
#[test]
fn what_was_not_committed_merges_with_what_came_later_under_a_new_number() {
    let mut site = Site::new(LARGE);
    site.write(
        "UPDATE t SET u = 'x' WHERE id = 1; INSERT INTO t VALUES (3, 30, x'05', 'new', 'c');
         DELETE FROM t WHERE id = 2",
    );
    let first = site.freeze();
    site.write(
        "UPDATE t SET photo = x'0909', u = 'y' WHERE id = 1; DELETE FROM t WHERE id = 3;
         INSERT INTO t VALUES (2, 1, x'', '', 'again'), (4, 4, NULL, NULL, 'four')",
    );
    let tables = site.tables();
    let frozen = first.frozen.unwrap();
    let state = site.freeze();
    let connection = &site.remote.connection;
    progress::merge_back(connection, &tables, frozen, state.open_generation).unwrap();
    let second = site.freeze();
    assert!(second.frozen.unwrap().progress > frozen.progress, "a number names one content");
    assert_eq!(
        site.frozen_upload(),
        [
            "insert t (4, 4, NULL, NULL, 'four')",
            "update t (1, <unchanged>, <2 bytes>, <unchanged>, 'a') \
             -> (1, 10, <2 bytes>, 'long', 'y')",
            "update t (2, 20, <1 bytes>, 'text', 'b') -> (2, 1, <0 bytes>, '', 'again')",
            "again t (2)",
        ]
    );
}

#[test]
fn nothing_is_frozen_when_nothing_waits() {
    let mut site = Site::new(T);
    assert_eq!(site.freeze().frozen, None);
}

#[test]
fn a_download_only_table_refuses_changes() {
    let mut site = Site::new(T);
    let mut tables = site.all_tables();
    tables[0].direction = model::Direction::DownloadOnly;
    site.publish(&tables);
    for change in ["INSERT INTO t(v) VALUES (1)", "UPDATE t SET v = 1", "DELETE FROM t"] {
        let refused = site.try_write(change).unwrap_err().to_string();
        assert_eq!(refused, "syncline: table t is download only", "{change}");
    }
}

// S9
#[test]
fn a_large_upload_is_cut_into_frames_and_comes_out_whole() {
    let mut site = Site::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT);");
    site.write(
        "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 25000)
         INSERT INTO t SELECT i, hex(zeroblob(20)) FROM n",
    );
    assert_eq!(site.upload().len(), 25_000);
    site.write("UPDATE t SET v = 1 WHERE id % 2; DELETE FROM t WHERE NOT id % 2");
    let lines = site.upload();
    assert_eq!(lines.len(), 25_000);
    assert!(lines[..12_500].iter().all(|line| line.starts_with("update")), "deletes come last");
}
