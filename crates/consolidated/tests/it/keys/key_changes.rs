//! A row gets another key at a remote.
//!
//! Before, it was sent as a delete and an insert. At the center `ON DELETE` then changed rows that
//! the remote never had, although the foreign key also has `ON UPDATE`. If the insert was refused,
//! the row was lost.

mod holding;
mod random;
mod set_back;
mod waiting;

use crate::support::center::{self, Backend, Center, Download, Remote, Row, Upload, int, text};
use model::Code;

const FAMILY: &str = "
    CREATE TABLE parent (id INTEGER PRIMARY KEY, v TEXT);
    CREATE TABLE child (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent (id)
        ON UPDATE CASCADE ON DELETE CASCADE, v TEXT);
    CREATE TABLE grandchild (child INTEGER REFERENCES child (id)
        ON UPDATE CASCADE ON DELETE CASCADE, n INTEGER, v TEXT, PRIMARY KEY (child, n));
    INSERT INTO parent VALUES (1, 'a'), (2, 'b');
    INSERT INTO child VALUES (10, 1, 'x'), (11, 1, 'y'), (20, 2, 'z');
    INSERT INTO grandchild VALUES (10, 1, 'p'), (20, 1, 'q');";

fn family(backend: Backend, rule: &str) -> (Center, Remote) {
    let model = format!(
        "[table.parent]\nconflict = {rule}\n[table.child]\nconflict = {rule}\n\
         [table.grandchild]\nconflict = {rule}\n"
    );
    let mut center = Center::on(backend, FAMILY, &model);
    let mut remote = Remote::another();
    center.synchronize(&mut remote, &[]);
    (center, remote)
}

fn row(id: i64, v: &str) -> Row {
    vec![int(id), text(v)]
}

/// A row that refers to another one: of `child`, and where it has a key of its own of `grandchild`.
fn child(id: i64, parent: i64, v: &str) -> Row {
    vec![int(id), int(parent), text(v)]
}

fn parents(center: &Center) -> String {
    center.list("SELECT id || v AS v FROM parent ORDER BY id")
}

fn children(center: &Center) -> String {
    center.list(
        "SELECT id || ':' || coalesce(CAST(parent AS TEXT), 'none') || v AS v
         FROM child ORDER BY id",
    )
}

fn grandchildren(center: &Center) -> String {
    center.list("SELECT child || ':' || n || v AS v FROM grandchild ORDER BY child, n")
}

fn codes(download: &Download) -> Vec<u16> {
    download.rejects.iter().map(|(_, _, code)| *code).collect()
}

/// A key change wiped children that the remote never had: `ON DELETE CASCADE` acted, and the orders
/// of other users were gone without a word.
// S5, Trap 21
#[test]
fn a_key_change_takes_the_children_along() {
    Backend::each(|backend| {
        let (mut center, mut remote) = family(backend, "\"consolidated_wins\"");
        center.foreign("INSERT INTO child VALUES (12, 1, 'theirs')");
        let change = Upload::KeyChange("parent", row(1, "a"), row(5, "A"));
        let (applied, download) = center.synchronize(&mut remote, &[change]);
        assert_eq!((applied.updates, applied.conflicts, applied.rejected), (1, 0, 0));
        assert_eq!(parents(&center), "2b,5A");
        assert_eq!(children(&center), "10:5x,11:5y,12:5theirs,20:2z");
        // The parent itself does not come back.
        assert!(download.upserts.iter().all(|(table, _)| table == "child"), "{download:?}");
        assert_eq!(download.deletes, []);
    });
}

/// The remote's own foreign key moved its children too, and it edited one and deleted one. To the
/// center they were no longer what the remote had seen, because its own `ON UPDATE` had been there
/// first: two false conflicts, and both changes were lost.
// S5, Trap 21
#[test]
fn children_are_changed_under_the_new_key_of_their_parent() {
    for with_the_foreign_key in [true, false] {
        Backend::each(|backend| {
            let (mut center, mut remote) = family(backend, "\"consolidated_wins\"");
            let new = if with_the_foreign_key { 5 } else { 1 };
            let changes = [
                Upload::KeyChange("parent", row(1, "a"), row(5, "a")),
                Upload::Update("child", child(10, 1, "x"), child(10, new, "X")),
                Upload::Delete("child", child(11, 1, "y")),
                Upload::Insert("child", child(13, 5, "new")),
            ];
            let (applied, download) = center.synchronize(&mut remote, &changes);
            assert_eq!((applied.conflicts, applied.rejected), (0, 0));
            assert_eq!(children(&center), "10:5X,13:5new,20:2z");
            // A remote without the foreign key receives the parent's new key.
            let came = download.upserts.iter().map(|(_, row)| row[0].clone()).collect::<Vec<_>>();
            assert_eq!(came, if with_the_foreign_key { vec![] } else { vec![int(10)] });
        });
    }
}

/// The center's `ON UPDATE SET DEFAULT` gave the child another parent: a conflict of the remote
/// with itself, in which its edit of the child was lost.
// S5, Trap 21
#[test]
fn a_child_that_gets_its_default_parent_is_changed_all_the_same() {
    for (default, of_remote) in [("DEFAULT 2", 2), ("DEFAULT 2", 1), ("", 1)] {
        Backend::each(|backend| {
            let schema = FAMILY.replace(
                "parent INTEGER REFERENCES parent (id)
        ON UPDATE CASCADE",
                &format!(
                    "parent INTEGER {default} REFERENCES parent (id)
                         ON UPDATE SET DEFAULT"
                ),
            );
            let mut center = Center::on(backend, &schema, "[table.parent]\n[table.child]\n");
            let mut remote = Remote::another();
            center.synchronize(&mut remote, &[]);
            let changes = [
                Upload::KeyChange("parent", row(1, "a"), row(5, "a")),
                Upload::Update("child", child(10, 1, "x"), child(10, of_remote, "X")),
                Upload::Delete("child", child(11, 1, "y")),
            ];
            let (applied, _) = center.synchronize(&mut remote, &changes);
            assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{backend:?} {default}");
            let parent = if default.is_empty() { "none" } else { "2" };
            assert_eq!(children(&center), format!("10:{parent}X,20:2z"));
        });
    }
}

/// The key of the child is a part of the key of the grandchild.
// S5, Trap 21
#[test]
fn rows_whose_own_key_moves_with_their_parent_are_found() {
    Backend::each(|backend| {
        let (mut center, mut remote) = family(backend, "\"consolidated_wins\"");
        let grandchild = |child, n, v| vec![int(child), int(n), text(v)];
        let changes = [
            Upload::KeyChange("child", child(10, 1, "x"), child(15, 1, "x")),
            Upload::KeyChange("child", child(20, 2, "z"), child(25, 2, "z")),
            Upload::KeyChange("grandchild", grandchild(10, 1, "p"), grandchild(15, 1, "P")),
            Upload::Delete("grandchild", grandchild(20, 1, "q")),
        ];
        let (applied, _) = center.synchronize(&mut remote, &changes);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0));
        assert_eq!(grandchildren(&center), "15:1P");
        assert_eq!(children(&center), "11:1y,15:1x,25:2z");
    });
}

// S1, Trap 10, Trap 21
#[test]
fn chains_swaps_and_freed_keys_come_out_right() {
    Backend::each(|backend| {
        let (mut center, mut remote) = family(backend, "\"consolidated_wins\"");
        // A chain, in the order that cannot be.
        let changes = [
            Upload::KeyChange("parent", row(1, "a"), row(2, "a")),
            Upload::KeyChange("parent", row(2, "b"), row(3, "b")),
        ];
        let (applied, _) = center.synchronize(&mut remote, &changes);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0));
        assert_eq!(parents(&center), "2a,3b");
        assert_eq!(children(&center), "10:2x,11:2y,20:3z");
        // A ring.
        let changes = [
            Upload::KeyChange("parent", row(2, "a"), row(3, "a")),
            Upload::KeyChange("parent", row(3, "b"), row(2, "b")),
            Upload::Update("child", child(10, 2, "x"), child(10, 3, "X")),
        ];
        let (applied, _) = center.synchronize(&mut remote, &changes);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0));
        assert_eq!(parents(&center), "2b,3a");
        assert_eq!(children(&center), "10:3X,11:3y,20:2z");
        // A key that a delete and a key change free is taken at once.
        let changes = [
            Upload::Insert("parent", row(3, "new")),
            Upload::KeyChange("parent", row(3, "a"), row(2, "a")),
            Upload::Delete("parent", row(2, "b")),
            Upload::Delete("child", child(20, 2, "z")),
        ];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{download:?}");
        assert_eq!(parents(&center), "2a,3new");
        assert_eq!(children(&center), "10:2X,11:2y");
    });
}

/// The insert was refused, the delete was not: the row was gone.
// S4, Trap 21
#[test]
fn a_key_change_that_cannot_be_changes_nothing_and_both_keys_are_owed() {
    Backend::each(|backend| {
        let (mut center, mut remote) = family(backend, "\"remote_wins\"");
        center.foreign("INSERT INTO parent VALUES (5, 'theirs')");
        let changes = [
            Upload::KeyChange("parent", row(1, "a"), row(5, "A")),
            Upload::Update("child", child(10, 1, "x"), child(10, 5, "X")),
            Upload::Insert("child", child(13, 5, "new")),
        ];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        assert_eq!((applied.conflicts, applied.rejected), (0, 1));
        assert_eq!(parents(&center), "1a,2b,5theirs");
        // What the remote did under the new key is for the row that has kept the old one.
        assert_eq!(children(&center), "10:1X,11:1y,13:1new,20:2z");
        assert_eq!(codes(&download), [Code::RowKeyTaken.number()]);
        let came = |table: &str, row: Row| download.upserts.contains(&(table.into(), row));
        assert!(came("parent", row(1, "a")) && came("parent", row(5, "theirs")), "{download:?}");
        assert!(came("child", child(10, 1, "X")) && came("child", child(13, 1, "new")));
    });
}

/// The key of a child had moved at the remote with that of its parent, which was refused. The child
/// kept its key at the center, and stayed at the remote under the other one too.
// S3, Trap 21
#[test]
fn a_child_that_had_moved_with_a_refused_parent_comes_back_to_its_key() {
    Backend::each(|backend| {
        let (mut center, mut remote) = family(backend, "\"consolidated_wins\"");
        center.foreign("INSERT INTO child VALUES (15, 2, 'theirs')");
        let grandchild = |child, n, v| vec![int(child), int(n), text(v)];
        let changes = [
            Upload::KeyChange("child", child(10, 1, "x"), child(15, 1, "x")),
            Upload::KeyChange("grandchild", grandchild(10, 1, "p"), grandchild(15, 1, "p")),
            Upload::Insert("grandchild", grandchild(15, 2, "new")),
        ];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        assert_eq!((applied.conflicts, applied.rejected), (0, 1), "{backend:?}");
        assert_eq!(grandchildren(&center), "10:1p,10:2new,20:1q", "{backend:?}");
        for n in [1, 2] {
            let gone = ("grandchild".into(), vec![int(15), int(n)]);
            assert!(download.deletes.contains(&gone), "{backend:?}: {download:?}");
        }
        let came = |row: Row| download.upserts.contains(&("grandchild".into(), row));
        assert!(came(grandchild(10, 1, "p")) && came(grandchild(10, 2, "new")), "{download:?}");
    });
}

// S5, Trap 21
#[test]
fn rules_go_by_the_old_key() {
    Backend::each(|backend| {
        for (rule, parents_now, v) in [
            ("\"consolidated_wins\"", "1theirs,2b", 1),
            ("\"remote_wins\"", "2b,5a", 5),
            ("\"merge\"", "2b,5theirs", 5),
        ] {
            let (mut center, mut remote) = family(backend, rule);
            center.foreign("UPDATE parent SET v = 'theirs' WHERE id = 1");
            let changes = [
                Upload::KeyChange("parent", row(1, "a"), row(5, "a")),
                Upload::Update("child", child(10, 1, "x"), child(10, 5, "X")),
            ];
            let (applied, download) = center.synchronize(&mut remote, &changes);
            assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{rule}");
            assert_eq!(parents(&center), parents_now, "{rule}");
            assert_eq!(children(&center), format!("10:{v}X,11:{v}y,20:2z"), "{rule}");
            if v == 1 {
                assert!(download.deletes.contains(&("parent".into(), vec![int(5)])));
                assert!(download.upserts.contains(&("parent".into(), row(1, "theirs"))));
            }
        }
    });
}

// S5, Trap 21
#[test]
fn a_key_change_of_a_row_that_is_gone_is_an_update_against_a_delete() {
    Backend::each(|backend| {
        for (rule, parents_now) in [("\"consolidated_wins\"", "2b"), ("\"remote_wins\"", "2b,5a")] {
            let (mut center, mut remote) = family(backend, rule);
            center.foreign("DELETE FROM child WHERE parent = 1");
            center.foreign("DELETE FROM grandchild; DELETE FROM parent WHERE id = 1");
            let change = Upload::KeyChange("parent", row(1, "a"), row(5, "a"));
            let (applied, download) = center.synchronize(&mut remote, &[change]);
            assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{rule}");
            assert_eq!(parents(&center), parents_now, "{rule}");
            let gone = download.deletes.contains(&("parent".into(), vec![int(5)]));
            assert_eq!(gone, rule == "\"consolidated_wins\"");
        }
    });
}

/// Of a ring of which one row cannot be, none is.
// S4, Trap 21
#[test]
fn a_ring_is_whole_or_not_at_all() {
    Backend::each(|backend| {
        let (mut center, mut remote) = family(backend, "\"consolidated_wins\"");
        center.foreign("INSERT INTO parent VALUES (3, 'c')");
        let mut other = Remote::another();
        center.synchronize(&mut other, &[]);
        center.foreign("UPDATE parent SET v = 'theirs' WHERE id = 3");
        let changes = [
            Upload::KeyChange("parent", row(1, "a"), row(2, "a")),
            Upload::KeyChange("parent", row(2, "b"), row(3, "b")),
            Upload::KeyChange("parent", row(3, "c"), row(1, "c")),
        ];
        let (applied, download) = center.synchronize(&mut other, &changes);
        assert_eq!(applied.conflicts + applied.rejected, 3, "{download:?}");
        assert_eq!(parents(&center), "1a,2b,3theirs");
        assert_eq!(children(&center), "10:1x,11:1y,20:2z");
        center.synchronize(&mut remote, &[]);
    });
}

/// A foreign key that forbids it.
// S5, Trap 21
#[test]
fn a_key_that_somebody_refers_to_and_may_not_change_is_rejected() {
    Backend::each(|backend| {
        for action in ["RESTRICT", "NO ACTION"] {
            let schema = format!(
                "CREATE TABLE parent (id INTEGER PRIMARY KEY, v TEXT);
                 CREATE TABLE hidden (id INTEGER PRIMARY KEY, parent INTEGER
                     REFERENCES parent (id) ON UPDATE {action});
                 INSERT INTO parent VALUES (1, 'a'), (2, 'b');
                 INSERT INTO hidden VALUES (1, 1);"
            );
            let mut center = Center::on(backend, &schema, "[table.parent]\n");
            let mut remote = Remote::another();
            center.synchronize(&mut remote, &[]);
            let changes = [
                Upload::KeyChange("parent", row(1, "a"), row(5, "a")),
                Upload::KeyChange("parent", row(2, "b"), row(6, "b")),
            ];
            let (applied, download) = center.synchronize(&mut remote, &changes);
            assert_eq!((applied.conflicts, applied.rejected), (0, 1), "{action}");
            assert_eq!(codes(&download), [Code::RowReferences.number()]);
            assert_eq!(parents(&center), "1a,6b");
        }
    });
}

/// `deploy` reports it before a remote meets it.
// Trap 21, S11
#[test]
fn deploy_names_foreign_keys_that_keep_keys_from_changing() {
    let schema = "
        CREATE TABLE parent (id INTEGER PRIMARY KEY);
        CREATE TABLE strict_child (id INTEGER PRIMARY KEY,
            parent INTEGER REFERENCES parent ON UPDATE RESTRICT);
        CREATE TABLE child (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent);
        CREATE TABLE hidden (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent);";
    let tables = "[table.parent]\n[table.strict_child]\n[table.child]\n";
    // SQLite defers all foreign keys while it applies an upload, so rows of a published child can
    // follow.
    Backend::each(|backend| {
        let fixed = backend.pick("hidden, strict_child", "child, hidden, strict_child");
        let center = Center::on(backend, schema, tables);
        let notices = center::deploy(&center.url, tables).unwrap().notices;
        let said = format!("parent: remotes cannot change a key that rows of {fixed} refer to ");
        assert!(notices.iter().any(|notice| notice.starts_with(&said)), "{notices:?}");
    });
}
