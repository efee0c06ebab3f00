//! A row gets another key at the center.
//!
//! Before, it was sent as a delete and an upsert. At a remote `ON DELETE` then changed rows that
//! only the remote has, although the foreign key also has `ON UPDATE`.

use crate::support::center::{Backend, Center, Download, Remote, Row, Upload, int, text};
use syncline_consolidated::DownloadedTable;

const FAMILY: &str = "
    CREATE TABLE parent (id INTEGER PRIMARY KEY, v TEXT);
    CREATE TABLE child (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent (id)
        ON UPDATE CASCADE ON DELETE CASCADE, v TEXT);
    CREATE TABLE grandchild (child INTEGER REFERENCES child (id)
        ON UPDATE CASCADE ON DELETE CASCADE, n INTEGER, v TEXT, PRIMARY KEY (child, n));
    INSERT INTO parent VALUES (1, 'a'), (2, 'b'), (3, 'c');
    INSERT INTO child VALUES (10, 1, 'x'), (20, 2, 'z');
    INSERT INTO grandchild VALUES (10, 1, 'p'), (20, 1, 'q');";

const ALL: &str = "[table.parent]\n[table.child]\n[table.grandchild]\n";

fn family(backend: Backend) -> (Center, Remote) {
    let mut center = Center::on(backend, FAMILY, ALL);
    let mut remote = Remote::another();
    center.synchronize(&mut remote, &[]);
    (center, remote)
}

/// Another program, which heeds foreign keys.
fn foreign(center: &Center, statements: &[&str]) {
    center.try_foreign(&statements.iter().map(|sql| (*sql).to_owned()).collect::<Vec<_>>());
}

fn row(id: i64, v: &str) -> Row {
    vec![int(id), text(v)]
}

fn moved(table: &str, old: Row, row: Row) -> (String, Row, Row) {
    (table.to_owned(), old, row)
}

/// The downloaded rows, in a fixed order.
fn sorted(mut download: Download) -> Download {
    let by = |row: &Row| row.iter().map(|value| value.as_ref().display()).collect::<Vec<_>>();
    download.key_changes.sort_by_key(|(table, old, _)| (table.clone(), by(old)));
    download.upserts.sort_by_key(|(table, row)| (table.clone(), by(row)));
    download.deletes.sort_by_key(|(table, row)| (table.clone(), by(row)));
    download
}

fn next(center: &mut Center, remote: &mut Remote) -> Download {
    sorted(center.synchronize(remote, &[]).1)
}

fn is_nothing(download: &Download) -> bool {
    let Download { upserts, key_changes, deletes, .. } = download;
    upserts.is_empty() && key_changes.is_empty() && deletes.is_empty()
}

/// The remote learns both keys, of children as well whose key has a part of their parent's.
// S5, Trap 21
#[test]
fn a_key_that_changes_at_the_center_is_sent_as_a_key_change() {
    Backend::each(|backend| {
        let (mut center, mut remote) = family(backend);
        foreign(
            &center,
            &[
                "UPDATE parent SET id = 5, v = 'A' WHERE id = 1",
                "UPDATE child SET id = 15 WHERE id = 10",
                "UPDATE parent SET v = 'B' WHERE id = 2",
                "DELETE FROM parent WHERE id = 3",
            ],
        );
        let before = remote.clone();
        let download = next(&mut center, &mut remote);
        let expected = [
            moved("child", vec![int(10)], vec![int(15), int(5), text("x")]),
            moved("grandchild", vec![int(10), int(1)], vec![int(15), int(1), text("p")]),
            moved("parent", vec![int(1)], row(5, "A")),
        ];
        assert_eq!(download.key_changes, expected);
        assert_eq!(download.upserts, [("parent".into(), row(2, "B"))]);
        assert_eq!(download.deletes, [("parent".into(), vec![int(3)])]);
        assert!(is_nothing(&next(&mut center, &mut remote)));
        // The download was lost, so it comes again.
        let mut lost = Remote { identity: remote.identity, ..before };
        assert_eq!(next(&mut center, &mut lost).key_changes, expected);
        // All rows come to a remote that has none: nothing has moved there.
        let mut newcomer = Remote::another();
        let download = next(&mut center, &mut newcomer);
        assert_eq!(download.modes, [DownloadedTable::Refresh; 3]);
        assert_eq!((download.key_changes.len(), download.deletes.len()), (0, 0));
    });
}

// S3, Trap 10
#[test]
fn chains_swaps_and_rings_at_the_center_name_the_keys_that_the_remote_knows() {
    Backend::each(|backend| {
        let shift = |to: &str, from: &str| format!("UPDATE parent SET id = {to} WHERE id = {from}");
        for steps in [
            // Each goes one further.
            vec![("4", "3"), ("3", "2"), ("2", "1")],
            // They exchange keys by way of a temporary key.
            vec![("-1", "1"), ("1", "2"), ("2", "-1")],
            // A ring of three.
            vec![("-1", "1"), ("1", "3"), ("3", "2"), ("2", "-1")],
            // One goes, comes back and goes again; another takes its first key.
            vec![("7", "1"), ("1", "7"), ("8", "1"), ("1", "2")],
        ] {
            let (mut center, mut remote) = family(backend);
            let before = center.rows("SELECT id, v FROM parent ORDER BY v");
            let steps: Vec<String> = steps.iter().map(|(to, from)| shift(to, from)).collect();
            center.try_foreign(&steps);
            let download = next(&mut center, &mut remote);
            let now = center.rows("SELECT id, v FROM parent ORDER BY v");
            let mut wanted = Vec::new();
            for (was, is) in before.iter().zip(&now).filter(|(was, is)| was[0] != is[0]) {
                assert_eq!(was[1], is[1], "a row is known by its text here");
                wanted.push(moved("parent", vec![was[0].clone()], is.clone()));
            }
            let of_parents = |(table, ..): &&(String, Row, Row)| table == "parent";
            let told: Vec<_> = download.key_changes.iter().filter(of_parents).cloned().collect();
            assert_eq!(told, sorted_changes(wanted), "{steps:?}");
            assert!(!download.upserts.iter().any(|(table, _)| table == "parent"), "{download:?}");
            // Keys that a row had on its way may be named: the remote has no row there.
            let held = |key: &Row| before.iter().chain(&now).any(|row| row[0] == key[0]);
            assert!(!download.deletes.iter().any(|(_, key)| held(key)), "{download:?}");
        }
    });
}

/// A ring of keys is opened by a spare key. Other remotes were to delete the row under
/// it, and those under the keys that its children had meanwhile; they never had such rows.
// S3, S7, Trap 10
#[test]
fn no_remote_is_to_delete_a_key_that_a_row_had_for_a_while() {
    Backend::each(|backend| {
        let (mut center, mut writer) = family(backend);
        let mut other = Remote::another();
        center.synchronize(&mut other, &[]);
        let child = |id: i64, parent: i64, v: &str| vec![int(id), int(parent), text(v)];
        let swap = [
            Upload::KeyChange("child", child(10, 1, "x"), child(20, 1, "x")),
            Upload::KeyChange("child", child(20, 2, "z"), child(10, 2, "z")),
        ];
        let (applied, download) = center.synchronize(&mut writer, &swap);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0));
        assert_eq!(download.deletes, []);
        assert_eq!(next(&mut center, &mut other).deletes, [], "{backend:?}");
        // The row of a key that is freed is put aside, with its children.
        let free = [
            Upload::KeyChange("child", child(20, 1, "x"), child(10, 1, "x")),
            Upload::Delete("child", child(10, 2, "z")),
            Upload::Delete("grandchild", vec![int(10), int(1), text("q")]),
        ];
        let (applied, _) = center.synchronize(&mut writer, &free);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{backend:?}");
        let known = |key: &Row| matches!(key[0], model::Value::Integer(10 | 20));
        let deletes = next(&mut center, &mut other).deletes;
        assert!(deletes.iter().all(|(_, key)| known(key)), "{backend:?}: {deletes:?}");
        // What comes next is not missed: its number in the log is new.
        foreign(&center, &["UPDATE child SET v = 'later'"]);
        let download = next(&mut center, &mut other);
        assert_eq!(download.upserts, [("child".to_owned(), child(10, 1, "later"))]);
    });
}

fn sorted_changes(key_changes: Vec<(String, Row, Row)>) -> Vec<(String, Row, Row)> {
    sorted(Download { key_changes, ..Download::default() }).key_changes
}

/// The row is deleted in the end, or another row has the key now.
// S3
#[test]
fn what_else_happens_to_a_row_with_another_key_is_told_too() {
    Backend::each(|backend| {
        let (mut center, mut remote) = family(backend);
        foreign(
            &center,
            &[
                // Changed, then deleted.
                "UPDATE parent SET id = 6 WHERE id = 3",
                "DELETE FROM parent WHERE id = 6",
                // Changed, and another row gets the key.
                "UPDATE parent SET id = 5 WHERE id = 1",
                "INSERT INTO parent VALUES (1, 'new')",
                // Inserted, then changed: the remote has never had it.
                "INSERT INTO parent VALUES (7, 'g')",
                "UPDATE parent SET id = 8 WHERE id = 7",
            ],
        );
        let download = next(&mut center, &mut remote);
        let parents: Vec<_> =
            download.key_changes.iter().filter(|(table, ..)| table == "parent").cloned().collect();
        assert!(parents.contains(&moved("parent", vec![int(1)], row(5, "a"))), "{download:?}");
        assert!(download.upserts.contains(&("parent".into(), row(1, "new"))), "{download:?}");
        assert!(download.deletes.contains(&("parent".into(), vec![int(3)])), "{download:?}");
        let came = download.upserts.iter().map(|(_, row)| row).chain(parents.iter().map(|p| &p.2));
        assert!(came.clone().any(|it| *it == row(8, "g")), "{download:?}");
        assert!(!came.clone().any(|it| it[0] == int(6)));
    });
}

/// The remote that asked for a key change knows it; a row of its own under the old key stays.
// S3, Trap 8
#[test]
fn a_remote_is_not_told_of_its_own_key_change() {
    Backend::each(|backend| {
        let (mut center, mut remote) = family(backend);
        let mut other = Remote::another();
        center.synchronize(&mut other, &[]);
        let changes = [
            Upload::KeyChange("parent", row(1, "a"), row(5, "a")),
            Upload::Insert("parent", row(1, "mine")),
            Upload::Update("child", vec![int(10), int(1), text("x")], {
                vec![int(10), int(5), text("x")]
            }),
        ];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0));
        let about_parents = |download: &Download| {
            download.key_changes.iter().filter(|(table, ..)| table == "parent").count()
        };
        assert_eq!((about_parents(&download), download.deletes.len()), (0, 0), "{download:?}");
        let download = next(&mut center, &mut other);
        assert_eq!(about_parents(&download), 1, "{download:?}");
        assert!(download.upserts.contains(&("parent".into(), row(1, "mine"))));
        // Another user changes it again: the remote knows the key that it gave.
        foreign(&center, &["UPDATE parent SET id = 9 WHERE id = 5"]);
        for remote in [&mut remote, &mut other] {
            let download = next(&mut center, remote);
            let parent = download.key_changes.iter().find(|(table, ..)| table == "parent").unwrap();
            assert_eq!(*parent, moved("parent", vec![int(5)], row(9, "a")));
        }
    });
}

/// A key changes while an edit of the row waits: the edit is meant for the row, and its remote
/// learns the new key with the row.
// S5, Trap 21
#[test]
fn a_key_that_changes_while_an_edit_waits_comes_with_the_row() {
    Backend::each(|backend| {
        for (other, expected) in [("a", "mine"), ("theirs", "theirs")] {
            let (mut center, mut remote) = family(backend);
            foreign(&center, &[&format!("UPDATE parent SET id = 5, v = '{other}' WHERE id = 1")]);
            let change = Upload::Update("parent", row(1, "a"), row(1, "mine"));
            let (applied, download) = center.synchronize(&mut remote, &[change]);
            assert_eq!(applied.conflicts, u64::from(other == "theirs"));
            let change = moved("parent", vec![int(1)], row(5, expected));
            assert!(download.key_changes.contains(&change), "{download:?}");
        }
    });
}

const FENCED: &str = "
    CREATE TABLE note (id INTEGER PRIMARY KEY, owner TEXT NOT NULL, v TEXT);
    INSERT INTO note VALUES (1, 'ann', 'a'), (2, 'ann', 'b'), (3, 'ben', 'c'), (4, 'ben', 'd');";

fn note(id: i64, owner: &str, v: &str) -> Row {
    vec![int(id), text(owner), text(v)]
}

/// Two keys are named only to who had the row under the first one.
// S6, S7
#[test]
fn a_key_beyond_the_fence_is_not_disclosed() {
    Backend::each(|backend| {
        let notes = "[table.note]\npartition = \"owner = {s.username}\"\n";
        let went = |download: &Download| (download.key_changes.len(), download.deletes.clone());
        let story = |statements: &[&str]| {
            let mut center = Center::on(backend, FENCED, notes);
            let mut remote = Remote::another();
            center.synchronize(&mut remote, &[]);
            foreign(&center, statements);
            let mut download = next(&mut center, &mut remote);
            // Keys that a row had on its way may be named.
            download.deletes.retain(|(_, key)| key[0] != int(-1));
            download
        };
        // Inside all the time.
        let download = story(&["UPDATE note SET id = 9 WHERE id = 1"]);
        assert_eq!(download.key_changes, [moved("note", vec![int(1)], note(9, "ann", "a"))]);
        assert_eq!(download.deletes, []);
        // It enters with its new key.
        let download = story(&["UPDATE note SET id = 9, owner = 'ann' WHERE id = 3"]);
        assert_eq!(went(&download), (0, vec![]));
        assert_eq!(download.upserts, [("note".into(), note(9, "ann", "c"))]);
        // It leaves with its new key.
        let download = story(&["UPDATE note SET id = 9, owner = 'ben' WHERE id = 1"]);
        assert_eq!(went(&download), (0, vec![("note".into(), vec![int(1)])]));
        assert_eq!(download.upserts, []);
        // It takes the key of one that enters.
        let download = story(&[
            "UPDATE note SET id = 9, owner = 'ann' WHERE id = 3",
            "UPDATE note SET id = 3 WHERE id = 1",
        ]);
        assert_eq!(download.key_changes, [moved("note", vec![int(1)], note(3, "ann", "a"))]);
        assert_eq!(download.upserts, [("note".into(), note(9, "ann", "c"))]);
        assert_eq!(download.deletes, []);
        // Two of one owner swap, and so do two of two.
        let download = story(&[
            "UPDATE note SET id = -1 WHERE id = 1",
            "UPDATE note SET id = 1 WHERE id = 2",
            "UPDATE note SET id = 2 WHERE id = -1",
        ]);
        assert_eq!(went(&download), (2, vec![]));
        let download = story(&[
            "UPDATE note SET id = -1 WHERE id = 1",
            "UPDATE note SET id = 1 WHERE id = 3",
            "UPDATE note SET id = 3 WHERE id = -1",
        ]);
        assert_eq!(download.key_changes, [moved("note", vec![int(1)], note(3, "ann", "a"))]);
        assert_eq!((download.upserts.len(), download.deletes.len()), (0, 0), "{download:?}");
        // Another's row, and one that came and got its key unseen.
        let download = story(&[
            "UPDATE note SET id = 9 WHERE id = 3",
            "INSERT INTO note VALUES (7, 'ann', 'g')",
            "UPDATE note SET id = 8 WHERE id = 7",
        ]);
        let came = note(8, "ann", "g");
        if backend == Backend::Postgres && !download.key_changes.is_empty() {
            // Nothing says whether a row was there before it got its key. That it had another one
            // is said only where it was inside all the time, and where that key is named anyway.
            assert_eq!(download.key_changes, [moved("note", vec![int(7)], came)]);
            return;
        }
        assert_eq!(download.key_changes, []);
        assert_eq!(download.upserts, [("note".into(), came)]);
    });
}

/// The center spells a key otherwise: where both are one key, two rows stayed, or none.
// Trap 22
#[test]
fn another_spelling_of_a_key_is_a_key_change() {
    Backend::each(|backend| {
        let key = backend.pick("TEXT COLLATE NOCASE", "text");
        let schema = format!(
            "CREATE TABLE word (k {key} PRIMARY KEY NOT NULL, v TEXT);
             INSERT INTO word VALUES ('ann', 'a'), ('ben', 'b');"
        );
        let mut center = Center::on(backend, &schema, "[table.word]\n");
        let mut remote = Remote::another();
        center.synchronize(&mut remote, &[]);
        foreign(&center, &["UPDATE word SET k = 'Ann' WHERE k = 'ann'"]);
        let download = next(&mut center, &mut remote);
        let word = vec![text("Ann"), text("a")];
        assert_eq!(download.key_changes, [moved("word", vec![text("ann")], word)]);
        assert_eq!((download.upserts.len(), download.deletes.len()), (0, 0), "{download:?}");
    });
}
