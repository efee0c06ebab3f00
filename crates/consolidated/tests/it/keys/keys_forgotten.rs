//! Keys that changed so long ago that the center has forgotten it.

use crate::support::center::{Backend, Center, Remote, Row, Upload, int, text};
use crate::support::on_postgres;
use harness::postgres::Cluster;
use model::Code;

const SCHEMA: &str = "
    CREATE TABLE t (id INTEGER PRIMARY KEY, note TEXT);
    CREATE TABLE child (id INTEGER PRIMARY KEY, t INTEGER REFERENCES t ON UPDATE CASCADE);
    INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (50, 'z');
    INSERT INTO child VALUES (10, 1), (20, 2);";

fn row(id: i64, note: &str) -> Row {
    vec![int(id), text(note)]
}

/// A cluster where nothing else is open: entries go only when no older transaction is.
fn alone() -> Cluster {
    Cluster::start_with("autovacuum = off")
}

/// Row 1 gets key 5, and row 2 key 1 where it is `taken`; then the log is cut, and knows the last
/// changed key only.
fn forgotten(backend: Backend, cluster: &Cluster, rule: &str, taken: bool) -> (Center, Remote) {
    let tables = format!("[table.t]\nconflict = \"{rule}\"\n[table.child]\n");
    let mut center = match backend {
        Backend::Sqlite => Center::on(backend, SCHEMA, &tables),
        Backend::Postgres => {
            let database = cluster.database();
            database.sql(SCHEMA);
            on_postgres::deployed(&database, &tables)
        }
    };
    let mut remote = Remote::another();
    center.synchronize(&mut remote, &[]);
    center.foreign("UPDATE t SET id = 5 WHERE id = 1");
    if taken {
        center.foreign("UPDATE t SET id = 1 WHERE id = 2");
    }
    center.foreign("UPDATE t SET id = 51 WHERE id = 50");
    lengthen(&mut center);
    (center, remote)
}

/// Rows come and go until nothing else is in the log.
fn lengthen(center: &mut Center) {
    for id in 100..105 {
        center.foreign(&format!("INSERT INTO t VALUES ({id}, 'x')"));
        center.foreign(&format!("DELETE FROM t WHERE id = {id}"));
    }
    center.writer.trim_logs(2).unwrap();
}

fn rows_of(center: &Center) -> String {
    center.list("SELECT id || ':' || note AS v FROM t ORDER BY id")
}

/// What a remote says of a row that got another key so long ago was applied to the row that has the
/// key now, brought the row back as a second one, or was taken for done.
// S5, Trap 21
#[test]
fn a_change_of_a_row_whose_key_is_forgotten_is_rejected() {
    let cluster = alone();
    Backend::each(|backend| {
        for rule in ["consolidated_wins", "remote_wins", "merge"] {
            for taken in [false, true] {
                for change in [
                    Upload::Update("t", row(1, "a"), row(1, "mine")),
                    Upload::Delete("t", row(1, "a")),
                    Upload::KeyChange("t", row(1, "a"), row(7, "mine")),
                ] {
                    let said = format!("{backend:?}, {rule}, {taken}, {change:?}");
                    let (mut center, mut remote) = forgotten(backend, &cluster, rule, taken);
                    let before = rows_of(&center);
                    let (applied, download) = center.synchronize(&mut remote, &[change]);
                    assert_eq!((applied.conflicts, applied.rejected), (0, 1), "{said}");
                    assert_eq!(rows_of(&center), before, "{said}");
                    let codes: Vec<u16> = download.rejects.iter().map(|it| it.2).collect();
                    assert_eq!(codes, [Code::RowKeyForgotten.number()], "{said}");
                }
            }
        }
    });
}

/// What is as the remote knew it is changed as ever, and so is all of a remote that was here since.
// S5
#[test]
fn only_rows_that_are_not_as_they_were_are_rejected() {
    let cluster = alone();
    Backend::each(|backend| {
        let (mut center, mut remote) = forgotten(backend, &cluster, "remote_wins", true);
        let mut near = Remote::new("near");
        center.synchronize(&mut near, &[]);
        let changes = [
            Upload::Update("t", row(3, "c"), row(3, "mine")),
            Upload::Insert("t", row(8, "new")),
            Upload::Delete("t", row(4, "d")),
        ];
        let (applied, _) = center.synchronize(&mut remote, &changes);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{backend:?}");
        assert_eq!(rows_of(&center), "1:b,3:mine,5:a,8:new,51:z", "{backend:?}");
        let changes = [Upload::Update("t", row(3, "c"), row(3, "near"))];
        let (applied, _) = center.synchronize(&mut near, &changes);
        assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{backend:?}");
        lengthen(&mut center);
        let (applied, _) = center.synchronize(&mut remote, &[]);
        assert_eq!(applied.rejected, 0);
        // Its own key change is nothing that it has not heard of.
        let changes = [Upload::KeyChange("t", row(3, "near"), row(9, "near"))];
        center.synchronize(&mut remote, &changes);
        lengthen(&mut center);
        center.foreign("UPDATE t SET note = 'theirs' WHERE id = 5");
        let changes = [Upload::Update("t", row(5, "a"), row(5, "mine"))];
        let (applied, _) = center.synchronize(&mut remote, &changes);
        assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{backend:?}");
        assert_eq!(rows_of(&center), "1:b,5:mine,8:new,9:near,51:z", "{backend:?}");
    });
}
