//! What a change of the published tables does to a remote that is in use.

use super::waiting::{Names, Waiting};
use crate::testing::{Site, int, text};
use model::{Code, Direction, PublishedTable, Value};

fn table(columns: &[&str], create: &str) -> PublishedTable {
    PublishedTable {
        compress: true,
        fires: false,
        name: "t".into(),
        columns: columns.iter().map(|name| (*name).into()).collect(),
        key: vec![0],
        direction: Direction::Both,
        create: vec![create.into()],
        fingerprint: format!("{columns:?}"),
    }
}

fn narrow() -> PublishedTable {
    table(&["id", "v", "photo"], "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT, photo BLOB)")
}

fn wide() -> PublishedTable {
    table(
        &["id", "photo", "w", "v", "doc"],
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT, photo BLOB, w INT DEFAULT 5, doc CLOB)",
    )
}

/// A remote whose table we created.
fn site() -> Site {
    let mut site = Site::empty();
    site.publish(&[narrow()]);
    site.write("INSERT INTO t VALUES (1, 'one', x'01'), (2, 'two', x'02'), (3, 'three', x'03')");
    site.settle();
    site
}

#[test]
fn a_missing_table_is_created_with_its_indexes_and_captured() {
    let mut site = Site::empty();
    let mut published = narrow();
    published.create.push("CREATE INDEX i ON t(v)".into());
    site.publish(&[published]);
    site.write("INSERT INTO t VALUES (1, 'one', NULL)");
    assert_eq!(site.upload(), ["insert t (1, 'one', NULL)"]);
    assert_eq!(site.rows("SELECT count(*) FROM sqlite_schema WHERE name = 'i'"), ["1"]);
}

// S1
#[test]
fn new_columns_come_in_and_what_waits_is_kept() {
    let mut site = site();
    site.write(
        "CREATE INDEX mine ON t(v); CREATE VIEW seen AS SELECT v FROM t;
         CREATE TABLE c(id INTEGER PRIMARY KEY, t INT REFERENCES t ON DELETE CASCADE);
         INSERT INTO c VALUES (7, 1);
         CREATE TRIGGER stamp AFTER INSERT ON t BEGIN UPDATE t SET v = v || '!' WHERE id = NEW.id;
         END;
         UPDATE t SET v = 'ONE' WHERE id = 1; UPDATE t SET photo = x'0909' WHERE id = 2;
         DELETE FROM t WHERE id = 3; INSERT INTO t VALUES (4, 'four', NULL);",
    );
    site.change_schema(&[wide()], &[], Waiting::CarriedOver(Names::Told)).unwrap();
    assert_eq!(
        site.rows("SELECT id, v, w, doc FROM t"),
        ["1, 'ONE', 5, NULL", "2, 'two', 5, NULL", "4, 'four!', 5, NULL",]
    );
    assert_eq!(site.rows("SELECT * FROM c"), ["7, 1"], "building anew deletes nothing elsewhere");
    // Pending changes must wait for the values of the new columns (trap 24).
    assert_eq!(site.upload(), Vec::<String>::new());
    let of = |id, photo: u8, v: &str, w, doc: &str| {
        [int(id), Value::Blob([photo].into()), int(w), text(v), text(doc)]
    };
    site.download()
        .refresh("t")
        .upsert(
            "t",
            &[
                &of(1, 1, "one", 6, "of 1"),
                &of(2, 2, "two", 7, "of 2"),
                &of(3, 3, "three", 8, "of 3"),
            ],
        )
        .apply()
        .unwrap();
    assert_eq!(
        site.upload(),
        [
            "insert t (4, NULL, 5, 'four!', NULL)",
            "update t (1, <1 bytes>, 6, 'one', 'of 1') -> (1, <1 bytes>, 6, 'ONE', 'of 1')",
            "update t (2, <1 bytes>, 7, 'two', 'of 2') -> (2, <2 bytes>, 7, 'two', 'of 2')",
            "delete t (3, <1 bytes>, 8, 'three', 'of 3')",
        ]
    );
    // The user's index and trigger are still there, and capture goes on.
    site.write("INSERT INTO t(id, v) VALUES (5, 'five')");
    assert_eq!(site.upload(), ["insert t (5, NULL, 5, 'five!', NULL)"]);
    assert_eq!(
        site.rows("SELECT name FROM sqlite_schema WHERE tbl_name = 't' AND name = 'mine'"),
        ["'mine'"]
    );
}

#[test]
fn a_row_that_was_entered_again_is_still_a_new_one_with_new_columns() {
    let mut site = site();
    site.write("DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 'new', NULL)");
    site.change_schema(&[wide()], &[], Waiting::CarriedOver(Names::Told)).unwrap();
    assert_eq!(site.rows("SELECT key_id, again FROM syncline_change_t"), ["1, 1"]);
}

#[test]
fn columns_that_are_published_no_more_stay_in_the_table() {
    let mut site = site();
    site.write("UPDATE t SET v = 'ONE', photo = NULL WHERE id = 1");
    let columns = table(&["id", "v"], "");
    site.change_schema(&[columns], &[], Waiting::CarriedOver(Names::Told)).unwrap();
    assert_eq!(site.upload(), ["update t (1, 'one') -> (1, 'ONE')"]);
    site.write("UPDATE t SET photo = NULL");
    assert_eq!(site.upload(), Vec::<String>::new());
}

#[test]
fn a_table_of_the_user_is_never_built_anew_and_a_column_of_the_user_is_kept() {
    let mut site = Site::empty();
    site.write("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'one')");
    let failure = site.try_publish(&[narrow()]).unwrap_err();
    assert_eq!(failure.code(), Code::RemoteSchemaDiffers);
    assert_eq!(failure.table_name(), Some("t"));
    assert_eq!(site.rows("SELECT * FROM t"), ["1, 'one'"]);
    assert_eq!(site.rows("SELECT * FROM syncline_table"), Vec::<String>::new());
    // A table that Syncline made is, with what the user has added to it.
    let mut site = self::site();
    site.write(
        "ALTER TABLE t ADD COLUMN mine INT DEFAULT 8; CREATE INDEX of_mine ON t(mine);
         UPDATE t SET mine = 9 WHERE id = 2",
    );
    site.settle();
    site.publish(&[wide()]);
    assert_eq!(site.rows("SELECT id, mine FROM t ORDER BY id"), ["1, 8", "2, 9", "3, 8"]);
    site.write("INSERT INTO t(id) VALUES (4)");
    assert_eq!(site.rows("SELECT mine FROM t WHERE id = 4"), ["8"]);
    assert_eq!(site.rows("SELECT count(*) FROM sqlite_schema WHERE name = 'of_mine'"), ["1"]);
    assert_eq!(site.upload(), ["insert t (4, NULL, 5, NULL, NULL)"]);
}

#[test]
fn another_primary_key_is_refused() {
    let mut site = Site::empty();
    site.write("CREATE TABLE t(id INT, v TEXT PRIMARY KEY, photo BLOB)");
    assert_eq!(site.try_publish(&[narrow()]).unwrap_err().code(), Code::RemoteSchemaDiffers);
}

// S1
#[test]
fn a_table_that_is_published_no_more_keeps_its_rows_and_its_changes_are_told() {
    let mut site = site();
    site.write("UPDATE t SET v = 'ONE' WHERE id = 1; DELETE FROM t WHERE id = 2");
    site.publish(&[]);
    assert_eq!(site.rows("SELECT count(*) FROM t"), ["2"]);
    assert_eq!(
        site.rows("SELECT name FROM sqlite_schema WHERE name LIKE 'syncline\\_%\\_t' ESCAPE '\\'"),
        Vec::<String>::new()
    );
    let rejects = site.remote.rejects().unwrap();
    let told: Vec<_> =
        rejects.iter().map(|it| (it.key.as_str(), it.code, it.row.as_deref())).collect();
    assert_eq!(
        told,
        [
            (
                r#"{"id":1}"#,
                Code::TableNotPublished.number(),
                Some(r#"{"id":1,"v":"ONE","photo":{"blob":"01"}}"#)
            ),
            (r#"{"id":2}"#, Code::TableNotPublished.number(), None),
        ]
    );
    // Published again, its rows are compared with the downloaded ones and not uploaded (trap 23).
    site.publish(&[narrow()]);
    assert_eq!(site.upload(), Vec::<String>::new());
}

#[test]
fn a_table_that_becomes_download_only_stops_capturing_and_back_again() {
    let mut site = site();
    site.write("UPDATE t SET v = 'ONE' WHERE id = 1");
    let mut published = narrow();
    published.direction = Direction::DownloadOnly;
    published.fingerprint = "down".into();
    site.publish(&[published]);
    assert!(site.try_write("DELETE FROM t").is_err());
    assert_eq!(site.remote.rejects().unwrap()[0].code, Code::DirectionNotPublished.number());
    site.publish(&[narrow()]);
    site.write("DELETE FROM t WHERE id = 2");
    assert_eq!(site.upload(), ["delete t (2, 'two', <1 bytes>)"]);
}

#[test]
fn rows_of_the_user_are_not_overwritten_by_a_download_only_table() {
    let mut site = Site::empty();
    site.write(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT, photo BLOB);
            INSERT INTO t VALUES (1, 'mine', NULL)",
    );
    let mut published = narrow();
    published.direction = Direction::DownloadOnly;
    let failure = site.try_publish(&[published]).unwrap_err();
    assert_eq!(failure.code(), Code::RemoteSchemaDiffers);
}

#[test]
fn a_dropped_table_comes_back_empty_and_deletes_nothing_at_the_center() {
    let mut site = site();
    site.write("UPDATE t SET v = 'ONE' WHERE id = 1; DROP TABLE t");
    let failure = site.remote.pending().unwrap_err();
    assert_eq!(failure.code(), Code::RemoteSchemaDiffers);
    site.remote.reset(true).unwrap();
    site.publish(&[narrow()]);
    assert_eq!(site.rows("SELECT * FROM t"), Vec::<String>::new());
    assert_eq!(site.upload(), Vec::<String>::new());
}

#[test]
fn statements_that_create_nothing_are_told() {
    let mut site = Site::empty();
    let mut wrong = narrow();
    wrong.create = vec!["CREATE TABLE other(id)".into()];
    assert_eq!(site.try_publish(&[wrong.clone()]).unwrap_err().code(), Code::RemoteSchemaDiffers);
    wrong.create = vec!["CREATE NONSENSE".into()];
    assert_eq!(site.try_publish(&[wrong]).unwrap_err().code(), Code::RemoteSchemaDiffers);
    assert_eq!(
        site.rows("SELECT name FROM sqlite_schema WHERE name IN ('other', 't')"),
        Vec::<String>::new()
    );
}

// S11: it was not said which columns, nor what to do.
#[test]
fn a_table_of_the_user_that_does_not_fit_is_told_with_the_columns() {
    let refused = |sql: &str| {
        let mut site = Site::empty();
        site.write(sql);
        let failure = site.try_publish(&[narrow()]).unwrap_err();
        assert_eq!(failure.code(), Code::RemoteSchemaDiffers);
        assert_eq!(failure.table_name(), Some("t"));
        (failure.message().to_owned(), failure.hint_text().to_owned())
    };
    let (message, hint) = refused("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    assert_eq!(message, "table t lacks the published columns v, photo");
    assert!(hint.contains("ALTER TABLE t ADD COLUMN"), "{hint}");
    let (message, hint) = refused("CREATE TABLE t(id INT, v PRIMARY KEY, photo)");
    assert_eq!(message, "table t has another primary key than is published: v here, id there");
    assert!(hint.contains("primary key"), "{hint}");
    let (message, _) = refused("CREATE TABLE t(id INT, v, photo)");
    assert_eq!(message, "table t has another primary key than is published: none here, id there");
}

// S3, trap 22: two rows of the center were one key here, and the second overwrote the first.
#[test]
fn a_table_of_the_user_whose_keys_are_fewer_than_the_centers_is_refused() {
    let published = |key: &str| {
        table(&["id", "v"], &format!("CREATE TABLE t(id {key} NOT NULL PRIMARY KEY, v)"))
    };
    let publish = |here: &str, there: &str| {
        let mut site = Site::empty();
        site.write(&format!("CREATE TABLE t(id {here} PRIMARY KEY, v)"));
        site.try_publish(&[published(there)])
    };
    for (here, there) in [
        ("TEXT COLLATE NOCASE", "TEXT"),
        ("TEXT COLLATE RTRIM", "TEXT"),
        ("TEXT COLLATE RTRIM", "TEXT COLLATE NOCASE"),
        ("INTEGER", "TEXT"),
        ("INT", "TEXT"),
        ("NUMERIC", "TEXT"),
    ] {
        let failure = publish(here, there).unwrap_err();
        assert_eq!(failure.code(), Code::RemoteSchemaDiffers, "{here}, {there}");
        assert!(failure.message().contains("would be one row"), "{}", failure.message());
    }
    for (here, there) in [
        ("TEXT", "TEXT"),
        ("TEXT", "TEXT COLLATE NOCASE"),
        ("TEXT COLLATE NOCASE", "TEXT COLLATE NOCASE"),
        ("INTEGER", "INTEGER"),
        ("INT", "INTEGER"),
        ("TEXT", "INTEGER"),
        // Created by an application that has a collation of its own.
        ("TEXT COLLATE NOCASE", "TEXT COLLATE elsewhere"),
    ] {
        publish(here, there).unwrap();
    }
}
