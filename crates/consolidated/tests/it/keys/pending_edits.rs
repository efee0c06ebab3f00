//! What a remote did to a row that has another key at the center meanwhile, or none any more.

use crate::support::center::{Backend, Center, Download, Remote, Row, Upload, int, text};
use model::Code;

const SCHEMA: &str = "
    CREATE TABLE parent (id INTEGER PRIMARY KEY, v TEXT);
    CREATE TABLE child (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent (id));
    INSERT INTO parent VALUES (1, 'a'), (2, 'b'), (3, 'c');";

fn row(id: i64, v: &str) -> Row {
    vec![int(id), text(v)]
}

/// What the remote did: an edit, a deletion, and a row that refers to one of another key.
fn pending() -> [Upload; 3] {
    [
        Upload::Update("parent", row(1, "a"), row(1, "mine")),
        Upload::Delete("parent", row(2, "b")),
        Upload::Insert("child", vec![int(30), int(3)]),
    ]
}

/// Numbers of the rejects that a download has, with the keys of their rows.
fn rejects(download: &Download) -> Vec<(String, u16)> {
    download.rejects.iter().map(|(table, _, code)| (table.clone(), *code)).collect()
}

/// The remote sees the same of rows with other keys as of deleted ones: the same conflicts, the
/// same reject, the same row under the old key where the remote wins.
// S5, S11, Trap 21
#[test]
fn a_pending_edit_under_a_key_that_is_gone_is_one_of_a_deleted_row() {
    for (rule, kept) in [("consolidated_wins", ""), ("remote_wins", "1mine"), ("merge", "1mine")] {
        Backend::each(|backend| {
            let model = format!("[table.parent]\nconflict = \"{rule}\"\n[table.child]\n");
            let outcome = |at_the_center: &str| {
                let mut center = Center::on(backend, SCHEMA, &model);
                let mut remote = Remote::another();
                center.synchronize(&mut remote, &[]);
                center.foreign(at_the_center);
                let (applied, download) = center.synchronize(&mut remote, &pending());
                let old = "SELECT id || v AS v FROM parent WHERE id < 10 ORDER BY id";
                let moved = "SELECT id || v AS v FROM parent WHERE id > 10 ORDER BY id";
                let places = (center.list(old), center.list(moved));
                ((applied.conflicts, rejects(&download), places.0), places.1, download)
            };
            let moved = outcome("UPDATE parent SET id = id + 10");
            let deleted = outcome("DELETE FROM parent");
            assert_eq!(moved.0, deleted.0, "{backend:?} {rule}");
            let missing = [("child".to_owned(), Code::RowReferences.number())];
            assert_eq!((moved.0.0, &moved.0.2[..]), (1, kept), "{backend:?} {rule}");
            assert_eq!(moved.0.1, missing, "{backend:?} {rule}");
            // Others' rows stay as they are, and reach the remote.
            assert_eq!(moved.1, "11a,12b,13c", "{backend:?} {rule}");
            for (id, v) in [(11, "a"), (12, "b"), (13, "c")] {
                let came = moved.2.upserts.contains(&("parent".to_owned(), row(id, v)));
                assert!(came, "{backend:?} {rule}: {:?}", moved.2.upserts);
            }
        });
    }
}

/// The key that is gone went to another row. An edit of the row that had it is a conflict with the
/// one that has it now.
// S5, Trap 21
#[test]
fn a_pending_edit_under_a_key_of_another_row_is_a_conflict() {
    for (rule, there) in [("consolidated_wins", "1b,2a,3c"), ("remote_wins", "1mine,2a,3c")] {
        Backend::each(|backend| {
            let model = format!("[table.parent]\nconflict = \"{rule}\"\n[table.child]\n");
            let mut center = Center::on(backend, SCHEMA, &model);
            let mut remote = Remote::another();
            center.synchronize(&mut remote, &[]);
            center.foreign(
                "UPDATE parent SET id = 9 WHERE id = 1; UPDATE parent SET id = 1 WHERE id = 2;
                 UPDATE parent SET id = 2 WHERE id = 9",
            );
            let edit = [Upload::Update("parent", row(1, "a"), row(1, "mine"))];
            let (applied, _) = center.synchronize(&mut remote, &edit);
            assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{backend:?} {rule}");
            let rows = "SELECT id || v AS v FROM parent ORDER BY id";
            assert_eq!(center.list(rows), there, "{backend:?} {rule}");
        });
    }
}
