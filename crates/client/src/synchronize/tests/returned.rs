//! Rows of a table that is published again change before the first download has brought them.

use super::shapes::{joined, publish, rebuild, unpublish};
use super::{assert_equal, rows, sync, sync_as};
use crate::synchronize::Counts;
use crate::testing::Site;
use crate::testing::center::{Center, published};
use harness::Fault;
use model::Code;
use protocol::Mode;

/// The table was unpublished and published again, and the connection ended before its rows. In the
/// meantime the center has changed row 1 and deleted row 2.
fn returned() -> (Center, Site) {
    let (center, mut site) = joined();
    unpublish(&center);
    sync(&mut site, &center).unwrap();
    publish(&center);
    center.write("UPDATE t SET qty = 99, note = 'newer' WHERE id = 1; DELETE FROM t WHERE id = 2");
    center.proxy.strike(Fault::WithinDownload);
    sync(&mut site, &center).unwrap_err();
    (center, site)
}

// Trap 23, S5: an edit of a row that had lain here since the table left went up over what the
// center has now, under whatever rule.
#[test]
fn an_edit_in_front_of_the_rows_is_compared_with_what_comes() {
    let (center, mut site) = returned();
    site.write(
        "UPDATE t SET note = 'over the old one' WHERE id = 1;
         UPDATE t SET note = 'of a row that is gone' WHERE id = 2;
         UPDATE t SET note = 'mine' WHERE id = 3; INSERT INTO t VALUES (4, 40, 'new')",
    );
    let refused = sync_as(&mut site.remote, &center, Mode::UploadOnly, &mut |_| {}).unwrap_err();
    assert_eq!(refused.code(), Code::DownloadFirst);
    let report = sync(&mut site, &center).unwrap();
    assert_eq!(report.uploaded, Counts { inserts: 1, updates: 1, deletes: 0 });
    assert_eq!(report.rejected, 2);
    assert_equal(&site, &center);
    assert_eq!(rows(&site), ["1, 99, 'newer'", "3, 30, 'mine'", "4, 40, 'new'"]);
    let told: Vec<_> = site.remote.rejects().unwrap();
    let told: Vec<_> = told.iter().map(|it| (it.code, it.row.as_deref().unwrap())).collect();
    let code = Code::RowDiffersOnReturn.number();
    let expected = [
        (code, r#"{"id":1,"qty":10,"note":"over the old one"}"#),
        (code, r#"{"id":2,"qty":20,"note":"of a row that is gone"}"#),
    ];
    assert_eq!(told, expected);
}

// Trap 23
#[test]
fn a_deletion_in_front_of_the_rows_is_compared_too() {
    let (center, mut site) = returned();
    site.write("DELETE FROM t WHERE id = 1; DELETE FROM t WHERE id = 3");
    let report = sync(&mut site, &center).unwrap();
    assert_eq!(report.uploaded.deletes, 1, "{:?}", report.uploaded);
    assert_equal(&site, &center);
    assert_eq!(rows(&site), ["1, 99, 'newer'"]);
}

// Trap 23, S11: a change was reported when its table left. That the row was replaced afterwards,
// and is not what the center has, was taken for the same and reported nowhere.
#[test]
fn a_row_that_was_told_when_its_table_left_is_told_again_when_it_comes_back() {
    let (center, mut site) = joined();
    site.write("UPDATE t SET note = 'before it left' WHERE id = 2");
    unpublish(&center);
    center.proxy.strike(Fault::WithinDownload);
    sync(&mut site, &center).unwrap_err();
    site.write("INSERT OR REPLACE INTO t VALUES (2, 77, 'since')");
    publish(&center);
    center.write("DELETE FROM t WHERE id = 2");
    sync(&mut site, &center).unwrap();
    assert_equal(&site, &center);
    let told = site.remote.rejects().unwrap();
    let told: Vec<_> = told.iter().map(|it| (it.code, it.row.as_deref().unwrap())).collect();
    let expected = [
        (Code::ShapeUnknown.number(), r#"{"id":2,"qty":20,"note":"before it left"}"#),
        (Code::RowDiffersOnReturn.number(), r#"{"id":2,"qty":77,"note":"since"}"#),
    ];
    assert_eq!(told, expected);
}

/// `t` comes back without `qty`, and its note is called `remark`, under an identity of its own.
fn publish_narrower(center: &Center) {
    let query = "SELECT id, iif(id = 1, 'came', note) FROM t WHERE id = 1";
    rebuild(center, "remark TEXT", query, "dropped = [\"qty\", \"note\"]");
}

// Trap 23, Trap 24, S1: while the table was the user's own, values were written to columns that it
// had not when it came back. The row was deleted or overwritten, and no record had the values.
#[test]
fn what_lay_in_columns_that_did_not_come_back_is_told_with_its_row() {
    for edited_after_the_return in [false, true] {
        let (center, mut site) = joined();
        unpublish(&center);
        sync(&mut site, &center).unwrap();
        site.write(
            "ALTER TABLE t ADD COLUMN color TEXT;
             UPDATE t SET note = 'since', color = 'red' WHERE id = 1;
             INSERT INTO t VALUES (5, 50, 'new', NULL)",
        );
        publish_narrower(&center);
        if edited_after_the_return {
            center.proxy.strike(Fault::WithinDownload);
            sync(&mut site, &center).unwrap_err();
            site.write("UPDATE t SET remark = 'mine' WHERE id IN (1, 5)");
        }
        sync(&mut site, &center).unwrap();
        let mut told: Vec<_> = site.remote.rejects().unwrap();
        told.retain(|it| it.code == Code::RowDiffersOnReturn.number());
        let rows: Vec<_> = told.iter().map(|it| it.row.as_deref().unwrap()).collect();
        let since = r#"{"id":1,"remark":null,"qty":10,"note":"since","color":"red"}"#;
        let new = r#"{"id":5,"remark":REMARK,"qty":50,"note":"new"}"#;
        match edited_after_the_return {
            false => {
                assert_eq!(site.rows("SELECT id, remark FROM t"), ["1, 'came'"]);
                let new = new.replace("REMARK", "null");
                assert!(rows.contains(&since) && rows.contains(&new.as_str()), "{rows:?}");
            }
            true => {
                // The change is based on the downloaded row, beside the columns of the user's own.
                let row = ["1, 'mine', 10, 'since', 'red'"];
                assert_eq!(site.rows("SELECT id, remark, qty, note, color FROM t"), row);
                assert!(rows.contains(&new.replace("REMARK", "\"mine\"").as_str()), "{rows:?}");
            }
        }
        // It can be tried again as a whole.
        let ids: Vec<i64> = told.iter().map(|it| it.id).collect();
        site.remote.retry_rejects(&ids, true).unwrap();
        assert_eq!(site.rows("SELECT id FROM t WHERE qty = 50 AND note = 'new'"), ["5"]);
    }
}

/// The rows that differed, in order.
fn told(site: &Site) -> Vec<String> {
    let mut rejects = site.remote.rejects().unwrap();
    rejects.retain(|it| it.code == Code::RowDiffersOnReturn.number());
    let mut told: Vec<String> = rejects.into_iter().filter_map(|it| it.row).collect();
    told.sort_unstable();
    told
}

// S1, S5, Trap 24: an application wrote to a column that was not published. When it was published
// again, what came from the center overwrote these values, and no record had them.
#[test]
fn what_lay_in_a_column_before_it_was_published_again_is_told() {
    let (center, mut site) = joined();
    let narrow = format!("{}columns = [\"id\", \"qty\"]\n{}", published("t"), published("other"));
    center.deploy("", &narrow);
    sync(&mut site, &center).unwrap();
    site.write(
        "UPDATE t SET note = 'mine' WHERE id = 1;
         INSERT INTO t VALUES (4, 40, 'new'), (5, 50, NULL)",
    );
    // Neither a value of the center's own nor a change of another column is of this remote.
    center.write("UPDATE t SET qty = 21 WHERE id = 2; UPDATE t SET note = 'theirs' WHERE id = 5");
    publish(&center);
    center.proxy.strike(Fault::WithinDownload);
    sync(&mut site, &center).unwrap_err();
    sync(&mut site, &center).unwrap();
    assert_equal(&site, &center);
    assert_eq!(rows(&site)[1], "2, 21, 'old'");
    let expected = [r#"{"id":1,"qty":10,"note":"mine"}"#, r#"{"id":4,"qty":40,"note":"new"}"#];
    assert_eq!(told(&site), expected);
}
