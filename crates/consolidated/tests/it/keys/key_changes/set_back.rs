//! Rows that go along with their parents and that the user sets back.
//!
//! The parent gets another key, and another parent takes the old one: there the user wants the row.
//! To the remote nothing has changed of it, so it was not uploaded; the center's own `ON UPDATE`
//! took it along, and the next download took it away from where the user wanted it.

use super::{child, children, codes, family, grandchildren, parents, row};
use crate::support::center::{Backend, Center, Remote, Row, Upload, int, text};
use model::Value;
use syncline_consolidated::Applied;

/// Parent 1 becomes 3, and 2 becomes 1.
fn parents_move() -> Vec<Upload> {
    vec![
        Upload::KeyChange("parent", row(1, "a"), row(3, "a")),
        Upload::KeyChange("parent", row(2, "b"), row(1, "b")),
    ]
}

/// Uploads, and nothing is lost: no conflict, no reject, and nothing that the remote holds comes
/// back otherwise.
fn whole(center: &mut Center, remote: &mut Remote, changes: &[Upload]) -> Applied {
    let (applied, download) = center.synchronize(remote, changes);
    assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{download:?}");
    assert_eq!(codes(&download), [0_u16; 0]);
    applied
}

// S3, S5, Trap 21
#[test]
fn a_child_that_is_set_back_stays_under_the_key_that_another_row_takes() {
    for v in ["x", "edited"] {
        Backend::each(|backend| {
            let (mut center, mut remote) = family(backend, "\"consolidated_wins\"");
            let mut changes = parents_move();
            // 10 was set back; 11 and 20 went along with their parents.
            changes.push(Upload::Update("child", child(10, 1, "x"), child(10, 1, v)));
            changes.push(Upload::Update("child", child(11, 1, "y"), child(11, 3, "y")));
            changes.push(Upload::Update("child", child(20, 2, "z"), child(20, 1, "z")));
            whole(&mut center, &mut remote, &changes);
            assert_eq!(parents(&center), "1b,3a");
            assert_eq!(children(&center), format!("10:1{v},11:3y,20:1z"), "{backend:?}");
            assert_eq!(grandchildren(&center), "10:1p,20:1q");
        });
    }
}

/// The key is taken by a new row, by one of a ring, and while the child gets another key itself.
// S3, S5, Trap 10, Trap 21
#[test]
fn whoever_takes_the_key_keeps_the_child() {
    Backend::each(|backend| {
        let (mut center, mut remote) = family(backend, "\"consolidated_wins\"");
        let changes = [
            Upload::KeyChange("parent", row(1, "a"), row(3, "a")),
            Upload::Insert("parent", row(1, "new")),
            Upload::Update("child", child(10, 1, "x"), child(10, 1, "x")),
        ];
        whole(&mut center, &mut remote, &changes);
        assert_eq!(children(&center), "10:1x,11:3y,20:2z", "{backend:?}");
        let changes = [
            Upload::KeyChange("parent", row(2, "b"), row(3, "b")),
            Upload::KeyChange("parent", row(3, "a"), row(2, "a")),
            Upload::KeyChange("child", child(20, 2, "z"), child(25, 2, "Z")),
            Upload::Update("child", child(11, 3, "y"), child(11, 2, "y")),
        ];
        whole(&mut center, &mut remote, &changes);
        assert_eq!(children(&center), "10:1x,11:2y,25:2Z", "{backend:?}");
    });
}

/// The action is another one than `CASCADE`, or waits until the commit.
// S3, S5, Trap 10, Trap 21
#[test]
fn a_child_is_set_back_whatever_on_update_does() {
    for action in [
        "ON UPDATE SET NULL ON DELETE CASCADE",
        "ON UPDATE SET DEFAULT ON DELETE CASCADE",
        "ON UPDATE CASCADE ON DELETE RESTRICT",
        "ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED",
    ] {
        Backend::each(|backend| {
            let schema = format!(
                "CREATE TABLE parent (id INTEGER PRIMARY KEY, v TEXT);
                 CREATE TABLE child (id INTEGER PRIMARY KEY,
                     parent INTEGER REFERENCES parent (id) {action}, v TEXT);
                 INSERT INTO parent VALUES (1, 'a'), (2, 'b');
                 INSERT INTO child VALUES (10, 1, 'x');"
            );
            let mut center = Center::on(backend, &schema, "[table.parent]\n[table.child]\n");
            let mut remote = Remote::another();
            center.synchronize(&mut remote, &[]);
            let mut changes = parents_move();
            changes.push(Upload::Update("child", child(10, 1, "x"), child(10, 1, "x")));
            whole(&mut center, &mut remote, &changes);
            assert_eq!(children(&center), "10:1x", "{backend:?} {action}");
        });
    }
}

/// The key of the row itself has a part of its parent's, and so have the keys of rows below it.
// S3, S5, Trap 21
#[test]
fn rows_whose_keys_went_along_come_back_with_what_refers_to_them() {
    let schema = "
        CREATE TABLE parent (a INTEGER, b INTEGER, PRIMARY KEY (a, b));
        CREATE TABLE child (a INTEGER, b INTEGER, n INTEGER, v TEXT, PRIMARY KEY (a, b, n),
            FOREIGN KEY (a, b) REFERENCES parent (a, b) ON UPDATE CASCADE ON DELETE CASCADE);
        CREATE TABLE grandchild (a INTEGER, b INTEGER, n INTEGER, m INTEGER, v TEXT,
            PRIMARY KEY (a, b, n, m), FOREIGN KEY (a, b, n) REFERENCES child (a, b, n)
            ON UPDATE CASCADE ON DELETE CASCADE);
        INSERT INTO parent VALUES (1, 1), (2, 1);
        INSERT INTO child VALUES (1, 1, 5, 'x'), (1, 1, 6, 'y'), (2, 1, 7, 'z');
        INSERT INTO grandchild VALUES (1, 1, 5, 1, 'p'), (1, 1, 5, 2, 'q'), (1, 1, 6, 1, 'r');";
    let key = |values: &[i64], v: Option<&str>| -> Row {
        let mut row: Row = values.iter().map(|value| int(*value)).collect();
        row.extend(v.map(text));
        row
    };
    for (v, of_grandchild) in [("x", "p"), ("edited", "p"), ("x", "edited"), ("edited", "edited")] {
        Backend::each(|backend| {
            let model = "[table.parent]\n[table.child]\n[table.grandchild]\n";
            let mut center = Center::on(backend, schema, model);
            let mut remote = Remote::another();
            center.synchronize(&mut remote, &[]);
            let pair = |old: &[i64], new: &[i64], v| (key(old, v), key(new, v));
            let parent = |old: &[i64], new: &[i64]| pair(old, new, None);
            let mut changes = Vec::new();
            for (old, new) in [parent(&[1, 1], &[3, 1]), parent(&[2, 1], &[1, 1])] {
                changes.push(Upload::KeyChange("parent", old, new));
            }
            for (old, new) in
                [pair(&[1, 1, 6], &[3, 1, 6], Some("y")), pair(&[2, 1, 7], &[1, 1, 7], Some("z"))]
            {
                changes.push(Upload::KeyChange("child", old, new));
            }
            let back = key(&[1, 1, 5], Some("x"));
            changes.push(Upload::Update("child", back, key(&[1, 1, 5], Some(v))));
            let (old, new) = pair(&[1, 1, 6, 1], &[3, 1, 6, 1], Some("r"));
            changes.push(Upload::KeyChange("grandchild", old, new));
            if of_grandchild != "p" {
                let (old, new) =
                    (key(&[1, 1, 5, 1], Some("p")), key(&[1, 1, 5, 1], Some(of_grandchild)));
                changes.push(Upload::Update("grandchild", old, new));
            }
            whole(&mut center, &mut remote, &changes);
            let all = |table: &str, columns: &str| -> Vec<Vec<Value>> {
                center.rows(&format!("SELECT {columns} FROM {table} ORDER BY {columns}"))
            };
            let expected = [(vec![1, 1, 5], v), (vec![1, 1, 7], "z"), (vec![3, 1, 6], "y")];
            let expected = expected.map(|(values, v)| key(&values, Some(v)));
            assert_eq!(all("child", "a, b, n, v"), expected, "{backend:?}");
            let expected = [
                (vec![1, 1, 5, 1], of_grandchild),
                (vec![1, 1, 5, 2], "q"),
                (vec![3, 1, 6, 1], "r"),
            ];
            let expected = expected.map(|(values, v)| key(&values, Some(v)));
            assert_eq!(all("grandchild", "a, b, n, m, v"), expected, "{backend:?}");
            // It is known from then on what the rows are.
            let last = key(&[1, 1, 5, 1], Some(of_grandchild));
            let again = Upload::Update("grandchild", last, key(&[1, 1, 5, 1], Some("again")));
            whole(&mut center, &mut remote, &[again]);
        });
    }
}

/// If no row takes the key, the remote lacks the foreign key, and its rows follow.
// S5, Trap 21
#[test]
fn rows_go_along_where_no_row_takes_the_key() {
    Backend::each(|backend| {
        let (mut center, mut remote) = family(backend, "\"consolidated_wins\"");
        let changes = [
            Upload::KeyChange("parent", row(1, "a"), row(3, "a")),
            Upload::Update("child", child(10, 1, "x"), child(10, 1, "X")),
        ];
        whole(&mut center, &mut remote, &changes);
        assert_eq!(children(&center), "10:3X,11:3y,20:2z", "{backend:?}");
    });
}

/// Another user has changed the child in the meantime, or a key change of the parents fails.
// S4, S5, Trap 21
#[test]
fn what_is_set_back_is_subject_to_the_rules() {
    for (rule, expected) in [("\"consolidated_wins\"", "10:3theirs"), ("\"remote_wins\"", "10:1x")]
    {
        Backend::each(|backend| {
            let (mut center, mut remote) = family(backend, rule);
            center.foreign("UPDATE child SET v = 'theirs' WHERE id = 10");
            let mut changes = parents_move();
            changes.push(Upload::Update("child", child(10, 1, "x"), child(10, 1, "x")));
            let (applied, _) = center.synchronize(&mut remote, &changes);
            assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{backend:?}");
            assert_eq!(children(&center), format!("{expected},11:3y,20:1z"), "{backend:?}");
        });
    }
    Backend::each(|backend| {
        let (mut center, mut remote) = family(backend, "\"consolidated_wins\"");
        center.foreign("INSERT INTO parent VALUES (3, 'theirs')");
        let mut changes = parents_move();
        changes.push(Upload::Update("child", child(10, 1, "x"), child(10, 1, "x")));
        center.synchronize(&mut remote, &changes);
        // Neither parent has got its key, and the child belongs to the one that it was given to.
        assert_eq!(parents(&center), "1a,2b,3theirs", "{backend:?}");
        assert_eq!(children(&center), "10:2x,11:1y,20:2z", "{backend:?}");
    });
}

/// The parent is deleted, and another row takes the value that the child refers to: the center's
/// `ON DELETE` acted on the child in between.
// S3, S5, Trap 10
#[test]
fn a_child_stays_under_a_value_that_passes_from_a_deleted_row_to_another() {
    for action in ["SET NULL", "CASCADE", "RESTRICT"] {
        for (change, v) in [(true, "x"), (true, "edited"), (false, "new")] {
            Backend::each(|backend| {
                let schema = format!(
                    "CREATE TABLE parent (id INTEGER PRIMARY KEY, v TEXT UNIQUE);
                     CREATE TABLE child (id INTEGER PRIMARY KEY,
                         parent TEXT REFERENCES parent (v) ON UPDATE CASCADE ON DELETE {action},
                         v TEXT);
                     INSERT INTO parent VALUES (1, 'a'), (2, 'b');
                     INSERT INTO child VALUES (10, 'a', 'x'), (20, 'b', 'z');"
                );
                let mut center = Center::on(backend, &schema, "[table.parent]\n[table.child]\n");
                let mut remote = Remote::another();
                center.synchronize(&mut remote, &[]);
                let child = |id, parent, v| vec![int(id), text(parent), text(v)];
                let mut changes = vec![
                    Upload::Insert("parent", row(3, "a")),
                    Upload::Delete("parent", row(1, "a")),
                ];
                match change {
                    true => changes.push(Upload::Update(
                        "child",
                        child(10, "a", "x"),
                        child(10, "a", v),
                    )),
                    false => {
                        changes.push(Upload::Insert("child", child(11, "a", v)));
                        changes.push(Upload::Delete("child", child(10, "a", "x")));
                    }
                }
                whole(&mut center, &mut remote, &changes);
                assert_eq!(parents(&center), "2b,3a", "{backend:?} {action}");
                let id = if change { 10 } else { 11 };
                assert_eq!(children(&center), format!("{id}:a{v},20:bz"), "{backend:?} {action}");
            });
        }
    }
}

/// The new row cannot have the value, or somebody else has changed the child.
// S4, S5, Trap 10
#[test]
fn what_a_value_that_passes_on_leaves_behind_is_told() {
    for theirs in
        ["INSERT INTO parent VALUES (3, 'theirs')", "UPDATE child SET v = 'theirs' WHERE id = 10"]
    {
        Backend::each(|backend| {
            let schema = "CREATE TABLE parent (id INTEGER PRIMARY KEY, v TEXT UNIQUE);
                CREATE TABLE child (id INTEGER PRIMARY KEY,
                    parent TEXT REFERENCES parent (v) ON DELETE SET NULL, v TEXT);
                INSERT INTO parent VALUES (1, 'a');
                INSERT INTO child VALUES (10, 'a', 'x');";
            let mut center = Center::on(backend, schema, "[table.parent]\n[table.child]\n");
            let mut remote = Remote::another();
            center.synchronize(&mut remote, &[]);
            center.foreign(theirs);
            let child = || vec![int(10), text("a"), text("x")];
            let changes = [
                Upload::Insert("parent", row(3, "a")),
                Upload::Update("child", child(), child()),
                Upload::Delete("parent", row(1, "a")),
            ];
            let (applied, download) = center.synchronize(&mut remote, &changes);
            assert!(applied.conflicts + applied.rejected > 0, "{backend:?} {theirs}");
            let held = center.rows("SELECT id, parent, v FROM child");
            let came = download.upserts.iter().filter(|(table, _)| table == "child");
            assert_eq!(came.map(|(_, row)| row.clone()).collect::<Vec<_>>(), held, "{backend:?}");
        });
    }
}

/// The value passes on by updates: `ON UPDATE` takes the child along.
// S3, S5, Trap 10
#[test]
fn a_child_stays_under_a_value_that_passes_from_row_to_row() {
    for v in ["x", "edited"] {
        Backend::each(|backend| {
            let schema = "CREATE TABLE parent (id INTEGER PRIMARY KEY, v TEXT UNIQUE);
                CREATE TABLE child (id INTEGER PRIMARY KEY,
                    parent TEXT REFERENCES parent (v) ON UPDATE CASCADE, v TEXT);
                INSERT INTO parent VALUES (1, 'a'), (2, 'b');
                INSERT INTO child VALUES (10, 'a', 'x'), (11, 'a', 'y'), (20, 'b', 'z');";
            let mut center = Center::on(backend, schema, "[table.parent]\n[table.child]\n");
            let mut remote = Remote::another();
            center.synchronize(&mut remote, &[]);
            let child = |id, parent, v| vec![int(id), text(parent), text(v)];
            let changes = [
                Upload::Update("parent", row(1, "a"), row(1, "c")),
                Upload::Update("parent", row(2, "b"), row(2, "a")),
                Upload::Update("child", child(10, "a", "x"), child(10, "a", v)),
                Upload::Update("child", child(11, "a", "y"), child(11, "c", "y")),
                Upload::Update("child", child(20, "b", "z"), child(20, "a", "z")),
            ];
            whole(&mut center, &mut remote, &changes);
            assert_eq!(children(&center), format!("10:a{v},11:cy,20:az"), "{backend:?}");
            // One that is edited elsewhere stays as well.
            let changes = [
                Upload::Update("parent", row(1, "c"), row(1, "d")),
                Upload::Update("parent", row(2, "a"), row(2, "c")),
                Upload::Update("child", child(11, "c", "y"), child(11, "c", "Y")),
                Upload::Update("child", child(20, "a", "z"), child(20, "c", "Z")),
                Upload::Delete("child", child(10, "a", v)),
            ];
            whole(&mut center, &mut remote, &changes);
            assert_eq!(children(&center), "11:cY,20:cZ", "{backend:?}");
        });
    }
}
