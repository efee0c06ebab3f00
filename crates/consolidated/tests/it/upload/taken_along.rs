//! Rows of an upload that foreign keys of the center delete or change for another row of it.
//!
//! The remote lacks these foreign keys, so it keeps what it has uploaded, and must be told.

use crate::support::center::{Backend, Center, Remote, Row, Upload, int};
use model::{Code, Value};

/// A row of two columns; 0 is no reference.
fn row(id: i64, of: i64) -> Row {
    vec![int(id), if of == 0 { Value::Null } else { int(of) }]
}

fn insert(table: &'static str, id: i64, of: i64) -> Upload {
    Upload::Insert(table, row(id, of))
}

/// Uploads, and yields the rejected rows.
fn rejects(center: &mut Center, remote: &mut Remote, rows: &[Upload]) -> Vec<String> {
    let (applied, download) = center.synchronize(remote, rows);
    let mut rejects: Vec<String> = Vec::new();
    for (table, key, code) in &download.rejects {
        assert_eq!(*code, Code::RowTakenAlong.number());
        rejects.push(format!("{table} {}", key[0].as_ref().display()));
    }
    rejects.sort_unstable();
    assert_eq!(applied.rejected, rejects.len() as u64);
    rejects
}

/// A table that is only uploaded refers to itself, and its remotes lack the foreign key.
// S1, S5
#[test]
fn what_a_cascade_within_a_table_takes_along_is_told_though_nothing_is_downloaded() {
    Backend::each(|backend| {
        let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY,
            of INTEGER REFERENCES t (id) ON DELETE CASCADE)";
        let mut center = Center::on(backend, schema, "[table.t]\ndirection = \"upload_only\"\n");
        let mut remote = Remote::another();
        let rows = [insert("t", 1, 0), insert("t", 2, 0), insert("t", 3, 2)];
        assert_eq!(rejects(&mut center, &mut remote, &rows), [""; 0], "{backend:?}");
        // A child, its child, and a row that comes under the one that goes.
        let rows = [
            insert("t", 4, 1),
            insert("t", 5, 4),
            insert("t", 6, 2),
            Upload::Update("t", row(3, 2), row(3, 1)),
            Upload::Delete("t", row(1, 0)),
        ];
        let told = rejects(&mut center, &mut remote, &rows);
        assert_eq!(told, ["t 3", "t 4", "t 5"], "{backend:?}");
        assert_eq!(center.list("SELECT id AS v FROM t ORDER BY id"), "2,6", "{backend:?}");
    });
}

/// The log is longer than all that the connection has written.
// S1, S5
#[test]
fn what_a_cascade_takes_along_is_told_by_a_new_connection() {
    Backend::each(|backend| {
        let schema = "
            CREATE TABLE top (id INTEGER PRIMARY KEY, n INTEGER);
            CREATE TABLE t (id INTEGER PRIMARY KEY,
                of INTEGER REFERENCES top (id) ON DELETE CASCADE);";
        let mut center = Center::on(backend, schema, "[table.top]\n[table.t]\n");
        for id in 1..100 {
            center.foreign(&format!("INSERT INTO top VALUES ({id}, NULL)"));
        }
        let mut remote = Remote::another();
        center.synchronize(&mut remote, &[]);
        center.reconnect();
        let rows = [insert("t", 1, 1), insert("t", 2, 2), Upload::Delete("top", row(1, 0))];
        assert_eq!(rejects(&mut center, &mut remote, &rows), ["t 1"], "{backend:?}");
        assert_eq!(center.list("SELECT id AS v FROM t"), "2", "{backend:?}");
    });
}

/// The same through a table that is not published, two levels below.
// S1, S5
#[test]
fn what_a_cascade_takes_along_through_a_hidden_table_is_told() {
    Backend::each(|backend| {
        let schema = "
            CREATE TABLE top (id INTEGER PRIMARY KEY, n INTEGER);
            CREATE TABLE hidden (id INTEGER PRIMARY KEY REFERENCES top (id) ON DELETE CASCADE);
            CREATE TABLE t (id INTEGER PRIMARY KEY,
                of INTEGER REFERENCES hidden (id) ON DELETE CASCADE);
            INSERT INTO top VALUES (1, NULL), (2, NULL);
            INSERT INTO hidden VALUES (1), (2);";
        let model = "[table.top]\n[table.t]\ndirection = \"upload_only\"\n";
        let mut center = Center::on(backend, schema, model);
        let mut remote = Remote::another();
        center.synchronize(&mut remote, &[]);
        let rows = [insert("t", 1, 1), insert("t", 2, 2), Upload::Delete("top", row(1, 0))];
        assert_eq!(rejects(&mut center, &mut remote, &rows), ["t 1"], "{backend:?}");
        assert_eq!(center.list("SELECT id AS v FROM t"), "2", "{backend:?}");
    });
}

/// `SET NULL` and `SET DEFAULT` leave the row without what it refers to. A remote that downloads
/// the table receives the row as it is; another one would never learn of it.
// S1, S5
#[test]
fn what_a_delete_changes_is_told_where_nothing_is_downloaded() {
    for action in ["SET NULL", "SET DEFAULT"] {
        for direction in ["upload_only", "both"] {
            Backend::each(|backend| {
                let schema = format!(
                    "CREATE TABLE top (id INTEGER PRIMARY KEY, n INTEGER);
                     CREATE TABLE middle (id INTEGER PRIMARY KEY,
                         of INTEGER REFERENCES top (id) ON DELETE CASCADE);
                     CREATE TABLE t (id INTEGER PRIMARY KEY,
                         of INTEGER DEFAULT 9 REFERENCES middle (id) ON DELETE {action});
                     INSERT INTO top VALUES (1, NULL), (2, NULL);
                     INSERT INTO middle VALUES (1, 1), (2, 2), (9, NULL);"
                );
                let model =
                    format!("[table.top]\n[table.middle]\n[table.t]\ndirection = \"{direction}\"");
                let mut center = Center::on(backend, &schema, &model);
                let mut remote = Remote::another();
                center.synchronize(&mut remote, &[]);
                let rows = [
                    insert("t", 1, 1),
                    insert("t", 2, 2),
                    insert("t", 3, 0),
                    Upload::Delete("top", row(1, 0)),
                ];
                let told = rejects(&mut center, &mut remote, &rows);
                let expected: &[&str] = if direction == "both" { &[] } else { &["t 1"] };
                assert_eq!(told, expected, "{backend:?} {action} {direction}");
                let left = if action == "SET NULL" { "1:0,2:2,3:0" } else { "1:9,2:2,3:0" };
                let rows = "SELECT id || ':' || coalesce(of, 0) AS v FROM t ORDER BY id";
                assert_eq!(center.list(rows), left, "{backend:?} {action} {direction}");
            });
        }
    }
}
