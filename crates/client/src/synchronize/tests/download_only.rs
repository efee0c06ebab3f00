//! Downloads with pending changes.

mod random;

use super::{center, family, joined, rows, sync, sync_as};
use crate::testing::Site;
use crate::testing::center::Center;
use model::Code;
use protocol::Mode;

/// Nothing of the download is applied, and the pending change stays as it is.
fn assert_refused(site: &mut Site, center: &Center) {
    let tables = ["p", "t"].map(|name| format!("SELECT * FROM {name}"));
    let all = |site: &Site| tables.clone().map(|sql| site.rows(&sql));
    let (before, pending) = (all(site), site.remote.pending().unwrap());
    for _ in 0..2 {
        let refused = sync_as(&mut site.remote, center, Mode::DownloadOnly, &mut |_| {});
        assert_eq!(refused.unwrap_err().code(), Code::DownloadBlocked);
        assert_eq!(all(site), before);
        assert_eq!(site.remote.pending().unwrap(), pending);
        let status = site.remote.status().unwrap();
        assert_eq!((status.kept_back, status.orphans), (0, 0));
    }
}

// S3, S4: what a pending change refers to is deleted at the center.
#[test]
fn a_mere_download_is_refused_that_would_take_the_parent_of_a_change() {
    let (center, mut site) = family();
    center.write("INSERT INTO t VALUES (11, 1)");
    sync(&mut site, &center).unwrap();
    site.write("INSERT INTO t VALUES (10, 1)");
    center.write("DELETE FROM t; DELETE FROM p; INSERT INTO p VALUES (2, 'another')");
    assert_refused(&mut site, &center);
    sync(&mut site, &center).unwrap();
    assert_eq!(center.rows("SELECT * FROM t"), ["10, 1"], "the change went up");
    sync(&mut site, &center).unwrap();
    // This center has no foreign keys: the child waits for a parent.
    assert_eq!(site.rows("SELECT * FROM p"), ["2, 'another'"]);
    let status = site.remote.status().unwrap();
    assert_eq!((status.kept_back, status.orphans), (0, 1));
}

// S3, S4: the parent of a downloaded row was deleted here.
#[test]
fn a_mere_download_is_refused_that_brings_a_child_of_a_row_that_was_deleted_here() {
    let (center, mut site) = family();
    center.write("INSERT INTO p VALUES (2, 'other')");
    sync(&mut site, &center).unwrap();
    site.write("DELETE FROM p WHERE id = 1");
    center.write("INSERT INTO t VALUES (10, 1), (20, 2)");
    assert_refused(&mut site, &center);
    sync(&mut site, &center).unwrap();
    assert_eq!(center.rows("SELECT * FROM p"), ["2, 'other'"], "the delete went up");
    assert_eq!(site.rows("SELECT * FROM t"), ["20, 2"]);
    assert_eq!(site.remote.status().unwrap().orphans, 1);
    center.write("INSERT INTO p VALUES (1, 'again')");
    sync(&mut site, &center).unwrap();
    assert_eq!(site.rows("SELECT * FROM t"), ["10, 1", "20, 2"]);
}

// S3: changes that are in nobody's way stay pending beside a download.
#[test]
fn a_mere_download_is_applied_beside_changes_of_other_rows_and_of_the_same() {
    let (center, mut site) = family();
    center.write("INSERT INTO p VALUES (2, 'second')");
    sync(&mut site, &center).unwrap();
    site.write("INSERT INTO t VALUES (10, 1); UPDATE p SET v = 'mine' WHERE id = 2");
    center.write("INSERT INTO p VALUES (3, 'new'); UPDATE p SET v = 'theirs' WHERE id = 2");
    sync_as(&mut site.remote, &center, Mode::DownloadOnly, &mut |_| {}).unwrap();
    assert_eq!(site.rows("SELECT * FROM p"), ["1, 'parent'", "2, 'mine'", "3, 'new'"]);
    assert_eq!(site.remote.pending().unwrap().len(), 2);
    sync(&mut site, &center).unwrap();
    assert_eq!(site.remote.pending().unwrap(), []);
    for table in ["p", "t"] {
        let sql = format!("SELECT * FROM {table}");
        assert_eq!(site.rows(&sql), center.rows(&sql));
    }
}

// S3, S4: a change of a row that has another key at the center, and one under that key.
#[test]
fn two_changes_for_one_key_of_a_downloaded_row_both_stay() {
    let center = center();
    let mut site = joined(&center);
    site.write("UPDATE t SET v = 'mine' WHERE id = 1; INSERT INTO t VALUES (2, 'mine too')");
    center.write("UPDATE t SET id = 2, v = 'moved'; INSERT INTO t VALUES (3, 'three')");
    for _ in 0..2 {
        sync_as(&mut site.remote, &center, Mode::DownloadOnly, &mut |_| {}).unwrap();
        assert_eq!(rows(&site), ["1, 'mine'", "2, 'mine too'", "3, 'three'"]);
        assert_eq!(site.remote.pending().unwrap().len(), 2);
    }
    // They are undone, and the downloaded rows replace them.
    site.write("UPDATE t SET v = 'one' WHERE id = 1; DELETE FROM t WHERE id = 2");
    sync_as(&mut site.remote, &center, Mode::DownloadOnly, &mut |_| {}).unwrap();
    assert_eq!(rows(&site), ["2, 'moved'", "3, 'three'"]);
}

// S3: a pending insert has the UNIQUE value of a row that comes. The row waited here beside the
// others, and for ever where the center refused the insert.
#[test]
fn a_mere_download_is_refused_that_brings_a_value_of_a_pending_row() {
    let center = Center::new(
        "CREATE TABLE p(id INTEGER PRIMARY KEY);
         CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT UNIQUE); INSERT INTO t VALUES (1, 'one')",
    );
    for theirs in ["INSERT INTO t VALUES (2, 'two')", "UPDATE t SET v = 'two' WHERE id = 1"] {
        center.write("DELETE FROM t; INSERT INTO t VALUES (1, 'one')");
        let mut site = joined(&center);
        site.write("INSERT INTO t VALUES (9, 'two')");
        center.write(&format!("{theirs}; INSERT INTO t VALUES (3, 'three')"));
        assert_refused(&mut site, &center);
        let report = sync(&mut site, &center).unwrap();
        assert_eq!(report.rejected, 1, "{theirs}");
        let rejects = site.remote.rejects().unwrap();
        assert_eq!(rejects[0].code, Code::RowNotUnique.number());
        assert_eq!(rejects[0].row.as_deref(), Some(r#"{"id":9,"v":"two"}"#));
        super::assert_equal(&site, &center);
        assert_eq!(site.remote.status().unwrap().kept_back, 0);
    }
}

// S3: the same where the value is free again before the center is asked.
#[test]
fn a_mere_download_is_applied_when_the_value_is_free_again() {
    let center = Center::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT UNIQUE); INSERT INTO t VALUES (1, 'one')",
    );
    let mut site = joined(&center);
    site.write("INSERT INTO t VALUES (9, 'two')");
    center.write("INSERT INTO t VALUES (2, 'two'), (3, 'three')");
    sync_as(&mut site.remote, &center, Mode::DownloadOnly, &mut |_| {}).unwrap_err();
    site.write("UPDATE t SET v = 'nine' WHERE id = 9");
    sync_as(&mut site.remote, &center, Mode::DownloadOnly, &mut |_| {}).unwrap();
    assert_eq!(rows(&site), ["1, 'one'", "2, 'two'", "3, 'three'", "9, 'nine'"]);
    sync(&mut site, &center).unwrap();
    super::assert_equal(&site, &center);
}

// S3: a row that was changed and changed back stayed although the center's row arrived, and such a
// row blocked a delete.
#[test]
fn a_change_that_was_undone_is_in_nobodys_way() {
    let center = center();
    let mut site = joined(&center);
    site.write("UPDATE t SET v = 'mine' WHERE id = 1; UPDATE t SET v = 'one' WHERE id = 1");
    center.write("UPDATE t SET v = 'theirs'");
    sync_as(&mut site.remote, &center, Mode::DownloadOnly, &mut |_| {}).unwrap();
    assert_eq!(rows(&site), ["1, 'theirs'"]);
    // Undone after a download that was stored beside the change.
    site.write("UPDATE t SET v = 'mine' WHERE id = 1");
    center.write("UPDATE t SET v = 'newer'");
    sync_as(&mut site.remote, &center, Mode::DownloadOnly, &mut |_| {}).unwrap();
    assert_eq!(rows(&site), ["1, 'mine'"]);
    site.write("UPDATE t SET v = 'theirs' WHERE id = 1");
    sync_as(&mut site.remote, &center, Mode::DownloadOnly, &mut |_| {}).unwrap();
    assert_eq!(rows(&site), ["1, 'newer'"]);

    let (center, mut site) = family();
    center.write("INSERT INTO t VALUES (10, 1)");
    sync(&mut site, &center).unwrap();
    site.write("UPDATE t SET p = NULL WHERE id = 10; UPDATE t SET p = 1 WHERE id = 10");
    center.write("DELETE FROM t; DELETE FROM p");
    sync_as(&mut site.remote, &center, Mode::DownloadOnly, &mut |_| {}).unwrap();
    assert_eq!(site.rows("SELECT * FROM t"), Vec::<String>::new());
    assert_eq!(site.rows("SELECT * FROM p"), Vec::<String>::new());
}
