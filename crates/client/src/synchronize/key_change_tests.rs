//! Key changes between a remote and a center.

use super::tests::{assert_equal, center, joined, rows, sync, sync_as};
use crate::testing::center::Center;
use protocol::Mode;

// S3, Trap 21: a row that followed its parent and was set back is uploaded as it is, with the
// first Hello already.
#[test]
fn a_row_that_is_set_back_goes_up_with_hello() {
    let tables = "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT);
        CREATE TABLE child (id INTEGER PRIMARY KEY, t INT REFERENCES t ON UPDATE CASCADE)";
    let center = Center::new(tables);
    let mut site = joined(&center);
    site.write("INSERT INTO t VALUES (1, 'one'), (2, 'two'); INSERT INTO child VALUES (10, 1)");
    sync(&mut site, &center).unwrap();
    site.write(
        "UPDATE t SET id = 3 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2;
         UPDATE child SET t = 1 WHERE id = 10",
    );
    assert_eq!(sync(&mut site, &center).unwrap().uploaded.updates, 3);
    assert!(center.proxy.hellos().last().unwrap().upload_follows);
}

// S3, S5: both directions, an edit that waits and one that meets it.
#[test]
fn key_changes_travel_both_ways_and_edits_follow_them() {
    let center = center();
    let (mut a, mut b) = (joined(&center), joined(&center));
    a.write("INSERT INTO t VALUES (2, 'two'), (3, 'three')");
    sync(&mut a, &center).unwrap();
    sync(&mut b, &center).unwrap();
    // A swap, and an insert under a key that is left.
    a.write(
        "UPDATE t SET id = -1 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2;
         UPDATE t SET id = 2 WHERE id = -1; UPDATE t SET id = 4 WHERE id = 3;
         INSERT INTO t VALUES (3, 'new')",
    );
    let report = sync(&mut a, &center).unwrap();
    assert_eq!((report.uploaded.updates, report.uploaded.inserts), (3, 1));
    let report = sync(&mut b, &center).unwrap();
    let downloaded = (report.downloaded.upserts, report.downloaded.deletes);
    assert_eq!(downloaded, (4, 0), "each row once, and nothing that it never had");
    for site in [&a, &b] {
        assert_equal(site, &center);
        assert_eq!(rows(site), ["1, 'two'", "2, 'one'", "3, 'new'", "4, 'three'"]);
    }
    // A remote that does not upload receives a key change while its edit waits.
    b.write("UPDATE t SET v = 'edited' WHERE id = 4");
    center.write("UPDATE t SET id = 9 WHERE id = 4");
    sync_as(&mut b.remote, &center, Mode::DownloadOnly, &mut |_| {}).unwrap();
    assert_eq!(rows(&b)[3], "9, 'edited'");
    sync(&mut b, &center).unwrap();
    sync(&mut a, &center).unwrap();
    for site in [&a, &b] {
        assert_equal(site, &center);
        assert_eq!(rows(site)[3], "9, 'edited'");
    }
}
