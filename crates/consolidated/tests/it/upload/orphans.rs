//! Rows whose parent is missing, or is deleted in the same upload.

use crate::support::center::{Backend, Center, Remote, Upload, int, text};
use model::{Code, Value};
use syncline_consolidated::{Severity, SyncModel, administer};

const CHAIN: &str = "CREATE TABLE a (id INTEGER PRIMARY KEY);
    CREATE TABLE b (id INTEGER PRIMARY KEY, a INTEGER REFERENCES a);
    CREATE TABLE c (id INTEGER PRIMARY KEY, b INTEGER REFERENCES b);
    INSERT INTO a VALUES (1);
    INSERT INTO c VALUES (7, 2);";

const ALL: &str = "[table.a]\n[table.b]\n[table.c]\n";

// S4, Trap 26: SQLite counts broken foreign keys. A parent that came for an orphan from long ago
// made the count of a new orphan zero again, so the upload committed it, and every remote had to
// do without it.
#[test]
fn a_parent_that_comes_for_an_old_orphan_hides_no_new_one() {
    let mut center = Center::new(CHAIN, ALL);
    let mut remote = Remote::new("one");
    center.synchronize(&mut remote, &[]);
    let rows = [
        Upload::Insert("b", vec![int(1), int(9)]),
        Upload::Insert("b", vec![int(2), int(1)]),
        Upload::Insert("b", vec![int(3), Value::Null]),
    ];
    let (applied, download) = center.synchronize(&mut remote, &rows);
    assert_eq!(applied.rejected, 1);
    let reject = ("b".to_owned(), vec![int(1)], Code::RowReferences.number());
    assert_eq!(download.rejects, [reject]);
    assert_eq!(center.list("SELECT id AS v FROM b ORDER BY 1"), "2,3");
    // The same with a delete of a parent that has children, beside one of an old orphan.
    center.foreign("INSERT INTO c VALUES (8, 3), (9, 99)");
    center.synchronize(&mut remote, &[]);
    let rows = [
        Upload::Delete("b", vec![int(3), Value::Null]),
        Upload::Insert("b", vec![int(99), Value::Null]),
    ];
    let (applied, _) = center.synchronize(&mut remote, &rows);
    assert_eq!((applied.rejected, applied.conflicts), (1, 0));
    assert_eq!(center.list("SELECT id AS v FROM b ORDER BY 1"), "2,3,99");
}

// S2, Trap 26: a parent takes one from SQLite's count for each row that waited for it, old orphans
// included, which are not in the count. It became negative, and the commit failed for all uploads
// of the group.
#[test]
fn a_parent_that_comes_for_more_than_was_counted_locks_nobody_out() {
    let schema = "CREATE TABLE node (id INTEGER PRIMARY KEY, up INTEGER REFERENCES node);
        INSERT INTO node VALUES (7, 2), (8, 2);";
    let mut center = Center::new(schema, "[table.node]\n");
    let mut remote = Remote::new("one");
    center.synchronize(&mut remote, &[]);
    let rows = [
        Upload::Insert("node", vec![int(10), int(2)]),
        Upload::Insert("node", vec![int(2), Value::Null]),
    ];
    let (applied, _) = center.synchronize(&mut remote, &rows);
    assert_eq!(applied.rejected, 0);
    assert_eq!(center.list("SELECT id AS v FROM node ORDER BY 1"), "2,7,8,10");
}

// S2, S5: a delete removes children that another user has inserted in the meantime, and these have
// children that refuse it. No row of the upload is next to them, so no row was rejected, and the
// remote could never upload again.
#[test]
fn a_delete_that_a_row_far_below_refuses_is_rejected_alone() {
    Backend::each(|backend| {
        let schema = "CREATE TABLE a (id INTEGER PRIMARY KEY);
            CREATE TABLE b (id INTEGER PRIMARY KEY,
                a INTEGER REFERENCES a ON DELETE CASCADE);
            CREATE TABLE c (id INTEGER PRIMARY KEY,
                b INTEGER REFERENCES b ON DELETE CASCADE);
            CREATE TABLE d (id INTEGER PRIMARY KEY, c INTEGER REFERENCES c);
            INSERT INTO a VALUES (1), (2);";
        let tables = "[table.a]\n[table.b]\n[table.c]\n[table.d]\n";
        let mut center = Center::on(backend, schema, tables);
        let mut remote = Remote::new("one");
        center.synchronize(&mut remote, &[]);
        center.foreign("INSERT INTO b VALUES (10, 1)");
        center.foreign("INSERT INTO c VALUES (100, 10)");
        center.foreign("INSERT INTO d VALUES (1000, 100)");
        let rows = [Upload::Delete("a", vec![int(1)]), Upload::Delete("a", vec![int(2)])];
        let (applied, download) = center.synchronize(&mut remote, &rows);
        assert_eq!(applied.rejected, 1, "{backend:?}");
        let reject = ("a".to_owned(), vec![int(1)], Code::RowReferences.number());
        assert_eq!(download.rejects, [reject], "{backend:?}");
        assert_eq!(center.list("SELECT id AS v FROM a"), "1", "{backend:?}");
        assert_eq!(center.list("SELECT id AS v FROM d"), "1000", "{backend:?}");
    });
}

// Trap 26
#[test]
fn check_names_what_refers_to_nothing() {
    let center = Center::new(CHAIN, ALL);
    center.foreign("INSERT INTO c VALUES (8, 3); INSERT INTO b VALUES (5, 5), (6, NULL)");
    let model = SyncModel::parse(&format!("script_version = \"v1\"\n{ALL}"), "m").unwrap();
    let findings = administer(&center.url).unwrap().check(&[model]).unwrap();
    let said: Vec<_> = findings.iter().map(|f| (f.severity, f.message.as_str())).collect();
    let rest = "remotes do not receive such rows until the parent exists";
    assert_eq!(
        said,
        [
            (Severity::Notice, format!("1 row of b refers to a missing row of a; {rest}").as_str()),
            (Severity::Notice, format!("2 rows of c refer to missing rows of b; {rest}").as_str()),
        ]
    );
}

// S3, Trap 26: SQLite's check said that remotes lack rows whose parents are not published. They
// have no such foreign key, and receive these rows.
#[test]
fn check_names_no_row_whose_parents_are_published_nowhere() {
    Backend::each(|backend| {
        let schema = match backend {
            Backend::Sqlite => {
                "CREATE TABLE a (id INTEGER PRIMARY KEY);
                 CREATE TABLE b (id INTEGER PRIMARY KEY, a INTEGER REFERENCES a);
                 INSERT INTO b VALUES (5, 5);"
            }
            Backend::Postgres => {
                "CREATE TABLE a (id INTEGER PRIMARY KEY);
                 CREATE TABLE b (id INTEGER PRIMARY KEY, a INTEGER);
                 INSERT INTO b VALUES (5, 5);
                 ALTER TABLE b ADD FOREIGN KEY (a) REFERENCES a NOT VALID;"
            }
        };
        let mut center = Center::on(backend, schema, "[table.b]\n");
        let mut remote = Remote::new("one");
        let model = SyncModel::parse("script_version = \"v1\"\n[table.b]\n", "m").unwrap();
        let findings = administer(&center.url).unwrap().check(&[model]).unwrap();
        let said = |word: &str| findings.iter().any(|finding| finding.message.contains(word));
        assert!(!said("missing row"), "{backend:?}: {findings:?}");
        let (_, download) = center.synchronize(&mut remote, &[]);
        assert_eq!(download.upserts.len(), 1, "{backend:?}: it is received");
    });
}

// S7, S6: what a cascade of the same upload removed was not outside any more when it was looked
// for, so the remote kept a row that is not its own and nowhere else.
#[test]
fn a_row_outside_that_a_cascade_removes_at_once_is_rejected_and_taken_back() {
    Backend::each(|backend| {
        let schema = "CREATE TABLE p (id INTEGER PRIMARY KEY);
            CREATE TABLE c (id INTEGER PRIMARY KEY,
                p INTEGER REFERENCES p ON DELETE CASCADE, owner TEXT);
            INSERT INTO p VALUES (1);";
        let tables = "[table.p]\n[table.c]\npartition = \"owner = {u.name}\"\n";
        let mut center = Center::on(backend, schema, tables);
        let mut remote = Remote::new("one");
        remote.claims.insert("name".into(), "ann".into());
        center.synchronize(&mut remote, &[]);
        let rows = [
            Upload::Insert("c", vec![int(10), int(1), text("bob")]),
            Upload::Delete("p", vec![int(1)]),
        ];
        let (applied, download) = center.synchronize(&mut remote, &rows);
        assert_eq!(applied.rejected, 1, "{backend:?}");
        let code = Code::RowOutsideSubscription.number();
        assert_eq!(download.rejects, [("c".to_owned(), vec![int(10)], code)], "{backend:?}");
        assert!(download.deletes.contains(&("c".to_owned(), vec![int(10)])), "{backend:?}");
        assert_eq!(center.list("SELECT id AS v FROM p"), "", "{backend:?}");
    });
}
