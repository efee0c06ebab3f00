//! Downloads with pending changes.

mod random;

use super::{center, family, joined, rows, sync, sync_as};
use crate::testing::center::Center;
use protocol::Mode;

// S3, S4: a download that a pending change blocked failed, and its other rows were not applied.
#[test]
fn a_change_in_the_way_of_a_mere_download_stays_and_the_rest_arrives() {
    let (center, mut site) = family();
    center.write("INSERT INTO t VALUES (11, 1)");
    sync(&mut site, &center).unwrap();
    site.write("INSERT INTO t VALUES (10, 1)");
    center.write("DELETE FROM t; DELETE FROM p; INSERT INTO p VALUES (2, 'another')");
    for _ in 0..2 {
        sync_as(&mut site.remote, &center, Mode::DownloadOnly, &mut |_| {}).unwrap();
        assert_eq!(site.rows("SELECT * FROM t"), ["10, 1"], "the change, and what it refers to");
        assert_eq!(site.rows("SELECT * FROM p"), ["1, 'parent'", "2, 'another'"]);
        assert_eq!(site.remote.status().unwrap().kept_back, 1);
        assert_eq!(site.remote.pending().unwrap().len(), 1);
    }
    sync(&mut site, &center).unwrap();
    assert_eq!(center.rows("SELECT * FROM t"), ["10, 1"], "the change went up");
    sync(&mut site, &center).unwrap();
    // This center has no foreign keys: the child waits for a parent.
    assert_eq!(site.rows("SELECT * FROM p"), ["2, 'another'"]);
    let status = site.remote.status().unwrap();
    assert_eq!((status.kept_back, status.orphans), (0, 1));
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

// S3: a value that a waiting change has taken, of a column that is unique.
#[test]
fn a_row_whose_value_a_change_has_taken_waits_for_its_upload() {
    let center = Center::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT UNIQUE); INSERT INTO t VALUES (1, 'one')",
    );
    let mut site = joined(&center);
    site.write("INSERT INTO t VALUES (9, 'two')");
    center.write("INSERT INTO t VALUES (2, 'two'), (3, 'three')");
    let report = sync_as(&mut site.remote, &center, Mode::DownloadOnly, &mut |_| {}).unwrap();
    assert_eq!(rows(&site), ["1, 'one'", "3, 'three'", "9, 'two'"]);
    assert_eq!((report.rejected, site.remote.status().unwrap().kept_back), (0, 1));
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
