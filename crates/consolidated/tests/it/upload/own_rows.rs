//! What the center makes of a remote's own rows is not a conflict with the remote.

use crate::support::center::{
    Backend, Center, Remote, Row, Upload, deploy, int, text, upload_only,
};

/// A trigger counts the changes of a row in one of its columns.
fn counted(backend: Backend) -> (Center, Remote) {
    let schema = backend.pick(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, changes INTEGER);
         INSERT INTO t VALUES (1, 'a', 0);
         CREATE TRIGGER counting AFTER UPDATE OF v ON t
             BEGIN UPDATE t SET changes = changes + 1 WHERE id = NEW.id; END;",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, changes INTEGER);
         INSERT INTO t VALUES (1, 'a', 0);
         CREATE FUNCTION counting() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN NEW.changes := OLD.changes + 1; RETURN NEW; END $$;
         CREATE TRIGGER counting BEFORE UPDATE OF v ON t
             FOR EACH ROW EXECUTE FUNCTION counting();",
    );
    let mut center = Center::on(backend, schema, "[table.t]\n");
    let mut remote = Remote::another();
    center.synchronize(&mut remote, &[]);
    (center, remote)
}

fn row(v: &str, changes: i64) -> Row {
    vec![int(1), text(v), int(changes)]
}

fn update(old: &str, new: &str) -> Upload {
    Upload::Update("t", row(old, 0), row(new, 0))
}

/// Uploads and commits, and downloads nothing.
fn upload_alone(center: &mut Center, remote: &mut Remote, rows: &[Upload]) -> u64 {
    let session = center.session(remote);
    center.writer.begin().unwrap();
    let applied = upload_only(center.writer.as_mut(), &session, remote, rows).unwrap();
    center.writer.commit().unwrap();
    remote.identity.progress = applied.progress;
    applied.conflicts + applied.rejected
}

/// A trigger at the center changed the row that the remote had uploaded. The remote's next change
/// lost, although no other user had changed the row.
// S5
#[test]
fn a_remote_does_not_lose_against_what_a_trigger_made_of_its_own_row() {
    Backend::each(|backend| {
        let (mut center, mut remote) = counted(backend);
        assert_eq!(upload_alone(&mut center, &mut remote, &[update("a", "b")]), 0);
        assert_eq!(upload_alone(&mut center, &mut remote, &[update("b", "c")]), 0);
        let (applied, download) = center.synchronize(&mut remote, &[update("c", "d")]);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0));
        assert_eq!(center.list("SELECT v || changes AS v FROM t"), "d3");
        assert_eq!(download.upserts, [("t".into(), row("d", 3))]);
        // The download was lost, and the remote deletes what it holds.
        let (mut center, mut remote) = counted(backend);
        center.upload(&mut remote, &[update("a", "b")]).unwrap();
        let (applied, _) = center.synchronize(&mut remote, &[Upload::Delete("t", row("b", 0))]);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0));
        assert_eq!(center.list("SELECT v FROM t"), "");
    });
}

/// A later change of another user is still a conflict.
// S5
#[test]
fn somebody_elses_change_of_ones_own_row_is_a_conflict() {
    Backend::each(|backend| {
        let (mut center, mut remote) = counted(backend);
        upload_alone(&mut center, &mut remote, &[update("a", "b")]);
        center.foreign("UPDATE t SET v = 'theirs'");
        let (applied, _) = center.synchronize(&mut remote, &[update("b", "c")]);
        assert_eq!((applied.conflicts, applied.rejected), (1, 0));
        assert_eq!(center.list("SELECT v FROM t"), "theirs");
        // A row that lost is not the remote's own.
        let (mut center, mut remote) = counted(backend);
        center.foreign("UPDATE t SET v = 'theirs'");
        assert_eq!(upload_alone(&mut center, &mut remote, &[update("a", "b")]), 1);
        assert_eq!(upload_alone(&mut center, &mut remote, &[update("b", "c")]), 1);
        assert_eq!(center.list("SELECT v FROM t"), "theirs");
    });
}

/// What a trigger had made of a row was known until the remote had received it. Where another table
/// waited, PostgreSQL believed it for longer: a later change of another user, which made the same
/// of the row, was overwritten without a conflict.
// S5
#[test]
fn what_was_made_of_a_row_is_forgotten_although_another_table_waits() {
    Backend::each(|backend| {
        let (mut center, mut remote) = counted(backend);
        center.foreign("CREATE TABLE other (id INTEGER PRIMARY KEY)");
        deploy(&center.url, "[table.t]\n[table.other]\n").unwrap();
        center.reconnect();
        center.synchronize(&mut remote, &[]);
        center.foreign("DROP TABLE other");
        center.reconnect();
        assert_eq!(center.session(&remote).waiting.len(), 1, "{backend:?}");
        let (_, download) = center.synchronize(&mut remote, &[update("a", "b")]);
        assert_eq!(download.upserts, [("t".into(), row("b", 1))], "{backend:?}");
        center.foreign("UPDATE t SET changes = 0");
        let (_, download) = center.synchronize(&mut remote, &[]);
        assert_eq!(download.upserts, [("t".into(), row("b", 0))], "{backend:?}");
        center.foreign("UPDATE t SET changes = 1");
        let (applied, _) = center.synchronize(&mut remote, &[update("b", "c")]);
        assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{backend:?}");
        assert_eq!(center.list("SELECT v || changes AS v FROM t"), "b1", "{backend:?}");
    });
}

/// A documented limit: if a row was not uploaded, its state before a trigger changed it is not
/// recorded, so another user may have changed it too. The conflict is recorded, and the rule
/// `merge` keeps both changes.
// S5
#[test]
fn what_a_trigger_made_of_another_row_is_a_conflict_that_merge_resolves() {
    Backend::each(|backend| {
        let schema = backend.pick(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, changes INTEGER);
             INSERT INTO t VALUES (1, 'a', 0), (2, 'z', 0);
             CREATE TRIGGER counting AFTER UPDATE OF v ON t WHEN NEW.id = 1
                 BEGIN UPDATE t SET changes = changes + 1 WHERE id = 2; END;",
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, changes INTEGER);
             INSERT INTO t VALUES (1, 'a', 0), (2, 'z', 0);
             CREATE FUNCTION counting() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN UPDATE t SET changes = changes + 1 WHERE id = 2; RETURN NULL; END $$;
             CREATE TRIGGER counting AFTER UPDATE OF v ON t
                 FOR EACH ROW WHEN (NEW.id = 1) EXECUTE FUNCTION counting();",
        );
        let of_two = |v: &str| vec![int(2), text(v), int(0)];
        for (rule, result) in [("", "z1"), ("conflict = \"merge\"\n", "y1")] {
            let mut center = Center::on(backend, schema, &format!("[table.t]\n{rule}"));
            let mut remote = Remote::another();
            center.synchronize(&mut remote, &[]);
            assert_eq!(upload_alone(&mut center, &mut remote, &[update("a", "b")]), 0);
            let edit = Upload::Update("t", of_two("z"), of_two("y"));
            let (applied, download) = center.synchronize(&mut remote, &[edit]);
            assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{rule}");
            assert_eq!(center.list("SELECT v || changes AS v FROM t WHERE id = 2"), result);
            let row = vec![int(2), text(&result[..1]), int(1)];
            assert!(download.upserts.contains(&("t".into(), row)), "{download:?}");
        }
    });
}

/// A child came and its parent went in one upload, from a remote without the foreign key: the
/// center took the child along, and no remote learned of it.
// S5, S11
#[test]
fn what_was_just_uploaded_and_a_delete_takes_along_is_rejected() {
    Backend::each(|backend| {
        let schema = "
            CREATE TABLE parent (id INTEGER PRIMARY KEY, v TEXT);
            CREATE TABLE child (id INTEGER PRIMARY KEY,
                parent INTEGER REFERENCES parent (id) ON DELETE CASCADE);
            CREATE TABLE hidden (id INTEGER PRIMARY KEY,
                parent INTEGER REFERENCES parent (id) ON DELETE CASCADE);
            INSERT INTO parent VALUES (1, 'a'), (2, 'b');
            INSERT INTO child VALUES (10, 1), (20, 2);
            INSERT INTO hidden VALUES (1, 1), (2, 1);";
        let mut center = Center::on(backend, schema, "[table.parent]\n[table.child]\n");
        let mut remote = Remote::another();
        center.synchronize(&mut remote, &[]);
        let changes = [
            Upload::Insert("child", vec![int(13), int(1)]),
            Upload::Delete("parent", vec![int(1), text("a")]),
        ];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        assert_eq!((applied.conflicts, applied.rejected), (0, 1));
        let code = model::Code::RowTakenAlong.number();
        assert_eq!(download.rejects, [("child".into(), vec![int(13)], code)]);
        assert!(download.deletes.contains(&("child".into(), vec![int(13)])), "{download:?}");
        // What the upload deletes itself is nothing to tell.
        let changes = [
            Upload::Delete("child", vec![int(20), int(2)]),
            Upload::Delete("parent", vec![int(2), text("b")]),
        ];
        let (applied, _) = center.synchronize(&mut remote, &changes);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0));
    });
}
