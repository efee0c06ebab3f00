//! Rows that refer to a key keep it from changing, until the upload deletes them.

use super::{Backend, Center, Download, Remote, Row, Upload, child, int, text};
use syncline_consolidated::Applied;

const ACTIONS: [&str; 4] =
    ["", "ON UPDATE NO ACTION ON DELETE CASCADE", "ON UPDATE RESTRICT", "ON UPDATE CASCADE"];

/// Parents that children refer to, by their key or by a code, and what refers to the children.
fn family(backend: Backend, referred: &str, action: &str) -> (Center, Remote) {
    let schema = format!(
        "CREATE TABLE parent (id INTEGER PRIMARY KEY, code INTEGER NOT NULL UNIQUE, v TEXT);
         CREATE TABLE child (id INTEGER PRIMARY KEY,
             parent INTEGER NOT NULL REFERENCES parent ({referred}) {action}, v TEXT);
         CREATE TABLE grandchild (id INTEGER PRIMARY KEY,
             child INTEGER NOT NULL REFERENCES child (id) ON DELETE CASCADE, v TEXT);
         INSERT INTO parent VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c');
         INSERT INTO child VALUES (10, 1, 'x'), (11, 1, 'y'), (20, 2, 'z'), (30, 3, 'w');
         INSERT INTO grandchild VALUES (100, 10, 'p'), (200, 20, 'q');"
    );
    let mut center =
        Center::on(backend, &schema, "[table.parent]\n[table.child]\n[table.grandchild]\n");
    let mut remote = Remote::another();
    center.synchronize(&mut remote, &[]);
    (center, remote)
}

fn parent(id: i64, code: i64, v: &str) -> Row {
    vec![int(id), int(code), text(v)]
}

/// The deletes of the children of the first two parents.
fn children_go() -> Vec<Upload> {
    vec![
        Upload::Delete("child", child(10, 1, "x")),
        Upload::Delete("child", child(11, 1, "y")),
        Upload::Delete("child", child(20, 2, "z")),
        Upload::Delete("grandchild", child(100, 10, "p")),
        Upload::Delete("grandchild", child(200, 20, "q")),
    ]
}

fn rows(center: &Center) -> String {
    let of = |table: &str, columns: &str| {
        center.list(&format!("SELECT {columns} AS v FROM {table} ORDER BY id"))
    };
    let (parents, children) = (of("parent", "id || ':' || code || v"), of("child", "id || v"));
    format!("{parents} {children} {}", of("grandchild", "id || ':' || child"))
}

fn is_whole(what: &str, (applied, download): &(Applied, Download)) {
    assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{what}: {download:?}");
}

/// PostgreSQL refused the whole ring before it came to the deletes (E7003, E7195), and SQLite
/// applied it.
// S3, S5, Trap 10, Trap 21
#[test]
fn a_row_that_is_deleted_holds_no_key() {
    Backend::each(|backend| {
        for action in ACTIONS {
            let what = format!("{backend:?} {action}");
            let (mut center, mut remote) = family(backend, "id", action);
            let mut changes = children_go();
            changes.extend([
                Upload::KeyChange("parent", parent(1, 1, "a"), parent(2, 1, "a")),
                Upload::KeyChange("parent", parent(2, 2, "b"), parent(1, 2, "b")),
            ]);
            is_whole(&what, &center.synchronize(&mut remote, &changes));
            assert_eq!(rows(&center), "1:2b,2:1a,3:3c 30w ", "{what}");
            // The same, when only one of them has children, and a new row takes the other's key.
            let changes = [
                Upload::Delete("child", child(30, 3, "w")),
                Upload::KeyChange("parent", parent(3, 3, "c"), parent(1, 3, "c")),
                Upload::KeyChange("parent", parent(1, 2, "b"), parent(4, 2, "b")),
                Upload::Insert("parent", parent(3, 4, "d")),
            ];
            is_whole(&what, &center.synchronize(&mut remote, &changes));
            assert_eq!(rows(&center), "1:3c,2:1a,3:4d,4:2b  ", "{what}");
        }
    });
}

/// The same of values that must be unique and that rows exchange.
// S3, S5, Trap 10
#[test]
fn a_row_that_is_deleted_holds_no_value_of_a_ring() {
    Backend::each(|backend| {
        for action in ACTIONS {
            let what = format!("{backend:?} {action}");
            let (mut center, mut remote) = family(backend, "code", action);
            let mut changes = children_go();
            changes.extend([
                Upload::Update("parent", parent(1, 1, "a"), parent(1, 2, "a")),
                Upload::Update("parent", parent(2, 2, "b"), parent(2, 1, "b")),
            ]);
            is_whole(&what, &center.synchronize(&mut remote, &changes));
            assert_eq!(rows(&center), "1:2a,2:1b,3:3c 30w ", "{what}");
        }
    });
}

/// A delete that goes first must not take along what the upload moves to another row.
// S3, S5, Trap 21
#[test]
fn what_leaves_a_row_that_holds_a_key_is_not_deleted_with_it() {
    Backend::each(|backend| {
        for action in ACTIONS {
            let what = format!("{backend:?} {action}");
            let (mut center, mut remote) = family(backend, "id", action);
            let changes = [
                Upload::Delete("child", child(10, 1, "x")),
                Upload::Delete("child", child(11, 1, "y")),
                Upload::Update("grandchild", child(100, 10, "p"), child(100, 30, "p")),
                Upload::KeyChange("parent", parent(1, 1, "a"), parent(4, 1, "a")),
            ];
            is_whole(&what, &center.synchronize(&mut remote, &changes));
            assert_eq!(rows(&center), "2:2b,3:3c,4:1a 20z,30w 100:30,200:20", "{what}");
        }
    });
}

/// PostgreSQL refused the ring, because the rows that move away were applied behind it, and SQLite
/// applied it.
// S3, S5, Trap 10, Trap 21
#[test]
fn a_row_that_moves_away_holds_no_key() {
    Backend::each(|backend| {
        for action in ACTIONS {
            let what = format!("{backend:?} {action}");
            let (mut center, mut remote) = family(backend, "id", action);
            let changes = [
                Upload::Update("child", child(10, 1, "x"), child(10, 3, "x")),
                Upload::Update("child", child(11, 1, "y"), child(11, 3, "y")),
                Upload::Update("child", child(20, 2, "z"), child(20, 3, "z")),
                Upload::KeyChange("parent", parent(1, 1, "a"), parent(2, 1, "a")),
                Upload::KeyChange("parent", parent(2, 2, "b"), parent(1, 2, "b")),
            ];
            is_whole(&what, &center.synchronize(&mut remote, &changes));
            assert_eq!(rows(&center), "1:2b,2:1a,3:3c 10x,11y,20z,30w 100:10,200:20", "{what}");
            let under = center.value("SELECT count(*) FROM child WHERE parent = 3");
            assert_eq!(under, int(4), "{what}");
        }
    });
}
