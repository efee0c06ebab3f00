//! Pending changes of a remote under a key that their row no longer has.

use super::{child, children, codes, family, grandchildren, parents, row};
use crate::support::center::{
    Backend, Center, Download, Remote, Row, Upload, int, text, upload_and_count, upload_only,
};
use model::Code;

/// Two remotes; the first gives a parent another key while the other has an edit that waits.
fn while_another_waits(
    backend: Backend,
    rule: &str,
    first: &[Upload],
    other: &[Upload],
) -> (Center, Download, u64, u64) {
    let (mut center, mut remote) = family(backend, rule);
    let mut waiting = Remote::another();
    center.synchronize(&mut waiting, &[]);
    center.synchronize(&mut remote, first);
    let (applied, download) = center.synchronize(&mut waiting, other);
    center.synchronize(&mut remote, &[]);
    (center, download, applied.conflicts, applied.rejected)
}

/// With `remote_wins` the edit that found no row under the old key inserted it again: the order was
/// there twice. With `consolidated_wins` it was lost.
// S5, Trap 21
#[test]
fn an_edit_that_waits_elsewhere_follows_its_row() {
    Backend::each(|backend| {
        for rule in ["\"consolidated_wins\"", "\"remote_wins\""] {
            let first = [Upload::KeyChange("parent", row(1, "a"), row(5, "a"))];
            let other = [
                Upload::Update("parent", row(1, "a"), row(1, "theirs")),
                Upload::Update("child", child(10, 1, "x"), child(10, 1, "X")),
                Upload::Insert("child", child(13, 1, "new")),
                Upload::Delete("child", child(11, 1, "y")),
            ];
            let (center, download, conflicts, rejected) =
                while_another_waits(backend, rule, &first, &other);
            assert_eq!((conflicts, rejected), (0, 0), "{rule}");
            assert_eq!(parents(&center), "2b,5theirs", "{rule}");
            assert_eq!(children(&center), "10:5X,13:5new,20:2z", "{rule}");
            let came = |table: &str, row: Row| download.upserts.contains(&(table.into(), row));
            assert!(came("child", child(10, 5, "X")) && came("child", child(13, 5, "new")));
        }
    });
}

/// Another row has the old key now: what waited for the first one hit that.
// S5, Trap 21
#[test]
fn an_edit_that_waits_does_not_hit_the_row_that_took_the_key() {
    Backend::each(|backend| {
        let first = [
            Upload::KeyChange("parent", row(1, "a"), row(5, "a")),
            Upload::Insert("parent", row(1, "a")),
        ];
        let other = [
            Upload::Update("parent", row(1, "a"), row(1, "theirs")),
            Upload::Insert("child", child(13, 1, "new")),
        ];
        let (center, _, conflicts, rejected) =
            while_another_waits(backend, "\"remote_wins\"", &first, &other);
        assert_eq!((conflicts, rejected), (0, 0));
        assert_eq!(parents(&center), "1a,2b,5theirs");
        assert_eq!(children(&center), "10:5x,11:5y,13:5new,20:2z");
    });
}

/// The remote that changed the key uses the new one, and means a new row by the old one.
// S5, Trap 21
#[test]
fn what_a_remote_did_itself_is_not_followed_again() {
    Backend::each(|backend| {
        let (mut center, mut remote) = family(backend, "\"consolidated_wins\"");
        center
            .upload(&mut remote, &[Upload::KeyChange("parent", row(1, "a"), row(5, "a"))])
            .unwrap();
        center.upload(&mut remote, &[Upload::Insert("parent", row(1, "new"))]).unwrap();
        let changes = [
            Upload::Update("parent", row(1, "new"), row(1, "newer")),
            Upload::Insert("child", child(13, 1, "of the new one")),
        ];
        let (applied, _) = center.synchronize(&mut remote, &changes);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0));
        assert_eq!(parents(&center), "1newer,2b,5a");
        assert_eq!(children(&center), "10:5x,11:5y,13:1of the new one,20:2z");
    });
}

/// A change and a delete of a row that another user moves by `statements`, while another row with
/// the same content takes its key.
fn taken(backend: Backend, statements: &[&str], other: &[Upload]) -> (Center, Download, u64, u64) {
    let (mut center, _) = family(backend, "\"remote_wins\"");
    center.foreign("UPDATE parent SET v = 'same'; INSERT INTO parent VALUES (3, 'same')");
    let mut waiting = Remote::another();
    center.synchronize(&mut waiting, &[]);
    center.try_foreign(&statements.iter().map(|sql| (*sql).to_owned()).collect::<Vec<_>>());
    let (applied, download) = center.synchronize(&mut waiting, other);
    (center, download, applied.conflicts, applied.rejected)
}

/// Two rows exchange their keys at a remote, and both were deleted at the center. The rule brought
/// back the first one under its new key, and then the second one was taken for it: one was lost.
// S3, S5, Trap 21
#[test]
fn rows_that_come_back_are_not_taken_for_those_that_had_their_keys() {
    Backend::each(|backend| {
        let (mut center, _) = family(backend, "\"remote_wins\"");
        let mut waiting = Remote::another();
        center.synchronize(&mut waiting, &[]);
        center.foreign("DELETE FROM grandchild; DELETE FROM child; DELETE FROM parent");
        let (applied, download) = center.synchronize(
            &mut waiting,
            &[
                Upload::KeyChange("parent", row(1, "a"), row(2, "a")),
                Upload::KeyChange("parent", row(2, "b"), row(1, "b")),
            ],
        );
        // Each is there, or among the rejects.
        let rejected: Vec<&Row> = download.rejects.iter().map(|(_, key, _)| key).collect();
        let goes = |id: i64| download.deletes.contains(&("parent".into(), vec![int(id)]));
        match parents(&center).as_str() {
            "1b,2a" => assert_eq!((applied.conflicts, rejected.len(), goes(1)), (2, 0, false)),
            "2a" => {
                assert_eq!((rejected, applied.conflicts), (vec![&vec![int(2)]], 1));
                assert!(goes(1), "{download:?}");
            }
            other => panic!("{other}: {download:?}"),
        }
    });
}

/// The row of a key change has another key at the center now. Under this key the remote has a row
/// that was deleted, and it kept this row.
// S3, Trap 21
#[test]
fn a_row_that_is_gone_leaves_although_another_one_had_its_key_meanwhile() {
    Backend::each(|backend| {
        let (mut center, _) = family(backend, "\"remote_wins\"");
        center.foreign("DELETE FROM grandchild; DELETE FROM child");
        let mut waiting = Remote::another();
        center.synchronize(&mut waiting, &[]);
        center.foreign("DELETE FROM parent WHERE id = 2; UPDATE parent SET id = 2 WHERE id = 1");
        let (applied, download) = center
            .synchronize(&mut waiting, &[Upload::KeyChange("parent", row(1, "a"), row(5, "a"))]);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0));
        assert_eq!(parents(&center), "5a");
        assert!(download.deletes.contains(&("parent".into(), vec![int(2)])), "{download:?}");
    });
}

/// A remote gives a row the key of one that it deletes, and both look alike; the first one was
/// deleted at the center. The second one passed for it, and then the delete took it away: the row
/// was lost, and the remote went on to hold it.
// S3, S5, Trap 21
#[test]
fn a_row_that_looks_like_the_one_that_is_gone_does_not_pass_for_it() {
    Backend::each(|backend| {
        for (rule, expected) in
            [("\"consolidated_wins\"", "2same"), ("\"remote_wins\"", "2same,3same")]
        {
            let (mut center, _) = family(backend, rule);
            center.foreign("UPDATE parent SET v = 'same'; INSERT INTO parent VALUES (3, 'same')");
            let mut waiting = Remote::another();
            center.synchronize(&mut waiting, &[]);
            center.foreign("DELETE FROM child WHERE parent = 1; DELETE FROM parent WHERE id = 1");
            let (applied, download) = center.synchronize(
                &mut waiting,
                &[
                    Upload::KeyChange("parent", row(1, "same"), row(3, "same")),
                    Upload::Delete("parent", row(3, "same")),
                ],
            );
            assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{rule}");
            assert_eq!(parents(&center), expected, "{rule}");
            let goes = download.deletes.contains(&("parent".into(), vec![int(3)]));
            assert_eq!(goes, expected == "2same", "{rule}: {download:?}");
        }
    });
}

/// The row that has the key now is equal to the row that had it. Only the log of changed keys
/// distinguishes them.
// S5, Trap 21
#[test]
fn what_waits_follows_its_row_whoever_took_the_key() {
    let shift = |to: &str, from: &str| format!("UPDATE parent SET id = {to} WHERE id = {from}");
    for (steps, expected) in [
        // An insert takes it.
        (
            vec![shift("5", "1"), "INSERT INTO parent VALUES (1, 'same')".into()],
            "1same,2same,3same,5edit",
        ),
        // Another row does, by a key change.
        (vec![shift("5", "1"), shift("1", "2")], "1same,3same,5edit"),
        // Two rows exchange their keys.
        (vec![shift("-1", "1"), shift("1", "2"), shift("2", "-1")], "1same,2edit,3same"),
        // Three do, in a ring.
        (
            vec![shift("-1", "1"), shift("1", "2"), shift("2", "3"), shift("3", "-1")],
            "1same,2same,3edit",
        ),
        // It goes on, and both keys that it had are taken.
        (
            vec![
                shift("5", "1"),
                shift("6", "5"),
                shift("1", "2"),
                "INSERT INTO parent VALUES (5, 'same')".into(),
            ],
            "1same,3same,5same,6edit",
        ),
        // It comes back.
        (vec![shift("5", "1"), shift("1", "5"), shift("5", "2")], "1edit,3same,5same"),
    ] {
        Backend::each(|backend| {
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            let edit = [Upload::Update("parent", row(1, "same"), row(1, "edit"))];
            let (center, _, conflicts, rejected) = taken(backend, &steps, &edit);
            assert_eq!((conflicts, rejected), (0, 0), "{backend:?} {steps:?}");
            assert_eq!(parents(&center), expected, "{backend:?} {steps:?}");
            let delete = [Upload::Delete("parent", row(1, "same"))];
            let (center, _, conflicts, rejected) = taken(backend, &steps, &delete);
            assert_eq!((conflicts, rejected), (0, 0), "{backend:?} {steps:?}");
            let mut left: Vec<&str> = expected.split(',').collect();
            left.retain(|row| !row.ends_with("edit"));
            assert_eq!(parents(&center), left.join(","), "{backend:?} {steps:?}");
            let change = [Upload::KeyChange("parent", row(1, "same"), row(9, "edit"))];
            let (center, _, conflicts, rejected) = taken(backend, &steps, &change);
            assert_eq!((conflicts, rejected), (0, 0), "{backend:?} {steps:?}");
            left.push("9edit");
            assert_eq!(parents(&center), left.join(","), "{backend:?} {steps:?}");
        });
    }
}

/// The same where a remote has changed the keys, which it need not follow itself.
// S5, Trap 21
#[test]
fn what_waits_follows_its_row_where_a_remote_exchanged_keys() {
    Backend::each(|backend| {
        let (mut center, mut remote) = family(backend, "\"remote_wins\"");
        center.foreign("UPDATE parent SET v = 'same'");
        let mut waiting = Remote::another();
        center.synchronize(&mut remote, &[]);
        center.synchronize(&mut waiting, &[]);
        let swap = [
            Upload::KeyChange("parent", row(1, "same"), row(2, "same")),
            Upload::KeyChange("parent", row(2, "same"), row(1, "same")),
        ];
        center.upload(&mut remote, &swap).unwrap();
        let own = [Upload::Update("parent", row(1, "same"), row(1, "own"))];
        let (applied, _) = center.synchronize(&mut remote, &own);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{backend:?}");
        assert_eq!(parents(&center), "1own,2same", "{backend:?}");
        let edit = [
            Upload::Update("parent", row(1, "same"), row(1, "edit")),
            Upload::Update("child", child(10, 1, "x"), child(10, 1, "X")),
            Upload::Insert("child", child(40, 2, "of the other")),
        ];
        let (applied, _) = center.synchronize(&mut waiting, &edit);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{backend:?}");
        assert_eq!(parents(&center), "1own,2edit", "{backend:?}");
        assert_eq!(children(&center), "10:2X,11:2y,20:1z,40:1of the other", "{backend:?}");
    });
}

/// The row is gone, and one that looks like it was given its key: what waits has nothing to go to.
// S5, Trap 21
#[test]
fn what_waits_for_a_row_that_is_gone_does_not_hit_the_one_that_took_its_key() {
    Backend::each(|backend| {
        let steps = ["DELETE FROM parent WHERE id = 1", "UPDATE parent SET id = 1 WHERE id = 2"];
        let edit = [Upload::Update("parent", row(1, "same"), row(1, "edit"))];
        let (center, download, _, rejected) = taken(backend, &steps, &edit);
        assert_eq!(rejected, 1, "{backend:?}");
        assert_eq!(codes(&download), [Code::RowTakenAlong.number()], "{backend:?}");
        assert_eq!(parents(&center), "1same,3same", "{backend:?}");
        let delete = [Upload::Delete("parent", row(1, "same"))];
        let (center, download, ..) = taken(backend, &steps, &delete);
        assert_eq!(parents(&center), "1same,3same", "{backend:?}");
        let came = ("parent".to_owned(), row(1, "same"));
        assert!(download.upserts.contains(&came), "{backend:?} {download:?}");
    });
}

/// A key with a part of the parent's changes with it.
// S5, Trap 21
#[test]
fn what_waits_follows_keys_that_change_with_those_of_parents() {
    Backend::each(|backend| {
        let (mut center, mut waiting) = family(backend, "\"remote_wins\"");
        center.try_foreign(&[
            "UPDATE child SET id = 30 WHERE id = 10".into(),
            "INSERT INTO child VALUES (10, 1, 'x')".into(),
            "INSERT INTO grandchild VALUES (10, 1, 'p')".into(),
        ]);
        let changes = [
            Upload::Update(
                "grandchild",
                vec![int(10), int(1), text("p")],
                vec![int(10), int(1), text("P")],
            ),
            Upload::Insert("grandchild", vec![int(10), int(2), text("new")]),
        ];
        let (applied, _) = center.synchronize(&mut waiting, &changes);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{backend:?}");
        assert_eq!(grandchildren(&center), "10:1p,20:1q,30:1P,30:2new", "{backend:?}");
    });
}

/// A row that a remote inserts under a key which another user's row had left is its own.
// S5, Trap 21
#[test]
fn a_row_of_ones_own_under_a_key_that_was_left_is_not_followed() {
    Backend::each(|backend| {
        let (mut center, mut remote) = family(backend, "\"remote_wins\"");
        center.foreign("INSERT INTO parent VALUES (7, 'own')");
        center.foreign("UPDATE parent SET id = 8 WHERE id = 7");
        let send = |center: &mut Center, remote: &mut Remote, rows: &[Upload]| {
            let session = center.session(remote);
            center.writer.begin().unwrap();
            let applied = upload_only(center.writer.as_mut(), &session, remote, rows).unwrap();
            center.writer.commit().unwrap();
            remote.identity.progress = applied.progress;
            assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{backend:?}");
        };
        let own = [
            Upload::Insert("parent", row(7, "own")),
            Upload::Insert("child", child(40, 7, "of my own")),
        ];
        send(&mut center, &mut remote, &own);
        send(&mut center, &mut remote, &[Upload::Update("parent", row(7, "own"), row(7, "mine"))]);
        assert_eq!(parents(&center), "1a,2b,7mine,8own", "{backend:?}");
        assert_eq!(children(&center), "10:1x,11:1y,20:2z,40:7of my own", "{backend:?}");
    });
}

/// Each delete that had to go first was searched in the whole upload.
// Trap 10, Trap 21
#[test]
fn an_upload_is_read_as_often_for_many_freed_keys_as_for_a_few() {
    Backend::each(|backend| {
        let reads = |count: i64| {
            let (mut center, mut remote) = family(backend, "\"consolidated_wins\"");
            center.foreign(&format!(
                "WITH RECURSIVE s (id) AS (SELECT 3 UNION ALL SELECT id + 1 FROM s WHERE id < {})
                 INSERT INTO parent SELECT id, 'v' FROM s",
                2 + 2 * count
            ));
            center.synchronize(&mut remote, &[]);
            let rows: Vec<Upload> = (3..3 + count)
                .flat_map(|id| {
                    let moves = Upload::KeyChange("parent", row(id + count, "v"), row(id, "v"));
                    [moves, Upload::Delete("parent", row(id, "v"))]
                })
                .collect();
            let session = center.session(&remote);
            center.writer.begin().unwrap();
            let done = upload_and_count(center.writer.as_mut(), &session, &remote, &rows);
            center.writer.commit().unwrap();
            let (applied, reads) = done.unwrap();
            assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{backend:?}");
            let left =
                center.value(&format!("SELECT count(*) FROM parent WHERE id > {}", 2 + count));
            assert_eq!(left, int(0), "{backend:?}");
            reads
        };
        assert_eq!(reads(4), reads(20), "{backend:?}");
    });
}
