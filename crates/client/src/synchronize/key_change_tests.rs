//! Key changes between a remote and a center, whichever of the two knows them.

use super::tests::{assert_equal, center, joined, rows, sync, sync_as};
use crate::testing::center::Center;
use protocol::{Capabilities, Mode};

// S5, Trap 18: whether the server understands a key change is not known before its first Welcome.
#[test]
fn a_key_change_goes_with_hello_once_the_server_is_known_to_understand() {
    let center = center();
    let mut site = joined(&center);
    site.write("DELETE FROM syncline_state WHERE name = 'server_capabilities'");
    for (key, with_hello) in [(7, false), (8, true)] {
        site.write(&format!("UPDATE t SET id = {key}"));
        let report = sync(&mut site, &center).unwrap();
        assert_eq!(report.uploaded.updates, 1, "a key change is an update");
        assert_eq!(report.uploaded.deletes, 0);
        assert_eq!(center.proxy.hellos().last().unwrap().upload_follows, with_hello);
        assert_eq!(center.rows("SELECT * FROM t"), [format!("{key}, 'one'")]);
    }
}

// Trap 18
#[test]
fn a_server_before_key_changes_gets_a_delete_and_an_insert() {
    let center = center();
    center.proxy.limit(Capabilities::NONE);
    let mut site = joined(&center);
    site.write("UPDATE t SET id = 7");
    let report = sync(&mut site, &center).unwrap();
    assert_eq!((report.uploaded.inserts, report.uploaded.deletes), (1, 1));
    assert_eq!(center.rows("SELECT * FROM t"), ["7, 'one'"]);
    // The server is replaced by one that knows more: what goes with Hello waits for its word.
    center.proxy.limit(Capabilities::KEY_CHANGES);
    site.write("UPDATE t SET id = 8");
    assert_eq!(sync(&mut site, &center).unwrap().uploaded.updates, 1);
    // And back again: what was promised holds no longer.
    center.proxy.limit(Capabilities::NONE);
    site.write("UPDATE t SET id = 9");
    sync(&mut site, &center).unwrap_err();
    let report = sync(&mut site, &center).unwrap();
    assert_eq!((report.uploaded.inserts, report.uploaded.deletes), (1, 1));
    assert_eq!(center.rows("SELECT * FROM t"), ["9, 'one'"]);
    assert_eq!(rows(&site), ["9, 'one'"]);
}

// S3, Trap 18, Trap 21: a row that followed its parent and was set back is uploaded as it is, also
// with Hello, to a server that supports it.
#[test]
fn a_row_that_is_set_back_goes_to_servers_that_know_it() {
    let tables = "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT);
        CREATE TABLE child (id INTEGER PRIMARY KEY, t INT REFERENCES t ON UPDATE CASCADE)";
    let center = Center::new(tables);
    for (capabilities, rows) in [
        (Capabilities::KEY_CHANGES, 2),
        (Capabilities(Capabilities::KEY_CHANGES.0 | Capabilities::ROWS_STAY.0), 3),
        (Capabilities(Capabilities::KEY_CHANGES.0 | Capabilities::ROWS_STAY.0), 3),
    ] {
        let mut site = joined(&center);
        site.write("DELETE FROM child; DELETE FROM t");
        site.write("INSERT INTO t VALUES (1, 'one'), (2, 'two'); INSERT INTO child VALUES (10, 1)");
        // What the server can do is known from here on.
        center.proxy.limit(capabilities);
        sync(&mut site, &center).unwrap();
        site.write(
            "UPDATE t SET id = 3 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2;
             UPDATE child SET t = 1 WHERE id = 10",
        );
        assert_eq!(sync(&mut site, &center).unwrap().uploaded.updates, rows);
        assert_eq!(center.proxy.hellos().last().unwrap().upload_follows, rows == 3);
    }
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
