//! What is uploaded of rows that went along with a key change and were set back.

use crate::progress;
use crate::progress::state;
use crate::testing::{Site, WRITERS, int, text};

const FAMILY: &str = "
    CREATE TABLE parent (id INTEGER PRIMARY KEY, v TEXT);
    CREATE TABLE child (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent ON UPDATE CASCADE,
        v TEXT, large BLOB);
    INSERT INTO parent VALUES (1, 'a'), (2, 'b'), (5, 'e');
    INSERT INTO child VALUES (10, 1, 'x', NULL), (11, 1, 'y', x'00'), (12, 5, 'z', NULL);";

/// Parent 1 becomes 3 and 2 becomes 1, and with them their children.
const MOVES: &str = "UPDATE parent SET id = 3 WHERE id = 1; UPDATE parent SET id = 1 WHERE id = 2;";

const MOVED: [&str; 2] =
    ["key change parent (1, 'a') -> (3, 'a')", "key change parent (2, 'b') -> (1, 'b')"];

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

fn check(tables: &str, changes: &str, expected: &[&str]) {
    for writer in WRITERS {
        let mut site = Site::new(tables);
        site.write_as(writer, changes);
        let expected = sorted(expected.iter().map(|line| (*line).to_owned()).collect());
        assert_eq!(sorted(site.upload()), expected, "{writer:?}: {changes}");
        assert_eq!(site.upload(), Vec::<String>::new(), "nothing is uploaded twice");
    }
}

/// It is as it was, so it was not uploaded, and went along at the center.
// S3, Trap 21
#[test]
fn a_child_that_was_set_back_is_uploaded() {
    let [first, second] = MOVED;
    let followed = "update child (11, 1, 'y', <unchanged>) -> (11, 3, 'y', <1 bytes>)";
    // What was touched and refers to no key that was left says nothing.
    check(
        FAMILY,
        &format!(
            "{MOVES} UPDATE child SET parent = 1 WHERE id = 10;
             UPDATE child SET v = v WHERE id = 12"
        ),
        &[first, second, "update child (10, 1, 'x', <unchanged>) -> (10, 1, 'x', NULL)", followed],
    );
    // Under the other parent before that gets the key.
    check(
        FAMILY,
        "UPDATE parent SET id = 3 WHERE id = 1; UPDATE child SET parent = 2 WHERE id = 10;
         UPDATE parent SET id = 1 WHERE id = 2",
        &[first, second, "update child (10, 1, 'x', <unchanged>) -> (10, 1, 'x', NULL)", followed],
    );
    // Nothing of it is as it was: no news.
    check(
        FAMILY,
        &format!("{MOVES} UPDATE child SET parent = 5, v = 'n' WHERE id = 10"),
        &[first, second, "update child (10, 1, 'x', <unchanged>) -> (10, 5, 'n', NULL)", followed],
    );
}

/// The parent's key is a part of the child's, spelled in other ways, and of more than one column.
// S3, Trap 21
#[test]
fn a_row_whose_own_key_was_set_back_is_uploaded() {
    check(
        "CREATE TABLE parent (a TEXT COLLATE NOCASE, b INT, PRIMARY KEY (b, a)) WITHOUT ROWID;
         CREATE TABLE child (n INT, a TEXT COLLATE NOCASE, b INT, PRIMARY KEY (a, b, n),
             FOREIGN KEY (b, a) REFERENCES parent ON UPDATE CASCADE) WITHOUT ROWID;
         INSERT INTO parent VALUES ('ann', 1), ('bob', 1);
         INSERT INTO child VALUES (1, 'ANN', 1), (2, 'ann', 1)",
        "UPDATE parent SET a = 'carl' WHERE a = 'ann'; UPDATE parent SET a = 'Ann' WHERE a = 'bob';
         UPDATE child SET a = 'ANN' WHERE n = 1",
        &[
            "key change parent ('ann', 1) -> ('carl', 1)",
            "key change parent ('bob', 1) -> ('Ann', 1)",
            "update child (1, 'ANN', 1) -> (1, 'ANN', 1)",
            "key change child (2, 'ann', 1) -> (2, 'carl', 1)",
        ],
    );
}

/// It refers to a UNIQUE value, which passes from a row to another.
// S3, Trap 10, Trap 21
#[test]
fn a_child_under_a_value_that_passes_on_is_uploaded() {
    let tables = "CREATE TABLE parent (id INTEGER PRIMARY KEY, v TEXT UNIQUE);
        CREATE TABLE child (id INTEGER PRIMARY KEY, parent TEXT REFERENCES parent (v)
            ON DELETE SET NULL ON UPDATE CASCADE);
        INSERT INTO parent VALUES (1, 'a'), (2, 'b');
        INSERT INTO child VALUES (10, 'a'), (11, 'a'), (12, 'b')";
    check(
        tables,
        "DELETE FROM parent WHERE id = 1; INSERT INTO parent VALUES (3, 'a');
         UPDATE child SET parent = 'a' WHERE id = 10;
         UPDATE child SET parent = parent WHERE id = 12",
        &[
            "insert parent (3, 'a')",
            "delete parent (1, 'a')",
            "update child (10, 'a') -> (10, 'a')",
            "update child (11, 'a') -> (11, NULL)",
        ],
    );
    check(
        tables,
        "UPDATE parent SET v = 'c' WHERE id = 1; UPDATE parent SET v = 'a' WHERE id = 2;
         UPDATE child SET parent = 'a' WHERE id = 10",
        &[
            "update parent (1, 'a') -> (1, 'c')",
            "update parent (2, 'b') -> (2, 'a')",
            "update child (10, 'a') -> (10, 'a')",
            "update child (11, 'a') -> (11, 'c')",
            "update child (12, 'b') -> (12, 'a')",
        ],
    );
}

/// The key change was uploaded and not committed; the child was set back meanwhile.
// S1, S3, Trap 21
#[test]
fn what_was_set_back_in_two_generations_is_put_together() {
    let mut site = Site::new(FAMILY);
    site.write("UPDATE parent SET id = 3 WHERE id = 1");
    let frozen = site.freeze().frozen.unwrap();
    site.write("UPDATE parent SET id = 1 WHERE id = 2; UPDATE child SET parent = 1 WHERE id = 10");
    let child = |id, from, v, to, large| {
        format!("update child ({id}, {from}, '{v}', <unchanged>) -> ({id}, {to}, '{v}', {large})")
    };
    let [first, second] = MOVED.map(str::to_owned);
    let (x, y) = (child(10, 1, "x", 3, "NULL"), child(11, 1, "y", 3, "<1 bytes>"));
    assert_eq!(sorted(site.frozen_upload()), [first.clone(), x, y.clone()]);
    let tables = site.tables();
    let open = state::State::read(&site.remote.connection).unwrap().open_generation;
    progress::merge_back(&site.remote.connection, &tables, frozen, open).unwrap();
    let x = child(10, 1, "x", 1, "NULL");
    assert_eq!(sorted(site.upload()), [first, second, x, y]);
}

/// A download brought the child while its change waited. To be as it was counted as undone, and it
/// became what came: it left the parent that the user had chosen.
// S3, Trap 7, Trap 21
#[test]
fn what_is_downloaded_meanwhile_does_not_replace_it() {
    let mut site = Site::new(FAMILY);
    site.write(&format!("{MOVES} UPDATE child SET parent = 1 WHERE id = 10"));
    let theirs = [int(10), int(5), text("theirs"), model::Value::Null];
    site.download().upsert("child", &[&theirs]).apply().unwrap();
    site.download().upsert("parent", &[&[int(7), text("g")]]).apply().unwrap();
    let child = "SELECT parent, v FROM child WHERE id = 10";
    assert_eq!(site.rows(child), ["1, 'x'"]);
    let lines = site.upload();
    let line = "update child (10, 1, 'x', <unchanged>) -> (10, 1, 'x', NULL)";
    assert!(lines.iter().any(|it| it == line), "{lines:?}");
    assert_eq!(site.rows(child), ["1, 'x'"]);

    // The same of a value that passes on.
    let mut site = Site::new(
        "CREATE TABLE parent (id INTEGER PRIMARY KEY, v TEXT UNIQUE);
         CREATE TABLE child (id INTEGER PRIMARY KEY, parent TEXT REFERENCES parent (v)
             ON DELETE SET NULL, v TEXT);
         INSERT INTO parent VALUES (1, 'a'), (2, 'b'); INSERT INTO child VALUES (10, 'a', 'x')",
    );
    site.write(
        "DELETE FROM parent WHERE id = 1; INSERT INTO parent VALUES (3, 'a');
         UPDATE child SET parent = 'a' WHERE id = 10",
    );
    let theirs = [int(10), text("b"), text("theirs")];
    site.download().upsert("child", &[&theirs]).apply().unwrap();
    site.download().upsert("parent", &[&[int(7), text("g")]]).apply().unwrap();
    let lines = site.upload();
    assert!(lines.iter().any(|it| it == "update child (10, 'a', 'x') -> (10, 'a', 'x')"));
}
