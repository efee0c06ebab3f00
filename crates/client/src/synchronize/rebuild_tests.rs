//! An application creates a table again, and our triggers are gone.

use super::tests::{assert_equal, center, joined, rows, sync, sync_as};
use harness::Fault;
use model::Code;
use protocol::Mode;

/// As an application does it that changes a column, in the two usual orders.
const REBUILDS: [&str; 2] = [
    "BEGIN; CREATE TABLE new(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO new SELECT * FROM t;
     DROP TABLE t; ALTER TABLE new RENAME TO t; COMMIT;",
    "BEGIN; ALTER TABLE t RENAME TO old; CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT);
     INSERT INTO t SELECT * FROM old; COMMIT;",
];

// S1, S3, trap 29: changes that no trigger captured were lost silently: it was
// never uploaded, and the next change of the same row at the center overwrote it.
#[test]
fn what_nothing_has_captured_is_told() {
    for rebuild in REBUILDS {
        let center = center();
        for id in 2..=5 {
            center.write(&format!("INSERT INTO t VALUES ({id}, 'as it was')"));
        }
        let mut site = joined(&center);
        site.write("UPDATE t SET v = 'captured' WHERE id = 1");
        site.write(rebuild);
        site.write(
            "UPDATE t SET v = 'mine' WHERE id = 2; DELETE FROM t WHERE id = 3;
             INSERT INTO t VALUES (9, 'new')",
        );
        center.write("UPDATE t SET v = 'theirs' WHERE id = 5");
        // An attempt that fails forgets nothing of it.
        center.proxy.strike(Fault::WithinDownload);
        sync(&mut site, &center).unwrap_err();
        let report = sync(&mut site, &center).unwrap();
        assert_eq!(report.rejected, 3, "the summary counts them");
        assert_equal(&site, &center);
        assert_eq!(
            rows(&site),
            ["1, 'captured'", "2, 'as it was'", "3, 'as it was'", "4, 'as it was'", "5, 'theirs'"]
        );
        let rejects = site.remote.rejects().unwrap();
        let mut told: Vec<&str> = rejects.iter().filter_map(|it| it.row.as_deref()).collect();
        told.sort_unstable();
        assert_eq!(
            told,
            [r#"{"id":2,"v":"mine"}"#, r#"{"id":5,"v":"as it was"}"#, r#"{"id":9,"v":"new"}"#]
        );
        assert!(rejects.iter().all(|it| it.code == Code::RowNotCaptured.number()));
        // From now on changes are captured again, and nothing is compared any more.
        site.write("UPDATE t SET v = 'again' WHERE id = 2; INSERT INTO t VALUES (9, 'new')");
        let report = sync(&mut site, &center).unwrap();
        assert_eq!((report.uploaded.inserts, report.uploaded.updates), (1, 1));
        assert_equal(&site, &center);
        assert_eq!(site.remote.rejects().unwrap().len(), 3);
    }
}

// S1: the rows of a table that only uploads cannot be compared here.
#[test]
fn a_table_that_only_uploads_sends_all_it_has() {
    let center = center();
    let mut site = joined(&center);
    center.deploy("", "[table.t]\ndirection = \"upload_only\"\nconflict = \"remote_wins\"");
    sync(&mut site, &center).unwrap();
    site.write(REBUILDS[0]);
    site.write("UPDATE t SET v = 'mine'; INSERT INTO t VALUES (9, 'new')");
    sync_as(&mut site.remote, &center, Mode::UploadOnly, &mut |_| {}).unwrap();
    assert_eq!(center.rows("SELECT * FROM t ORDER BY id"), ["1, 'mine'", "9, 'new'"]);
}

// S1: it is unknown which rows the application has inserted in the meantime and which the center
// has lost. So they are reported with their content, and a retry uploads them.
#[test]
fn a_row_that_nothing_has_captured_goes_up_when_it_is_retried() {
    for rebuild in REBUILDS {
        let center = center();
        let mut site = joined(&center);
        site.write(rebuild);
        site.write("INSERT INTO t VALUES (9, 'an order')");
        assert_eq!(sync(&mut site, &center).unwrap().rejected, 1);
        assert_eq!(rows(&site), ["1, 'one'"]);
        let ids: Vec<i64> = site.remote.rejects().unwrap().iter().map(|it| it.id).collect();
        site.remote.retry_rejects(&ids, false).unwrap();
        let report = sync(&mut site, &center).unwrap();
        assert_eq!((report.uploaded.inserts, report.rejected), (1, 0));
        assert_eq!(center.rows("SELECT * FROM t ORDER BY id"), ["1, 'one'", "9, 'an order'"]);
        assert_equal(&site, &center);
        assert_eq!(site.remote.rejects().unwrap(), []);
    }
}
